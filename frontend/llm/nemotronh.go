package llm

import (
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
)

// nemotronH is Nemotron-H (NVIDIA 2025, arXiv:2504.03624): a layer is Mamba-2's, or attention without positions, or
// feed-forward with the square of relu.
var nemotronH = architecture{
	name:   "nemotron_h",
	rope:   notRotary,
	hybrid: true,
	read:   func(r *metadata, c *Config) { r.scan(c) },
	layerWeights: func(c Config) []weightSpec {
		list := c.norms("attn_norm")
		switch {
		case c.FeedForward > 0:
			return append(list, c.feedForward()...)
		case c.KVHeads > 0:
			return append(list, c.projections()...)
		}
		return append(list, c.mamba2Weights()...)
	},
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		h := l.norm(x, "attn_norm")
		if l.FeedForward > 0 {
			return x.Add(nn.FeedForward(h, l.w, func(h frontend.Tensor) frontend.Tensor { return h.Relu().Sqr() }))
		}
		return x.Add(l.attentionOr(l.mamba2, h))
	},
}
