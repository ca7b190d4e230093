package frontend

import "github.com/vkc-go/vkc/ir"

// CausalConv1D convolves each channel along time: y[t, c] = the sum over k of w[c, k] * z[t+k, c]. z is the rows before
// the first, state [..., K-1, C], and then t [..., T, C]. w is [C, K]. It returns y and the next call's state.
func (t Tensor) CausalConv1D(w, state Tensor) (y, last Tensor) {
	return t.recurrence(ir.OpCausalConv1D, w, state)
}

// SSMScan returns the selective scan of a state space model; op ssm_scan defines it. t is [..., T, H, P], dt [..., T,
// H], a [H, N] or [H, 1], b and c [..., T, G, N], and state [..., H, P, N]. It returns y, in the shape of t, and the
// next call's state.
func (t Tensor) SSMScan(dt, a, b, c, state Tensor) (y, last Tensor) {
	return t.recurrence(ir.OpSSMScan, dt, a, b, c, state)
}

// Correction sets the correction of DeltaRule: S + (S a) bᵀ. a and b are [..., T, G, K].
type Correction struct{ A, B Tensor }

// DeltaRule is linear attention of queries t [..., T, G, K] with a state that decays and is corrected; op delta_rule
// defines it. k is [..., T, G, K], v [..., T, H, V], decay, a logarithm, [..., T, H, K] or [..., T, H, 1], and state
// [..., H, V, K]. It returns y, in the shape of v, and the next call's state.
func (t Tensor) DeltaRule(k, v, decay, state Tensor, corrections ...Correction) (y, last Tensor) {
	args := []Tensor{k, v, decay, state}
	for _, c := range corrections {
		args = append(args, c.A, c.B)
	}
	return t.recurrence(ir.OpDeltaRule, args...)
}

// recurrence adds both results of a recurrence.
func (t Tensor) recurrence(op ir.Op, args ...Tensor) (y, last Tensor) {
	return t.apply(op, args), t.apply(op, args, attr("of", "state"))
}
