package llm

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// gpt2 is GPT-2 (Radford et al. 2019): learned positions added to the token embeddings, and layers with GELU and with
// biases everywhere.
var gpt2 = architecture{
	name: "gpt2",
	norm: layerNorm,
	rope: notRotary,
	onceWeights: func(c Config) []weightSpec {
		return []weightSpec{{name: "position_embd", shape: ir.ShapeOf(c.Context, c.Width)}}
	},
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(c.norms("attn_norm", "ffn_norm"), c.fusedProjections(), c.feedForward())
	},
	embed: func(m model, x, positions frontend.Tensor) frontend.Tensor {
		return x.Add(nn.Embedding(positions, m.w.Sub("position_embd"), ir.F32))
	},
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		x = x.Add(l.attend(l.fused(l.norm(x, "attn_norm"))))
		return x.Add(nn.FeedForward(l.norm(x, "ffn_norm"), l.w, frontend.Tensor.Gelu))
	},
}
