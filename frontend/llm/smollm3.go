package llm

import "fmt"

// smolLM3 is SmolLM 3 (Hugging Face 2025): Llama without rotary embeddings in every fourth layer.
var smolLM3 = architecture{
	name: "smollm3",
	folder: folder{
		classes: "SmolLM3ForCausalLM",
		wants: `
			hidden_act             silu
			use_sliding_window     false
			no_rope_layer_interval 4`,
		read: func(c *folderConfig) {
			c.noWindow()
			c.checkRopeLayers()
		},
	},
	read:         func(_ *metadata, c *Config) { c.NoRopePeriod = 4 },
	layerWeights: llamaWeights,
	layer:        llamaLayer,
}

// checkRopeLayers checks that every fourth layer has no rotary embeddings, if config.json has a list of the layers.
func (c *folderConfig) checkRopeLayers() {
	list, _ := c.values["no_rope_layers"].([]any)
	for i, v := range list { // 0 marks a layer without
		if none := fmt.Sprint(v) == "0"; none != ((i+1)%4 == 0) {
			c.fail("no_rope_layers is %v for layer %d: want 0 in every fourth layer", v, i)
		}
	}
}
