package lower

import (
	"cmp"
	"math"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
)

// minConvRows is the smallest number of output channels per group for which a convolution is lowered to a matmul. With
// fewer (a depthwise convolution has one) most of a tile would be padding, and a row kernel with one fold per result is
// better.
const minConvRows = 4

// isWindowRow reports whether n is lowered to a row kernel with a fold for each result. These are poolings (the fold is
// over a window), convolutions with few channels per group, and matmuls and convolutions in f64, because the kernels of
// matmuls sum in f32.
func isWindowRow(n *ir.Node) bool {
	switch n.Op() {
	case ir.OpAvgPool, ir.OpMaxPool:
		return true
	case ir.OpConv, ir.OpConvTranspose:
		return n.DType() == ir.F64 || n.Shape()[1].Add < minConvRows*int64(n.Attrs().Int("groups"))
	case ir.OpMatMul, ir.OpMatMulID:
		return n.DType() == ir.F64
	}
	return false
}

// isPool reports whether n is a pooling.
func isPool(n *ir.Node) bool { return n.Op() == ir.OpAvgPool || n.Op() == ir.OpMaxPool }

// isMatMul reports whether n is a matmul or an expert matmul.
func isMatMul(n *ir.Node) bool { return n.Op().Class() == ir.ClassContraction }

// windowsShare reports whether several results of n read the same element of the argument. n is lowered to a row kernel
// (see isWindowRow).
func windowsShare(n *ir.Node) bool {
	if isMatMul(n) {
		return true
	}
	w := ir.WindowOf(n)
	for axis, kernel := range w.Kernel {
		if n.Op() == ir.OpConvTranspose && kernel > 1 || kernel > w.Stride[axis] {
			return true
		}
	}
	return !isPool(n) && n.Shape()[1].Add > int64(n.Attrs().Int("groups")) // all results of a group read its channels
}

// isConv reports whether n is a convolution that is lowered to a matmul.
func isConv(n *ir.Node) bool {
	return (n.Op() == ir.OpConv || n.Op() == ir.OpConvTranspose) && !isWindowRow(n)
}

// tap is the element of the argument that one element of a window reads: its spatial coordinates, clamped to the
// argument, and the condition that they were in range. Out of range, the window reads padding.
type tap struct {
	at     []kernel.Index
	inside *kernel.Expr // nil if they are always in range
}

// forwardTap returns the tap of window element k for result out of a convolution or pooling: out*stride - low +
// k*dilation along each axis.
func (l *lowerer) forwardTap(n *ir.Node, out, k []kernel.Index) tap {
	w := ir.WindowOf(n)
	dims := n.Arg(0).Shape()[n.Rank()-len(w.Kernel):]
	var t tap
	for i, d := range dims {
		t.add(l, out[i].Times(w.Stride[i]).Plus(k[i].Times(w.Dilation[i])).Minus(kernel.Const(w.Low[i])), d)
	}
	return t
}

// add appends coordinate x along the next axis of the argument, which has extent d.
func (t *tap) add(l *lowerer, x kernel.Index, d ir.Dim) {
	t.at = append(t.at, kernel.Clamp(x, kernel.Last(d)))
	t.inside = l.and(t.inside, l.inside(x, kernel.Const(0), kernel.DimIndex(d)))
}

// backwardTap returns the tap of window element k for result out of a transposed convolution: the i with i*stride - low
// + k*dilation = out along each axis, if there is one.
func (l *lowerer) backwardTap(n *ir.Node, out, k []kernel.Index) tap {
	w := ir.WindowOf(n)
	var t tap
	for i, d := range n.Arg(0).Shape()[2:] {
		// x is i*stride. A tap exists only if i = x/stride is whole and within the argument.
		x := out[i].Plus(kernel.Const(w.Low[i])).Minus(k[i].Times(w.Dilation[i]))
		if w.Stride[i] == 1 {
			t.add(l, x, d)
			continue
		}
		v, stride, zero := l.b.FromIndex(x), l.b.Integer(ir.I32, w.Stride[i]), l.b.Integer(ir.I32, 0)
		quo := l.i32(ir.OpDiv, v, stride)
		t.at = append(t.at, l.indexOf(quo, kernel.Last(d)))
		t.inside = l.and(t.inside, l.is(ir.OpGe, v, zero))
		t.inside = l.and(t.inside, l.is(ir.OpEq, l.i32(ir.OpRem, v, stride), zero))
		t.inside = l.and(t.inside, l.is(ir.OpLt, quo, l.b.FromIndex(kernel.DimIndex(d))))
	}
	return t
}

