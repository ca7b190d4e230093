package nn

import "github.com/vkc-go/vkc/frontend"

// Experts is a mixture of experts (Shazeer et al. 2017), each a SwiGLU layer, as
// Mixtral and Qwen have it: the router ffn_gate_inp [experts, width] scores every
// expert for every row of x [T, width]; the used best ones go over the row, and
// their results are added up, weighted by the softmax of the scores. With
// normalize the weights of those used are scaled to a sum of 1.
//
// The experts' matrices are ffn_gate_exps and ffn_up_exps [experts, hidden,
// width] and ffn_down_exps [experts, width, hidden], quantized or not; only those
// of experts that some row uses are read.
func Experts(x frontend.Tensor, w Weights, used int, normalize bool) frontend.Tensor {
	share, ids := Linear(x, w.Sub("ffn_gate_inp")).Softmax(-1).TopK(-1, used)
	if normalize {
		share = share.Div(share.SumKeep(-1))
	}
	matrix := func(name string) frontend.Tensor { return as(w.Sub(name).Get("weight"), x.DType()) }
	row := x.Unsqueeze(1)
	gate, up := row.MatMulID(matrix("ffn_gate_exps"), ids), row.MatMulID(matrix("ffn_up_exps"), ids)
	down := gate.Silu().Mul(up).MatMulID(matrix("ffn_down_exps"), ids)
	return down.Mul(share.Unsqueeze(-1)).Sum(1)
}
