package llm

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
)

// falcon is Falcon 1 and 2 (Almazrouei et al. 2023, arXiv:2311.16867): attention and feed-forward layer in parallel,
// after a shared norm or, in the larger models, after separate norms. Its GELU uses erf.
var falcon = architecture{
	name: "falcon",
	norm: layerNorm,
	rope: halves,
	folder: folder{
		classes:  "FalconForCausalLM RWForCausalLM",
		layers:   "transformer.h.N.",
		defaults: "max_position_embeddings 2048",
		wants: `
			activation    gelu
			parallel_attn true`,
		weights: `
			token_embd  transformer.word_embeddings
			output_norm transformer.ln_f
			attn_norm   ln_mlp
			attn_norm   input_layernorm
			attn_norm_2 ln_attn
			attn_qkv    self_attention.query_key_value grouped
			attn_output self_attention.dense
			ffn_up      mlp.dense_h_to_4h
			ffn_down    mlp.dense_4h_to_h`,
		read: func(c *folderConfig) {
			c.fourfold()
			switch {
			case c.flag("new_decoder_architecture", false):
			case c.flag("multi_query", true):
				c.setSize("attention.head_count_kv", 1)
			default:
				delete(c.set, "attention.head_count_kv")
			}
		},
	},
	layerWeights: func(c Config) []weightSpec {
		norms := c.norms("attn_norm", "attn_norm_2")
		norms[1].optional = true
		return slices.Concat(norms, c.fusedProjections(), c.feedForward())
	},
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		h := l.norm(x, "attn_norm")
		y := nn.FeedForward(h, l.w, frontend.Tensor.GeluErf)
		if l.w.Sub("attn_norm_2").Has("weight") {
			h = l.norm(x, "attn_norm_2")
		}
		return x.Add(l.attention(h)).Add(y)
	},
}
