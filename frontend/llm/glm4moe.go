package llm

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
)

// glm4MoE is GLM 4.5 to 4.7 (GLM Team 2025, arXiv:2508.06471): first some dense layers, then mixtures of experts with a
// shared expert. The router weighs experts by a sigmoid, and adds a bias to choose them. Half of a head is rotated.
var glm4MoE = architecture{
	name:    "glm4moe",
	rope:    halves,
	experts: true,
	folder: folder{
		classes:  "Glm4MoeForCausalLM",
		wants:    "hidden_act silu",
		defaults: "partial_rotary_factor 0.5",
		weights:  "post_attention_norm post_attention_layernorm",
	},
	read: func(r *metadata, c *Config) {
		c.SigmoidExperts, c.KeepShares = true, true
		r.mixture(c)
	},
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(c.norms("attn_norm", "post_attention_norm"), c.projections(), optional(c.headNorms()...),
			c.gated(), c.routerBias())
	},
	layer: func(l layer, x frontend.Tensor) frontend.Tensor { return preNorm(l, x, "post_attention_norm") },
}
