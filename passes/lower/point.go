package lower

import (
	"errors"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// pointwise returns the element at coordinates at of a node that needs no loop: it is computed from a fixed number of
// elements of the node's arguments.
func (l *lowerer) pointwise(n *ir.Node, at []kernel.Index) *kernel.Expr {
	switch n.Op() {
	case ir.OpReshape, ir.OpSqueeze, ir.OpUnsqueeze:
		return l.value(n.Arg(0), reshaped(n.Arg(0).Shape(), n.Shape(), at))
	case ir.OpTranspose:
		return l.value(n.Arg(0), transposed(n, at))
	case ir.OpSlice:
		return l.value(n.Arg(0), sliced(n, at))
	case ir.OpBroadcast:
		return l.value(n.Arg(0), broadcastCoords(n.Arg(0).Shape(), at))
	case ir.OpFlip:
		return l.value(n.Arg(0), flipped(n, at))
	case ir.OpRoll:
		return l.value(n.Arg(0), l.rolled(n, at))
	case ir.OpGather, ir.OpIndexSelect, ir.OpEmbedding:
		return l.indexed(n, at)
	case ir.OpConcat:
		return l.concat(n, at)
	case ir.OpPad:
		return l.pad(n, at)
	case ir.OpDynamicSlice:
		return l.dynamicSlice(n, at)
	case ir.OpDynamicUpdateSlice:
		return l.updateSlice(n, at)
	case ir.OpDequantize:
		v := l.value(n.Arg(0), at)
		return l.b.Cast(n.DType(), v)
	case ir.OpAfter:
		l.waitFor(n.Arg(1))
		return l.value(n.Arg(0), broadcastCoords(n.Arg(0).Shape(), at))
	case ir.OpBitcast:
		v := l.value(n.Arg(0), at)
		return l.b.Apply(ir.OpBitcast, n.DType(), n.Attrs(), l.b.Cast(n.Arg(0).DType(), v)) // of the rounded value
	case ir.OpRandomUniform, ir.OpRandomNormal, ir.OpRandomBernoulli:
		return l.random(n, at)
	case ir.OpRope:
		return l.rope(n, at)
	case ir.OpResizeNearest, ir.OpResizeLinear, ir.OpResizeCubic:
		return l.resize(n, at)
	}
	bailout.Unless(n.Op().Class() == ir.ClassElementwise, "%s has no lowering", n.Op())
	return l.elementwise(n, at)
}

// elementwise is pointwise for an elementwise op.
func (l *lowerer) elementwise(n *ir.Node, at []kernel.Index) *kernel.Expr {
	args := make([]*kernel.Expr, len(n.Args()))
	for i, a := range n.Args() {
		args[i] = l.value(a, broadcastCoords(a.Shape(), at))
	}
	attrs := n.Attrs()
	// A later op rounds this quotient to an integer or a narrow float, so it must be the nearest number.
	if (n.Op() == ir.OpDiv || n.Op() == ir.OpRecip) && n.DType().IsFloat() && l.f.stepped[n] {
		attrs = ir.Attrs{{Name: kernel.Nearest, Value: true}}
	}
	return l.b.Apply(n.Op(), computedIn(n), attrs, args...)
}

// waitFor makes the kernel run after the kernels that compute n, without loading n. If no kernel stores n, it waits for
// the kernels that compute n's arguments.
func (l *lowerer) waitFor(n *ir.Node) {
	if l.waits[n] {
		return
	}
	l.waits[n] = true
	switch h := l.f.storedBy[n.ID()]; {
	case h == l.c && h != nil || l.f.core[n.ID()] == l.c: // the kernel would wait for itself
		bailout.Check(errAfterItself)
	case h != nil:
		l.k.After = append(l.k.After, l.f.bufferNode(n).ID())
	case !analysis.IsLeaf(n):
		for _, a := range n.Args() {
			l.waitFor(a)
		}
	}
}

// errAfterItself means that a kernel would have to run after itself.
var errAfterItself = errors.New("the next op waits for all of it")

// computedIn returns the dtype in which a kernel computes an elementwise op: f32 for narrower floats, unless the op is
// exact in the narrow dtype.
func computedIn(n *ir.Node) ir.DType {
	t := n.DType()
	if t.IsFloat() && t.BlockBytes() < ir.F32.BlockBytes() && n.Op() != ir.OpCast &&
		!n.Op().Info().IsExact(t, n.Attrs()) {
		return ir.F32
	}
	return t
}

// broadcastCoords maps coordinates in a result to coordinates in an argument of shape s that is broadcast to it.
func broadcastCoords(s ir.Shape, at []kernel.Index) []kernel.Index {
	out := slices.Clone(at[len(at)-len(s):])
	for i, d := range s {
		if d.Is(1) {
			out[i] = kernel.Const(0)
		}
	}
	return out
}

// transposed returns the coordinates at which transpose n reads its argument.
func transposed(n *ir.Node, at []kernel.Index) []kernel.Index {
	out := make([]kernel.Index, len(at))
	for i, p := range n.Attrs().Ints("perm") {
		out[p] = at[i]
	}
	return out
}

// sliced returns the coordinates at which slice n reads its argument.
func sliced(n *ir.Node, at []kernel.Index) []kernel.Index {
	starts, steps := n.Attrs().Ints("starts"), n.Attrs().Ints("steps")
	out := make([]kernel.Index, len(at))
	for i, x := range at {
		if len(steps) > 0 {
			x = x.Times(steps[i])
		}
		out[i] = x.Plus(kernel.Const(starts[i]))
	}
	return out
}

// flipped returns the coordinates at which flip n reads its argument.
func flipped(n *ir.Node, at []kernel.Index) []kernel.Index {
	axes, _ := ir.ResolveAxes(n.Attrs().Ints("axes"), len(at)) // the shape rule has checked it
	out := slices.Clone(at)
	for i, d := range n.Shape() {
		if axes[i] {
			// The clamp only matters if the axis is empty.
			out[i] = kernel.Clamp(kernel.Last(d).Minus(at[i]), kernel.Last(d))
		}
	}
	return out
}

// rolled returns (i-shift) mod extent for coordinate i along each axis. If the extent is a number, the dividend is made
// non-negative. If it is a symbol, the kernel computes a signed modulo.
func (l exprs) rolled(n *ir.Node, at []kernel.Index) []kernel.Index {
	out := slices.Clone(at)
	for i, d := range n.Shape() {
		shift := n.Attrs().Ints("shifts")[i]
		switch {
		case shift == 0:
		case d.IsStatic():
			if d.Add > 0 { // an empty axis has no coordinates
				_, out[i] = at[i].Plus(kernel.Const(((-shift)%d.Add + d.Add) % d.Add)).DivMod(d)
			}
		default:
			length := l.b.FromIndex(kernel.DimIndex(d))
			mod := func(v *kernel.Expr) *kernel.Expr { return l.i32(ir.OpMod, v, length) }
			moved := l.i32(ir.OpSub, l.b.FromIndex(at[i]), mod(l.b.Integer(ir.I32, shift)))
			out[i] = l.indexOf(mod(moved), kernel.Last(d))
		}
	}
	return out
}

// indexed returns an element of a gather, index_select or embedding: one coordinate in x is an element of an index
// tensor.
func (l *lowerer) indexed(n *ir.Node, at []kernel.Index) *kernel.Expr {
	x, idx := n.Arg(0), n.Arg(1)
	var idxAt, xAt []kernel.Index
	axis := 0
	if n.Op() == ir.OpEmbedding {
		idxAt = at[:len(at)-1]
		xAt = []kernel.Index{{}, at[len(at)-1]} // the row is set below
	} else {
		axis = analysis.Axis(n)
		idxAt, xAt = at, slices.Clone(at)
		if n.Op() == ir.OpIndexSelect {
			idxAt = at[axis : axis+1]
		}
	}
	xAt[axis] = l.indexOf(l.value(idx, idxAt), kernel.Last(x.Shape()[axis]))
	return l.b.Cast(n.DType(), l.value(x, xAt))
}

// inside returns the condition lo <= x < hi.
func (l exprs) inside(x, lo, hi kernel.Index) *kernel.Expr {
	test := func(op ir.Op, a, b kernel.Index) *kernel.Expr {
		return l.is(op, l.b.FromIndex(a), l.b.FromIndex(b))
	}
	return l.is(ir.OpAnd, test(ir.OpGe, x, lo), test(ir.OpLt, x, hi))
}

// and returns the condition that a and b hold. nil stands for a condition that always holds.
func (l exprs) and(a, b *kernel.Expr) *kernel.Expr {
	switch {
	case b.Kind == kernel.ExprConst && b.Int != 0:
		return a
	case a == nil:
		return b
	}
	return l.is(ir.OpAnd, a, b)
}

// where returns a if cond is true, else b. The kernel may load both, so their coordinates must be in range in any case.
func (l exprs) where(cond, a, b *kernel.Expr, t ir.DType) *kernel.Expr {
	if cond.Kind == kernel.ExprConst {
		if cond.Int != 0 {
			return a
		}
		return b
	}
	return l.op(ir.OpWhere, t, cond, a, b)
}

// concat returns the element of a concat at coordinates `at`: a choice among its arguments by the coordinate along the
// axis.
func (l *lowerer) concat(n *ir.Node, at []kernel.Index) *kernel.Expr {
	axis := analysis.Axis(n)
	parts := argRange{0, len(n.Args())}
	if l.only != (argRange{}) && n == l.c.tails[0] {
		parts = l.only
	}
	ends := make([]kernel.Index, len(n.Args()))
	sum := kernel.Const(0)
	for i, a := range n.Args() {
		sum = sum.Plus(kernel.DimIndex(a.Shape()[axis]))
		ends[i] = sum
	}
	// The expression is: part 0 below its end, else part 1 below its end, and so on. It is built from the last part.
	var out *kernel.Expr
	for i := parts.end - 1; i >= parts.first; i-- {
		part := n.Arg(i)
		if part.Shape()[axis].Is(0) {
			continue
		}
		begin := ends[i].Minus(kernel.DimIndex(part.Shape()[axis]))
		from := slices.Clone(at)
		from[axis] = kernel.Clamp(at[axis].Minus(begin), kernel.Last(part.Shape()[axis]))
		v := l.value(part, from)
		if out == nil {
			out = v
			continue
		}
		out = l.where(l.is(ir.OpLt, l.b.FromIndex(at[axis]), l.b.FromIndex(ends[i])), v, out, n.DType())
	}
	if out == nil { // all parts are empty, so no element is ever computed
		out = l.b.Number(n.DType(), 0)
	}
	return out
}

// pad returns the element of a pad at coordinates `at`. In mode constant it is an element of the argument, or the
// padding value outside of it. The other modes mirror, repeat or wrap coordinates outside of the argument back into it.
func (l *lowerer) pad(n *ir.Node, at []kernel.Index) *kernel.Expr {
	x, low := n.Arg(0), n.Attrs().Ints("low")
	if mode := n.Attrs().String_("mode"); mode != "constant" {
		from := make([]kernel.Index, len(at))
		for i, d := range x.Shape() {
			from[i] = l.mirrored(at[i].Minus(kernel.Const(low[i])), d, mode)
		}
		return l.value(x, from)
	}
	from := make([]kernel.Index, len(at))
	var inside *kernel.Expr
	for i, d := range x.Shape() {
		if low[i] == 0 && n.Attrs().Ints("high")[i] == 0 { // no padding along this axis
			from[i] = at[i]
			continue
		}
		// The load happens outside of the argument too, before where replaces its value, so it must stay in bounds.
		lo := kernel.Const(low[i])
		from[i] = kernel.Clamp(at[i].Minus(lo), kernel.Last(d))
		inside = l.and(inside, l.inside(at[i], lo, lo.Plus(kernel.DimIndex(d))))
	}
	fill := l.b.Number(n.DType(), n.Attrs().Float("value"))
	if x.Shape().MaxElems() == 0 { // there is no element to load
		return fill
	}
	v := l.value(x, from)
	if inside == nil {
		return v
	}
	return l.where(inside, v, fill, n.DType())
}

// mirrored returns the coordinate of the element that padding repeats at coordinate c, for the modes that pad with
// elements of the tensor itself. c may be outside of the axis, which has extent d.
func (l exprs) mirrored(c kernel.Index, d ir.Dim, mode string) kernel.Index {
	clamped := kernel.Clamp(c, kernel.Last(d))
	if mode == "replicate" || clamped.Equal(c) {
		return clamped
	}
	if mode == "wrap" {
		on := l.i32(ir.OpMod, l.b.FromIndex(c), l.b.FromIndex(kernel.DimIndex(d)))
		return l.indexOf(on, kernel.Last(d))
	}
	// Reflections have the period 2*(d-1): if m is the coordinate in a period, the element is (d-1) - |m - (d-1)|. A
	// single element has period 0, and x mod 0 is 0.
	end := l.b.FromIndex(kernel.Last(d))
	m := l.i32(ir.OpMod, l.b.FromIndex(c), l.b.FromIndex(kernel.Last(d).Times(2)))
	return l.indexOf(l.i32(ir.OpSub, end, l.i32(ir.OpAbs, l.i32(ir.OpSub, m, end))), kernel.Last(d))
}

// dynamicSlice returns an element of a dynamic_slice.
func (l *lowerer) dynamicSlice(n *ir.Node, at []kernel.Index) *kernel.Expr {
	x := n.Arg(0)
	axis := analysis.Axis(n)
	start := l.value(n.Arg(1), nil)
	room := kernel.DimIndex(x.Shape()[axis]).Minus(kernel.DimIndex(n.Shape()[axis]))
	from := slices.Clone(at)
	from[axis] = from[axis].Plus(l.indexOf(start, room))
	return l.value(x, from)
}

// updateSlice returns an element of a dynamic_update_slice that makes a copy. It is an element of the update if the
// coordinate is in the updated range, and of the base otherwise. The kernel reads both, so it clamps the coordinate in
// the update.
func (l *lowerer) updateSlice(n *ir.Node, at []kernel.Index) *kernel.Expr {
	base, upd := n.Arg(0), n.Arg(1)
	axis := analysis.Axis(n)
	old := l.value(base, at)
	if upd.Shape()[axis].Is(0) {
		return old
	}
	start := l.startIndex(n, axis)
	from, position, begin := slices.Clone(at), at[axis], start
	if n.Attrs().Bool("wrap") { // distance along the ring from the start
		ring := n.Shape()[axis] // is added so that no dividend is negative
		_, position = position.Plus(kernel.DimIndex(ring)).Minus(start).DivMod(ring)
		begin = kernel.Const(0)
	}
	from[axis] = kernel.Clamp(position.Minus(begin), kernel.Last(upd.Shape()[axis]))
	v := l.value(upd, from)
	in := l.inside(position, begin, begin.Plus(kernel.DimIndex(upd.Shape()[axis])))
	return l.where(in, v, old, n.DType())
}
