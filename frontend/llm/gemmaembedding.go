package llm

// gemmaEmbedding is EmbeddingGemma (Gemma Team 2025, arXiv:2509.20354): Gemma 3's layers as an encoder.
var gemmaEmbedding = architecture{
	name:    "gemma-embedding",
	rope:    halves,
	encoder: true,
	folder: folder{
		classes:  "Gemma3TextModel",
		wants:    gemma3.folder.wants + "\nuse_bidirectional_attention true",
		defaults: "use_bidirectional_attention false\nrope_theta 1e6\nrope_local_base_freq 10000",
		weights:  gemma2Folder,
		lessOne:  true,
		read:     (*folderConfig).queryScale,
	},
	read:         gemma3.read,
	onceWeights:  func(c Config) []weightSpec { return c.norms(outputNorm) },
	layerWeights: gemma3.layerWeights,
	embed:        gemmaEmbed,
	layer:        gemma2Layer,
}
