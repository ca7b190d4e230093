package llm

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
)

// nomicBERT is Nomic Embed (Nussbaum et al. 2024, arXiv:2402.01613): BERT with rotary embeddings, one matrix for
// queries, keys and values, and SwiGLU.
var nomicBERT = architecture{
	name:    "nomic-bert",
	norm:    layerNorm,
	rope:    halves,
	encoder: true,
	folder: folder{
		classes: "NomicBertModel",
		layers:  "encoder.layers.N.",
		wants: `
			activation_function    swiglu
			rotary_emb_interleaved false
			prenorm                false
			parallel_block         false
			causal                 false`,
		weights: `
			token_embd        embeddings.word_embeddings
			token_types       embeddings.token_type_embeddings
			token_embd_norm   emb_ln
			attn_qkv          attn.Wqkv
			attn_output       attn.out_proj
			attn_output_norm  norm1
			ffn_gate          mlp.fc12
			ffn_up            mlp.fc11
			ffn_down          mlp.fc2
			layer_output_norm norm2`,
	},
	onceWeights: Config.encoderWeights,
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(c.fusedProjections(), c.gated(), c.norms("attn_output_norm", "layer_output_norm"))
	},
	embed: func(m model, x, _ frontend.Tensor) frontend.Tensor { return m.inSegments(x) },
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		x = l.norm(x.Add(l.attention(x)), "attn_output_norm")
		return l.norm(x.Add(nn.SwiGLU(x, l.w)), "layer_output_norm")
	},
}
