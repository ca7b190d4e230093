package llm

import (
	"math"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// perLayerInputs returns what each layer gets of the tokens, [T, Layers, PerLayerWidth]: the sum of an embedding of the
// token and a projection of the embedded token x.
func perLayerInputs(m model, x, tokens frontend.Tensor) frontend.Tensor {
	table := m.w.Sub("per_layer_token_embd")
	if known := m.rows("per_layer_token_embd"); known < m.Vocab { // tokens of pictures and sound have no row
		tokens = tokens.Lt(tokens.Lit(float64(known))).Where(tokens, tokens.Lit(0))
	}
	shape := []frontend.Dim{tokens.Dim(0), ir.D(m.Layers), ir.D(m.PerLayerWidth)}
	own := nn.Embedding(tokens, table, ir.F32).Reshape(shape...).MulScalar(math.Sqrt(float64(m.PerLayerWidth)))
	all := nn.Linear(x, m.w.Sub("per_layer_model_proj")).MulScalar(1 / math.Sqrt(float64(m.Width))).Reshape(shape...)
	return own.Add(m.norm(all, m.w.Sub("per_layer_proj_norm"))).MulScalar(math.Sqrt(0.5))
}

// altUpStreams returns the parts of the residual stream for embedded tokens x, [Streams, T, Width].
func altUpStreams(m model, x frontend.Tensor) frontend.Tensor {
	x = x.Unsqueeze(0)
	return x.Concat(0, likeMagnitude(x, nn.Matmul(x, m.w, "altup_proj.weight")))
}

// altUpJoined returns the mean of the parts of the residual stream, [T, Width].
func altUpJoined(m model, x frontend.Tensor) frontend.Tensor {
	first, rest := x.Slice(0, 0, ir.D(1)), x.Slice(0, 1, x.Dim(0))
	return first.Concat(0, likeMagnitude(first, nn.Matmul(rest, m.w, "altup_unembd_proj.weight"))).Mean(0)
}

// likeMagnitude scales the vectors of y to the magnitudes of those of x.
func likeMagnitude(x, y frontend.Tensor) frontend.Tensor {
	least := y.Lit(1e-5)
	return y.Mul(x.Sqr().MeanKeep(-1).Sqrt()).Div(y.Sqr().MeanKeep(-1).Max(least).Sqrt())
}

// gemma3nLayer predicts all parts of the residual stream x [Streams, T, Width], computes the first, and corrects the
// others by what it differs from its prediction.
func gemma3nLayer(l layer, x frontend.Tensor) frontend.Tensor {
	part := func(x frontend.Tensor) frontend.Tensor { return x.Slice(0, 0, ir.D(1)).Squeeze(0) }
	modalities := func(x frontend.Tensor) frontend.Tensor { // [T, Streams]
		return nn.Linear(l.norm(x, "altup_router_norm").DivScalar(float64(l.Width)), l.w.Sub("altup_router")).Tanh()
	}
	mixed := nn.Linear(modalities(part(x)), l.w.Sub("altup_predict_coef")).Reshape(x.Dim(1), x.Dim(0), x.Dim(0))
	predicted := x.Add(mixed.MatMul(x.SwapAxes(0, 1)).SwapAxes(0, 1))

	active := part(predicted)
	h := l.norm(active, "attn_norm")
	laurel := h.Add(l.norm(nn.Linear(nn.Linear(h, l.w.Sub("laurel_l")), l.w.Sub("laurel_r")), "laurel_post_norm"))
	y := active.Add(l.norm(l.attention(h), "post_attention_norm")).Add(laurel).MulScalar(math.Sqrt(0.5))
	y = y.Add(l.norm(l.sparseGeGLU(l.norm(y, "ffn_norm")), "post_ffw_norm"))

	share := nn.Linear(modalities(y), l.w.Sub("altup_correct_coef")).AddScalar(1).T().Unsqueeze(2)
	corrected := predicted.Add(share.Mul(y.Sub(active)))
	own := part(corrected).Mul(l.w.Sub("altup_correct_scale").Get("weight").Cast(ir.F32))
	own = nn.Linear(own, l.w.Sub("inp_gate")).Gelu().Mul(l.inputs.Slice(1, l.index, ir.D(l.index+1)).Squeeze(1))
	own = l.norm(nn.Linear(own, l.w.Sub("proj")), "post_norm")
	return corrected.Slice(0, 0, ir.D(1)).Concat(0, corrected.Slice(0, 1, x.Dim(0)).Add(own))
}

// sparseGeGLU is GeGLU, in which only gates count that exceed the mean of all by Sparsity standard deviations.
func (l layer) sparseGeGLU(x frontend.Tensor) frontend.Tensor {
	gate, up := nn.Linear(x, l.w.Sub("ffn_gate")), nn.Linear(x, l.w.Sub("ffn_up"))
	if i := min(l.index, len(l.Sparsity)-1); i >= 0 && !math.IsInf(l.Sparsity[i], -1) {
		above := gate.Sub(gate.MeanKeep(-1))
		gate = above.Sub(above.Sqr().MeanKeep(-1).Sqrt().MulScalar(l.Sparsity[i])).Relu()
	}
	return nn.Linear(gate.Gelu().Mul(up), l.w.Sub("ffn_down"))
}
