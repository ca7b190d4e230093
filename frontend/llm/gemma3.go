package llm

// gemma3 is the language model of Gemma 3 (Gemma Team 2025, arXiv:2503.19786): Gemma 2 with norms over each head of
// queries and keys instead of soft caps, and a window with a separate RoPE base in five of six layers.
var gemma3 = architecture{
	name: "gemma3",
	rope: halves,
	read: func(r *metadata, c *Config) {
		c.RopeBase = r.floatOr("rope.freq_base", 1e6)
		if c.Window > 0 {
			c.WindowPeriod, c.LocalRopeBase = 6, r.floatOr("rope.freq_base_swa", 10000)
		}
		if c.Layers == 62 {
			c.wideQueries() // 27B
		}
	},
	layerWeights: func(c Config) []weightSpec { return append(gemma2Parts(c), c.headNorms()...) },
	embed:        gemmaEmbed,
	layer:        gemma2Layer,
}
