package llm

// exaone4 is EXAONE 4 (LG AI Research 2025, arXiv:2507.11407): norms after attention and feed-forward layers only, and
// over each head of queries and keys. The large model has a window in three of four layers, and rotary embeddings in
// these only.
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
