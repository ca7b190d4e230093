package llm

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
)

// nemotron is Nemotron 4 and Minitron (Parmar et al. 2024, arXiv:2402.16819): norms with biases, rotary embeddings of a
// part of each head, and a feed-forward layer with the square of relu.
var nemotron = architecture{
	name: "nemotron",
	norm: layerNorm,
	rope: halves,
	folder: folder{
		classes:  "NemotronForCausalLM",
		keys:     "attention.layer_norm_epsilon* norm_eps",
		defaults: "partial_rotary_factor 0.5\nnorm_eps 1e-5",
		wants:    "hidden_act relu2",
		lessOne:  true,
	},
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(c.norms("attn_norm", "ffn_norm"), c.projections(), c.feedForward())
	},
	layer: squaredReluLayer,
}

func squaredReluLayer(l layer, x frontend.Tensor) frontend.Tensor { return ungated(l, x, squaredRelu) }

// squaredRelu computes the square of relu (So et al. 2021, arXiv:2109.08668).
func squaredRelu(x frontend.Tensor) frontend.Tensor { return x.Relu().Sqr() }