// tapValue returns the element of x at a tap, or the number `outside` if the tap is in the padding. outer are the batch
// and channel coordinates.
func (l *lowerer) tapValue(x *ir.Node, outer []kernel.Index, t tap, outside float64) *kernel.Expr {
	if x.Shape().MaxElems() == 0 { // the buffer is too small for an index clamped to an empty range
		return l.b.Number(x.DType(), outside)
	}
	v := l.value(x, slices.Concat(outer, t.at))
	if t.inside == nil {
		return v
	}
	return l.where(t.inside, v, l.b.Number(v.DType, outside), v.DType)
}

// lowerWindowRow makes a row kernel in which each row has the terms of one result, such as a window.
func (l *lowerer) lowerWindowRow(n *ir.Node) {
	l.k.Family = kernel.FamilyRow
	l.space = n.Shape()
	l.kept = l.parallel(l.space)
	l.at = l.kept
	rows := termsOf(n)
	l.k.Fold = numel(rows)
	fold := kernel.Unflatten(rows, kernel.Axis(l.k.FoldAxis(), l.k.Fold))
	combine, name := kernel.CombineSum, "window_sum"
	var v *kernel.Expr
	switch {
	case isMatMul(n):
		v, name = l.matmulTerm(n, fold[0]), "acc"
	case isPool(n):
		v = l.poolTerm(n, fold)
	default:
		v = l.convTerm(n, l.kept, fold)
	}
	if n.Op() == ir.OpMaxPool {
		combine, name = kernel.CombineMax, "window_max"
	}
	l.accs[n] = []*kernel.Expr{l.phase(combine, v, name)}
	l.storeResults(perPoint)
}

// termsOf returns the shape of the terms that n folds for each result.
func termsOf(n *ir.Node) (s ir.Shape) {
	switch {
	case n.Op() == ir.OpMatMulID:
		return ir.Shape{n.Arg(0).Shape()[2]}
	case isMatMul(n):
		return ir.Shape{contraction(n)}
	case !isPool(n):
		s = ir.Shape{perGroup(n)}
	}
	for _, k := range ir.WindowOf(n).Kernel {
		s = append(s, ir.Dim{Add: k})
	}
	return s
}

// matmulTerm returns element k of the contraction of a matmul or expert matmul, for the result at l.at.
func (l *lowerer) matmulTerm(n *ir.Node, k kernel.Index) *kernel.Expr {
	var x, w *kernel.Expr
	a, b := n.Arg(0), n.Arg(1)
	if n.Op() == ir.OpMatMulID {
		expert := l.indexOf(l.value(n.Arg(2), l.at[:2]), kernel.Last(b.Shape()[0]))
		x = l.value(a, broadcastCoords(a.Shape(), []kernel.Index{l.at[0], l.at[1], k}))
		w = l.value(b, []kernel.Index{expert, l.at[2], k})
	} else {
		inner := len(l.at) - 2
		x = l.value(a, operandCoords(a.Shape(), l.at[:inner], l.at[inner], k, n.Attrs().Bool("transpose_a")))
		w = l.value(b, operandCoords(b.Shape(), l.at[:inner], k, l.at[inner+1], n.Attrs().Bool("transpose_b")))
	}
	return l.product(n, x, w)
}

// product returns x*w in the dtype in which n sums such terms.
func (l exprs) product(n *ir.Node, x, w *kernel.Expr) *kernel.Expr {
	t := kernel.AccType(n.DType())
	if t.IsInteger() {
		x, w = l.b.Cast(t, x), l.b.Cast(t, w)
	}
	return l.op(ir.OpMul, t, x, w)
}

// poolTerm returns element k of a pooling window. In the padding it is -Inf for a maximum or 0 for an average.
func (l *lowerer) poolTerm(n *ir.Node, k []kernel.Index) *kernel.Expr {
	outer := n.Rank() - len(k)
	outside := 0.0
	if n.Op() == ir.OpMaxPool {
		outside = math.Inf(-1)
	}
	return l.tapValue(n.Arg(0), l.kept[:outer], l.forwardTap(n, l.kept[outer:], k), outside)
}

