package passes

import (
	"math"

	"github.com/vkc-go/vkc/ir"
)

// longFold makes a reduction of few long rows, or what normalizes such rows, in
// two steps: a value for each chunk of a row, then one for all chunks. Each
// step folds in a fixed order, and none waits for workgroups of its own. It
// returns nil where one kernel does as well.
func (r *rewriter) longFold(n *ir.Node, args []*ir.Node) *ir.Node {
	if !foldsInChunks(n.Op()) {
		return nil
	}
	x := args[0]
	c, ok := cutOf(x.Shape(), foldedAxes(n), foldsTwice(n.Op()))
	if !ok {
		return nil
	}
	f := &longFold{rewriter: r, cut: c}
	var out *ir.Node
	switch n.Op() {
	case ir.OpReduceMax, ir.OpReduceMin, ir.OpAny, ir.OpAll:
		out = f.fold(n.Op(), x)
	case ir.OpArgmax:
		out = f.place(ir.OpReduceMax, x)
	case ir.OpArgmin:
		out = f.place(ir.OpReduceMin, x)
	default:
		out = f.arithmetic(n, r.castTo(x, accType("", x.DType())), args[1:])
	}
	return r.reshape(r.castTo(out, n.DType()), n.Shape())
}

// foldsInChunks reports whether there is a way to fold chunks by op.
func foldsInChunks(op ir.Op) bool {
	switch op {
	case ir.OpSum, ir.OpMean, ir.OpProd, ir.OpReduceMax, ir.OpReduceMin, ir.OpArgmax, ir.OpArgmin, ir.OpAny, ir.OpAll,
		ir.OpNorm1, ir.OpNorm2, ir.OpLogSumExp, ir.OpVariance,
		ir.OpSoftmax, ir.OpLogSoftmax, ir.OpRMSNorm, ir.OpLayerNorm, ir.OpL2Normalize:
		return true
	}
	return false
}

// foldsTwice reports whether op folds a row by what it has folded of it before.
func foldsTwice(op ir.Op) bool {
	switch op {
	case ir.OpArgmax, ir.OpArgmin, ir.OpLogSumExp, ir.OpVariance, ir.OpSoftmax, ir.OpLogSoftmax, ir.OpLayerNorm:
		return true
	}
	return false
}

// longFold is a reduction being made in chunks. Its methods keep the folded
// axes, with extent 1.
type longFold struct {
	*rewriter
	cut
}

// arithmetic is what sums or multiplies x, which has the dtype for that.
func (f *longFold) arithmetic(n, x *ir.Node, params []*ir.Node) *ir.Node {
	switch n.Op() {
	case ir.OpSum, ir.OpProd:
		return f.fold(n.Op(), x)
	case ir.OpMean:
		return f.binary(ir.OpDiv, f.fold(ir.OpSum, x), f.elems(x))
	case ir.OpNorm1:
		return f.fold(ir.OpSum, f.unary(ir.OpAbs, x))
	case ir.OpNorm2:
		return f.norm2(x)
	case ir.OpVariance:
		_, dev := f.deviations(x)
		count := f.binary(ir.OpSub, f.elems(x), f.number(x, float64(n.Attrs().Int("correction"))))
		return f.binary(ir.OpDiv, dev, f.binary(ir.OpMax, count, f.number(x, 0)))
	case ir.OpLogSumExp:
		top, sum := f.exponentials(x)
		return f.add(ir.OpWhere,
			[]*ir.Node{f.unary(ir.OpIsInf, top), top, f.binary(ir.OpAdd, top, f.unary(ir.OpLog, sum))})
	}
	return f.normalized(n, x, params)
}

// normalized is an op that changes each element of a row by what it folds.
func (f *longFold) normalized(n, x *ir.Node, params []*ir.Node) *ir.Node {
	eps := func() *ir.Node { return f.number(x, n.Attrs().Float("eps")) }
	var out *ir.Node
	switch n.Op() {
	case ir.OpSoftmax:
		top, sum := f.exponentials(x)
		return f.binary(ir.OpMul, f.unary(ir.OpExp, f.binary(ir.OpSub, x, top)), f.unary(ir.OpRecip, sum))
	case ir.OpLogSoftmax:
		top, sum := f.exponentials(x)
		return f.binary(ir.OpSub, f.binary(ir.OpSub, x, top), f.unary(ir.OpLog, sum))
	case ir.OpL2Normalize:
		return f.binary(ir.OpDiv, x, f.binary(ir.OpMax, f.norm2(x), eps()))
	case ir.OpRMSNorm:
		squares := f.binary(ir.OpDiv, f.fold(ir.OpSum, f.unary(ir.OpSqr, x)), f.elems(x))
		out = f.binary(ir.OpMul, x, f.unary(ir.OpRsqrt, f.binary(ir.OpAdd, squares, eps())))
	case ir.OpLayerNorm:
		mean, dev := f.deviations(x)
		variance := f.binary(ir.OpDiv, dev, f.elems(x))
		out = f.binary(ir.OpMul, f.binary(ir.OpSub, x, mean), f.unary(ir.OpRsqrt, f.binary(ir.OpAdd, variance, eps())))
	}
	for i, p := range params {
		out = f.binary([]ir.Op{ir.OpMul, ir.OpAdd}[i], out, f.castTo(p, x.DType()))
	}
	return out
}

