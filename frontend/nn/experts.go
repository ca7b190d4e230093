package nn

import "github.com/vkc-go/vkc/frontend"

// Experts is a mixture of SwiGLU experts (Shazeer et al. 2017), as in Mixtral and Qwen. The router ffn_gate_inp
// [experts, width] scores every expert for every row of x [T, width]. The used best experts process the row, and their
// results are summed, weighted by the softmax of the scores. With normalize the weights of the used experts are scaled
// to a sum of 1.
//
// The experts' matrices are ffn_gate_exps and ffn_up_exps [experts, hidden, width] and ffn_down_exps [experts, width,
// hidden], quantized or not. Only the matrices of experts that some row uses are read.
func Experts(x frontend.Tensor, w Weights, used int, normalize bool) frontend.Tensor {
	return ExpertsOf(x, w, used, normalize, swiGLU)
}

func swiGLU(gate, up frontend.Tensor) frontend.Tensor { return gate.Silu().Mul(up) }

// ExpertsOf is Experts with another function of gate and up [T, used, hidden] than silu(gate)*up. The experts' matrices
// may have biases, [experts, hidden] and [experts, width].
func ExpertsOf(x frontend.Tensor, w Weights, used int, normalize bool,
	gated func(gate, up frontend.Tensor) frontend.Tensor) frontend.Tensor {
	share, ids := Linear(x, w.Sub("ffn_gate_inp")).Softmax(-1).TopK(-1, used)
	if normalize {
		share = share.Div(share.SumKeep(-1))
	}
	linear := func(x frontend.Tensor, w Weights) frontend.Tensor {
		w.product("weight", x, ids)
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
