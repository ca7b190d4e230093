package llm

import (
	"math"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// perLayerFolder are the names of the weights of embeddings for each layer in folders.
const perLayerFolder = `
per_layer_token_embd model.embed_tokens_per_layer
per_layer_model_proj model.per_layer_model_projection
per_layer_proj_norm  model.per_layer_projection_norm
inp_gate             per_layer_input_gate
proj                 per_layer_projection
post_norm            post_per_layer_input_norm
`

// perLayerWeights lists the weights that perLayerInputs uses.
func (c Config) perLayerWeights() []weightSpec {
	if c.PerLayerWidth == 0 {
		return nil
	}
	width := c.Layers * c.PerLayerWidth
	return []weightSpec{{name: "per_layer_token_embd", shape: ir.ShapeOf(c.rows("per_layer_token_embd"), width)},
		matrix("per_layer_model_proj", width, c.Width), vector("per_layer_proj_norm", c.PerLayerWidth)}
}

// perLayerProjections lists the weights that perLayerInput uses.
func (c Config) perLayerProjections() []weightSpec {
	return append(c.norms("post_norm"), matrix("inp_gate", c.PerLayerWidth, c.Width),
		matrix("proj", c.Width, c.PerLayerWidth))
}

// perLayerInputs returns the inputs that the layers have besides the residual stream, [T, Layers, PerLayerWidth]: the
// sum of an embedding of the token and a projection of the embedded token x.
func perLayerInputs(m model, x, tokens frontend.Tensor) frontend.Tensor {
	if m.PerLayerWidth == 0 {
		return frontend.Tensor{}
	}
	table := m.w.Sub("per_layer_token_embd")
	if known := m.rows("per_layer_token_embd"); known < m.Vocab { // tokens of pictures and sound have no row
		tokens = tokens.Lt(tokens.Lit(float64(known))).Where(tokens, tokens.Lit(0))
	}
	shape := []frontend.Dim{tokens.Dim(0), ir.D(m.Layers), ir.D(m.PerLayerWidth)}
	own := nn.Embedding(tokens, table, ir.F32).Reshape(shape...).MulScalar(math.Sqrt(float64(m.PerLayerWidth)))
	all := nn.Linear(x, m.w.Sub("per_layer_model_proj")).MulScalar(1 / math.Sqrt(float64(m.Width))).Reshape(shape...)
	return own.Add(m.norm(all, m.w.Sub("per_layer_proj_norm"))).MulScalar(math.Sqrt(0.5))
}

// perLayerInput returns the last term that a layer adds to the residual stream x [T, Width].
func (l layer) perLayerInput(x frontend.Tensor) frontend.Tensor {
	own := l.inputs.Slice(1, l.index, ir.D(l.index+1)).Squeeze(1)
	gate := nn.Linear(x, l.w.Sub("inp_gate")).Gelu()
	return l.norm(nn.Linear(gate.Mul(own), l.w.Sub("proj")), "post_norm")
}
