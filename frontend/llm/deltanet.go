package llm

import (
	"math"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
)

// gatedAttention computes attention, and multiplies its result by a gate. For each head, attn_q has the rows of the
// queries and then the rows of the gate.
func (l layer) gatedAttention(x frontend.Tensor) frontend.Tensor {
	both := nn.Linear(x, l.w.Sub("attn_q")).Reshape(x.Dim(0), l.Heads, 2, l.HeadDim)
	q := l.normAndRotate(both.Index(2, 0).SwapAxes(0, 1), "attn_q_norm")
	k := l.normAndRotate(l.heads(x, "attn_k", l.KVHeads), "attn_k_norm")
	y := l.attended(q, k, l.heads(x, "attn_v", l.KVHeads))
	return nn.Linear(y.Mul(both.Index(2, 1).Reshape(x.Dim(0), -1).Sigmoid()), l.w.Sub("attn_output"))
}

// deltaProjections projects x [T, Width] to queries, keys and values side by side, and to the gates z of the norm.
// Older files have one matrix for all, ssm_in, with the rows of a query, a key, values and gates for each group.
func (l layer) deltaProjections(x frontend.Tensor) (qkv, z frontend.Tensor) {
	if !l.w.Sub("ssm_in").Has("weight") {
		return nn.Linear(x, l.w.Sub("attn_qkv")), nn.Linear(x, l.w.Sub("attn_gate"))
	}
	s, times := l.Recurrent, x.Dim(0)
	values := s.Inner / s.Groups
	groups := nn.Linear(x, l.w.Sub("ssm_in")).Reshape(times.Times(int64(s.Groups)), -1) // [T*Groups, _]
	all := parts(groups, s.Keys, s.Keys, values, values)
	for i := range all {
		all[i] = all[i].Reshape(times, -1)
	}
	return all[0].Concat(1, all[1]).Concat(1, all[2]), all[3]
}

// gatedDelta computes a short convolution of queries, keys and values, the gated delta rule with queries and keys
// scaled to length 1, and a gated norm of each head. Each key belongs to Heads/Groups value heads. The value heads of a
// key are next to each other in files of Qwen3-Next, and Groups apart in files of Qwen3.5.
func (l layer) gatedDelta(x frontend.Tensor) frontend.Tensor {
	s, times := l.Recurrent, x.Dim(0)
	each, width, keys := s.Heads/s.Groups, s.Inner/s.Heads, s.Groups*s.Keys // value heads by key, and their width
	qkv, z := l.deltaProjections(x)
	var beta, alpha frontend.Tensor         // [T, Heads]
	near := l.w.Sub("ssm_ba").Has("weight") // value heads with the same key are next to each other
	if near {
		both := nn.Linear(x, l.w.Sub("ssm_ba")).Reshape(times, s.Groups, 2, each)
		beta, alpha = both.Index(2, 0).Reshape(times, s.Heads), both.Index(2, 1).Reshape(times, s.Heads)
	} else {
		beta, alpha = nn.Linear(x, l.w.Sub("ssm_beta")), nn.Linear(x, l.w.Sub("ssm_alpha"))
	}
	convolved := parts(l.shortConv(qkv, "ssm_conv1d").Silu(), keys, keys, s.Inner)
	// unit scales queries or keys to length 1 and, unless near, repeats them for each value head.
	unit := func(x frontend.Tensor) frontend.Tensor {
		x = x.Reshape(times, s.Groups, s.Keys)
		x = x.Mul(x.Sqr().SumKeep(-1).AddScalar(1e-6).Rsqrt())
		if near {
			return x
		}
		return x.Unsqueeze(1).Broadcast(times, each, s.Groups, s.Keys).Reshape(times, s.Heads, s.Keys)
	}
	q, k := unit(convolved[0]).MulScalar(1/math.Sqrt(float64(s.Keys))), unit(convolved[1])
	decay := alpha.Add(l.float("ssm_dt.bias")).Softplus().Mul(l.float("ssm_a")).Unsqueeze(2)
	beta = beta.Sigmoid().Unsqueeze(2)
	byHead := func(x frontend.Tensor) frontend.Tensor { // a vector for each value head
		if !near {
			return x // unit has done it
		}
		return x.Unsqueeze(2).Broadcast(times, s.Groups, each, s.Keys).Reshape(times, s.Heads, s.Keys)
	}
	values := convolved[2].Reshape(times, s.Heads, width).Mul(beta)
	y := l.goAlong("scan", []int{s.Heads, width, s.Keys},
		[]frontend.Tensor{q, k, values, decay, byHead(k).Mul(decay.Exp()).Neg(), byHead(k).Mul(beta)},
		func(state frontend.Tensor, xs []frontend.Tensor) (y, last frontend.Tensor) {
			return xs[0].DeltaRule(xs[1], xs[2], xs[3], state, frontend.Correction{A: xs[4], B: xs[5]})
		})
	y = nn.RMSNorm(y, l.w.Sub("ssm_norm"), l.NormEps).Mul(z.Reshape(times, s.Heads, width).Silu())
	return nn.Linear(y.Reshape(times, s.Inner), l.w.Sub("ssm_out"))
}
