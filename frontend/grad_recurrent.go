package frontend

import "github.com/vkc-go/vkc/ir"

// causalConv1DOf defines causal_conv1d by other ops.
func causalConv1DOf(c GradCall) Tensor {
	x, w, state := c.Args[0].wide(), c.Args[1].wide(), c.Args[2].wide()
	rank, times, size := x.Rank(), x.Dim(-2), w.Dim(1).Static()
	z := state.Concat(rank-2, x)
	if c.Attrs.String_("of") == "state" {
		return z.rowsFrom(times, size-1)
	}
	var y Tensor
	for k := range size {
		part := z.Slice(rank-2, k, times.Plus(int64(k))).Mul(w.Index(1, k))
		if y.IsZero() {
			y = part
		} else {
			y = y.Add(part)
		}
	}
	return y
}

// rowsFrom returns n rows of the second axis from the end, from the first one on.
func (t Tensor) rowsFrom(first ir.Dim, n int) Tensor {
	axis := t.Rank() - 2
	if first.IsStatic() {
		return t.Slice(axis, first.Static(), first.Plus(int64(n)))
	}
	return t.IndexSelect(axis, t.b.Iota(ir.I32, 0, n).Add(t.b.DimValue(first)))
}

// scanOf defines ssm_scan and delta_rule by a scan over the times.
func scanOf(c GradCall) Tensor {
	args := make([]Tensor, len(c.Args))
	for i, a := range c.Args {
		args[i] = a.wide()
	}
	op := c.Result.node.Op()
	state := args[op.Info().Arg("state")]
	rank, heads := state.Rank(), state.Dim(-3)
	// The scan is over the times, so they come first.
	first := func(x Tensor) Tensor {
		perm := []int{rank - 3}
		for axis := range x.Rank() {
			if axis != rank-3 {
				perm = append(perm, axis)
			}
		}
		return x.Transpose(perm...)
	}
	// vectors repeats keys or queries [..., T, groups, K] for the heads of their group: [..., T, H, 1, K].
	vectors := func(x Tensor) Tensor {
		each, _ := heads.Quo(x.Dim(-2).Add) // heads of a group
		s := x.Shape()
		x = x.Unsqueeze(-2).Broadcast(s[:len(s)-1], each, s[len(s)-1]).Reshape(s[:len(s)-2], heads, 1, s[len(s)-1])
		return first(x)
	}
	var q, k, v, decay Tensor
	var xs []Tensor
	if op == ir.OpSSMScan {
		dt := args[1].Unsqueeze(-1)
		q, k, v, decay = vectors(args[4]), vectors(args[3]), args[0].Mul(dt), dt.Mul(args[2])
	} else {
		q, k, v, decay = vectors(args[0]), vectors(args[1]), args[2], args[3]
	}
	xs = []Tensor{q, k, first(v.Unsqueeze(-1)), first(decay.Unsqueeze(-2).Exp())}
	if len(args) == 7 && op == ir.OpDeltaRule {
		xs = append(xs, vectors(args[5]), vectors(args[6]))
	}
	last, ys := c.Grad.b.Scan([]Tensor{state}, xs, func(carried, x []Tensor) (next, outs []Tensor) {
		s := carried[0]
		more := s.Mul(x[3])
		if len(x) > 4 {
			more = more.Add(s.Mul(x[4]).SumKeep(-1).Mul(x[5]))
		}
		s = more.Add(x[2].Mul(x[1]))
		return []Tensor{s}, []Tensor{s.Mul(x[0]).Sum(-1)}
	})
	if c.Attrs.String_("of") == "state" {
		return last[0]
	}
	perm := make([]int, 0, rank) // the times return to their place
	for axis := 1; axis < rank; axis++ {
		if len(perm) == rank-3 {
			perm = append(perm, 0)
		}
		perm = append(perm, axis)
	}
	return ys[0].Transpose(perm...)
}

// init adds the gradient rules of the recurrences.
func init() {
	gradRows(map[ir.Op]gradRule{
		ir.OpCausalConv1D: definedBy(causalConv1DOf),
		ir.OpSSMScan:      definedBy(scanOf),
		ir.OpDeltaRule:    definedBy(scanOf),
	})
}
