package llm

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
)

// olmo2 is OLMo 2 and 3 (OLMo Team 2024, arXiv:2501.00656). It has norms only after attention and feed-forward layers,
// and over the queries and keys of all heads together. In OLMo 3 three of four layers have a window, and YaRN applies
// only to the other layers.
var olmo2 = architecture{
	name: "olmo2",
	rope: halves,
	folder: folder{
		classes: "Olmo2ForCausalLM Olmo3ForCausalLM",
		wants:   "hidden_act silu",
		weights: postNormFolder,
	},
	read: func(r *metadata, c *Config) {
		if c.Window > 0 {
			c.WindowPeriod, c.LocalRopeBase = 4, c.RopeBase
		}
	},
	layerWeights: func(c Config) []weightSpec { return append(postNormWeights(c), c.wholeNorms()...) },
	layer:        postNorm,
}

// postNormFolder are the names of the norms of postNorm in folders.
const postNormFolder = `
post_attention_norm post_attention_layernorm
post_ffw_norm       post_feedforward_layernorm`

func postNormWeights(c Config) []weightSpec {
	return slices.Concat(c.norms("post_attention_norm", "post_ffw_norm"), c.projections(), c.gated())
}

// postNorm computes a layer with norms only after attention and after the feed-forward layer.
func postNorm(l layer, x frontend.Tensor) frontend.Tensor {
	x = x.Add(l.norm(l.attention(x), "post_attention_norm"))
	return x.Add(l.norm(l.gated(x), "post_ffw_norm"))
}
