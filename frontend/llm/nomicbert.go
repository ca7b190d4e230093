package llm

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
)

// nomicBERT is Nomic Embed (Nussbaum et al. 2024, arXiv:2402.01613): BERT with rotary embeddings, one matrix for
// queries, keys and values, and SwiGLU.
var nomicBERT = architecture{
	name:        "nomic-bert",
	norm:        layerNorm,
	rope:        halves,
	encoder:     true,
	onceWeights: Config.encoderWeights,
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(c.fusedProjections(), c.gated(), c.norms("attn_output_norm", "layer_output_norm"))
	},
	embed: func(m model, x, _ frontend.Tensor) frontend.Tensor { return m.firstSegment(x) },
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		q, k, v := l.fused(x)
		x = l.norm(x.Add(l.attend(l.rotate(q), l.rotate(k), v)), "attn_output_norm")
		return l.norm(x.Add(nn.SwiGLU(x, l.w)), "layer_output_norm")
	},
}
