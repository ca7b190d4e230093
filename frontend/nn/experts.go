package nn

import "github.com/vkc-go/vkc/frontend"

// Experts is a mixture of SwiGLU experts (Shazeer et al. 2017), as in Mixtral and Qwen. The router, matrix ffn_gate_inp
// [experts, width], scores every expert for every row of x [T, width]. The best `used` experts process the row. Their
// results are summed, weighted by the softmax of all scores. With normalize, the weights of the used experts are scaled
// to a sum of 1.
//
// The experts' matrices are ffn_gate_exps and ffn_up_exps [experts, hidden, width] and ffn_down_exps [experts, width,
// hidden], quantized or not. A run only reads the matrices of experts that some row uses.
func Experts(x frontend.Tensor, w Weights, used int, normalize bool) frontend.Tensor {
	return ExpertsOf(x, w, used, normalize, swiGLU)
}

// swiGLU returns silu(gate)*up.
func swiGLU(gate, up frontend.Tensor) frontend.Tensor { return gate.Silu().Mul(up) }

// ExpertsOf is like Experts, but with gated(gate, up) in place of silu(gate)*up; gate and up are [T, used, hidden]. The
// experts' matrices may have biases, [experts, hidden] and [experts, width].
func ExpertsOf(x frontend.Tensor, w Weights, used int, normalize bool,
	gated func(gate, up frontend.Tensor) frontend.Tensor) frontend.Tensor {
	share, ids := Linear(x, w.Sub("ffn_gate_inp")).Softmax(-1).TopK(-1, used)
	if normalize {
		share = share.Div(share.SumKeep(-1))
	}
	linear := func(x frontend.Tensor, w Weights) frontend.Tensor {
		w.reportMatmul("weight", x, ids)
		y := x.MatMulID(as(w.Get("weight"), x.DType()), ids)
		if w.Has("bias") {
			y = y.Add(w.Get("bias").Embedding(ids, x.DType()))
		}
		return y
	}
	row := x.Unsqueeze(1)
	gate, up := linear(row, w.Sub("ffn_gate_exps")), linear(row, w.Sub("ffn_up_exps"))
	down := linear(gated(gate, up), w.Sub("ffn_down_exps"))
	return down.Mul(share.Unsqueeze(-1)).Sum(1)
}
