package llm

// granite is Granite 3 and 4 (IBM 2024, https://github.com/ibm-granite): Llama with scales of embeddings, residuals
// and scores. The logits are divided by a further scale.
var granite = architecture{
	name:         "granite",
	folder:       folder{classes: "GraniteForCausalLM", wants: "hidden_act silu"},
	read:         graniteRead,
	layerWeights: llamaWeights,
	layer:        llamaLayer,
}

// graniteMoE is granite with a mixture of experts, and possibly a shared expert.
var graniteMoE = architecture{
	name:    "granitemoe",
	experts: true,
	folder: folder{
		classes: "GraniteMoeForCausalLM GraniteMoeSharedForCausalLM",
		wants:   "hidden_act silu",
		weights: `
			ffn_gate_inp   block_sparse_moe.router.layer
			ffn_gate_exps  block_sparse_moe.input_linear first-half
			ffn_up_exps    block_sparse_moe.input_linear second-half
			ffn_down_exps  block_sparse_moe.output_linear
			ffn_gate_shexp shared_mlp.input_linear first-half
			ffn_up_shexp   shared_mlp.input_linear second-half
			ffn_down_shexp shared_mlp.output_linear`,
	},
	read: func(r *metadata, c *Config) {
		graniteRead(r, c)
		r.mixture(c)
	},
	layerWeights: llamaWeights,
	layer:        llamaLayer,
}

// graniteRead reads Granite's scales, and whether it has rotary embeddings.
func graniteRead(r *metadata, c *Config) {
	c.EmbeddingScale, c.ResidualScale = r.floatOr("embedding_scale", 0), r.floatOr("residual_scale", 0)
	if v := r.floatOr("logit_scale", 0); v != 0 {
		c.LogitScale = 1 / v
	}
	if !r.flag("rope.scaling.finetuned", true) {
		c.NoRopePeriod = 1 // no layer has rotary embeddings
	}
}
