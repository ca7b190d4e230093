package llm

// qwen3moe is Qwen 3 with experts (Yang et al. 2025, arXiv:2505.09388): the layers of qwen3 with a mixture of experts
// as the feed-forward layer.
var qwen3moe = architecture{
	name:         "qwen3moe",
	rope:         halves,
	experts:      true,
	layerWeights: qwen3.layerWeights,
	layer:        llamaLayer,
}
