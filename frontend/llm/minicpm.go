package llm

import "math"

// miniCPM is MiniCPM 1 and 4 (Hu et al. 2024, arXiv:2404.06395): Llama with scales of embeddings, residuals and logits.
// Files without the scales have the first model's.
var miniCPM = architecture{
	name: "minicpm",
	folder: folder{
		classes:  "MiniCPMForCausalLM",
		defaults: "scale_emb 1\nscale_depth 1\ndim_model_base 1",
		wants: `
			hidden_act    silu
			num_experts   0
			sparse_config none`,
		keys: "embedding_scale* scale_emb",
		read: func(c *folderConfig) {
			c.setFloat("residual_scale", c.number("scale_depth")/math.Sqrt(float64(c.size("block_count", 1))))
			c.setFloat("logit_scale", float64(c.size("embedding_length", 1))/c.number("dim_model_base"))
		},
	},
	read: func(r *metadata, c *Config) {
		c.EmbeddingScale = r.floatOr("embedding_scale", 12)
		c.ResidualScale = r.floatOr("residual_scale", 1.4/math.Sqrt(float64(c.Layers)))
		c.LogitScale = 1 / r.floatOr("logit_scale", float64(c.Width)/256)
	},
	layerWeights: llamaWeights,
	layer:        llamaLayer,
}
