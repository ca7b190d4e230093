package llm

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
)

// graniteHybrid is Granite 4 (IBM 2025, https://github.com/ibm-granite/granite-4.0-language-models): granite or
// granitemoe in which Mamba-2's layers take the place of most attentions.
var graniteHybrid = architecture{
	name:    "granitehybrid",
	experts: true,
	hybrid:  true,
	read: func(r *metadata, c *Config) {
		graniteRead(r, c)
		if c.Experts > 0 {
			r.mixture(c)
		}
		r.scan(c)
	},
	layerWeights: func(c Config) []weightSpec {
		if c.KVHeads > 0 {
			return llamaWeights(c)
		}
		return slices.Concat(c.norms("attn_norm", "ffn_norm"), c.gated(), c.mamba2Weights())
	},
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		x = l.add(x, l.attentionOr(l.mamba2, l.norm(x, "attn_norm")))
		return l.add(x, l.gated(l.norm(x, "ffn_norm")))
	},
}
