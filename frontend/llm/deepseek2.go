package llm

import (
	"math"
	"slices"
)

// deepSeek2 is DeepSeek V2 and V3 (DeepSeek-AI 2024, arXiv:2405.04434 and arXiv:2412.19437) and models with the same
// layers: R1, Kimi K2, GLM 4.7 Flash. Attention is latent. After some dense layers come mixtures of experts in groups,
// with shared experts. In V3 the router weighs experts by a sigmoid, and adds a bias to choose them.
var deepSeek2 = architecture{
	name:               "deepseek2",
	experts:            true,
	latent:             true,
	yarnKeepsMagnitude: true,
	folder: folder{
		classes: "DeepseekV2ForCausalLM DeepseekV3ForCausalLM Glm4MoeLiteForCausalLM",
		wants: `
			hidden_act      silu
			rope_interleave true
			moe_layer_freq  1
			scoring_func    softmax sigmoid`,
		keys: `
			attention.kv_lora_rank kv_lora_rank
			attention.q_lora_rank  q_lora_rank`,
		weights: `
			attn_q_a       self_attn.q_a_proj
			attn_q_a_norm  self_attn.q_a_layernorm
			attn_q_b       self_attn.q_b_proj
			attn_kv_a_mqa  self_attn.kv_a_proj_with_mqa
			attn_kv_a_norm self_attn.kv_a_layernorm
			attn_kv_b      self_attn.kv_b_proj`,
		interleaved: true,
		read: func(c *folderConfig) {
			rotated := c.number("qk_rope_head_dim")
			c.setSize("rope.dimension_count", rotated)
			c.setSize("attention.key_length", rotated+c.number("qk_nope_head_dim"))
			c.setSize("attention.value_length", c.number("v_head_dim"))
			v2 := slices.Contains(c.strings("architectures"), "DeepseekV2ForCausalLM")
			if scoring, ok := c.values["scoring_func"]; scoring == "sigmoid" || !ok && !v2 {
				c.setSize("expert_gating_func", 2)
			}
		},
	},
	read: func(r *metadata, c *Config) {
		c.KeepShares = true
		r.latent(c)
		r.mixture(c)
		if m := r.floatOr("rope.scaling.yarn_log_multiplier", 0); m > 0 { // YaRN multiplies queries and keys
			factor := float64(m*math.Log(r.floatOr("rope.scaling.factor", 1))) + 1
			c.AttentionScale = factor * factor / math.Sqrt(float64(c.HeadDim))
		}
	},
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(c.norms("attn_norm", "ffn_norm"), c.latentProjections(), c.gated(),
			optional(c.routerBias()...))
	},
	layer: llamaLayer,
}
