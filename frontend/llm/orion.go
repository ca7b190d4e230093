package llm

// orion is Orion 14B (Chen et al. 2024, arXiv:2401.12246): Llama with norms that have biases.
var orion = architecture{
	name:         "orion",
	norm:         layerNorm,
	rope:         halves,
	folder:       folder{classes: "OrionForCausalLM", wants: "hidden_act silu"},
	layerWeights: llamaWeights,
	layer:        llamaLayer,
}
