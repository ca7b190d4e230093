package llm

import "slices"

// cohere2 is Command R7B and Command A (Cohere 2025, arXiv:2504.00698): Command R with a window in three of four
// layers. Only the layers with a window have rotary embeddings.
var cohere2 = architecture{
	name: "cohere2",
	norm: layerNorm,
	folder: folder{
		classes: "Cohere2ForCausalLM",
		wants: `
			hidden_act             silu
			sliding_window_pattern 4`,
		defaults:    "logit_scale 0.0625\nlayer_norm_eps 1e-5",
		interleaved: true,
	},
	read: func(r *metadata, c *Config) {
		c.LogitScale = r.floatOr("logit_scale", 0)
		c.Window, c.WindowPeriod, c.RopeInWindows = r.size("attention.sliding_window"), 4, true
	},
	layerWeights: func(c Config) []weightSpec {
		return slices.Concat(c.norms("attn_norm"), c.projections(), c.gated())
	},
	layer: parallel,
}