// pooled returns the result of pooling n from the fold of its window: the maximum, or the sum divided by the count.
func (l *lowerer) pooled(n *ir.Node, acc *kernel.Expr) *kernel.Expr {
	if n.Op() == ir.OpMaxPool {
		return l.b.Cast(n.DType(), acc)
	}
	w := ir.WindowOf(n)
	outer := n.Rank() - len(w.Kernel)
	count := l.b.Integer(ir.I32, 1)
	// i32 applies an op, but adds no code to the kernel if both arguments are constants.
	i32 := func(op ir.Op, a, b *kernel.Expr) *kernel.Expr {
		if a.Kind == kernel.ExprConst && b.Kind == kernel.ExprConst {
			return l.b.Integer(ir.I32, op.Info().Int([]int64{a.Int, b.Int}, nil))
		}
		return l.i32(op, a, b)
	}
	for i, d := range n.Arg(0).Shape()[outer:] {
		first, end := kernel.Const(0), kernel.DimIndex(d)
		if n.Attrs().Bool("count_include_pad") {
			first, end = first.Minus(kernel.Const(w.Low[i])), end.Plus(kernel.Const(w.High[i]))
		}
		begin := l.kept[outer+i].Times(w.Stride[i]).Minus(kernel.Const(w.Low[i]))
		stop := l.minOrMax(begin.Plus(kernel.Const(w.Reach(i))), end, i32, ir.OpMin)
		start := l.minOrMax(begin, first, i32, ir.OpMax)
		if step := w.Dilation[i]; step > 1 { // convert both to the number of window elements before them
			before := func(at *kernel.Expr) *kernel.Expr {
				up := i32(ir.OpAdd, i32(ir.OpSub, at, l.b.FromIndex(begin)), l.b.Integer(ir.I32, step-1))
				return i32(ir.OpDiv, up, l.b.Integer(ir.I32, step))
			}
			start, stop = before(start), before(stop)
		}
		count = i32(ir.OpMul, count, i32(ir.OpSub, stop, start))
	}
	return l.op(ir.OpDiv, acc.DType, acc, l.b.Cast(acc.DType, count))
}

// minOrMax returns the smaller of two indices for OpMin, or the larger for OpMax. If the indices show which one it is,
// it adds no code to the kernel; otherwise apply adds the op.
func (l exprs) minOrMax(a, b kernel.Index, apply func(ir.Op, *kernel.Expr, *kernel.Expr) *kernel.Expr,
	op ir.Op) *kernel.Expr {
	less, more := b.Minus(a), a.Minus(b)
	if op == ir.OpMax {
		less, more = more, less
	}
	switch {
	case less.NonNegative():
		return l.b.FromIndex(a)
	case more.NonNegative():
		return l.b.FromIndex(b)
	}
	return apply(op, l.b.FromIndex(a), l.b.FromIndex(b))
}

// perGroup returns the number of input channels of a group.
func perGroup(n *ir.Node) ir.Dim {
	d, _ := n.Arg(0).Shape()[1].Quo(int64(n.Attrs().Int("groups"))) // its shape rule has checked it
	return d
}

// convTerm returns input times weight for the result at coordinates at = [batch, channel, …] and the window element at
// fold = [input channel of the group, window…].
func (l *lowerer) convTerm(n *ir.Node, at, fold []kernel.Index) *kernel.Expr {
	group, _ := at[1].DivMod(outPerGroup(n))
	x := l.convInput(n, group, at, fold)
	w := l.convWeight(n, group, at[1], fold)
	return l.product(n, x, w)
}

// outPerGroup returns the number of output channels of a group.
func outPerGroup(n *ir.Node) ir.Dim {
	d, _ := n.Shape()[1].Quo(int64(n.Attrs().Int("groups")))
	return d
}

// convInput returns the input for the result at coordinates at = [batch, channel, …] and the window element at fold =
// [input channel of the group, window…].
func (l *lowerer) convInput(n *ir.Node, group kernel.Index, at, fold []kernel.Index) *kernel.Expr {
	channel := group.Mul(kernel.DimIndex(perGroup(n))).Plus(fold[0])
	tapOf := l.forwardTap
	if n.Op() == ir.OpConvTranspose {
		tapOf = l.backwardTap
	}
	return l.tapValue(n.Arg(0), []kernel.Index{at[0], channel}, tapOf(n, at[2:], fold[1:]), paddingOf(n))
}

