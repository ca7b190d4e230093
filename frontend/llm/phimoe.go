package llm

// phiMoE is Phi 3.5 MoE (Abdin et al. 2024, arXiv:2404.14219; GRIN, Liu et al. 2024, arXiv:2409.12136): layer norms,
// biases of attention and of the logits, and two experts for each token, which SparseMixer weighs.
var phiMoE = architecture{
	name:    "phimoe",
	norm:    layerNorm,
	rope:    halves,
	experts: true,
	folder: folder{
		classes: "PhiMoEForCausalLM PhimoeForCausalLM",
		wants: `
			hidden_act          silu
			router_jitter_noise 0.01`,
		weights: llama.folder.weights,
	},
	read:         func(_ *metadata, c *Config) { c.SparseMixer = 0.01 },
	layerWeights: llamaWeights,
	layer:        llamaLayer,
}
