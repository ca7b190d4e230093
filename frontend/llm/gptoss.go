package llm

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// gptOSS is gpt-oss (OpenAI 2025, arXiv:2508.10925): a mixture of experts in every layer, attention with sinks, a
// window in every second layer, beginning with the first, and YaRN. Its experts and all projections have biases.
var gptOSS = architecture{
	name:      "gpt-oss",
	rope:      halves,
	experts:   true,
	exactYaRN: true,
	folder: folder{
		classes: "GptOssForCausalLM",
		keys:    "expert_feed_forward_length intermediate_size",
		wants: `
			hidden_act   silu
			swiglu_limit 7 7.0`,
		weights: `
			attn_sinks          self_attn.sinks
			post_attention_norm post_attention_layernorm
			ffn_gate_inp        mlp.router
			ffn_gate_exps       mlp.experts.gate_up_proj transposed even-rows
			ffn_up_exps         mlp.experts.gate_up_proj transposed odd-rows
			ffn_down_exps       mlp.experts.down_proj    transposed`,
	},
	read: func(_ *metadata, c *Config) { c.WindowPeriod = 2 },
	layerWeights: func(c Config) []weightSpec {
		experts := c.gated()
		for i, p := range experts {
			if len(p.shape) == 3 {
				experts[i].bias = ir.Shape{p.shape[0], p.shape[1]}
			}
		}
		return slices.Concat(c.norms("attn_norm", "post_attention_norm"), c.projections(), experts,
			[]weightSpec{vector("attn_sinks", c.Heads)})
	},
	layer: func(l layer, x frontend.Tensor) frontend.Tensor {
		x = x.Add(l.attention(l.norm(x, "attn_norm")))
		return x.Add(nn.ExpertsOf(l.norm(x, "post_attention_norm"), l.w, l.routing(), clampedSwiGLU))
	},
}

// clampedSwiGLU computes the activation of gpt-oss. It differs from SwiGLU: gate is at most 7, up is between -7 and 7,
// the silu is steeper, and 1 is added to up.
func clampedSwiGLU(gate, up frontend.Tensor) frontend.Tensor {
	const limit, steep = 7, 1.702
	gate = gate.Min(gate.Lit(limit))
	return gate.Mul(gate.MulScalar(steep).Sigmoid()).Mul(up.Clamp(-limit, limit).AddScalar(1))
}
