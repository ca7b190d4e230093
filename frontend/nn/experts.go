package nn

import (
	"math"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Experts computes a mixture of SwiGLU experts (Shazeer et al. 2017), as in Mixtral and Qwen. The router, matrix
// ffn_gate_inp [experts, width], scores every expert for every row of x [T, width]. The best `used` experts process the
// row. Their results are summed, weighted by the softmax of all scores. With normalize, the weights of the used experts
// are scaled to a sum of 1.
//
// The experts' matrices are ffn_gate_exps and ffn_up_exps [experts, hidden, width] and ffn_down_exps [experts, width,
// hidden], quantized or not. A run only reads the matrices of experts that some row uses.
func Experts(x frontend.Tensor, w Weights, used int, normalize bool) frontend.Tensor {
	return ExpertsOf(x, w, Routing{Used: used, Normalize: normalize}, swiGLU)
}

// Routing says how a mixture chooses the experts of a row, and how much each contributes.
type Routing struct {
	Used      int     // experts per row
	Normalize bool    // the weights of the used experts are scaled to a sum of 1
	Sigmoid   bool    // an expert's weight is the sigmoid of its score, in place of the softmax of all scores
	Scale     float64 // multiplies the weights, after Normalize; 0 means 1

	// Groups is the number of groups of neighbouring experts, all of one size; 0 means one. The experts of a row come
	// from its GroupsUsed best groups (node-limited routing; DeepSeek-AI 2024, arXiv:2412.19437). A group's score is
	// its largest weight or, with Sigmoid, the sum of its two largest.
	Groups, GroupsUsed int

	// ScaleInputs means that an expert's weight multiplies the row that the expert reads, in place of its result.
	ScaleInputs bool

	// SparseMixer, if not 0, replaces the weights above (GRIN; Liu et al. 2024, arXiv:2409.12136). The first expert has
	// the largest score m. Its weight is its softmax among the scores near m: score s is near if m-s is at most
	// 2*SparseMixer*max(m, |s|). The next expert is found in the same way without the first, and so on.
	SparseMixer float64
}

// Choose returns the weights [T, Used] and the numbers of the experts of each row. If there is a vector
// exp_probs_b.bias [experts], it is added to the weights for the choice only (Wang et al. 2024, arXiv:2408.15664).
func (r Routing) Choose(x frontend.Tensor, w Weights) (share, ids frontend.Tensor) {
	scores := Linear(x, w.Sub("ffn_gate_inp"))
	if r.SparseMixer > 0 {
		return r.mixSparsely(scores)
	}
	if r.Sigmoid {
		scores = scores.Sigmoid()
	} else {
		scores = scores.Softmax(-1)
	}
	bias := w.Sub("exp_probs_b")
	// chosen decides which experts are used, and share, from the scores themselves, how much each counts.
	if chosen := scores; bias.Has("bias") || r.Groups > 1 {
		if bias.Has("bias") {
			chosen = chosen.Add(as(bias.Get("bias"), x.DType()))
		}
		ids = r.fromBestGroups(chosen).TopKIndices(-1, r.Used)
		share = scores.Gather(-1, ids)
	} else {
		share, ids = scores.TopK(-1, r.Used)
	}
	if r.Normalize {
		share = share.Div(share.SumKeep(-1))
	}
	if r.Scale != 0 && r.Scale != 1 {
		share = share.MulScalar(r.Scale)
	}
	return share, ids
}

// mixSparsely computes the weights of SparseMixer for scores [T, experts].
func (r Routing) mixSparsely(scores frontend.Tensor) (share, ids frontend.Tensor) {
	none := scores.Lit(math.Inf(-1))
	best, ids := scores.TopK(-1, r.Used)
	left := scores // the scores, with -inf for experts that are used already
	for i := range r.Used {
		at := func(x frontend.Tensor) frontend.Tensor { return x.Slice(-1, i, ir.D(i+1)) }
		top := at(best)
		near := top.Sub(scores).Div(scores.Abs().Max(top)).Le(scores.Lit(2 * r.SparseMixer))
		weight := at(near.Where(left, none).Softmax(-1).Gather(-1, ids))
		if i == 0 {
			share = weight
		} else {
			share = share.Concat(-1, weight)
		}
		used := at(ids).OneHot(int(scores.Dim(1).Max()), scores.DType()).SumKeep(1).Reshape(scores.Shape())
		left = used.Gt(used.Lit(0)).Where(none, left)
	}
	return share, ids
}

// fromBestGroups replaces the scores [T, experts] of experts outside the best groups of each row by -inf.
func (r Routing) fromBestGroups(scores frontend.Tensor) frontend.Tensor {
	if r.Groups <= 1 {
		return scores
	}
	groups := scores.Reshape(scores.Dim(0), r.Groups, -1) // [T, groups, experts of a group]
	best := groups.ReduceMax(-1)
	if size := int(groups.Dim(2).Max()); r.Sigmoid && size > 1 {
		two, _ := groups.TopK(-1, 2)
		best = two.Sum(-1)
	}
	used := best.TopKIndices(-1, r.GroupsUsed).OneHot(r.Groups, scores.DType()).SumKeep(1) // [T, 1, groups]
	keep := used.SwapAxes(1, 2).Gt(used.Lit(0))
	return keep.Where(groups, groups.Lit(math.Inf(-1))).Reshape(scores.Shape())
}

// swiGLU returns silu(gate)*up.
func swiGLU(gate, up frontend.Tensor) frontend.Tensor { return gate.Silu().Mul(up) }

// ExpertsOf computes a mixture of experts with any routing, in which an expert computes gated(gate, up) from the
// results of its first two matrices, each [T, used, hidden]. Experts has the usual routing and silu(gate)*up. The
// experts' matrices may have biases, [experts, hidden] and [experts, width].
func ExpertsOf(x frontend.Tensor, w Weights, r Routing,
	gated func(gate, up frontend.Tensor) frontend.Tensor) frontend.Tensor {
	share, ids := r.Choose(x, w)
	if r.ScaleInputs {
		return experts(x.Unsqueeze(1).Mul(share.Unsqueeze(-1)), w, ids, gated).Sum(1)
	}
	return ChosenExperts(x, w, share, ids, gated)
}

// ChosenExperts returns the sum of the results of the experts with numbers ids [T, used], each times its weight in
// share [T, used]. ExpertsOf chooses experts by a router. One matrix ffn_gate_up_exps [experts, 2*hidden, width] may
// take the place of two: its first half is ffn_gate_exps, and its second half ffn_up_exps.
func ChosenExperts(x frontend.Tensor, w Weights, share, ids frontend.Tensor,
	gated func(gate, up frontend.Tensor) frontend.Tensor) frontend.Tensor {
	return experts(x.Unsqueeze(1), w, ids, gated).Mul(share.Unsqueeze(-1)).Sum(1)
}

// experts returns the results [T, used, width] of gated feed-forward experts with numbers ids [T, used]. row is [T,
// used, width], or [T, 1, width] if all experts of a token read the same row. gated combines the results of the gate
// and the up matrix.
func experts(row frontend.Tensor, w Weights, ids frontend.Tensor,
	gated func(gate, up frontend.Tensor) frontend.Tensor) frontend.Tensor {
	linear := func(x frontend.Tensor, w Weights) frontend.Tensor {
		w.reportMatmul(x, ids)
		matrices, scale := w.matrix(x.DType())
		y := w.ordered(x, ids).MatMulID(matrices, ids)
		if !scale.IsZero() {
			y = y.Mul(scale.Embedding(ids, x.DType()))
		}
		y = w.adaptedStack("weight", x, ids, y)
		if w.Has("bias") {
			y = y.Add(w.Get("bias").Embedding(ids, x.DType()))
		}
		return y
	}
	var gate, up frontend.Tensor
	if both := w.Sub("ffn_gate_up_exps"); both.Has("weight") { // gate and up stacked in one matrix
		all := linear(row, both)
		hidden := int(all.Dim(2).Max()) / 2
		gate, up = all.Slice(2, 0, ir.D(hidden)), all.Slice(2, hidden, ir.D(2*hidden))
	} else {
		gate, up = linear(row, w.Sub("ffn_gate_exps")), linear(row, w.Sub("ffn_up_exps"))
	}
	return linear(gated(gate, up), w.Sub("ffn_down_exps"))
}
