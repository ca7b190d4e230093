package llm

import "slices"

// qwen is Qwen 1 (Bai et al. 2023, arXiv:2309.16609): Llama with one matrix for queries, keys and values, and with
// their biases. Files have twice the number of hidden units.
var qwen = architecture{
	name: "qwen",
	rope: halves,
	folder: folder{
		classes: "QWenLMHeadModel",
		layers:  "transformer.h.N.",
		wants:   "no_bias true",
		weights: `
			token_embd  transformer.wte
			output_norm transformer.ln_f
			attn_norm   ln_1
			attn_qkv    attn.c_attn
			attn_output attn.c_proj
			ffn_norm    ln_2
			ffn_gate    mlp.w2
			ffn_up      mlp.w1
			ffn_down    mlp.c_proj`,
	},
	read: func(_ *metadata, c *Config) { c.FeedForward /= 2 },
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(c.norms("attn_norm", "ffn_norm"), c.fusedProjections(), c.gated())
	},
	layer: llamaLayer,
}
