package llm

// qwen2 is Qwen 2 and 2.5 (Yang et al. 2024, arXiv:2407.10671): Llama with biases for queries, keys and values.
var qwen2 = architecture{
	name:         "qwen2",
	rope:         halves,
	layerWeights: llamaWeights,
	layer:        llamaLayer,
}
