package llm

import (
	"math"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// mamba is Mamba (Gu and Dao 2023, arXiv:2312.00752): selective scans in which each channel is a head, and no
// attention. Falcon Mamba (Zuo et al. 2024, arXiv:2410.05355) normalizes the inputs that control the scan.
var mamba = architecture{
	name:        "mamba",
	rope:        notRotary,
	noAttention: true,
	folder: folder{
		classes: "MambaForCausalLM FalconMambaForCausalLM",
		layers:  "backbone.layers.N.",
		weights: `
			token_embd  backbone.embeddings
			output_norm backbone.norm_f
			attn_norm   norm` + mixerFolder + `
			ssm_x       mixer.x_proj
			ssm_dt      mixer.dt_proj`,
		keys: `
			feed_forward_length
			ssm.conv_kernel conv_kernel
			ssm.state_size  state_size
			ssm.inner_size  intermediate_size`,
		defaults: "max_position_embeddings 1048576\nconv_kernel 4\nstate_size 16",
		wants:    "hidden_act silu\nuse_conv_bias true",
		read:     (*folderConfig).mamba,
	},
	read: func(r *metadata, c *Config) {
		r.scan(c)
		c.Recurrent.Ranks, c.Recurrent.Heads = []int{c.Recurrent.Heads}, c.Recurrent.Inner
		c.Recurrent.NormScan = r.flag("ssm.dt_b_c_rms", false)
	},
	layerWeights: func(c Config) []weightSpec {
		s := c.Recurrent
		rank := s.Ranks[0]
		return append(c.norms("attn_norm"), matrix("ssm_in", 2*s.Inner, c.Width), matrix("ssm_out", c.Width, s.Inner),
			weightSpec{name: "ssm_conv1d", shape: ir.ShapeOf(s.Inner, s.Window), bias: ir.ShapeOf(s.Inner)},
			matrix("ssm_x", rank+2*s.Keys, s.Inner), matrix("ssm_dt", s.Inner, rank),
			weightSpec{name: "ssm_a", shape: ir.ShapeOf(s.Inner, s.Keys), bare: true},
			weightSpec{name: "ssm_d", shape: ir.ShapeOf(s.Inner), bare: true})
	},
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		s := l.Recurrent
		// The inputs of the scan, and the gate.
		in := parts(nn.Linear(l.norm(x, "attn_norm"), l.w.Sub("ssm_in")), s.Inner, s.Inner)
		h := l.shortConv(in[0], "ssm_conv1d").Silu()
		// The factor of dt, b and c of the scan.
		control := parts(nn.Linear(h, l.w.Sub("ssm_x")), s.Ranks[0], s.Keys, s.Keys)
		for i := range control {
			if s.NormScan {
				control[i] = control[i].RMSNorm(frontend.Tensor{}, l.NormEps)
			}
		}
		dt := nn.Linear(control[0], l.w.Sub("ssm_dt")).Softplus()
		y := l.goAlong("scan", []int{s.Inner, 1, s.Keys},
			[]frontend.Tensor{h.Unsqueeze(2), dt, control[1].Unsqueeze(1), control[2].Unsqueeze(1)},
			func(state frontend.Tensor, xs []frontend.Tensor) (y, last frontend.Tensor) {
				return xs[0].SSMScan(xs[1], l.float("ssm_a"), xs[2], xs[3], state)
			}).Squeeze(2)
		y = y.Add(h.Mul(l.float("ssm_d"))).Mul(in[1].Silu())
		return l.add(x, nn.Linear(y, l.w.Sub("ssm_out")))
	},
}

// mamba2 is Mamba-2 (Dao and Gu 2024, arXiv:2405.21060): layers of selective scans, and no attention.
var mamba2 = architecture{
	name:        "mamba2",
	rope:        notRotary,
	noAttention: true,
	folder: folder{
		classes: "Mamba2ForCausalLM",
		layers:  "backbone.layers.N.",
		weights: `
			token_embd  backbone.embeddings
			output_norm backbone.norm_f
			attn_norm   norm` + mixerFolder,
		keys: `
			attention.key_length` + scanKeys,
		defaults: "max_position_embeddings 1048576",
		wants:    scanWants + "rms_norm true\nhidden_act silu",
		read:     func(c *folderConfig) { c.setInner("head_dim") },
	},
	read: func(r *metadata, c *Config) { r.scan(c) },
	layerWeights: func(c Config) []weightSpec {
		return append(c.norms("attn_norm"), c.mamba2Weights()...)
	},
	layer: func(l layer, x frontend.Tensor) frontend.Tensor { return l.add(x, l.mamba2(l.norm(x, "attn_norm"))) },
}

// mixerFolder has the lines of folder.weights for Mamba-2's layers in layers that are nothing else.
const mixerFolder = `
ssm_in      mixer.in_proj
ssm_conv1d  mixer.conv1d
ssm_dt      mixer.dt
ssm_a       mixer.A_log negative-exp
ssm_d       mixer.D
ssm_norm    mixer.norm reshaped
ssm_out     mixer.out_proj
`

// mambaFolder is mixerFolder for layers that also have other parts.
var mambaFolder = strings.ReplaceAll(mixerFolder, "mixer.", "mamba.")

// mamba sets sizes that follow from the width if a folder leaves them out. In FalconMamba, it also says that the time
// step and the rows B and C are normalized.
func (c *folderConfig) mamba() {
	width := float64(c.size("embedding_length", 0))
	if _, ok := c.set["ssm.inner_size"]; !ok && c.values["expand"] != nil {
		c.setSize("ssm.inner_size", width*c.number("expand"))
	}
	if rank := c.values["time_step_rank"]; rank == nil || rank == "auto" {
		c.setSize("ssm.time_step_rank", math.Ceil(width/16)) // Mamba's default
	} else {
		c.setSize("ssm.time_step_rank", c.number("time_step_rank"))
	}
	if !slices.Contains(c.strings("architectures"), "FalconMambaForCausalLM") {
		return
	}
	c.set["ssm.dt_b_c_rms"] = true
	if c.values["mixer_rms_eps"] != nil && c.values["layer_norm_epsilon"] != nil &&
		c.number("mixer_rms_eps") != c.number("layer_norm_epsilon") {
		c.fail("mixer_rms_eps is %v, and layer_norm_epsilon %v, which is not supported: want one number",
			c.number("mixer_rms_eps"), c.number("layer_norm_epsilon"))
	}
}