func (f *longFold) norm2(x *ir.Node) *ir.Node {
	return f.unary(ir.OpSqrt, f.fold(ir.OpSum, f.unary(ir.OpSqr, x)))
}

// number is a constant of x's dtype.
func (f *longFold) number(x *ir.Node, v float64) *ir.Node {
	if f.err != nil {
		return nil
	}
	return f.scalar(x.DType(), v)
}

// elems is the number of elements of a row of x, as a value of its dtype.
func (f *longFold) elems(x *ir.Node) *ir.Node {
	if f.err != nil {
		return nil
	}
	return f.countOf(x, f.folded)
}

// countOf is the number of elements along some axes of x, in its dtype.
func (f *longFold) countOf(x *ir.Node, along []bool) *ir.Node {
	n, rest := int64(1), []ir.Dim{}
	for i, in := range along {
		switch d := x.Shape()[i]; {
		case in && d.IsStatic():
			n *= d.Add
		case in:
			rest = append(rest, d)
		}
	}
	out := f.scalar(x.DType(), float64(n))
	for _, d := range rest {
		out = f.binary(ir.OpMul, out, f.castTo(f.dimValue(d), x.DType()))
	}
	return out
}

// piece is what is folded in the first step: all the chunks of x, or the rest
// beyond them.
type piece struct {
	x     *ir.Node
	axes  []int64 // the first step's
	again []int64 // the second step's; none for the rest
}

// pieces divides x.
func (f *longFold) pieces(x *ir.Node) []piece {
	if f.err != nil {
		return nil
	}
	flat := f.reshape(x, f.with(x.Shape(), f.Length))
	part := func(from, to int64) *ir.Node {
		if f.err != nil || from == 0 && to == f.Length {
			return flat
		}
		starts, limits := make([]int64, flat.Rank()), append(ir.Shape{}, flat.Shape()...)
		starts[f.First], limits[f.First] = from, ir.Dim{Add: to}
		return f.unary(ir.OpSlice, flat, ir.Attr{Name: "starts", Value: starts}, ir.Attr{Name: "limits", Value: limits})
	}
	chunks := piece{x: f.reshape(part(0, f.chunked()), f.with(x.Shape(), f.Count, f.Len, f.Block)), axes: f.axes(3, 1)}
	again := cut{folded: make([]bool, len(f.folded)), First: f.First, Last: f.Last}
	chunks.again = again.axes(3, 0, 2)
	list := []piece{chunks}
	if f.chunked() < f.Length {
		list = append(list, piece{x: part(f.chunked(), f.Length), axes: f.axes(1, 0)})
	}
	return list
}

// along folds axes, keeping them.
func (f *longFold) along(op ir.Op, x *ir.Node, axes []int64) *ir.Node {
	return f.unary(op, x, ir.Attr{Name: "axes", Value: axes}, ir.Attr{Name: "keepdims", Value: true})
}

// all folds the results of the first step of a piece, and gives them the shape
// of x with its folded axes 1.
func (f *longFold) all(op ir.Op, p piece, each *ir.Node) *ir.Node {
	if p.again != nil {
		each = f.along(op, each, p.again)
	}
	return f.row(each)
}

// row gives one value per row the shape of x with its folded axes 1.
func (f *longFold) row(x *ir.Node) *ir.Node {
	if f.err != nil {
		return nil
	}
	ones := make([]int64, f.Last-f.First+1)
	for i := range ones {
		ones[i] = 1
	}
	whole := cut{First: f.First, Last: x.Rank() - (len(f.folded) - f.Last)}
	return f.reshape(x, whole.with(x.Shape(), ones...))
}

// foldedBy is the elementwise op that folds two results of a reduction.
var foldedBy = map[ir.Op]ir.Op{ir.OpSum: ir.OpAdd, ir.OpProd: ir.OpMul, ir.OpReduceMax: ir.OpMax,
	ir.OpReduceMin: ir.OpMin, ir.OpAny: ir.OpOr, ir.OpAll: ir.OpAnd}

// fold is op over the rows of x.
func (f *longFold) fold(op ir.Op, x *ir.Node) *ir.Node {
	var out *ir.Node
	for _, p := range f.pieces(x) {
		part := f.all(op, p, f.along(op, p.x, p.axes))
		if out == nil {
			out = part
		} else {
			out = f.binary(foldedBy[op], out, part)
		}
	}
	return out
}

