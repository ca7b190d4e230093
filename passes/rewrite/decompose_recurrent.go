package rewrite

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// The number of elements of a window of causal_conv1d up to which one kernel of elementwise ops computes it.
const fewTaps = 16

// causalConv1D decomposes causal_conv1d into sums of shifted rows, or for long windows into a convolution.
func (r *rewriter) causalConv1D(n *ir.Node, args []*ir.Node) *ir.Node {
	x, w, state := args[0], args[1], args[2]
	s, size := x.Shape(), w.Shape()[1].Add
	axis := len(s) - 2
	after := func(k int64) *ir.Node { // the state from row k on, and x
		if k == size-1 {
			return x
		}
		return r.concat(axis, r.rowsFrom(state, axis, k, ir.Dim{Add: size - 1 - k}), x)
	}
	if n.Attrs().String_("of") == "state" {
		if t := s[axis]; t.IsStatic() {
			k := min(t.Add, size-1) // so that no row of the result is before k
			return r.rowsFrom(after(k), axis, t.Add-k, ir.Dim{Add: size - 1})
		}
		at := r.binary(ir.OpAdd, r.iota(ir.Shape{ir.Dim{Add: size - 1}}, 0), r.dimValue(s[axis]))
		return r.onAxis(ir.OpIndexSelect, axis, after(0), at)
	}
	args = r.widened(args)
	x, w, state = args[0], args[1], args[2]
	if size > fewTaps {
		batch := r.numel(s[:axis])
		z := r.swapAxes(r.reshape(after(0), ir.Shape{batch, s[axis].Plus(size - 1), s[axis+1]}), 1, 2)
		y := r.add(ir.OpConv, []*ir.Node{z, r.reshape(w, ir.Shape{s[axis+1], ir.D(1), w.Shape()[1]})},
			attr("groups", s[axis+1].Add))
		return r.castTo(r.reshape(r.swapAxes(y, 1, 2), s), n.DType())
	}
	var y *ir.Node
	for k := range size { // each tap has a concat of its own, which costs nothing as no other op reads it
		tap := r.reshape(r.sliceAxis(w, 1, k, k+1), ir.Shape{s[axis+1]})
		part := r.binary(ir.OpMul, r.rowsFrom(after(k), axis, 0, s[axis]), tap)
		if y == nil {
			y = part
		} else {
			y = r.binary(ir.OpAdd, y, part)
		}
	}
	return r.castTo(y, n.DType())
}

// rowsFrom returns rows first to first+count-1 of x along an axis.
func (r *rewriter) rowsFrom(x *ir.Node, axis int, first int64, count ir.Dim) *ir.Node {
	starts, limits := make([]int64, x.Rank()), slices.Clone(x.Shape())
	starts[axis], limits[axis] = first, count.Plus(first)
	return r.slice(x, starts, limits)
}

// scan decomposes ssm_scan and delta_rule into a kernel of recurrence_ops.go. One step alone is elementwise ops and
// sums, which fuse.
func (r *rewriter) scan(n *ir.Node, args []*ir.Node) *ir.Node {
	args = r.widened(args)
	state := args[n.Op().Info().Arg("state")]
	s := state.Shape()
	outer := len(s) - 3
	batch, heads, values, keys := r.numel(s[:outer]), s[outer], s[outer+1], s[outer+2]
	x := map[bool]int{true: 0, false: 2}[n.Op() == ir.OpSSMScan]
	times := args[x].Shape()[outer]
	flat := func(x *ir.Node) *ir.Node { // [batch, times, _, _]
		return r.reshape(x, append(ir.Shape{batch, times}, x.Shape()[x.Rank()-2:]...))
	}
	t, list := state.DType(), make([]*ir.Node, 0, 9)
	scale := r.fill(t, 1, ir.ShapeOf(1, 1, 1, 1)) // of v
	if n.Op() == ir.OpSSMScan {
		dt := r.reshape(args[1], ir.Shape{batch, times, heads, ir.D(1)})
		scale = dt
		list = append(list, flat(args[4]), flat(args[3]), flat(args[0]), dt, args[2])
	} else {
		list = append(list, flat(args[0]), flat(args[1]), flat(args[2]), flat(args[3]), r.fill(t, 1, ir.ShapeOf(1, 1)))
	}
	list = append(list, state, scale)
	for _, a := range args[min(5, len(args)):] {
		if n.Op() == ir.OpDeltaRule {
			list = append(list, flat(a))
		}
	}
	of := n.Attrs().String_("of")
	var y *ir.Node
	if times.Is(1) {
		list[5] = r.reshape(state, ir.Shape{batch, heads, values, keys})
		y = r.oneStep(list, of == "state")
	} else {
		if t == ir.F64 {
			list[3] = r.unary(ir.OpExp, r.binary(ir.OpMul, list[3], list[4]))
			list[4] = r.fill(t, 1, ir.ShapeOf(1, 1))
		}
		list[5] = r.reshape(state, ir.Shape{r.numel(s[:outer+2]), keys})
		op := scansOf(t).plain
		if len(list) > 7 {
			op = scansOf(t).corrected
		}
		y = r.add(op, list, attr("output", int64(map[string]int{"y": 0, "state": 1}[of])))
	}
	return r.castTo(r.reshape(y, n.Shape()), n.DType())
}

// oneStep computes one time of a scan: the new state [B, H, V, K], or y [B, H, V, 1]. Fusion makes one kernel of both,
// which reads the old state once and stores the new one as it adds up y.
func (r *rewriter) oneStep(args []*ir.Node, wantState bool) *ir.Node {
	state := args[5]
	s := state.Shape()
	vector := func(x *ir.Node) *ir.Node { // [B, H, 1, K]
		g, k := x.Shape()[2], x.Shape()[3]
		if g != s[1] {
			each, _ := s[1].Quo(g.Add)
			x = r.broadcast(r.reshape(x, ir.Shape{s[0], g, ir.D(1), k}), ir.Shape{s[0], g, each, k})
		}
		return r.reshape(x, ir.Shape{s[0], s[1], ir.D(1), k})
	}
	mul := func(a, b *ir.Node) *ir.Node { return r.binary(ir.OpMul, a, b) }
	sum := func(x *ir.Node) *ir.Node {
		return r.unary(ir.OpSum, x, attr("axes", []int64{3}), attr("keepdims", true))
	}
	q, k, v := vector(args[0]), vector(args[1]), r.reshape(mul(args[2], args[6]), ir.Shape{s[0], s[1], s[2], ir.D(1)})
	rate := r.reshape(args[4], ir.Shape{args[4].Shape()[0], ir.D(1), args[4].Shape()[1]})
	decay := r.unary(ir.OpExp, mul(vector(args[3]), rate))
	next := r.binary(ir.OpAdd, mul(state, decay), mul(v, k))
	if len(args) > 7 {
		next = r.binary(ir.OpAdd, next, mul(sum(mul(state, vector(args[7]))), vector(args[8])))
	}
	if wantState {
		return next
	}
	return sum(mul(next, q))
}
