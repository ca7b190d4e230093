package llm

// qwen3 is Qwen 3 (Yang et al. 2025, arXiv:2505.09388): Llama with a norm over each head of the queries and keys.
var qwen3 = architecture{
	name:         "qwen3",
	rope:         halves,
	folder:       folder{classes: "Qwen3ForCausalLM Qwen3Model", wants: qwenWants, read: (*folderConfig).noWindow},
	layerWeights: func(c Config) []weightSpec { return append(llamaWeights(c), c.headNorms()...) },
	layer:        llamaLayer,
}
