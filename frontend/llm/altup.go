package llm

import (
	"math"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// altUpStreams returns the parts of the residual stream, [Streams, T, Width], for embedded tokens x. The first part is
// x, and the others are projections of x with the magnitude of x.
func altUpStreams(m model, x frontend.Tensor) frontend.Tensor {
	x = x.Unsqueeze(0)
	return x.Concat(0, likeMagnitude(x, nn.Matmul(x, m.w, "altup_proj.weight")))
}

// altUpJoined returns the mean of the parts of the residual stream, [T, Width]. It projects all parts except the first,
// and scales them to the magnitude of the first.
func altUpJoined(m model, x frontend.Tensor) frontend.Tensor {
	first, rest := x.Slice(0, 0, ir.D(1)), x.Slice(0, 1, x.Dim(0))
	return first.Concat(0, likeMagnitude(first, nn.Matmul(rest, m.w, "altup_unembd_proj.weight"))).Mean(0)
}

// likeMagnitude scales the vectors of y to the magnitudes of x's vectors.
func likeMagnitude(x, y frontend.Tensor) frontend.Tensor {
	least := y.Lit(1e-5)
	return y.Mul(x.Sqr().MeanKeep(-1).Sqrt()).Div(y.Sqr().MeanKeep(-1).Max(least).Sqrt())
}

// gemma3nLayer predicts all parts of the residual stream x [Streams, T, Width], and computes the first part y. It then
// adds to each part a share of y minus the predicted first part, and to all but the first part the layer's own input.
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
	return corrected.Slice(0, 0, ir.D(1)).Concat(0, corrected.Slice(0, 1, x.Dim(0)).Add(l.perLayerInput(own)))
}

// sparseGeGLU computes the feed-forward layer GeGLU with a threshold for gates: the mean of a token's gates plus
// Sparsity standard deviations. The threshold is subtracted from each gate, and gates below it become 0.
func (l layer) sparseGeGLU(x frontend.Tensor) frontend.Tensor {
	gate, up := nn.Linear(x, l.w.Sub("ffn_gate")), nn.Linear(x, l.w.Sub("ffn_up"))
	if i := min(l.index, len(l.Sparsity)-1); i >= 0 && !math.IsInf(l.Sparsity[i], -1) {
		above := gate.Sub(gate.MeanKeep(-1))
		gate = above.Sub(above.Sqr().MeanKeep(-1).Sqrt().MulScalar(l.Sparsity[i])).Relu()
	}
	return nn.Linear(gate.Gelu().Mul(up), l.w.Sub("ffn_down"))
}
