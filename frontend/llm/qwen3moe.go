package llm

// qwen3moe is Qwen 3 with experts (Yang et al. 2025, arXiv:2505.09388): the layers of qwen3 with a mixture of experts
// as the feed-forward layer.
var qwen3moe = architecture{
	name:    "qwen3moe",
	rope:    halves,
	experts: true,
	folder: folder{
		classes:  "Qwen3MoeForCausalLM Qwen3MoeModel",
		wants:    qwenWants + "\nnorm_topk_prob true",
		defaults: "norm_topk_prob false",
		read:     (*folderConfig).noWindow,
	},
	layerWeights: qwen3.layerWeights,
	layer:        llamaLayer,
}
