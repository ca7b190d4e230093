package llm

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
)

// glm4 is GLM 4 of April 2025 (GLM Team 2024, arXiv:2406.12793): norms before and after attention and feed-forward
// layers, one matrix for gate and up, and rotary embeddings of half of a head.
var glm4 = architecture{
	name: "glm4",
	folder: folder{
		classes:  "Glm4ForCausalLM",
		wants:    "hidden_act silu",
		defaults: "partial_rotary_factor 0.5",
		weights: `
			post_attention_norm post_self_attn_layernorm
			ffn_up              mlp.gate_up_proj
			post_ffw_norm       post_mlp_layernorm`,
		interleaved: true,
	},
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(c.norms("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"), c.projections(),
			c.joined())
	},
	layer: func(l layer, x frontend.Tensor) frontend.Tensor { return sandwich(l, x, l.gated) },
}
