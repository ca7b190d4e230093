package llm

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
)

// llama is Llama 1 to 3 (Touvron et al. 2023, arXiv:2302.13971) and models with the same layers: Mistral, TinyLlama,
// and, with experts, Mixtral (Jiang et al. 2024, arXiv:2401.04088).
var llama = architecture{
	name:    "llama",
	experts: true,
	folder: folder{
		classes: "LlamaForCausalLM LlamaModel MistralForCausalLM MistralModel MixtralForCausalLM " +
			"Idefics3ForConditionalGeneration SmolVLMForConditionalGeneration",
		wants: "hidden_act silu",
		weights: `
			ffn_gate_inp  block_sparse_moe.gate
			ffn_gate_exps block_sparse_moe.experts.E.w1
			ffn_up_exps   block_sparse_moe.experts.E.w3
			ffn_down_exps block_sparse_moe.experts.E.w2`,
	},
	layerWeights: llamaWeights,
	layer:        llamaLayer,
}

func llamaWeights(c Config) []weightSpec {
	return slices.Concat(c.norms("attn_norm", "ffn_norm"), c.projections(), c.gated())
}

func llamaLayer(l layer, x frontend.Tensor) frontend.Tensor { return preNorm(l, x, "ffn_norm") }

// preNorm computes a layer with a norm before attention, and another before a gated feed-forward layer.
func preNorm(l layer, x frontend.Tensor, ffnNorm string) frontend.Tensor {
	x = l.add(x, l.attention(l.norm(x, "attn_norm")))
	return l.add(x, l.gated(l.norm(x, ffnNorm)))
}
