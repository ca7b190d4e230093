package llm

import (
	"math"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
)

// gemma is Gemma 1 (Gemma Team 2024, arXiv:2403.08295): Llama with embeddings scaled by sqrt(Width), and with GELU for
// the gate. The definition adds 1 to norm weights; the files' weights include it.
var gemma = architecture{
	name: "gemma",
	rope: halves,
	folder: folder{
		classes: "GemmaForCausalLM",
		wants:   "hidden_activation gelu_pytorch_tanh",
		lessOne: true,
	},
	layerWeights: llamaWeights,
	embed:        gemmaEmbed,
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		x = x.Add(l.attention(l.norm(x, "attn_norm")))
		return x.Add(nn.GeGLU(l.norm(x, "ffn_norm"), l.w))
	},
}

func gemmaEmbed(m model, x, _ frontend.Tensor) frontend.Tensor {
	return x.MulScalar(math.Sqrt(float64(m.Width)))
}
