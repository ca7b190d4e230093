package llm

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
)

// phi2 is Phi 1 to 2 (Gunasekar et al. 2023, arXiv:2306.11644): attention and feed-forward layer in parallel, after one
// norm, rotary embeddings of a part of each head, and biases everywhere, also of the logits.
var phi2 = architecture{
	name: "phi2",
	norm: layerNorm,
	rope: halves,
	folder: folder{
		classes:  "PhiForCausalLM",
		defaults: "partial_rotary_factor 0.5",
		wants: `
			hidden_act   gelu_new gelu_pytorch_tanh
			qk_layernorm false`,
		weights: `
			output_norm model.final_layernorm
			ffn_up      mlp.fc1
			ffn_down    mlp.fc2`,
	},
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(c.norms("attn_norm"), c.eitherProjections(), c.feedForward())
	},
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		h := l.norm(x, "attn_norm")
		return x.Add(l.attention(h)).Add(nn.FeedForward(h, l.w, frontend.Tensor.Gelu))
	},
}
