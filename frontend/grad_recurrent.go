package frontend

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// causalConv1DOf defines causal_conv1d by other ops.
func causalConv1DOf(c GradCall) Tensor {
	x, w, state := c.Args[0].wide(), c.Args[1].wide(), c.Args[2].wide()
	rank, times, size := x.Rank(), x.Dim(-2), w.Dim(1).Static()
	z := state.Concat(rank-2, x) // [..., size-1+T, C]: each time is preceded by the inputs that it reads
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

// rowsFrom returns n rows of t [..., rows, columns], from row first on.
func (t Tensor) rowsFrom(first ir.Dim, n int) Tensor {
	axis := t.Rank() - 2
	if first.IsStatic() {
		return t.Slice(axis, first.Static(), first.Plus(int64(n)))
	}
	return t.IndexSelect(axis, t.b.Iota(ir.I32, 0, n).Add(t.b.DimValue(first)))
}

// scanOf builds ssm_scan and delta_rule from a scan over the times.
func scanOf(c GradCall) Tensor {
	args := make([]Tensor, len(c.Args))
	for i, a := range c.Args {
		args[i] = a.wide()
	}
	op := c.Result.node.Op()
	arg := func(name string) Tensor { return args[op.Info().Arg(name)] }
	state := arg("state")
	rank, heads := state.Rank(), state.Dim(-3)
	// timesFirst moves the axis of times to the front, because the scan is over it.
	timesFirst := func(x Tensor) Tensor {
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
		perGroup, _ := heads.Quo(x.Dim(-2).Add)
		s := x.Shape()
		x = x.Unsqueeze(-2).Broadcast(s[:len(s)-1], perGroup, s[len(s)-1]).Reshape(s[:len(s)-2], heads, 1, s[len(s)-1])
		return timesFirst(x)
	}
	var q, k, v, decay Tensor // ssm_scan is delta_rule with q = c, k = b, v = dt*x and decay = dt*a
	if op == ir.OpSSMScan {
		dt := arg("dt").Unsqueeze(-1)
		q, k, v, decay = vectors(arg("c")), vectors(arg("b")), arg("x").Mul(dt), dt.Mul(arg("a"))
	} else {
		q, k, v, decay = vectors(arg("q")), vectors(arg("k")), arg("v"), arg("decay")
	}
	xs := []Tensor{q, k, timesFirst(v.Unsqueeze(-1)), timesFirst(decay.Unsqueeze(-2).Exp())}
	corrects := op == ir.OpDeltaRule && len(args) == len(op.Info().Args) // the optional arguments a and b are there
	if corrects {
		xs = append(xs, vectors(arg("a")), vectors(arg("b")))
	}
	last, ys := c.Grad.b.Scan([]Tensor{state}, xs, func(carried, x []Tensor) (next, outs []Tensor) {
		s := carried[0]
		q, k, v, decay := x[0], x[1], x[2], x[3]
		decayed := s.Mul(decay)
		if corrects {
			a, b := x[4], x[5]
			decayed = decayed.Add(s.Mul(a).SumKeep(-1).Mul(b))
		}
		s = decayed.Add(v.Mul(k))
		return []Tensor{s}, []Tensor{s.Mul(q).Sum(-1)}
	})
	if c.Attrs.String_("of") == "state" {
		return last[0]
	}
	var perm []int // moves the axis of times, 0 in ys, back to rank-3
	for axis := 1; axis < rank; axis++ {
		perm = append(perm, axis)
	}
	return ys[0].Transpose(slices.Insert(perm, rank-3, 0)...)
}

// init adds the gradient rules of the recurrences.
func init() {
	gradRows(map[ir.Op]gradRule{
		ir.OpCausalConv1D: definedBy(causalConv1DOf),
		ir.OpSSMScan:      definedBy(scanOf),
		ir.OpDeltaRule:    definedBy(scanOf),
	})
}
