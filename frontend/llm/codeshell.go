package llm

// codeShell is CodeShell 7B (Xie et al. 2024, arXiv:2403.15747): GPT-2 with rotary embeddings and grouped queries.
var codeShell = architecture{
	name: "codeshell",
	norm: layerNorm,
	rope: halves,
	folder: folder{
		classes: "CodeShellForCausalLM",
		layers:  "transformer.h.N.",
		keys:    "attention.head_count_kv num_query_groups",
		wants:   "activation_function gelu_pytorch_tanh\nposition_embedding_type rope",
		weights: starcoder.folder.weights,
		read:    (*folderConfig).fourfold,
	},
	layerWeights: gpt2Weights,
	layer:        gpt2Layer,
}
