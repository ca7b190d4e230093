package llm

import "github.com/vkc-go/vkc/frontend"

// bloom is BLOOM (BigScience 2022, arXiv:2211.05100): GPT-2's layers with ALiBi in place of positions, and a norm of
// the embedded tokens.
var bloom = architecture{
	name: "bloom",
	norm: layerNorm,
	rope: notRotary,
	folder: folder{
		classes:  "BloomForCausalLM BloomModel",
		layers:   "transformer.h.N.",
		keys:     "embedding_length hidden_size n_embed",
		defaults: "seq_length 2048",
		wants:    "apply_residual_connection_post_layernorm false",
		weights: `
			token_embd      transformer.word_embeddings
			token_embd_norm transformer.word_embeddings_layernorm
			output_norm     transformer.ln_f
			attn_qkv        self_attention.query_key_value grouped
			attn_output     self_attention.dense
			ffn_up          mlp.dense_h_to_4h
			ffn_down        mlp.dense_4h_to_h`,
		read: (*folderConfig).fourfold,
	},
	read:         func(_ *metadata, c *Config) { c.MaxALiBi = 8 },
	onceWeights:  func(c Config) []weightSpec { return c.norms("token_embd_norm") },
	layerWeights: gpt2Weights,
	embed: func(m model, x, _ frontend.Tensor) frontend.Tensor {
		return m.norm(x, m.w.Sub("token_embd_norm"))
	},
	layer: gpt2Layer,
}
