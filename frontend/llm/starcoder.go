package llm

// starcoder is StarCoder and SantaCoder (Li et al. 2023, arXiv:2305.06161): GPT-2 with one head of keys and values.
var starcoder = architecture{
	name: "starcoder",
	norm: layerNorm,
	rope: notRotary,
	folder: folder{
		classes: "GPTBigCodeForCausalLM",
		layers:  "transformer.h.N.",
		wants: `
			activation_function gelu_pytorch_tanh
			multi_query         true`,
		weights: `
			token_embd    transformer.wte
			position_embd transformer.wpe
			output_norm   transformer.ln_f
			attn_norm     ln_1
			attn_qkv      attn.c_attn
			attn_output   attn.c_proj
			ffn_norm      ln_2
			ffn_up        mlp.c_fc
			ffn_down      mlp.c_proj`,
		read: func(c *folderConfig) {
			c.fourfold()
			c.setSize("attention.head_count_kv", 1)
		},
	},
	onceWeights:  learnedPositions,
	layerWeights: gpt2Weights,
	embed:        addPositions,
	layer:        gpt2Layer,
}
