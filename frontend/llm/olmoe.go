package llm

// olmoE is OLMoE (Muennighoff et al. 2024, arXiv:2409.02060): Llama with norms over the queries and the keys of all
// heads, and a mixture of experts that keep their shares of the softmax.
var olmoE = architecture{
	name:    "olmoe",
	rope:    halves,
	experts: true,
	folder: folder{
		classes: "OlmoeForCausalLM",
		wants: `
			hidden_act     silu
			norm_topk_prob false`,
	},
	read:         func(_ *metadata, c *Config) { c.KeepShares = true },
	layerWeights: func(c Config) []weightSpec { return append(llamaWeights(c), c.wholeNorms()...) },
	layer:        llamaLayer,
}
