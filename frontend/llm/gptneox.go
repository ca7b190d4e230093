package llm

import "github.com/vkc-go/vkc/frontend"

// gptNeoX is GPT-NeoX and Pythia (Black et al. 2022, arXiv:2204.06745): GPT-2 with rotary embeddings of a part of each
// head, and mostly with attention and feed-forward layer in parallel, each after its own norm. Its GELU uses erf.
var gptNeoX = architecture{
	name: "gptneox",
	norm: layerNorm,
	rope: halves,
	folder: folder{
		classes:  "GPTNeoXForCausalLM",
		layers:   "gpt_neox.layers.N.",
		wants:    "hidden_act gelu",
		defaults: "rotary_pct 0.25",
		weights: `
			token_embd  gpt_neox.embed_in
			output_norm gpt_neox.final_layer_norm
			output      embed_out
			attn_qkv    attention.query_key_value grouped
			attn_output attention.dense
			ffn_up      mlp.dense_h_to_4h
			ffn_down    mlp.dense_4h_to_h`,
		read: func(c *folderConfig) { c.set["use_parallel_residual"] = c.flag("use_parallel_residual", true) },
	},
	read:         func(r *metadata, c *Config) { c.ParallelResidual = r.flag("use_parallel_residual", true) },
	layerWeights: gpt2Weights,
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		return ungated(l, x, frontend.Tensor.GeluErf)
	},
}
