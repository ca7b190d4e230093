package llm

import "slices"

// chatGLM is ChatGLM 2 and 3, and GLM 4 of 2024 (GLM Team 2024, arXiv:2406.12793): Llama with biases for queries, keys
// and values, one matrix for gate and up, and rotary embeddings of half of a head.
var chatGLM = architecture{
	name: "chatglm",
	folder: folder{
		classes:     "GlmForCausalLM",
		wants:       "hidden_act silu",
		defaults:    "partial_rotary_factor 0.5",
		weights:     "ffn_up mlp.gate_up_proj",
		interleaved: true,
	},
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(c.norms("attn_norm", "ffn_norm"), c.eitherProjections(), c.joined())
	},
	layer: llamaLayer,
}
