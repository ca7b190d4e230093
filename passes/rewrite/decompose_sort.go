package rewrite

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// Limits of rows that one workgroup sorts.
const (
	maxSort   = 2048 // longest row: pairs of key and index fit in 16 KiB of shared memory, which every device has
	maxSelect = 8192 // longest row from which the first maxTaken are selected, with keys in registers
	maxTaken  = 512  // largest k of a top-k that is a selection
)

// ordered returns the indices in the order of a sort, argsort or top_k_indices, or nil if one workgroup can sort the
// row.
func (r *rewriter) ordered(n, x *ir.Node) *ir.Node {
	if sortsInWorkgroup(n) {
		return nil
	}
	if x.Shape()[analysis.Axis(n)].Is(1) && n.Shape().MaxElems() > 0 { // rows of one element
		return r.fill(ir.I32, 0, n.Shape())
	}
	if out := r.topOfChunks(n, x); out != nil {
		return out
	}
	if out := r.longOrder(n, x); out != nil {
		return out
	}
	return r.orderByCounting(n, x)
}

// sortsInWorkgroup reports whether there is a kernel in which one workgroup sorts a row of n, or selects its first
// elements.
func sortsInWorkgroup(n *ir.Node) bool {
	x := n.Arg(0)
	axis := analysis.Axis(n)
	if isWide(x.DType()) {
		return false
	}
	longest := int64(maxSort)
	if selects(n) {
		longest = maxSelect
	}
	length := x.Shape()[axis].Max()
	return length <= longest
}

// selects reports whether n is a top-k of so few elements that a kernel can select them without sorting the row.
func selects(n *ir.Node) bool {
	return n.Op() == ir.OpTopKIndices && n.Attrs().Int("k") <= maxTaken && n.Attrs().Int("k") >= 1
}

// chunkOfTop returns the chunk length for a top-k of long rows: at most as many elements as a workgroup can select
// from, and without a remainder if possible.
func chunkOfTop(length int64) int64 {
	for c := int64(maxSelect); c > maxSelect/2; c-- {
		if length%c == 0 {
			return c
		}
	}
	return maxSelect
}

// argsort returns the indices that sort x in the order of n, a sort op: a gather by them gives the sorted values.
func (r *rewriter) argsort(n, x *ir.Node) *ir.Node {
	if out := r.ordered(n, x); out != nil {
		return out
	}
	return r.unary(ir.OpArgsort, x, attr("axis", n.Attrs().Int("axis")),
		attr("descending", n.Attrs().Bool("descending")))
}

// topOfChunks decomposes a top-k of long rows: it selects k elements of each chunk of a row, and then k of these. It
// returns nil if n is no top-k or its rows are short. Candidates stay in the order of chunks, so that the result is
// stable.
func (r *rewriter) topOfChunks(n, x *ir.Node) *ir.Node {
	axis := analysis.Axis(n)
	if !selects(n) || !x.Shape()[axis].IsStatic() || x.Shape()[axis].Add <= maxSelect || isWide(x.DType()) {
		return nil
	}
	k, length := int64(n.Attrs().Int("k")), x.Shape()[axis].Add
	chunk := chunkOfTop(length)
	chunks := ceil.Div(length, chunk)
	// The padding comes last in the sorted order.
	x = r.padLast(x, axis, chunks*chunk, analysis.Descending(n))
	split := replaced(x.Shape(), axis, axis, []int64{chunks, chunk})
	top := func(x *ir.Node, axis int) *ir.Node {
		return r.unary(ir.OpTopKIndices, x, attr("k", k), attr("axis", axis),
			attr("largest", n.Attrs().Bool("largest")))
	}
	inChunk := r.reshape(x, split)
	best := top(inChunk, axis+1)
	// A second top-k over the candidates chooses among values, and the result are their places in the row.
	values := r.onAxis(ir.OpGather, axis+1, inChunk, best)
	first := r.binary(ir.OpMul, r.iota(best.Shape(), axis), r.scalar(ir.I32, float64(chunk)))
	places := r.binary(ir.OpAdd, best, first)
	flat := replaced(x.Shape(), axis, axis, []int64{chunks * k})
	values, places = r.reshape(values, flat), r.reshape(places, flat)
	last := top(values, axis)
	// The candidates may still be too many for one workgroup.
	if !sortsInWorkgroup(last) {
		if again := r.topOfChunks(last, values); again != nil {
			last = again
		} else {
			last = r.orderByCounting(last, values)
		}
	}
	return r.onAxis(ir.OpGather, axis, places, last)
}