// deviations returns the mean of each row and the sum of the squared
// differences from it: those from each chunk's own mean, and for every element
// the squared difference of that from the row's (Chan, Golub and LeVeque 1979).
func (f *longFold) deviations(x *ir.Node) (mean, dev *ir.Node) {
	mean = f.binary(ir.OpDiv, f.fold(ir.OpSum, x), f.elems(x))
	for _, p := range f.pieces(x) {
		along := make([]bool, p.x.Rank())
		for _, a := range p.axes {
			along[a] = true
		}
		n := f.countOf(p.x, along)
		own := f.binary(ir.OpDiv, f.along(ir.OpSum, p.x, p.axes), n)
		inside := f.along(ir.OpSum, f.unary(ir.OpSqr, f.binary(ir.OpSub, p.x, own)), p.axes)
		if f.err != nil {
			return nil, nil
		}
		apart := f.unary(ir.OpSqr, f.binary(ir.OpSub, own, f.spreadTo(mean, p)))
		part := f.all(ir.OpSum, p, f.binary(ir.OpAdd, inside, f.binary(ir.OpMul, n, apart)))
		if dev == nil {
			dev = part
		} else {
			dev = f.binary(ir.OpAdd, dev, part)
		}
	}
	return mean, dev
}

// spreadTo gives one value per row the axes of a piece, so that it broadcasts
// over that.
func (f *longFold) spreadTo(x *ir.Node, p piece) *ir.Node {
	if f.err != nil {
		return nil
	}
	ones := []int64{1}
	if p.again != nil {
		ones = []int64{1, 1, 1}
	}
	return f.reshape(x, f.with(x.Shape(), ones...))
}

// exponentials returns the largest element of each row and the sum of
// exp(x-largest), NaN where there is an infinite one: each chunk sums by its own
// largest element, and the sums are scaled to the row's (Milakov and
// Gimelshein 2018).
func (f *longFold) exponentials(x *ir.Node) (top, sum *ir.Node) {
	for _, p := range f.pieces(x) {
		own := f.along(ir.OpReduceMax, p.x, p.axes)
		each := f.along(ir.OpSum, f.scaleFrom(p.x, own), p.axes)
		partTop := f.all(ir.OpReduceMax, p, own)
		if f.err != nil {
			return nil, nil
		}
		partSum := f.all(ir.OpSum, p, f.binary(ir.OpMul, each, f.scaleFrom(own, f.spreadTo(partTop, p))))
		if top == nil {
			top, sum = partTop, partSum
			continue
		}
		both := f.binary(ir.OpMax, top, partTop)
		sum = f.binary(ir.OpAdd, f.binary(ir.OpMul, sum, f.scaleFrom(top, both)),
			f.binary(ir.OpMul, partSum, f.scaleFrom(partTop, both)))
		top = both
	}
	return top, sum
}

// scaleFrom is exp(x-top), or 0 where both are -inf: a chunk of nothing else
// adds nothing to its row.
func (f *longFold) scaleFrom(x, top *ir.Node) *ir.Node {
	if f.err != nil {
		return nil
	}
	nothing := f.binary(ir.OpEq, top, f.number(x, math.Inf(-1)))
	return f.unary(ir.OpExp, f.binary(ir.OpSub, x, f.add(ir.OpWhere, []*ir.Node{nothing, f.number(x, 0), top})))
}

// place is argmax or argmin: the first place whose element is the extremum of
// its chunk, and of those whose chunk has the row's extremum the first.
func (f *longFold) place(extremum ir.Op, x *ir.Node) *ir.Node {
	var best, at *ir.Node
	for _, p := range f.pieces(x) {
		own := f.along(extremum, p.x, p.axes)
		first := f.along(ir.OpReduceMin, f.placeWhere(p.x, own, f.places(p)), p.axes)
		partBest := f.all(extremum, p, own)
		if f.err != nil {
			return nil
		}
		partAt := f.all(ir.OpReduceMin, p, f.placeWhere(own, f.spreadTo(partBest, p), first))
		if best == nil {
			best, at = partBest, partAt
			continue
		}
		both := f.binary(foldedBy[extremum], best, partBest)
		at = f.binary(ir.OpMin, f.placeWhere(best, both, at), f.placeWhere(partBest, both, partAt))
	}
	return at
}

// places is where each element of a piece stands in its row.
func (f *longFold) places(p piece) *ir.Node {
	if f.err != nil {
		return nil
	}
	if p.again == nil {
		return f.binary(ir.OpAdd, f.iota(p.x.Shape(), f.First), f.scalar(ir.I32, float64(f.chunked())))
	}
	chunk := f.binary(ir.OpMul, f.iota(p.x.Shape(), f.First), f.scalar(ir.I32, float64(f.Len*f.Block)))
	turn := f.binary(ir.OpMul, f.iota(p.x.Shape(), f.First+1), f.scalar(ir.I32, float64(f.Block)))
	return f.binary(ir.OpAdd, f.binary(ir.OpAdd, chunk, turn), f.iota(p.x.Shape(), f.First+2))
}

// placeWhere is the place where x is the extremum, which may be NaN, else one
// after all others.
func (f *longFold) placeWhere(x, extremum, place *ir.Node) *ir.Node {
	is := f.binary(ir.OpEq, x, extremum)
	if f.err == nil && x.DType().IsFloat() {
		is = f.binary(ir.OpOr, is, f.binary(ir.OpAnd, f.unary(ir.OpIsNaN, x), f.unary(ir.OpIsNaN, extremum)))
	}
	return f.add(ir.OpWhere, []*ir.Node{is, place, f.scalar(ir.I32, math.MaxInt32)})
}
