package llm

// exaone is EXAONE 3 and 3.5 (LG AI Research 2024, arXiv:2408.03541): Llama with other names.
var exaone = architecture{
	name: "exaone",
	rope: halves,
	folder: folder{
		classes: "ExaoneForCausalLM",
		layers:  "transformer.h.N.",
		wants:   "activation_function silu",
		weights: `
			token_embd  transformer.wte
			output_norm transformer.ln_f
			attn_norm   ln_1
			attn_q      attn.attention.q_proj
			attn_k      attn.attention.k_proj
			attn_v      attn.attention.v_proj
			attn_output attn.attention.out_proj
			ffn_norm    ln_2
			ffn_gate    mlp.c_fc_0
			ffn_up      mlp.c_fc_1
			ffn_down    mlp.c_proj`,
	},
	layerWeights: llamaWeights,
	layer:        llamaLayer,
}
