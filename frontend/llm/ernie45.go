package llm

// ernie45 is ERNIE 4.5 (Baidu 2025, ERNIE 4.5 Technical Report): the layers of Llama.
var ernie45 = architecture{
	name: "ernie4_5",
	folder: folder{
		classes:     "Ernie4_5ForCausalLM Ernie4_5_ForCausalLM",
		wants:       "hidden_act silu",
		interleaved: true,
	},
	layerWeights: llamaWeights,
	layer:        llamaLayer,
}

// ernie45MoE is ERNIE 4.5 with mixtures of experts in the layers after the first ones, and a shared expert.
var ernie45MoE = architecture{
	name:    "ernie4_5-moe",
	experts: true,
	folder: folder{
		classes: "Ernie4_5_MoeForCausalLM",
		wants: `
			hidden_act      silu
			moe_gate_act    softmax`,
		weights:     "exp_probs_b mlp.moe_statics.e_score_correction",
		interleaved: true,
		read: func(c *folderConfig) {
			if end, layers := c.values["moe_layer_end_index"], c.size("block_count", 0); end != nil {
				if n := c.number("moe_layer_end_index"); n != -1 && n != float64(layers-1) {
					c.fail(`"moe_layer_end_index" is %v: want the last of %d layers`, n, layers)
				}
			}
		},
	},
	read: func(r *metadata, c *Config) { r.mixture(c) },
	layerWeights: func(c Config) []weightSpec {
		return append(llamaWeights(c), optional(c.routerBias()...)...)
	},
	layer: llamaLayer,
}
