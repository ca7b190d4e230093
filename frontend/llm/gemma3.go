package llm

// gemma3 is the language model of Gemma 3 (Gemma Team 2025, arXiv:2503.19786): Gemma 2 with norms over each head of
// queries and keys instead of soft caps, and a window with a separate RoPE base in five of six layers.
var gemma3 = architecture{
	name: "gemma3",
	rope: halves,
	folder: folder{
		classes: "Gemma3ForCausalLM Gemma3ForConditionalGeneration",
		wants: `
			hidden_activation      gelu_pytorch_tanh
			sliding_window_pattern 6`,
		defaults: `
			num_attention_heads     8
			num_key_value_heads     4
			head_dim                256
			rms_norm_eps            1e-6
			rope_theta              1e6
			rope_local_base_freq    10000
			max_position_embeddings 131072`,
		weights: gemma2Folder,
		lessOne: true,
		read:    (*folderConfig).queryScale,
	},
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

	pictureSeesItself: true,
}
