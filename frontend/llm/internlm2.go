package llm

// internLM2 is InternLM 2 and 2.5 (Cai et al. 2024, arXiv:2403.17297): the layers of Llama.
var internLM2 = architecture{
	name: "internlm2",
	folder: folder{
		classes: "InternLM2ForCausalLM",
		wants:   "hidden_act silu",
		weights: `
			token_embd  model.tok_embeddings
			output      output
			attn_norm   attention_norm
			attn_q      attention.wqkv queries
			attn_k      attention.wqkv keys
			attn_v      attention.wqkv values
			attn_output attention.wo
			ffn_norm    ffn_norm
			ffn_gate    feed_forward.w1
			ffn_up      feed_forward.w3
			ffn_down    feed_forward.w2`,
	},
	layerWeights: llamaWeights,
	layer:        llamaLayer,
}