// paddingOf returns a convolution's padding value.
func paddingOf(n *ir.Node) float64 {
	if n.Op() != ir.OpConv {
		return 0
	}
	return float64(n.Attrs().Int("padding_value"))
}

// convWeight returns the weight for a result channel and the window element at fold.
func (l *lowerer) convWeight(n *ir.Node, group, channel kernel.Index, fold []kernel.Index) *kernel.Expr {
	from := append([]kernel.Index{channel, fold[0]}, fold[1:]...)
	if n.Op() == ir.OpConvTranspose {
		_, within := channel.DivMod(outPerGroup(n))
		from[0] = group.Mul(kernel.DimIndex(perGroup(n))).Plus(fold[0])
		from[1] = within
	}
	return l.value(n.Arg(1), from)
}

// lowerConv makes the kernel of a convolution as a matmul per image and group: weights [channels, window] times windows
// [window, positions]. The kernel loads each element of a window directly from the argument.
func (l *lowerer) lowerConv(n *ir.Node) {
	l.k.Family = kernel.FamilyMatMul
	s := n.Shape()
	groups := ir.Dim{Add: int64(n.Attrs().Int("groups"))}
	spatial := s[2:]
	// The parallel axes are image, group, channel of the group (row) and position (col).
	outer := l.parallel(ir.Shape{s[0], groups})
	row := l.parallel(ir.Shape{outPerGroup(n)})[0]
	col := l.parallel(ir.Shape{numel(spatial)})[0]
	window := append(ir.Shape{perGroup(n)}, n.Arg(1).Shape()[2:]...)
	l.k.Fold = numel(window)
	fold := kernel.Unflatten(window, kernel.Axis(l.k.FoldAxis(), l.k.Fold))

	channel := outer[1].Mul(kernel.DimIndex(outPerGroup(n))).Plus(row)
	l.at = append([]kernel.Index{outer[0], channel}, kernel.Unflatten(spatial, col)...)
	l.space = s
	a := l.convWeight(n, outer[1], channel, fold)
	b := l.convInput(n, outer[1], l.at, fold)
	l.addMatMul(n, a, b, 0)
	l.storeResults(perPoint)
}

// resize returns an element of a resize op: a weighted sum of the nearest elements along each resized axis.
func (l *lowerer) resize(n *ir.Node, at []kernel.Index) *kernel.Expr {
	x := n.Arg(0)
	axes := len(n.Attrs().Shape("size"))
	outer := n.Rank() - axes
	terms := make([][]weightedElement, axes)
	for i := range axes {
		terms[i] = l.resizeAxis(n, i, x.Shape()[outer+i], n.Shape()[outer+i], at[outer+i])
	}
	// join applies op to two weights or terms. nil stands for a weight of 1, or for no term.
	join := func(op ir.Op, a, b *kernel.Expr) *kernel.Expr {
		if a == nil || b == nil {
			return cmp.Or(a, b)
		}
		return l.op(op, kernel.AccType(n.DType()), a, b)
	}
	var sum *kernel.Expr
	var visit func(axis int, from []kernel.Index, weight *kernel.Expr)
	visit = func(axis int, from []kernel.Index, weight *kernel.Expr) {
		if axis == axes {
			sum = join(ir.OpAdd, sum, join(ir.OpMul, weight, l.value(x, from)))
			return
		}
		for _, s := range terms[axis] {
			visit(axis+1, append(slices.Clone(from), s.at), join(ir.OpMul, weight, s.weight))
		}
	}
	visit(0, at[:outer], nil)
	return sum
}

// weightedElement is a coordinate along an axis, and the weight of the element there.
type weightedElement struct {
	at     kernel.Index
	weight *kernel.Expr // nil for 1
}

// resizeAxis returns the elements along resized axis i that the result at coordinate c reads. The axis has extent from
// in the argument, and extent to in the result.
func (l *lowerer) resizeAxis(n *ir.Node, i int, from, to ir.Dim, c kernel.Index) (list []weightedElement) {
	num, den := ir.ResizeScale(n.Attrs(), i, from, to)
	switch {
	case from == to && num == den && n.Op() == ir.OpResizeNearest: // the axis keeps its size
		return []weightedElement{{at: c}}
	case n.Op() == ir.OpResizeNearest:
		q, _ := c.Mul(kernel.DimIndex(den)).DivMod(num)
		return []weightedElement{{at: kernel.Clamp(q, kernel.Last(from))}}
	}
	first, weights := l.interpolation(n, c, den, num)
	for k, w := range weights {
		v := first
		if k > 0 {
			v = l.i32(ir.OpAdd, first, l.b.Integer(ir.I32, int64(k)))
		}
		list = append(list, weightedElement{l.indexOf(v, kernel.Last(from)), w})
	}
	return list
}

