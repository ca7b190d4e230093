package llm

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
)

// commandR is Command R and Aya 23 (Cohere 2024, arXiv:2405.15032): attention and SwiGLU in parallel after one norm,
// and a scale of the logits. Command R+ has norms over each head of queries and keys, with weights for each head.
var commandR = architecture{
	name: "command-r",
	norm: layerNorm,
	folder: folder{
		classes:     "CohereForCausalLM",
		wants:       "hidden_act silu",
		keys:        "context_length model_max_length max_position_embeddings",
		defaults:    "logit_scale 0.0625\nlayer_norm_eps 1e-5",
		interleaved: true,
	},
	read: func(r *metadata, c *Config) { c.LogitScale = r.floatOr("logit_scale", 0) },
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(c.norms("attn_norm"), c.projections(), c.gated(), c.ownHeadNorms())
	},
	layer: parallel,
}

// parallel computes a layer with attention and a gated feed-forward layer side by side, after one norm.
func parallel(l layer, x frontend.Tensor) frontend.Tensor {
	h := l.norm(x, "attn_norm")
	return x.Add(l.attention(h)).Add(l.gated(h))
}
