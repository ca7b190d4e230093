package llm

// exaone4 is EXAONE 4 (LG AI Research 2025, arXiv:2507.11407). It has norms only after attention and feed-forward
// layers, and over each head of queries and keys. In the large model three of four layers have a window, and only the
// layers with a window rotate queries and keys.
var exaone4 = architecture{
	name: "exaone4",
	rope: halves,
	folder: folder{
		classes: "Exaone4ForCausalLM",
		wants: `
			hidden_act             silu
			sliding_window_pattern 4 LLLG`,
		weights: postNormFolder,
	},
	read: func(r *metadata, c *Config) {
		if n := r.intOr("attention.sliding_window", 0); n > 0 {
			c.Window, c.WindowPeriod, c.RopeInWindows = r.size("attention.sliding_window"), 4, true
		}
	},
	layerWeights: func(c Config) []weightSpec { return append(postNormWeights(c), c.headNorms()...) },
	layer:        postNorm,
}
