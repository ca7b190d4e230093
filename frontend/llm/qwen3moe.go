package llm

// qwen3moe is Qwen 3 with experts (Yang et al. 2025, arXiv:2505.09388): every
// layer is one of qwen3 whose feed-forward layer is a mixture of experts.
var qwen3moe = architecture{
	name:    "qwen3moe",
	rope:    halves,
	experts: true,
	parts:   qwen3.parts,
	layer:   llamaLayer,
}