// padLast appends elements to an axis of static extent until it has the given length. In ascending or descending order,
// no element of x sorts after them.
func (r *rewriter) padLast(x *ir.Node, axis int, length int64, descending bool) *ir.Node {
	extent := x.Shape()[axis].Add
	if extent == length {
		return x
	}
	shape := slices.Clone(x.Shape())
	shape[axis] = ir.Dim{Add: length - extent}
	return r.concat(axis, x, r.fill(x.DType(), sortsLast(x.DType(), descending), shape))
}

// sortsLast returns the value of a dtype that sorts last in ascending or descending order. NaN counts as larger than
// all other floats.
func sortsLast(t ir.DType, descending bool) float64 {
	lo, hi := ir.IntRange(t)
	switch {
	case t.IsFloat() && descending:
		return math.Inf(-1)
	case t.IsFloat():
		return math.NaN()
	case descending:
		return float64(lo)
	}
	return float64(hi)
}

// orderByCounting is a stable argsort: the rank of an element is the number of elements that come before it, and
// result p is the index of the element with rank p. Both are folds over all pairs of a row's elements, so the cost is
// quadratic in the row length. It serves rows that no sorting kernel supports.
func (r *rewriter) orderByCounting(n, x *ir.Node) *ir.Node {
	axis := analysis.Axis(n)
	last := x.Rank() - 1
	x = r.swapAxes(x, axis, last)
	s := x.Shape()
	length := s[last]
	mine, other := r.pairs(x) // element i of a row of pairs with element j
	plane := ir.Shape{length, length}
	before := r.before(other, mine, r.iota(plane, 1), r.iota(plane, 0), analysis.Descending(n))
	rank := r.unary(ir.OpSum, r.castTo(before, ir.I32), attr("axes", []int{-1}))

	// The element of rank p is the sum of i over all i with rank[i] = p.
	k := n.Shape()[axis] // the number of results, which may be less than length
	places := ir.Shape{k, length}
	_, ranks := r.pairs(rank)
	hit := r.binary(ir.OpEq, ranks, r.iota(places, 0))
	index := r.where(hit, r.iota(places, 1), r.scalar(ir.I32, 0))
	out := r.unary(ir.OpSum, index, attr("axes", []int{-1}))
	return r.swapAxes(out, axis, last)
}

// pairs returns x reshaped to [..., N, 1] and to [..., 1, N]. An elementwise op of both combines every pair of elements
// of the innermost axis.
func (r *rewriter) pairs(x *ir.Node) (column, row *ir.Node) {
	s := x.Shape()
	outer, n := s[:len(s)-1], s[len(s)-1]
	column = r.reshape(x, slices.Concat(outer, ir.Shape{n, ir.D(1)}))
	row = r.reshape(x, slices.Concat(outer, ir.Shape{ir.D(1), n}))
	return column, row
}

// before returns whether a comes before b in sorted order. NaN is last in ascending and first in descending order.
// Equal elements are in the order of their positions posA and posB.
func (r *rewriter) before(a, b, posA, posB *ir.Node, descending bool) *ir.Node {
	less, equal := r.binary(ir.OpLt, a, b), r.binary(ir.OpEq, a, b)
	if descending {
		less = r.binary(ir.OpGt, a, b)
	}
	if a.DType().IsFloat() {
		// NaN equals NaN here, so that their positions decide.
		nanA, nanB := r.unary(ir.OpIsNaN, a), r.unary(ir.OpIsNaN, b)
		equal = r.binary(ir.OpOr, equal, r.binary(ir.OpAnd, nanA, nanB))
		if descending {
			nanA, nanB = nanB, nanA
		}
		less = r.binary(ir.OpOr, less, r.binary(ir.OpAnd, nanB, r.unary(ir.OpNot, nanA)))
	}
	return r.binary(ir.OpOr, less, r.binary(ir.OpAnd, equal, r.binary(ir.OpLt, posA, posB)))
}
