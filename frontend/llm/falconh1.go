package llm

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
)

// falconH1 is Falcon-H1 (Zuo et al. 2025, arXiv:2507.22448): attention and Mamba-2's layer side by side, and a gated
// feed-forward layer. Its files have the model's multipliers in the weights.
var falconH1 = architecture{
	name: "falcon-h1",
	rope: halves,
	read: func(r *metadata, c *Config) { r.scan(c) },
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(llamaWeights(c), c.mamba2Weights())
	},
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		h := l.norm(x, "attn_norm")
		x = x.Add(l.attention(h).Add(l.mamba2(h)))
		return x.Add(l.gated(l.norm(x, "ffn_norm")))
	},
}
