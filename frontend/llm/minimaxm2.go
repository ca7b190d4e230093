package llm

import "slices"

// miniMaxM2 is MiniMax M2 (MiniMax 2025, https://github.com/MiniMax-AI/MiniMax-M2): norms over the queries and keys of
// all heads together, rotary embeddings of a part of a head, and mixtures of experts. The router weighs experts by a
// sigmoid, and adds a bias to choose them.
var miniMaxM2 = architecture{
	name:    "minimax-m2",
	rope:    halves,
	experts: true,
	folder: folder{
		classes: "MiniMaxM2ForCausalLM",
		keys:    "expert_feed_forward_length intermediate_size",
		wants: `
			hidden_act   silu
			use_qk_norm  true
			qk_norm_type per_layer`,
		weights: `
			ffn_gate_inp  block_sparse_moe.gate
			ffn_gate_exps block_sparse_moe.experts.E.w1
			ffn_up_exps   block_sparse_moe.experts.E.w3
			ffn_down_exps block_sparse_moe.experts.E.w2
			exp_probs_b   block_sparse_moe.e_score_correction`,
	},
	read: func(r *metadata, c *Config) {
		c.SigmoidExperts = true
		r.mixture(c)
	},
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(llamaWeights(c), c.wholeNorms(), c.routerBias())
	},
	layer: llamaLayer,
}
