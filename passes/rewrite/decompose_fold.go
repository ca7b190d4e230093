package rewrite

import (
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// foldOfOne rewrites a reduction or normalization of rows with one element to an expression of that element, without a
// loop. It returns nil for longer rows. It is not only faster: for a loop with one trip, some drivers simplify x minus
// the row's maximum to 0, which is wrong for infinities and NaN.
func (r *rewriter) foldOfOne(n *ir.Node, args []*ir.Node) *ir.Node {
	fold := n.Op().Info().Fold
	if fold == nil {
		return nil
	}
	for i, folded := range analysis.FoldedAxes(n) {
		if folded && !args[0].Shape()[i].Is(1) {
			return nil
		}
	}
	out := args[0]
	if _, isPosition := extremumOf[fold.Steps[0].By]; isPosition {
		out = r.fill(n.DType(), 0, out.Shape())
	} else if n.Op().Info().Tol != (ir.Tolerance{}) {
		out = r.castTo(out, kernel.AccType(out.DType()))
		// A difference from the first element is 0, or NaN if the element is infinite or NaN. So is a sum of these.
		if fold.FromFirst() {
			out = r.binary(ir.OpMul, out, r.scalar(out.DType(), 0))
		}
		e := folding{r: r, n: n, x: out, first: out, count: func() *ir.Node { return r.scalar(out.DType(), 1) }}
		for _, s := range fold.Steps {
			result := out
			if !fold.FromFirst() {
				result = e.element(s.Map)
			}
			e.results = append(e.results, result)
		}
		out = e.finish(fold, args[1:])
		if fold.Finish.Leaf != 0 && fold.Steps[0].By == ir.OpSum { // a sum starts at 0, so the sum of -0 is 0
			out = r.binary(ir.OpAdd, out, r.scalar(out.DType(), 0))
		}
	}
	return r.reshape(r.castTo(out, n.DType()), n.Shape())
}

// longFold splits a reduction or normalization of few long rows into two steps: a fold of each chunk of a row, and a
// fold of the results of a row's chunks. Each step folds in a fixed order, and workgroups need not synchronize. It
// returns nil if one kernel is as fast.
func (r *rewriter) longFold(n *ir.Node, args []*ir.Node) *ir.Node {
	fold := n.Op().Info().Fold
	if fold == nil {
		return nil
	}
	x, by := args[0], fold.Steps[0].By
	extremum, isPosition := extremumOf[by]
	saves := func(s foldSize) bool {
		if s.interleaved {
			return !r.keepsRows(n, s)
		}
		return s.length > minLongFold || r.savesTime(n, s)
	}
	c, ok := cutOf(x.Shape(), analysis.FoldedAxes(n), len(fold.Steps) > 1 || isPosition, saves)
	if !ok {
		return nil
	}
	f := &longFold{rewriter: r, cut: c}
	var out *ir.Node
	switch {
	case isPosition:
		out = f.positionOf(extremum, x)
	case n.Op().Info().Tol == ir.Tolerance{}: // exact, so the accumulator's dtype does not matter
		out = f.fold(by, x)
	default:
		out = f.computed(n, fold, r.castTo(x, kernel.AccType(x.DType())), args[1:])
	}
	return r.reshape(r.castTo(out, n.DType()), n.Shape())
}

// savesTime reports whether op n, a reduction or normalization, is faster on the device with each row divided into
// chunks. A kernel takes a launch, and the time in which one workgroup per row or chunk reads its elements. Estimates
// have errors, so the gain must be a tenth.
func (r *rewriter) savesTime(n *ir.Node, s foldSize) bool {
	if r.pricer == nil || n.Arg(0).Op() == ir.OpConst { // which is not computed in every run
		return false
	}
	bytes := float64(s.rows*s.length) * float64(kernel.AccType(n.Arg(0).DType()).BlockBytes())
	price := func(list ...kernel.Work) (sum float64) {
		for _, w := range list {
			w.Launches = 1
			sum += r.pricer.Price(kernel.Rewrite{Rule: "decompose", Work: &w}).After
		}
		return sum
	}
	work := []kernel.Work{{Bytes: bytes, Groups: s.rows * s.chunks}, {Groups: s.rows}}
	if n.Shape().Equal(n.Arg(0).Shape()) { // a kernel of its own computes the elements
		work = append(work, kernel.Work{Bytes: float64(2 * bytes)})
	}
	return price(work...) < 0.9*price(kernel.Work{Bytes: bytes, Groups: s.rows})
}

// keepsRows reports whether one kernel is faster for the softmax or norm n of interleaved rows than kernels for their
// chunks, because it reads the rows only once. Chunks are read by two kernels, and a third one folds their results.
func (r *rewriter) keepsRows(n *ir.Node, s foldSize) bool {
	x := n.Arg(0).Type()
	if r.pricer == nil || !n.Shape().Equal(x.Shape) {
		return false
	}
	bytes := float64(s.rows*s.length) * float64(x.DType.BlockBytes())
	price := func(w kernel.Work) kernel.Estimate {
		return r.pricer.Price(kernel.Rewrite{Rule: "decompose", Work: &w})
	}
	kept := price(kernel.Work{Form: kernel.FormKeptRows, Format: x.DType, Rows: ir.Dim{Add: s.rows},
		Depth: ir.Dim{Add: s.length}, Bytes: float64(2 * bytes), Launches: 1})
	return kept.Note == "" && kept.After < price(kernel.Work{Bytes: float64(3 * bytes), Launches: 3}).After
}

// extremumOf maps argmax to max, and argmin to min.
var extremumOf = map[ir.Op]ir.Op{ir.OpArgmax: ir.OpReduceMax, ir.OpArgmin: ir.OpReduceMin}

// longFold adds the nodes of a reduction in two steps, divided as cut says. The results of its methods keep the folded
// axes, with extent 1.
type longFold struct {
	*rewriter
	cut
}

// computed returns the result of n's fold of x, in the accumulator dtype. params are further arguments of n, such as a
// norm's weight.
func (f *longFold) computed(n *ir.Node, fold *ir.Fold, x *ir.Node, params []*ir.Node) *ir.Node {
	e := folding{r: f.rewriter, n: n, x: x, first: f.firstOf(fold, x, f.folded),
		count: func() *ir.Node { return f.countOf(x, f.folded) }}
	for _, s := range fold.Steps {
		e.results = append(e.results, f.step(s, fold, e))
	}
	return e.finish(fold, params)
}

// step returns the result of step s of a fold for whole rows, computed from the results of the chunks. whole has the
// results of the earlier steps for whole rows. If s has a merge rule (ir.Step.Merge), each chunk is folded with its own
// results of the earlier steps. For example, it sums differences from the chunk's mean. The rule converts the chunk's
// result to its contribution to the row's result.
func (f *longFold) step(s ir.Step, fold *ir.Fold, whole folding) *ir.Node {
	if s.Merge == nil { // the step uses no results of earlier steps
		return f.fold(s.By, whole.element(s.Map))
	}
	var out *ir.Node
	for _, p := range f.pieces(whole.x) {
		along := make([]bool, p.x.Rank())
		for _, a := range p.axes {
			along[a] = true
		}
		// own has the results of a chunk, whole the results of the whole row.
		own := folding{r: f.rewriter, n: whole.n, x: p.x, first: f.firstOf(fold, p.x, along),
			count: func() *ir.Node { return f.countOf(p.x, along) }}
		for i := range whole.results {
			own.results = append(own.results, f.foldAlong(fold.Steps[i].By, own.element(fold.Steps[i].Map), p.axes...))
		}
		e := folding{r: f.rewriter, n: whole.n, count: whole.count, part: &own}
		own.results = append(own.results, f.foldAlong(s.By, own.scalar(s.Merge.Map), p.axes...))
		for _, r := range whole.results {
			e.results = append(e.results, f.spreadTo(r, p))
		}
		if whole.first != nil {
			e.first = f.spreadTo(whole.first, p)
		}
		contribution := f.foldAgain(s.By, p, e.scalar(s.Merge.Part)) // of the piece to the row's result
		if out == nil {
			out = contribution
		} else {
			out = f.binary(analysis.CombineOps[s.By], out, contribution)
		}
	}
	return out
}

// folding adds nodes for the scalar formulas of op n's fold (see ir.Fold), applied to rows or to chunks of rows.
type folding struct {
	r       *rewriter
	n       *ir.Node        // the op
	x       *ir.Node        // the elements
	first   *ir.Node        // first element of the row, for folds that need it
	results []*ir.Node      // results of the steps so far
	count   func() *ir.Node // number of elements, in their dtype
	part    *folding        // the folding of the chunks, while merging their results; else nil
}

// finish returns the op's result: the fold's final formula, times the op's weight and plus its bias if it has these.
func (e *folding) finish(fold *ir.Fold, params []*ir.Node) *ir.Node {
	out := e.scalar(fold.Finish)
	for i, p := range params {
		out = e.r.binary(scaleAndShift[i], out, e.r.castTo(p, e.x.DType()))
	}
	return out
}

// scaleAndShift are the ops that apply a norm's weight and its bias.
var scaleAndShift = []ir.Op{ir.OpMul, ir.OpAdd}

// element returns formula s for each element: the values that a step folds. nil stands for the elements themselves.
func (e *folding) element(s *ir.Scalar) *ir.Node {
	if s == nil {
		return e.x
	}
	return e.scalar(s)
}

// scalar returns the node of a scalar formula.
func (e *folding) scalar(s *ir.Scalar) *ir.Node {
	return ir.EvalScalar(s, func(s *ir.Scalar, _ []*ir.Node) *ir.Node { return e.leaf(s) },
		func(s *ir.Scalar, args []*ir.Node) *ir.Node { return e.r.add(s.Op, args) })
}

// leaf returns the node of a leaf of a scalar formula.
func (e *folding) leaf(s *ir.Scalar) *ir.Node {
	number := func(v float64) *ir.Node { return e.r.scalar(kernel.AccType(e.n.Arg(0).DType()), v) }
	switch s.Leaf {
	case ir.LeafElement:
		return e.x
	case ir.LeafResult:
		return e.results[s.Step]
	case ir.LeafMean:
		return e.r.binary(ir.OpDiv, e.results[s.Step], e.count())
	case ir.LeafFirst:
		return e.first
	case ir.LeafCount:
		count := e.r.binary(ir.OpSub, e.count(), number(float64(e.n.Attrs().Int(s.Attr))))
		return e.r.binary(ir.OpMax, count, number(0))
	case ir.LeafAttr:
		return number(e.n.Attrs().Float(s.Attr))
	case ir.LeafNumber:
		return number(s.Value)
	case ir.LeafPart:
		return e.part.results[s.Step]
	case ir.LeafPartMean:
		return e.r.binary(ir.OpDiv, e.part.results[s.Step], e.part.count())
	case ir.LeafPartFirst:
		return e.part.first
	case ir.LeafPartCount:
		return e.part.count()
	}
	panic(fmt.Sprintf("rewrite: a fold has no leaf %d", s.Leaf))
}

// firstOf returns the first element of each row of x, or nil if the fold does not need it. Rows are along the axes for
// which along is true. An axis with a symbolic extent may have no element, so along it the smallest element stands for
// the first one. Any element of the row serves: the fold subtracts it to keep numbers small.
func (f *longFold) firstOf(fold *ir.Fold, x *ir.Node, along []bool) *ir.Node {
	if !fold.FromFirst() {
		return nil
	}
	limits, symbolic := slices.Clone(x.Shape()), []int64{}
	for i, in := range along {
		switch {
		case in && limits[i].IsStatic():
			limits[i] = ir.D(1) // keeps the first element
		case in:
			symbolic = append(symbolic, int64(i))
		}
	}
	out := f.slice(x, make([]int64, x.Rank()), limits)
	if len(symbolic) > 0 {
		out = f.foldAlong(ir.OpReduceMin, out, symbolic...)
	}
	return out
}

// countOf returns the number of elements along the axes of x for which along is true, in x's dtype.
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

// piece is a part of the tensor that the first step folds: all full chunks, or the remainder.
type piece struct {
	x         *ir.Node
	axes      []int64 // axes that the first step folds
	axesAgain []int64 // axes that the second step folds; nil for the remainder
}

// pieces divides x into its full chunks and, if there is one, the remainder.
func (f *longFold) pieces(x *ir.Node) []piece {
	flat := f.reshape(x, f.with(x.Shape(), f.Length))
	part := func(from, to int64) *ir.Node {
		if from == 0 && to == f.Length {
			return flat
		}
		starts, limits := make([]int64, flat.Rank()), append(ir.Shape{}, flat.Shape()...)
		starts[f.First], limits[f.First] = from, ir.Dim{Add: to}
		return f.slice(flat, starts, limits)
	}
	chunks := piece{x: f.reshape(part(0, f.chunked()), f.with(x.Shape(), f.Count, f.Len, f.Block)), axes: f.axes(3, 1)}
	// Only the new axes are folded again: the first step has reduced the other folded axes to 1.
	axesAgain := cut{folded: make([]bool, len(f.folded)), First: f.First, Last: f.Last}
	chunks.axesAgain = axesAgain.axes(3, 0, 2)
	list := []piece{chunks}
	if f.chunked() < f.Length {
		list = append(list, piece{x: part(f.chunked(), f.Length), axes: f.axes(1, 0)})
	}
	return list
}

// foldAgain is the second step for a piece: it folds `each`, the results of the first step for the piece's chunks, to
// one value per row.
func (f *longFold) foldAgain(op ir.Op, p piece, each *ir.Node) *ir.Node {
	if p.axesAgain != nil {
		each = f.foldAlong(op, each, p.axesAgain...)
	}
	return f.perRow(each)
}

// perRow reshapes one value per row to the shape of the original tensor with the folded axes set to 1.
func (f *longFold) perRow(x *ir.Node) *ir.Node {
	ones := make([]int64, f.Last-f.First+1)
	for i := range ones {
		ones[i] = 1
	}
	// x may have other axes than the original tensor in place of First to Last, such as [1, 1, 1]. The axes after Last
	// are the same, so they are counted from the end.
	whole := cut{First: f.First, Last: x.Rank() - (len(f.folded) - f.Last)}
	return f.reshape(x, whole.with(x.Shape(), ones...))
}

// fold returns op along the rows of x, in two steps.
func (f *longFold) fold(op ir.Op, x *ir.Node) *ir.Node {
	var out *ir.Node
	for _, p := range f.pieces(x) {
		part := f.foldAgain(op, p, f.foldAlong(op, p.x, p.axes...))
		if out == nil {
			out = part
		} else {
			out = f.binary(analysis.CombineOps[op], out, part)
		}
	}
	return out
}

// spreadTo reshapes one value per row, x, so that it broadcasts to a piece.
func (f *longFold) spreadTo(x *ir.Node, p piece) *ir.Node {
	ones := []int64{1}
	if p.axesAgain != nil {
		ones = []int64{1, 1, 1}
	}
	return f.reshape(x, f.with(x.Shape(), ones...))
}

// positionOf returns argmax or argmin, for OpReduceMax or OpReduceMin. The first step finds the first position of each
// chunk's extremum. The second takes the first of these positions among the chunks that have the row's extremum.
func (f *longFold) positionOf(extremum ir.Op, x *ir.Node) *ir.Node {
	var best, at *ir.Node
	for _, p := range f.pieces(x) {
		own := f.foldAlong(extremum, p.x, p.axes...)
		first := f.foldAlong(ir.OpReduceMin, f.positionWhere(p.x, own, f.positions(p)), p.axes...)
		// In the second step only chunks count that have the extremum of the whole row of the piece.
		partBest := f.foldAgain(extremum, p, own)
		partAt := f.foldAgain(ir.OpReduceMin, p, f.positionWhere(own, f.spreadTo(partBest, p), first))
		if best == nil {
			best, at = partBest, partAt
			continue
		}
		both := f.binary(analysis.CombineOps[extremum], best, partBest)
		at = f.binary(ir.OpMin, f.positionWhere(best, both, at), f.positionWhere(partBest, both, partAt))
	}
	return at
}

// positions returns the position of each element of a piece in its row. The row is f.Count chunks of f.Len blocks of
// f.Block elements, which are three axes of the first piece, and then the remainder.
func (f *longFold) positions(p piece) *ir.Node {
	if p.axesAgain == nil { // the remainder, one axis
		return f.binary(ir.OpAdd, f.iota(p.x.Shape(), f.First), f.scalar(ir.I32, float64(f.chunked())))
	}
	chunk := f.binary(ir.OpMul, f.iota(p.x.Shape(), f.First), f.scalar(ir.I32, float64(f.Len*f.Block)))
	block := f.binary(ir.OpMul, f.iota(p.x.Shape(), f.First+1), f.scalar(ir.I32, float64(f.Block)))
	return f.binary(ir.OpAdd, f.binary(ir.OpAdd, chunk, block), f.iota(p.x.Shape(), f.First+2))
}

// positionWhere returns `place` where x equals the extremum or both are NaN, and elsewhere a position after all others.
func (f *longFold) positionWhere(x, extremum, place *ir.Node) *ir.Node {
	is := f.binary(ir.OpEq, x, extremum)
	if x.DType().IsFloat() {
		is = f.binary(ir.OpOr, is, f.binary(ir.OpAnd, f.unary(ir.OpIsNaN, x), f.unary(ir.OpIsNaN, extremum)))
	}
	return f.where(is, place, f.scalar(ir.I32, math.MaxInt32))
}
