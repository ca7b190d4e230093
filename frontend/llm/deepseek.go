package llm

// deepSeek is DeepSeekMoE (Dai et al. 2024, arXiv:2401.06066): Llama's attention, first a dense layer, then mixtures of
// experts that keep their shares of the softmax, and shared experts.
var deepSeek = architecture{
	name:    "deepseek",
	experts: true,
	folder: folder{
		classes: "DeepseekForCausalLM",
		wants: `
			hidden_act     silu
			moe_layer_freq 1
			norm_topk_prob false
			scoring_func   softmax`,
	},
	read: func(r *metadata, c *Config) {
		c.KeepShares = true
		r.mixture(c)
	},
	layerWeights: llamaWeights,
	layer:        llamaLayer,
}
