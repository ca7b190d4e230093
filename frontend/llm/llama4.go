package llm

import "math"

// llama4 is the language model of Llama 4 (Meta 2025). Three of four layers rotate queries and keys, and attend to
// chunks of the text. The others see all of it, without positions, and with a temperature that grows with the
// position. A sigmoid weighs what a token's expert reads, and there is a shared expert.
var llama4 = architecture{
	name:    "llama4",
	experts: true,
	folder: folder{
		classes: "Llama4ForConditionalGeneration Llama4ForCausalLM",
		keys: `
			feed_forward_length           intermediate_size_mlp
			expert_feed_forward_length    intermediate_size
			interleave_moe_layer_step     interleave_moe_layer_step
			attention.sliding_window      attention_chunk_size
			attention.temperature_scale*  attn_scale
			attention.temperature_length  floor_scale`,
		wants: "hidden_act silu\nattn_temperature_tuning true 4",
		weights: `
			ffn_gate       feed_forward.gate_proj
			ffn_up         feed_forward.up_proj
			ffn_down       feed_forward.down_proj
			ffn_gate_inp   feed_forward.router
			ffn_gate_exps  feed_forward.experts.gate_up_proj transposed first-half
			ffn_up_exps    feed_forward.experts.gate_up_proj transposed second-half
			ffn_down_exps  feed_forward.experts.down_proj transposed
			ffn_gate_shexp feed_forward.shared_expert.gate_proj
			ffn_up_shexp   feed_forward.shared_expert.up_proj
			ffn_down_shexp feed_forward.shared_expert.down_proj`,
		interleaved: true,
		read: func(c *folderConfig) {
			c.checkRopeLayers()
			if norms := c.flag("use_qk_norm", true); norms == (c.size("expert_count", 0) == unnormedExperts) {
				c.fail("use_qk_norm is %v: want true, or false for %d experts", norms, unnormedExperts)
			}
		},
	},
	read: func(r *metadata, c *Config) {
		c.KeepShares, c.SigmoidExperts, c.ScaleInputs = true, true, true
		r.mixture(c)
		c.SharedFeedForward = c.FeedForward
		c.PlainHeadNorms = c.Experts != unnormedExperts
		if n := r.intOr("attention.sliding_window", 8192); n > 0 {
			c.Window, c.WindowPeriod, c.Chunked, c.RopeInWindows = int(min(n, math.MaxInt32)), 4, true, true
		}
		c.TemperatureAfter = true
		c.TemperatureScale = r.floatOr("attention.temperature_scale", 0.1)
		c.TemperatureLength = r.sizeOr("attention.temperature_length", 8192)
	},
	layerWeights: llamaWeights,
	layer:        llamaLayer,
}

// unnormedExperts is the number of experts of the model whose queries and keys have no norm. No key of files says it.
const unnormedExperts = 128
