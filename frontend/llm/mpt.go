package llm

import "github.com/vkc-go/vkc/frontend"

// mpt is MPT (MosaicML 2023, https://www.databricks.com/blog/mpt-7b): GPT-2's layers without biases, with ALiBi or
// learned positions, and with the exact GELU. Some models clamp queries, keys and values (clip_qkv).
var mpt = architecture{
	name: "mpt",
	norm: layerNorm,
	rope: notRotary,
	folder: folder{
		classes:  "MPTForCausalLM MptForCausalLM",
		layers:   "transformer.blocks.N.",
		defaults: "layer_norm_epsilon 1e-5",
		wants:    "expansion_ratio 4",
		weights: `
			token_embd    transformer.wte
			position_embd transformer.wpe
			output_norm   transformer.norm_f
			attn_norm     norm_1
			attn_qkv      attn.Wqkv
			attn_output   attn.out_proj
			ffn_norm      norm_2
			ffn_up        ffn.up_proj
			ffn_down      ffn.down_proj`,
		read: func(c *folderConfig) {
			c.fourfold()
			attention, _ := c.values["attn_config"].(map[string]any)
			if attention["clip_qkv"] != nil {
				c.setFloat("attention.clamp_kqv", c.numberIn(attention, "clip_qkv"))
			}
			if attention["alibi"] == true && attention["alibi_bias_max"] != nil {
				c.setFloat("attention.max_alibi_bias", c.numberIn(attention, "alibi_bias_max"))
			} else if attention["alibi"] == true {
				c.setFloat("attention.max_alibi_bias", 8)
			}
			if attention["qk_ln"] == true || attention["prefix_lm"] == true || attention["softmax_scale"] != nil {
				c.fail("attn_config has qk_ln, prefix_lm or softmax_scale, which are not supported")
			}
		},
	},
	read: func(r *metadata, c *Config) {
		c.MaxALiBi, c.ClampQKV = r.floatOr("attention.max_alibi_bias", 0), r.floatOr("attention.clamp_kqv", 0)
	},
	onceWeights:  func(c Config) []weightSpec { return optional(learnedPositions(c)...) },
	layerWeights: gpt2Weights,
	embed:        addPositions,
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		return ungated(l, x, frontend.Tensor.GeluErf)
	},
}
