package llm

// qwen2 is Qwen 2 and 2.5 (Yang et al. 2024, arXiv:2407.10671): Llama with biases for queries, keys and values.
var qwen2 = architecture{
	name:         "qwen2",
	rope:         halves,
	folder:       folder{classes: "Qwen2ForCausalLM Qwen2Model", wants: qwenWants, read: (*folderConfig).noWindow},
	layerWeights: llamaWeights,
	layer:        llamaLayer,
}

// qwenWants are conditions of Qwen's folders.
const qwenWants = `
hidden_act         silu
use_sliding_window false`

// noWindow removes the window. Qwen's config.json has one even if use_sliding_window is false or missing.
func (c *folderConfig) noWindow() { delete(c.set, "attention.sliding_window") }
