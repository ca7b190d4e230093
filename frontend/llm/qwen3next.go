package llm

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// qwen3next is Qwen3-Next (Qwen Team 2025, https://github.com/QwenLM/Qwen3-Next): three layers with a gated delta rule
// (Yang et al. 2024, arXiv:2412.06464), then one with attention that a gate multiplies, and mixtures of experts.
var qwen3next = architecture{
	name:    "qwen3next",
	rope:    halves,
	experts: true,
	folder: folder{
		classes: "Qwen3NextForCausalLM",
		lessOne: true,
		weights: qwen35Folder + qwen2moe.folder.weights + `
			attn_qkv   linear_attn.in_proj_qkvz delta-qkv
			attn_gate  linear_attn.in_proj_qkvz delta-gate
			ssm_ba     linear_attn.in_proj_ba
			ssm_conv1d linear_attn.conv1d
			ssm_dt     linear_attn.dt
			ssm_a      linear_attn.A_log negative-exp
			ssm_out    linear_attn.out_proj`,
		keys:     qwen35Keys,
		wants:    "hidden_act silu\nattention_bias false",
		defaults: qwen35Defaults,
		mixers:   "linear_attention",
		read:     (*folderConfig).qwen35,
	},
	read: func(r *metadata, c *Config) {
		r.mixture(c)
		r.periodicScan(c)
	},
	layerWeights: func(c Config) []weightSpec {
		return append(qwen35Weights(c), vector("ffn_gate_inp_shexp", c.Width))
	},
	layer: qwen35Layer,
}

// qwen35 is Qwen3.5 (Qwen Team 2026): qwen3next without experts. Its files have the heads in another order.
var qwen35 = architecture{
	name:     "qwen35",
	rope:     halves,
	sections: takingTurns,
	folder: folder{
		classes:  "Qwen3_5ForCausalLM Qwen3_5ForConditionalGeneration",
		lessOne:  true,
		weights:  qwen35Folder + qwen35Apart,
		keys:     qwen35Keys,
		wants:    "hidden_act silu\nattention_bias false",
		defaults: qwen35Defaults,
		mixers:   "linear_attention",
		read:     (*folderConfig).qwen35,
	},
	read:         (*metadata).periodicScan,
	layerWeights: qwen35Weights,
	layer:        qwen35Layer,
}

// qwen35MoE is qwen35 with mixtures of experts, as in qwen3next.
var qwen35MoE = architecture{
	name:     "qwen35moe",
	rope:     halves,
	sections: takingTurns,
	experts:  true,
	folder: folder{
		classes: "Qwen3_5MoeForCausalLM Qwen3_5MoeForConditionalGeneration",
		lessOne: true,
		weights: qwen35Folder + qwen35Apart + qwen2moe.folder.weights + `
			ffn_gate_exps mlp.experts.gate_up_proj first-half
			ffn_gate_exps mlp.experts.E.gate_proj
			ffn_up_exps   mlp.experts.gate_up_proj second-half
			ffn_up_exps   mlp.experts.E.up_proj
			ffn_down_exps mlp.experts.down_proj
			ffn_down_exps mlp.experts.E.down_proj`,
		keys:     qwen35Keys,
		wants:    "hidden_act silu\nattention_bias false",
		defaults: qwen35Defaults,
		mixers:   "linear_attention",
		read:     (*folderConfig).qwen35,
	},
	read:         qwen3next.read,
	layerWeights: qwen3next.layerWeights,
	layer:        qwen35Layer,
}

// periodicScan reads the sizes of a scan, and how often a layer attends instead.
func (r *metadata) periodicScan(c *Config) {
	r.scan(c)
	c.Recurrent.Period = r.sizeOr("full_attention_interval", 4)
}

// qwen35Weights lists the weights of a layer, which has either an attention or a gated delta rule. Files have the delta
// rule's projections in one matrix, ssm_in, or in two.
func qwen35Weights(c Config) []weightSpec {
	list := append(c.norms("attn_norm", "post_attention_norm"), c.gated()...)
	if q := c.Heads * c.HeadDim; c.KVHeads > 0 {
		// attn_q also has the rows of the gate (see gatedAttention).
		return slices.Concat(list, []weightSpec{matrix("attn_q", 2*q, c.Width)}, c.projections()[1:], c.headNorms())
	}
	s := c.Recurrent
	keys := s.Groups * s.Keys
	list = append(list, weightSpec{name: "ssm_conv1d", shape: ir.ShapeOf(2*keys+s.Inner, s.Window)},
		weightSpec{name: "ssm_dt", bias: ir.ShapeOf(s.Heads), onlyBias: true},
		weightSpec{name: "ssm_a", shape: ir.ShapeOf(s.Heads), bare: true},
		vector("ssm_norm", s.Inner/s.Heads), matrix("ssm_out", c.Width, s.Inner))
	if c.Architecture == "qwen3next" {
		list = append(list, matrix("ssm_ba", 2*s.Heads, c.Width))
	} else {
		list = append(list, matrix("ssm_beta", s.Heads, c.Width), matrix("ssm_alpha", s.Heads, c.Width))
	}
	if _, joined := c.Types["blk.0.ssm_in.weight"]; joined {
		return append(list, matrix("ssm_in", 2*keys+2*s.Inner, c.Width))
	}
	return append(list, matrix("attn_qkv", 2*keys+s.Inner, c.Width), matrix("attn_gate", s.Inner, c.Width))
}

// qwen35Layer builds a layer.
func qwen35Layer(l layer, x frontend.Tensor) frontend.Tensor {
	h := l.norm(x, "attn_norm")
	if l.KVHeads > 0 {
		x = x.Add(l.gatedAttention(h))
	} else {
		x = x.Add(l.gatedDelta(h))
	}
	return x.Add(l.gated(l.norm(x, "post_attention_norm")))
}

// Lines of folders of qwen3next, qwen35 and qwen35MoE. qwen35Apart is for folders in which value heads with the same
// key are next to each other. In GGUF files such heads are Recurrent.Groups heads apart.
const (
	qwen35Folder = `
		attn_norm           input_layernorm
		post_attention_norm post_attention_layernorm
		ssm_norm            linear_attn.norm kept
		`
	qwen35Apart = `
		attn_qkv   linear_attn.in_proj_qkv apart-values
		attn_gate  linear_attn.in_proj_z apart
		ssm_beta   linear_attn.in_proj_b apart
		ssm_alpha  linear_attn.in_proj_a apart
		ssm_conv1d linear_attn.conv1d apart-values
		ssm_dt     linear_attn.dt apart
		ssm_a      linear_attn.A_log negative-exp apart
		ssm_out    linear_attn.out_proj apart-columns
		`
	qwen35Keys = scanKeys + `
		full_attention_interval full_attention_interval
		`
	qwen35Defaults = `
		full_attention_interval 4
		partial_rotary_factor   0.25
		`
)

// qwen35 sets the inner size of the delta rule. It checks that every n-th layer attends, and that no other layer does.
// n is full_attention_interval.
func (c *folderConfig) qwen35() {
	c.setInner("linear_value_head_dim")
	every := c.size("full_attention_interval", 4)
	for i, kind := range c.strings("layer_types") {
		isMixer := slices.Contains(c.mixers, kind) // a layer that does not attend
		if attends := every > 0 && (i+1)%every == 0; attends == isMixer {
			c.fail("layer_types has %q for layer %d, which is not supported: want every layer number %d to attend, "+
				"and no other", kind, i, every)
		}
	}
}
