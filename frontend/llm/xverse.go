package llm

// xverse is XVERSE (2023): Llama with other rotary pairs.
var xverse = architecture{
	name:         "xverse",
	rope:         halves,
	folder:       folder{classes: "XverseForCausalLM", wants: "hidden_act silu"},
	layerWeights: llamaWeights,
	layer:        llamaLayer,
}
