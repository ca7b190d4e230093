package llm

import "slices"

// openELM is OpenELM (Mehta et al. 2024, arXiv:2404.14619): Llama with one matrix for queries, keys and values, a norm
// over each head of the queries and keys, and layers of different sizes: later ones have more heads and hidden units.
var openELM = architecture{
	name: "openelm",
	rope: halves,
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(c.norms("attn_norm", "ffn_norm"), c.fusedProjections(), c.headNorms(), c.gated())
	},
	layer: llamaLayer,
}