// interpolation returns the coordinate of the first element that result coordinate c reads along an axis, before it is
// clamped to the axis, and the weights of this and the following elements: 2 weights for linear and 4 for cubic
// interpolation. The axis has `from` elements in the argument and `to` in the result.
func (l exprs) interpolation(n *ir.Node, c kernel.Index,
	from, to ir.Dim) (first *kernel.Expr, weights []*kernel.Expr) {
	// c is at coordinate num/den of the argument: (c+1/2)*from/to - 1/2, or c*(from-1)/(to-1) if corners are aligned.
	num := c.Times(2).Plus(kernel.Const(1)).Mul(kernel.DimIndex(from)).Minus(kernel.DimIndex(to))
	den := kernel.DimIndex(to).Times(2)
	if n.Attrs().Bool("align_corners") {
		num, den = c.Mul(kernel.DimIndex(from).Minus(kernel.Const(1))), kernel.DimIndex(to).Minus(kernel.Const(1))
	}
	one := l.b.Integer(ir.I32, 1)
	divisor := l.b.FromIndex(den) // at least 1, also for an axis of one element
	if !den.Minus(kernel.Const(1)).NonNegative() {
		divisor = l.i32(ir.OpMax, divisor, one)
	}
	if divisor.Kind == kernel.ExprConst && divisor.Int < 1 {
		divisor = one
	}
	dividend := l.b.FromIndex(num)
	rest := l.i32(ir.OpMod, dividend, divisor) // has the sign of the divisor, so the quotient is rounded down
	whole := l.i32(ir.OpDiv, l.i32(ir.OpSub, dividend, rest), divisor)
	typ := kernel.AccType(n.DType())
	t := hinted("fraction", l.op(ir.OpDiv, typ, l.b.Cast(typ, rest), l.b.Cast(typ, divisor)))
	if n.Op() == ir.OpResizeLinear {
		return whole, []*kernel.Expr{l.op(ir.OpSub, typ, l.b.Float(typ, 1), t), t}
	}
	return l.i32(ir.OpSub, whole, one), l.cubicWeights(typ, t)
}

// cubicWeights returns the weights of cubic convolution (Keys 1981) with a = -0.75, in dtype typ, for the elements at
// distances 1+t, t, 1-t and 2-t. The convolution's kernel has one polynomial for distances up to 1 (inner) and another
// for distances from 1 to 2 (outer).
func (l exprs) cubicWeights(typ ir.DType, t *kernel.Expr) []*kernel.Expr {
	const a = -0.75
	number := func(v float64) *kernel.Expr { return l.b.Float(typ, v) }
	in := func(op ir.Op, a, b *kernel.Expr) *kernel.Expr { return l.op(op, typ, a, b) }
	inner := func(d *kernel.Expr) *kernel.Expr {
		p := in(ir.OpSub, in(ir.OpMul, number(a+2), d), number(a+3))
		return in(ir.OpAdd, in(ir.OpMul, in(ir.OpMul, p, d), d), number(1))
	}
	outer := func(d *kernel.Expr) *kernel.Expr {
		p := in(ir.OpSub, in(ir.OpMul, number(a), d), number(5*a))
		p = in(ir.OpAdd, in(ir.OpMul, p, d), number(8*a))
		return in(ir.OpSub, in(ir.OpMul, p, d), number(4*a))
	}
	u := in(ir.OpSub, number(1), t)
	far := func(d *kernel.Expr) *kernel.Expr { return outer(in(ir.OpAdd, d, number(1))) }
	return []*kernel.Expr{far(t), inner(t), inner(u), far(u)}
}

// requireOneCore bails out if op n, which folds windows, is not the only core of its cluster.
func (l *lowerer) requireOneCore(n *ir.Node) {
	bailout.Unless(len(l.c.Cores) == 1, "%s loops over its own windows", n.Op())
}
