package llm

import "math"

// hunyuanDense is Hunyuan (Tencent 2025): Llama with norms over each head of the rotated queries and keys.
var hunyuanDense = architecture{
	name:          "hunyuan-dense",
	rope:          halves,
	lateHeadNorms: true,
	folder: folder{
		classes: "HunYuanDenseV1ForCausalLM",
		wants:   hunyuanWants,
		weights: hunyuanNorms,
		read: func(c *folderConfig) {
			c.scaleBase()
			for _, key := range []string{"expert_count", "expert_used_count", "expert_shared_count"} {
				if c.size(key, 0) == 1 { // one expert is no mixture
					delete(c.set, key)
				}
			}
		},
	},
	layerWeights: qwen3.layerWeights,
	layer:        llamaLayer,
}

// hunyuanMoE is Hunyuan-A13B: hunyuanDense with a mixture of experts and a shared expert.
var hunyuanMoE = architecture{
	name:          "hunyuan-moe",
	rope:          halves,
	experts:       true,
	lateHeadNorms: true,
	folder: folder{
		classes: "HunYuanMoEV1ForCausalLM",
		wants:   hunyuanWants,
		keys:    "expert_shared_feed_forward_length intermediate_size",
		weights: hunyuanNorms + `
			ffn_gate_inp   mlp.gate.wg
			ffn_gate_shexp mlp.shared_mlp.gate_proj
			ffn_up_shexp   mlp.shared_mlp.up_proj
			ffn_down_shexp mlp.shared_mlp.down_proj`,
		read: (*folderConfig).scaleBase,
	},
	read:         func(r *metadata, c *Config) { r.mixture(c) },
	layerWeights: qwen3.layerWeights,
	layer:        llamaLayer,
}

const hunyuanWants, hunyuanNorms = "hidden_act silu\nuse_cla false\nuse_qk_norm true", `
attn_q_norm self_attn.query_layernorm
attn_k_norm self_attn.key_layernorm`

// scaleBase computes the base of the rotary embeddings that dynamic scaling with an alpha means.
func (c *folderConfig) scaleBase() {
	scaling, _ := c.values[c.first([]string{"rope_parameters", "rope_scaling"})].(map[string]any)
	if base, ok := c.set["rope.freq_base"].(float32); ok && scaling["alpha"] != nil {
		dims := float64(c.size("rope.dimension_count", 0))
		c.setFloat("rope.freq_base", float64(base)*math.Pow(c.numberIn(scaling, "alpha"), dims/(dims-2)))
	}
}
