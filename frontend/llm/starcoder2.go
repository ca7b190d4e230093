package llm

import "slices"

// starcoder2 is StarCoder 2 (Lozhkov et al. 2024, arXiv:2402.19173): rotary embeddings and grouped queries as in Llama;
// norms, biases and the feed-forward layer as in GPT-2.
var starcoder2 = architecture{
	name: "starcoder2",
	norm: layerNorm,
	rope: halves,
	folder: folder{
		classes: "Starcoder2ForCausalLM",
		wants:   "hidden_act gelu_pytorch_tanh",
		weights: `
			ffn_up   mlp.c_fc
			ffn_down mlp.c_proj`,
	},
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(c.norms("attn_norm", "ffn_norm"), c.projections(), c.feedForward())
	},
	layer: gpt2Layer,
}
