package llm

// qwen2moe is the mixture of experts of Qwen 1.5 and 2 (Yang et al. 2024, arXiv:2407.10671): qwen2 with experts that
// keep their shares of the softmax, and a shared expert with a gate for each token.
var qwen2moe = architecture{
	name:    "qwen2moe",
	rope:    halves,
	experts: true,
	folder: folder{
		classes: "Qwen2MoeForCausalLM",
		wants:   qwenWants + "\nnorm_topk_prob false",
		weights: `
			ffn_gate_inp_shexp mlp.shared_expert_gate
			ffn_gate_shexp     mlp.shared_expert.gate_proj
			ffn_up_shexp       mlp.shared_expert.up_proj
			ffn_down_shexp     mlp.shared_expert.down_proj`,
		read: (*folderConfig).noWindow,
	},
	read: func(r *metadata, c *Config) {
		c.KeepShares = true
		r.mixture(c)
		if c.SharedFeedForward == 0 {
			c.SharedFeedForward = r.size("feed_forward_length")
		}
	},
	layerWeights: func(c Config) []weightSpec {
		return append(llamaWeights(c), vector("ffn_gate_inp_shexp", c.Width))
	},
	layer: llamaLayer,
}
