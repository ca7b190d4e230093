package llm

import "slices"

// bailingMoE is Ling (Ling Team 2025, arXiv:2503.05139): Llama with a mixture of experts and a shared expert.
var bailingMoE = architecture{
	name:    "bailingmoe",
	experts: true,
	folder: folder{
		classes: "BailingMoeForCausalLM",
		wants:   bailingWants,
		weights: bailingFolder + `
			attn_q attention.query_key_value fused-queries
			attn_k attention.query_key_value fused-keys
			attn_v attention.query_key_value fused-values`,
	},
	read: func(r *metadata, c *Config) {
		c.KeepShares = true
		r.mixture(c)
	},
	layerWeights: llamaWeights,
	layer:        llamaLayer,
}

// bailingMoE2 is Ling 2 (Ling Team 2025, arXiv:2510.22115): norms over each head of the queries and keys, and mixtures
// of experts in groups. The router weighs experts by a sigmoid, and adds a bias to choose them. Half of a head is
// rotated.
var bailingMoE2 = architecture{
	name:    "bailingmoe2",
	rope:    halves,
	experts: true,
	folder: folder{
		classes:  "BailingMoeV2ForCausalLM",
		wants:    bailingWants + "\nscore_function sigmoid\nuse_qk_norm true",
		defaults: "partial_rotary_factor 0.5",
		weights: bailingFolder + `
			attn_qkv    attention.query_key_value
			attn_q_norm attention.query_layernorm
			attn_k_norm attention.key_layernorm
			exp_probs_b mlp.gate.expert`,
	},
	read: func(r *metadata, c *Config) {
		c.SigmoidExperts = true
		r.mixture(c)
	},
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(c.norms("attn_norm", "ffn_norm"), c.fusedProjections(), c.headNorms(), c.gated(),
			optional(c.routerBias()...))
	},
	layer: llamaLayer,
}

const bailingWants, bailingFolder = "hidden_act silu\nnorm_head false", `
token_embd  model.word_embeddings
attn_output attention.dense`
