package llm

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// gpt2 is GPT-2 (Radford et al. 2019): learned positions added to the token embeddings, and layers with GELU and with
// biases everywhere.
var gpt2 = architecture{
	name: "gpt2",
	norm: layerNorm,
	rope: notRotary,
	folder: folder{
		classes: "GPT2LMHeadModel GPT2Model",
		layers:  "transformer.h.N.",
		wants: `
			activation_function                  gelu_new gelu_pytorch_tanh
			scale_attn_weights                   true
			scale_attn_by_inverse_layer_idx      false
			add_cross_attention                  false`,
		weights: `
			token_embd    transformer.wte
			position_embd transformer.wpe
			output_norm   transformer.ln_f
			attn_norm     ln_1
			attn_qkv      attn.c_attn transposed
			attn_output   attn.c_proj transposed
			ffn_norm      ln_2
			ffn_up        mlp.c_fc    transposed
			ffn_down      mlp.c_proj  transposed`,
		read: (*folderConfig).fourfold,
	},
	onceWeights:  learnedPositions,
	layerWeights: gpt2Weights,
	embed:        addPositions,
	layer:        gpt2Layer,
}

func learnedPositions(c Config) []weightSpec {
	return []weightSpec{{name: "position_embd", shape: ir.ShapeOf(c.Context, c.Width)}}
}

func gpt2Weights(c Config) []weightSpec {
	return slices.Concat(c.norms("attn_norm", "ffn_norm"), c.fusedProjections(), c.feedForward())
}

// addPositions adds the learned embeddings of positions, if the file has them.
func addPositions(m model, x, positions frontend.Tensor) frontend.Tensor {
	if w := m.w.Sub("position_embd"); w.Has("weight") {
		x = x.Add(nn.Embedding(positions, w, ir.F32))
	}
	return x
}

func gpt2Layer(l layer, x frontend.Tensor) frontend.Tensor {
	return ungated(l, x, frontend.Tensor.Gelu)
}

// ungated computes a layer with a norm before attention, and another before a feed-forward layer with an activation.
func ungated(l layer, x frontend.Tensor, activation func(frontend.Tensor) frontend.Tensor) frontend.Tensor {
	y := x.Add(l.attention(l.norm(x, "attn_norm")))
	if !l.ParallelResidual {
		x = y
	}
	return y.Add(nn.FeedForward(l.norm(x, "ffn_norm"), l.w, activation))
}

// fourfold sets the hidden width of the feed-forward layers to the default of older models.
func (c *folderConfig) fourfold() {
	if c.size("feed_forward_length", 0) == 0 {
		c.setSize("feed_forward_length", 4*float64(c.size("embedding_length", 0)))
	}
}
