package llm

import "slices"

// qwen is Qwen 1 (Bai et al. 2023, arXiv:2309.16609): Llama with one matrix for queries, keys and values, and with their
// biases. Files have twice the number of hidden units.
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

// orion is Orion 14B (Chen et al. 2024, arXiv:2401.12246): Llama with norms that have biases.
var orion = architecture{
	name:         "orion",
	norm:         layerNorm,
	rope:         halves,
	folder:       folder{classes: "OrionForCausalLM", wants: "hidden_act silu"},
	layerWeights: llamaWeights,
	layer:        llamaLayer,
}

// xverse is XVERSE (2023): Llama with other rotary pairs.
var xverse = architecture{
	name:         "xverse",
	rope:         halves,
	folder:       folder{classes: "XverseForCausalLM", wants: "hidden_act silu"},
	layerWeights: llamaWeights,
	layer:        llamaLayer,
}

// codeShell is CodeShell 7B (Xie et al. 2024, arXiv:2403.15747): GPT-2 with rotary embeddings and grouped queries.
var codeShell = architecture{
	name: "codeshell",
	norm: layerNorm,
	rope: halves,
	folder: folder{
		classes: "CodeShellForCausalLM",
		layers:  "transformer.h.N.",
		keys:    "attention.head_count_kv num_query_groups",
		wants:   "activation_function gelu_pytorch_tanh\nposition_embedding_type rope",
		weights: starcoder.folder.weights,
		read:    (*folderConfig).fourfold,
	},
	layerWeights: gpt2Weights,
	layer:        gpt2Layer,
}
