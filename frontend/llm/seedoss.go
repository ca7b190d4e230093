package llm

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
)

// seedOSS is Seed-OSS (ByteDance Seed 2025): Llama with biases for queries, keys and values.
var seedOSS = architecture{
	name: "seed_oss",
	rope: halves,
	folder: folder{
		classes: "SeedOssForCausalLM",
		wants:   "hidden_act silu",
		weights: "post_attention_norm post_attention_layernorm",
	},
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(c.norms("attn_norm", "post_attention_norm"), c.projections(), c.gated())
	},
	layer: func(l layer, x frontend.Tensor) frontend.Tensor { return preNorm(l, x, "post_attention_norm") },
}
