package llm

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
)

// stableLM is StableLM 3B and 2 (Bellagente et al. 2024, arXiv:2402.17834): Llama with norms that have biases, and with
// rotary embeddings of a part of each head. The largest model has attention and feed-forward layer in parallel, after
// one norm, and norms of each head of queries and keys.
var stableLM = architecture{
	name: "stablelm",
	norm: layerNorm,
	rope: halves,
	folder: folder{
		classes:  "StableLmForCausalLM",
		defaults: "partial_rotary_factor 0.25",
		wants: `
			hidden_act   silu
			qk_layernorm false`,
	},
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(c.norms("attn_norm"), optional(c.norms("ffn_norm")...), c.projections(), c.gated(),
			c.ownHeadNorms())
	},
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		h := l.norm(x, "attn_norm")
		x = x.Add(l.attention(h))
		if l.w.Sub("ffn_norm").Has("weight") {
			h = l.norm(x, "ffn_norm")
		}
		return x.Add(l.gated(h))
	},
}
