package llm

import "math"

// mistral3 is the language model of Mistral Small 3.1 and of Ministral 3 (Mistral AI 2025): Llama with YaRN that leaves
// the scores as they are, and with a temperature of attention that grows with the position.
var mistral3 = architecture{
	name:    "mistral3",
	experts: true,
	folder: folder{
		classes: "Mistral3ForConditionalGeneration Ministral3ForCausalLM",
		wants:   "hidden_act silu",
		read: func(c *folderConfig) {
			if rope, ok := c.values["rope_parameters"].(map[string]any); ok && rope["llama_4_scaling_beta"] != nil {
				c.setFloat("attention.temperature_scale", c.numberIn(rope, "llama_4_scaling_beta"))
			}
		},
	},
	read: func(r *metadata, c *Config) {
		c.TemperatureScale = r.floatOr("attention.temperature_scale", 0)
		c.TemperatureLength = r.sizeOr("rope.scaling.original_context_length", c.Context)
		if m := r.floatOr("rope.scaling.yarn_log_multiplier", 0); m > 0 { // it divides YaRN's own magnitude
			c.RopeMagnitude = 1 / (float64(0.1*m*math.Log(r.floatOr("rope.scaling.factor", 1))) + 1)
		}
	},
	layerWeights: llamaWeights,
	layer:        llamaLayer,
}
