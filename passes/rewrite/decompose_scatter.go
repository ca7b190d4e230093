package rewrite

import (
	"errors"
	"math"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// A scatter has three forms (see [kernel.FormCompare]):
//
//   - Compare: each element of the result compares its position with the indices of all updates along the axis, and
//     folds the updates that match, in order. No two invocations write the same element. The cost is the number of
//     elements times the number of updates along the axis.
//   - Accumulate: each update changes its destination by atomics (scatter_ops.go).
//   - Sort: updates are sorted by index and folded in that order (decompose_equal.go).
//
// All forms give the same bits in every run, unless the graph allows any order of additions.

// neutral returns the value of an update that has no effect in a mode: 0 for add, 1 for mul, and so on.
func neutral(mode string, t ir.DType) float64 {
	switch {
	case mode == "add", mode == "mul", !t.IsFloat():
		return float64(neutralInteger(mode, t))
	case mode == "max":
		return math.Inf(-1)
	}
	return math.Inf(1)
}

// neutralInteger returns the value of an integer update that has no effect in a mode.
func neutralInteger(mode string, t ir.DType) int64 {
	lowest, highest := ir.IntRange(t)
	return map[string]int64{"add": 0, "mul": 1, "max": lowest, "min": highest}[mode]
}

// scatter decomposes scatter and scatter_add: each index belongs to a single element of the updates.
func (r *rewriter) scatter(n *ir.Node, args []*ir.Node) *ir.Node {
	axis := analysis.Axis(n)
	last := n.Rank() - 1
	base, idx, upd := r.swapAxes(args[0], axis, last), r.swapAxes(args[1], axis, last), r.swapAxes(args[2], axis, last)
	mode := analysis.ScatterMode(n)
	if out := r.scatteredElements(n, args, axis); out != nil {
		return out
	}
	// pairs adds axes, so that each element meets each update.
	_, idx = r.pairs(idx)
	_, wide := r.pairs(upd)
	places := ir.Shape{base.Shape()[last], upd.Shape()[last]}
	hit := r.hits(idx, places)
	var out *ir.Node
	// With a mode all updates count, without one only the last.
	if mode != "" {
		out = r.foldInto(base, r.foldHits(hit, wide, -1, mode), mode)
	} else {
		pos := r.lastHit(hit, places)
		picked := r.onAxis(ir.OpGather, -1, r.notEmpty(upd, last), r.notBelowZero(pos))
		out = r.choose(pos, picked, base)
	}
	return r.swapAxes(out, axis, last)
}

// scatteredElements decomposes a scatter along an axis as a scatter of single elements to positions in the flattened
// base, in form accumulate or sort. It returns nil if it is cheaper to compare indices along the axis (form compare),
// or if positions need more than 31 bits.
func (r *rewriter) scatteredElements(n *ir.Node, args []*ir.Node, axis int) *ir.Node {
	e, ok := elementsOf(n, args, axis)
	if !ok {
		return nil
	}
	along, find := n.Shape()[axis], lastOf(e.base[1], e.updates[1])
	size := e.scatterSize
	// Without a mode only the last update of a destination counts, so the cost is the cost of finding it.
	if e.mode == "" {
		size = find
	}
	form := r.form(size, along)
	if form == kernel.FormCompare {
		return nil
	}
	base, updates := r.reshape(args[0], e.base), r.reshape(args[2], e.updates)
	at := r.positions(e, args[1])
	if e.mode == "" {
		return r.reshape(r.pickedRows(base, updates, r.lastRows(form, find, at)), n.Shape())
	}
	return r.reshape(r.foldInto(base, r.folds(form, size, at, updates), e.mode), n.Shape())
}

// elements is a scatter in which each updated element has an index of its own. It is seen as a scatter of rows of one
// element to positions in the flattened base.
type elements struct {
	scatterSize
	around, along ir.Shape // [outer, N, inner] shapes of base and updates, see flatAround
}

// elementsOf returns the elements of scatter n along an axis. ok is false if positions need more than 31 bits.
func elementsOf(n *ir.Node, args []*ir.Node, axis int) (e elements, ok bool) {
	var errBase, errUpdates error
	e.around, errBase = flatAround(n.Shape(), axis)
	e.along, errUpdates = flatAround(args[2].Shape(), axis)
	all, errAll := n.Shape().Numel()
	each, errEach := args[2].Shape().Numel()
	if errors.Join(errBase, errUpdates, errAll, errEach) != nil || all.Max() > math.MaxInt32 { // or no dim expresses it
		return e, false
	}
	one := ir.D(1)
	e.scatterSize = scatterSize{base: ir.Shape{one, all, one}, updates: ir.Shape{one, each, one},
		mode: analysis.ScatterMode(n), t: args[2].DType(), unordered: n.Attrs().Bool("unordered")}
	return e, true
}

// positions returns the position in the flattened base of each updated element, or -1 if its index is out of range.
func (r *rewriter) positions(e elements, indices *ir.Node) *ir.Node {
	is, row := r.within(r.reshape(indices, e.along), e.around[1])
	at := r.binary(ir.OpAdd, r.binary(ir.OpMul, r.iota(e.along, 0), r.dimValue(e.around[1])), row)
	at = r.binary(ir.OpAdd, r.binary(ir.OpMul, at, r.dimValue(e.around[2])), r.iota(e.along, 2))
	at = r.where(is, at, r.scalar(ir.I32, -1))
	return r.reshape(at, e.updates[1:2])
}

// indexAdd decomposes index_add, in which an index belongs to a slice of the updates.
func (r *rewriter) indexAdd(n *ir.Node, args []*ir.Node) *ir.Node {
	axis := analysis.Axis(n)
	// base [outer, N, inner], updates [outer, K, inner]
	base, upd := r.around(n.Shape(), axis), r.around(args[2].Shape(), axis)
	out := r.rowsInto(n, r.reshape(args[0], base), r.wideIndex(args[1]), r.reshape(args[2], upd))
	return r.reshape(out, n.Shape())
}

// distinct rewrites a scatter so that it writes each element at most once, as writing in place requires. For each
// destination it keeps the last index, and gives it the fold of all the destination's updates (unrounded for floats).
// The other indices become -1, out of range.
func (r *rewriter) distinct(n *ir.Node, args []*ir.Node) *ir.Node {
	base, indices, updates := args[0], args[1], args[2]
	l := r.destinations(n, args)
	if !l.along.Is(1) {
		last := r.lastOfEach(l)
		is := r.isLast(l, last)
		if n.Op() == ir.OpScatterND || n.Op() == ir.OpScatterNDAdd {
			is = r.reshape(is, append(slices.Clone(indices.Shape()[:indices.Rank()-1]), ir.D(1)))
		}
		if l.mode != "" {
			updates = r.foldOfEach(l, last, updates)
		}
		indices = r.wideIndex(indices)
		indices = r.where(is, indices, r.scalar(indices.DType(), -1))
	}
	if !n.DType().IsFloat() {
		updates = r.castTo(updates, n.DType()) // wraps
	}
	attrs := slices.DeleteFunc(slices.Clone(n.Attrs()), func(a ir.Attr) bool { return a.Name == "unique" })
	return r.add(n.Op(), []*ir.Node{base, indices, updates}, append(attrs, attr("unique", true))...)
}

// destinations describes a scatter by the destination of each of its updates, for distinct.
type destinations struct {
	scatterSize
	indices *ir.Node // the indices, or flat positions if the scatter has rows of coordinates
	along   ir.Dim   // the largest number of updates with one destination
	axis    int      // the axis of indices along which these updates are
	at      *ir.Node // the destination of each row of updates; nil if positions need more than 31 bits
	// elements says that each updated element has an index of its own.
	elements bool
}

// destinations describes the scatter n, with args in place of its arguments: the sizes that its cost depends on, and
// the destination of each update.
func (r *rewriter) destinations(n *ir.Node, args []*ir.Node) (l destinations) {
	base, indices, updates := args[0], args[1], args[2]
	one := ir.D(1)
	l.indices = indices
	switch n.Op() {
	case ir.OpScatterND, ir.OpScatterNDAdd:
		l.indices = r.flatIndex(indices, n.Shape(), dropsOutside)
		outer, inner := r.split(n.Shape(), indices)
		l.base, l.updates = ir.Shape{one, outer, inner}, ir.Shape{one, l.indices.Shape()[0], inner}
		l.at = l.indices
	case ir.OpIndexAdd:
		axis := analysis.Axis(n)
		l.base, l.updates, l.at = r.around(base.Shape(), axis), r.around(updates.Shape(), axis), indices
	default: // a scatter of elements along an axis
		l.elements, l.axis = true, analysis.Axis(n)
		if e, ok := elementsOf(n, args, l.axis); ok {
			l.scatterSize, l.at = e.scatterSize, r.positions(e, indices)
		}
	}
	l.mode, l.t, l.unordered, l.each = analysis.ScatterMode(n), updates.DType(), n.Attrs().Bool("unordered"), true
	l.along = l.indices.Shape()[l.axis]
	return l
}

// lastOfEach returns for each update the index of the last update with the same destination. It returns nil if
// comparing all pairs of indices is cheaper.
func (r *rewriter) lastOfEach(l destinations) *ir.Node {
	if l.at == nil {
		return nil
	}
	find := lastOf(l.base[1], l.updates[1])
	find.each = true
	form := r.form(find, l.along)
	if form == kernel.FormCompare {
		return nil
	}
	return r.lastRows(form, find, l.at)
}

// isLast returns for each update whether no later update has the same destination. last is the result of lastOfEach.
func (r *rewriter) isLast(l destinations, last *ir.Node) *ir.Node {
	if last != nil {
		return r.reshape(r.binary(ir.OpEq, last, r.iota(l.updates[1:2], 0)), l.indices.Shape())
	}
	row := l.indices.Rank() - 1
	last = r.lastHit(r.equal(l), ir.Shape{l.along, l.along})
	return r.swapAxes(r.binary(ir.OpEq, last, r.iota(ir.Shape{l.along}, 0)), l.axis, row)
}

// equal returns whether each pair of indices along l.axis is equal, with both axes of the pair innermost.
func (r *rewriter) equal(l destinations) *ir.Node {
	indices := r.swapAxes(r.wideIndex(l.indices), l.axis, l.indices.Rank()-1)
	mine, others := r.pairs(indices)
	return r.binary(ir.OpEq, mine, others)
}

// foldOfEach returns updates in which the last update of each destination is replaced by the fold of all updates with
// that destination. last is the result of lastOfEach.
func (r *rewriter) foldOfEach(l destinations, last, updates *ir.Node) *ir.Node {
	if last != nil && l.updates[1].Max() < l.base[1].Max() { // the last update's index is the smaller number
		is, _ := r.within(l.at, l.base[1])
		l.at = r.where(is, last, r.scalar(ir.I32, -1))
		l.base, l.each = l.updates, false
	}
	form := kernel.FormCompare
	if l.at != nil {
		form = r.form(l.scatterSize, l.along)
	}
	if form == kernel.FormCompare && l.elements {
		row := updates.Rank() - 1
		_, others := r.pairs(r.swapAxes(updates, l.axis, row))
		return r.swapAxes(r.foldHits(r.equal(l), others, -1, l.mode), l.axis, row)
	}
	return r.reshape(r.folds(form, l.scatterSize, l.at, r.reshape(updates, l.updates)), updates.Shape())
}

// flatAround returns shape s as [outer, N, inner]: the axes before an axis joined, that axis, and the axes after it
// joined.
func flatAround(s ir.Shape, axis int) (ir.Shape, error) {
	outer, err := s[:axis].Numel()
	if err != nil {
		return nil, err
	}
	inner, err := s[axis+1:].Numel()
	return ir.Shape{outer, s[axis], inner}, err
}

// around returns shape s as [outer, N, inner], for the extent N of the axis (see flatAround). It bails out if no dims
// can express these extents.
func (r *rewriter) around(s ir.Shape, axis int) ir.Shape {
	flat, err := flatAround(s, axis)
	bailout.Check(err)
	return flat
}

// rowsInto returns base [outer, N, inner] changed by the updates [outer, K, inner] of scatter n: row k of the updates
// replaces row at[k] of the base or, with a mode, is folded into it. Rows with an index out of range are ignored.
func (r *rewriter) rowsInto(n, base, at, updates *ir.Node) *ir.Node {
	s := scatterSize{base: base.Shape(), updates: updates.Shape(), mode: analysis.ScatterMode(n), t: updates.DType(),
		unordered: n.Attrs().Bool("unordered")}
	along := s.base[1]
	if s.mode != "" {
		return r.foldInto(base, r.folds(r.form(s, along), s, at, updates), s.mode)
	}
	find := lastOf(along, s.updates[1])
	return r.pickedRows(base, updates, r.lastRows(r.form(find, along), find, at))
}

// folds reduces the updates [outer, K, inner] of each of the N destinations to one row, in the accumulator dtype. at
// has the destination of each update. The result is [outer, N, inner]. If s.each is set, it is [outer, K, inner]: for
// each update, the reduced row of its destination. form is the way to compute it.
func (r *rewriter) folds(form kernel.Form, s scatterSize, at, updates *ir.Node) *ir.Node {
	switch form {
	case kernel.FormCompare:
		var hit *ir.Node // [wanted, K]
		if s.each {
			mine, others := r.pairs(r.wideIndex(at))
			hit = r.binary(ir.OpEq, mine, others)
		} else {
			hit = r.hits(at, ir.Shape{s.base[1], s.updates[1]})
		}
		one := ir.D(1)
		return r.foldHits(r.reshape(hit, ir.Shape{one, s.wanted(), s.updates[1], one}),
			r.reshape(updates, ir.Shape{s.updates[0], one, s.updates[1], s.updates[2]}), 2, s.mode)
	case kernel.FormSort:
		wanted := at
		if !s.each {
			wanted = r.iota(s.base[1:2], 0)
		}
		return r.sortedFolds(at, wanted, updates, s.base[1], s.mode)
	}
	l := r.destinationRows(s, at)
	folded := r.accumulated(form, l, updates)
	if !s.each {
		return r.reshape(folded, s.base)
	}
	rows := r.notEmpty(r.reshape(folded, ir.Shape{l.places, s.base[2]}), 0)
	picked := r.onAxis(ir.OpIndexSelect, 0, rows, r.notBelowZero(l.at))
	return r.reshape(picked, s.updates)
}

// lastRows returns the index of the last update of each of the N destinations, or -1 if a destination has none. If
// find.each is set it returns K indices: for each update the last one with the same destination.
func (r *rewriter) lastRows(form kernel.Form, find scatterSize, at *ir.Node) *ir.Node {
	places := ir.Shape{find.wanted(), find.updates[1]}
	if form == kernel.FormCompare {
		return r.lastHit(r.hits(at, places), places)
	}
	numbers := r.reshape(r.iota(find.updates[1:2], 0), find.updates)
	last := r.reshape(r.folds(form, find, at, numbers), places[:1])
	return r.binary(ir.OpMax, last, r.scalar(ir.I32, -1))
}

// pickedRows returns base [outer, N, inner] with row n replaced by row pos[n] of updates unless pos[n] is negative.
func (r *rewriter) pickedRows(base, updates, pos *ir.Node) *ir.Node {
	picked := r.onAxis(ir.OpIndexSelect, 1, r.notEmpty(updates, 1), r.notBelowZero(pos))
	return r.choose(r.reshape(pos, ir.Shape{pos.Shape()[0], ir.D(1)}), picked, base)
}

// hits returns, for each destination and index, whether they are equal, in shape places = [destinations, indices].
func (r *rewriter) hits(indices *ir.Node, places ir.Shape) *ir.Node {
	indices = r.wideIndex(indices)
	at := r.add(ir.OpIota, nil, attr("dtype", indices.DType()), attr("shape", places), attr("axis", 0))
	return r.binary(ir.OpEq, indices, at)
}

// wideIndex casts indices other than i64 to i32. A u32 too large for i32 becomes negative, so it stays out of range.
func (r *rewriter) wideIndex(x *ir.Node) *ir.Node {
	if x.DType() == ir.I64 {
		return x
	}
	return r.castTo(x, ir.I32)
}

// foldInto returns base combined with folded updates, computed in the accumulator dtype.
func (r *rewriter) foldInto(base, folded *ir.Node, mode string) *ir.Node {
	t := base.DType()
	wide := kernel.AccType(t)
	combine := analysis.CombineOps[analysis.ScatterReductions[mode]]
	return r.castTo(r.binary(combine, r.castTo(base, wide), r.castTo(folded, wide)), t)
}

// foldHits returns the fold of the updates for which hit is true, along an axis, in the accumulator dtype.
func (r *rewriter) foldHits(hit, updates *ir.Node, axis int, mode string) *ir.Node {
	t := updates.DType()
	masked := r.where(hit, updates, r.scalar(t, neutral(mode, t)))
	if t.IsFloat() {
		masked = r.castTo(masked, kernel.AccType(t))
	}
	return r.unary(analysis.ScatterReductions[mode], masked, attr("axes", []int{axis}))
}

// lastHit returns the last position along the innermost axis of places at which hit is true, or -1 if there is none.
func (r *rewriter) lastHit(hit *ir.Node, places ir.Shape) *ir.Node {
	pos := r.where(hit, r.iota(places, 1), r.scalar(ir.I32, -1))
	top := r.unary(ir.OpReduceMax, pos, attr("axes", []int{-1}))
	return r.binary(ir.OpMax, top, r.scalar(ir.I32, -1)) // the maximum of no elements is less
}

// notEmpty pads an axis of x that may be empty by one element. A gather from it then has an element to read, even
// though its result is discarded.
func (r *rewriter) notEmpty(x *ir.Node, axis int) *ir.Node {
	if x.Shape()[axis].Min() > 0 {
		return x
	}
	low, high := make([]int64, x.Rank()), make([]int64, x.Rank())
	high[axis] = 1
	return r.unary(ir.OpPad, x, attr("low", low), attr("high", high))
}

// notBelowZero returns max(pos, 0).
func (r *rewriter) notBelowZero(pos *ir.Node) *ir.Node {
	return r.binary(ir.OpMax, pos, r.scalar(ir.I32, 0))
}

// choose returns picked where pos is not negative, else base.
func (r *rewriter) choose(pos, picked, base *ir.Node) *ir.Node {
	found := r.binary(ir.OpGe, pos, r.scalar(ir.I32, 0))
	return r.where(found, picked, base)
}

// What flatIndex makes of coordinates out of range.
const (
	clampsOutside = false // the nearest position
	dropsOutside  = true  // a negative position
)

// flatIndex converts indices[…, R], in which each row has coordinates along the R outermost axes of shape s, to
// row-major positions over these axes. Coordinates out of range are clamped, or give a negative position if drop is
// set.
func (r *rewriter) flatIndex(indices *ir.Node, s ir.Shape, drop bool) *ir.Node {
	is := indices.Shape()
	positive := analysis.NeverNegative(indices.DType())
	rank := int(is[len(is)-1].Add)
	rows := r.numel(is[:len(is)-1])
	if !drop && indices.DType() == ir.U32 { // clamp before large values become negative as i32
		indices = r.binary(ir.OpMin, indices, r.scalar(ir.U32, math.MaxInt32))
	}
	table := r.reshape(r.wideIndex(indices), ir.Shape{rows, is[len(is)-1]})
	t := table.DType()
	flat := r.scalar(t, 0)
	var outside *ir.Node
	for i := range rank {
		column := r.slice(table, []int64{0, int64(i)}, ir.Shape{rows, ir.D(i + 1)})
		extent := r.castTo(r.dimValue(s[i]), t)
		if drop {
			out := r.isOutside(column, extent, positive)
			if outside != nil {
				out = r.binary(ir.OpOr, outside, out)
			}
			outside = out
		}
		end := r.binary(ir.OpSub, extent, r.scalar(t, 1))
		column = r.binary(ir.OpMin, column, end)
		if !positive || s[i].Min() == 0 {
			column = r.binary(ir.OpMax, column, r.scalar(t, 0))
		}
		flat = r.binary(ir.OpAdd, r.binary(ir.OpMul, flat, extent), column)
	}
	if outside != nil {
		flat = r.where(outside, r.scalar(t, -1), flat)
	}
	if flat.Rank() == 0 { // rows without coordinates all refer to the whole of x
		flat = r.unary(ir.OpBroadcast, flat, attr("shape", ir.Shape{rows}))
	}
	return r.reshape(flat, ir.Shape{rows})
}

// isOutside returns which elements of x are not in [0, extent). positive says that none is negative.
func (r *rewriter) isOutside(x, extent *ir.Node, positive bool) *ir.Node {
	if positive {
		return r.binary(ir.OpGe, x, extent)
	}
	below := r.binary(ir.OpLt, x, r.scalar(x.DType(), 0))
	return r.binary(ir.OpOr, below, r.binary(ir.OpGe, x, extent))
}

// split returns the number of elements along the axes of shape s that rows of coordinates index, and along the
// remaining axes.
func (r *rewriter) split(s ir.Shape, indices *ir.Node) (outer, inner ir.Dim) {
	rank := int(indices.Shape()[indices.Rank()-1].Add)
	return r.numel(s[:rank]), r.numel(s[rank:])
}

// gatherND decomposes gather_nd to an index_select of flattened rows.
func (r *rewriter) gatherND(n *ir.Node, args []*ir.Node) *ir.Node {
	x, indices := args[0], args[1]
	outer, inner := r.split(x.Shape(), indices)
	flat := r.flatIndex(indices, x.Shape(), clampsOutside)
	rows := r.reshape(x, ir.Shape{outer, inner})
	return r.reshape(r.onAxis(ir.OpIndexSelect, 0, rows, flat), n.Shape())
}

// scatterND decomposes scatter_nd and scatter_nd_add to a scatter of flattened rows.
func (r *rewriter) scatterND(n *ir.Node, args []*ir.Node) *ir.Node {
	base, indices, updates := args[0], args[1], args[2]
	outer, inner := r.split(base.Shape(), indices)
	flat := r.flatIndex(indices, base.Shape(), dropsOutside)
	one := ir.D(1)
	rows := ir.Shape{one, flat.Shape()[0], inner}
	out := r.rowsInto(n, r.reshape(base, ir.Shape{one, outer, inner}), flat, r.reshape(updates, rows))
	return r.reshape(out, n.Shape())
}
