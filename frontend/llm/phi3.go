package llm

import "slices"

// phi3 is Phi 3 to 4 (Abdin et al. 2024, arXiv:2404.14219): Llama with one matrix for queries, keys and values, and one
// for gate and up. Long texts have separate rotary factors.
var phi3 = architecture{
	name: "phi3",
	rope: halves,
	folder: folder{
		classes: "Phi3ForCausalLM",
		wants:   "hidden_act silu",
		weights: "ffn_up mlp.gate_up_proj",
	},
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(c.norms("attn_norm", "ffn_norm"), c.fusedProjections(), c.joined())
	},
	layer: llamaLayer,
}
