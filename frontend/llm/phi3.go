package llm

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// phi3 is Phi 3 to 4 (Abdin et al. 2024, arXiv:2404.14219): Llama with one matrix for queries, keys and values, and one
// for gate and up. Long texts have separate rotary factors.
var phi3 = architecture{
	name: "phi3",
	rope: halves,
	folder: folder{
		classes: "Phi3ForCausalLM",
		wants:   "hidden_act silu",
		weights: "ffn_up mlp.gate_up_proj",
	},
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(c.norms("attn_norm", "ffn_norm"), c.fusedProjections(), []weightSpec{
			matrix("ffn_up", 2*c.FeedForward, c.Width), matrix("ffn_down", c.Width, c.FeedForward)})
	},
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		q, k, v := l.fused(l.norm(x, "attn_norm"))
		x = x.Add(l.attend(l.rotate(q), l.rotate(k), v))
		both := nn.Linear(l.norm(x, "ffn_norm"), l.w.Sub("ffn_up"))
		gate, up := both.Slice(1, 0, ir.D(l.FeedForward)), both.Slice(1, l.FeedForward, both.Dim(1))
		return x.Add(nn.Linear(gate.Silu().Mul(up), l.w.Sub("ffn_down")))
	},
}
