package llm

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// lfm2 is LFM2 (Liquid AI 2025, arXiv:2511.23404): gated short convolutions in place of most attentions.
var lfm2 = architecture{
	name:     "lfm2",
	rope:     halves,
	hybrid:   true,
	lastNorm: "token_embd_norm",
	folder: folder{
		classes:  "Lfm2ForCausalLM",
		weights:  lfm2Folder,
		keys:     lfm2Keys + "feed_forward_length block_ff_dim intermediate_size",
		wants:    "conv_bias false",
		defaults: "block_multiple_of 256\nblock_ffn_dim_multiplier 1.0",
		mixers:   "conv linear_attention",
		read: func(c *folderConfig) {
			c.lfm2()
			c.lfm2Hidden()
		},
	},
	read:         func(r *metadata, c *Config) { c.Recurrent.Window = r.size("shortconv.l_cache") },
	layerWeights: lfm2Weights,
	layer:        lfm2Layer,
}

// lfm2MoE is lfm2 with mixtures of experts after some dense layers. The router weighs experts by a sigmoid, and adds a
// bias to choose them.
var lfm2MoE = architecture{
	name:     "lfm2moe",
	rope:     halves,
	hybrid:   true,
	experts:  true,
	lastNorm: "token_embd_norm",
	folder: folder{
		classes: "Lfm2MoeForCausalLM",
		weights: lfm2Folder + `
			ffn_gate_inp  feed_forward.gate
			ffn_gate_exps feed_forward.experts.E.w1
			ffn_up_exps   feed_forward.experts.E.w3
			ffn_down_exps feed_forward.experts.E.w2
			exp_probs_b   feed_forward.expert`,
		keys:   lfm2Keys + "leading_dense_block_count num_dense_layers",
		wants:  "conv_bias false\nuse_expert_bias true",
		mixers: "conv linear_attention",
		read: func(c *folderConfig) {
			c.lfm2()
			c.set["expert_gating_func"] = uint32(2)
		},
	},
	read: func(r *metadata, c *Config) {
		r.mixture(c)
		c.Recurrent.Window = r.size("shortconv.l_cache")
	},
	layerWeights: func(c Config) []weightSpec { return append(lfm2Weights(c), c.routerBias()...) },
	layer:        lfm2Layer,
}

// lfm2Weights lists the weights of a layer, which has either an attention or a short convolution.
func lfm2Weights(c Config) []weightSpec {
	list := append(c.norms("attn_norm", "ffn_norm"), c.gated()...)
	if c.KVHeads > 0 {
		return slices.Concat(list, c.projections(), c.headNorms())
	}
	conv := weightSpec{name: "shortconv.conv", shape: ir.ShapeOf(c.Width, c.Recurrent.Window)}
	return append(list, conv, matrix("shortconv.in_proj", 3*c.Width, c.Width),
		matrix("shortconv.out_proj", c.Width, c.Width))
}

// lfm2Layer builds a layer. The convolution is gated on both sides: in[0] gates what goes in, and in[1] what comes out.
func lfm2Layer(l layer, x frontend.Tensor) frontend.Tensor {
	convolution := func(h frontend.Tensor) frontend.Tensor {
		in := parts(nn.Linear(h, l.w.Sub("shortconv.in_proj")), l.Width, l.Width, l.Width)
		return nn.Linear(in[1].Mul(l.shortConv(in[0].Mul(in[2]), "shortconv.conv")), l.w.Sub("shortconv.out_proj"))
	}
	x = x.Add(l.attentionOr(convolution, l.norm(x, "attn_norm")))
	return x.Add(l.gated(l.norm(x, "ffn_norm")))
}

// Lines that folders of both kinds share.
const (
	lfm2Folder = `
		token_embd_norm    model.embedding_norm
		attn_norm          operator_norm
		attn_output        self_attn.out_proj
		attn_q_norm        self_attn.q_layernorm
		attn_k_norm        self_attn.k_layernorm
		shortconv.conv     conv.conv
		shortconv.in_proj  conv.in_proj
		shortconv.out_proj conv.out_proj
		ffn_norm           ffn_norm
		ffn_gate           feed_forward.w1
		ffn_up             feed_forward.w3
		ffn_down           feed_forward.w2`
	lfm2Keys = `
		attention.layer_norm_rms_epsilon* norm_eps
		rope.freq_base*                   rope_theta theta
		shortconv.l_cache                 conv_L_cache
		`
)

// lfm2 sets the kinds of layers by full_attn_idxs, the list of the layers that attend, in folders without layer_types.
func (c *folderConfig) lfm2() {
	list, ok := c.values["full_attn_idxs"].([]any)
	if c.values["layer_types"] != nil || !ok {
		return
	}
	kinds := make([]any, c.size("block_count", 0))
	for i := range kinds {
		kinds[i] = "conv"
		if slices.Contains(list, any(json.Number(strconv.Itoa(i)))) {
			kinds[i] = "full_attention"
		}
	}
	c.values["layer_types"] = kinds
}

// lfm2Hidden sets the hidden width of feed-forward layers: two thirds of the width in config.json, times
// block_ffn_dim_multiplier, rounded up to a multiple of block_multiple_of.
func (c *folderConfig) lfm2Hidden() {
	if !c.flag("block_auto_adjust_ff_dim", true) {
		return
	}
	n := float64(2 * c.size("feed_forward_length", 0) / 3)
	if c.values["block_ffn_dim_multiplier"] != nil {
		n = math.Trunc(n * c.number("block_ffn_dim_multiplier"))
	}
	if c.values["block_multiple_of"] != nil {
		of := c.number("block_multiple_of")
		n = math.Ceil(n/of) * of
	}
	c.setSize("feed_forward_length", n)
}
