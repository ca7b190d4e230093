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
