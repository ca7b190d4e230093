package llm

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
)

// openELM is OpenELM (Mehta et al. 2024, arXiv:2404.14619): Llama with one matrix for queries, keys and values, a norm
// over each head of the queries and keys, and layers of different sizes: later ones have more heads and hidden units.
var openELM = architecture{
	name: "openelm",
	rope: halves,
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(c.norms("attn_norm", "ffn_norm"), c.fusedProjections(), c.headNorms(), c.gated())
	},
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		q, k, v := l.fused(l.norm(x, "attn_norm"))
		q, k = l.norm(q, "attn_q_norm"), l.norm(k, "attn_k_norm")
		x = x.Add(l.attend(l.rotate(q), l.rotate(k), v))
		return x.Add(l.gated(l.norm(x, "ffn_norm")))
	},
}
