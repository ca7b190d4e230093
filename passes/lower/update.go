package lower

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// lowerUpdate makes the kernel of a write into a state in place. If writes are nested (see analysis.Overwrites.Nested),
// it stores the innermost write's values directly at their coordinates in the state.
func (l *lowerer) lowerUpdate() {
	w, _ := analysis.WriteOf(l.c.tails[0])
	if w.Op.DType().IsBlock() {
		l.lowerQuantizedUpdate(w)
		return
	}
	l.k.Family = kernel.FamilyMap
	if w.Op.Op() == ir.OpWhere {
		l.lowerReplaced(w)
		return
	}
	values := w.Values()
	// place maps coordinates in values to coordinates in the state. Each round goes to the next inner write: its
	// destination is a coordinate in the outer write's values, which the outer place maps to the state.
	place := func(at []kernel.Index) []kernel.Index { return l.destination(w, at) }
	for next, _, ok := l.f.states.Nested(w); ok; next, _, ok = l.f.states.Nested(next) {
		outer, from, to := place, next.Op.Shape(), values.Shape()
		values = next.Op.Arg(1)
		place = func(at []kernel.Index) []kernel.Index { return outer(reshaped(to, from, l.destination(next, at))) }
		l.ops[next.Op] = true
	}
	l.space = values.Shape()
	l.at = l.parallel(l.space)
	l.ops[w.Op] = true
	v := l.value(values, l.at)
	to := place(l.at)
	bind, index := l.binding(l.c.tails[0], writing), kernel.Linear(w.Op.Shape(), to)
	if mode := analysis.ScatterMode(w.Op); mode != "" {
		l.k.Bindings[bind].Read = true
		wide := kernel.AccType(w.Op.DType())
		old := l.b.Load(bind, w.Op.DType(), index, "old")
		combine := analysis.CombineOps[analysis.ScatterReductions[mode]]
		v = l.op(combine, wide, l.b.Cast(wide, old), l.b.Cast(wide, v))
	}
	l.k.Stores = append(l.k.Stores, kernel.Store{Bind: bind, Index: index, Value: kernel.Unstored(v)})
}

// lowerReplaced makes the kernel of a where that keeps some elements of a state: it stores only the other elements.
func (l *lowerer) lowerReplaced(w analysis.Write) {
	l.space = w.Op.Shape()
	l.at = l.parallel(l.space)
	l.ops[w.Op] = true
	replaced := l.value(w.Op.Arg(0), broadcastCoords(w.Op.Arg(0).Shape(), l.at))
	if w.Arg == 1 {
		replaced = l.is(ir.OpNot, replaced)
	}
	v := l.value(w.Values(), broadcastCoords(w.Values().Shape(), l.at))
	l.k.Guard = &kernel.Guard{Point: replaced}
	l.k.Stores = append(l.k.Stores, kernel.Store{Bind: l.binding(l.c.tails[0], writing),
		Index: kernel.Linear(l.space, l.at), Value: kernel.Unstored(v)})
}

// destination returns the coordinates in the state at which a write stores its value with coordinates at. For a scatter
// it also adds a guard, with which the kernel skips indices out of range.
func (l *lowerer) destination(w analysis.Write, at []kernel.Index) []kernel.Index {
	base := w.Op.Shape()
	to := slices.Clone(at)
	switch w.Op.Op() {
	case ir.OpScatterND, ir.OpScatterNDAdd:
		indices := w.Op.Arg(1)
		rank := indices.Rank() - 1
		to = make([]kernel.Index, indices.Shape()[rank].Add)
		for i := range to {
			to[i] = l.checkedIndex(indices, append(slices.Clone(at[:rank]), kernel.Const(int64(i))), base[i])
		}
		// Each index selects a slice of the state, so the axes after the index's own keep their coordinates.
		return append(to, at[rank:]...)
	}
	axis := analysis.Axis(w.Op)
	switch w.Op.Op() {
	case ir.OpDynamicUpdateSlice:
		to[axis] = l.updatePosition(w.Op, axis, to[axis])
	case ir.OpIndexAdd:
		to[axis] = l.checkedIndex(w.Op.Arg(1), at[axis:axis+1], base[axis])
	default:
		to[axis] = l.checkedIndex(w.Op.Arg(1), at, base[axis])
	}
	return to
}

// checkedIndex returns an element of an index tensor as a coordinate along an axis with the given extent. It adds a
// guard, with which the kernel skips points unless 0 <= index < extent.
func (l *lowerer) checkedIndex(indices *ir.Node, at []kernel.Index, extent ir.Dim) kernel.Index {
	v := l.value(indices, at)
	if v.DType != ir.I64 {
		v = l.b.Cast(ir.I32, v) // an overflowing u32 becomes negative, and so is also out of range
	}
	end := l.b.Cast(v.DType, l.b.FromIndex(kernel.DimIndex(extent)))
	within := l.is(ir.OpLt, v, end)
	if !analysis.NeverNegative(indices.DType()) {
		within = l.is(ir.OpAnd, l.is(ir.OpGe, v, l.b.Integer(v.DType, 0)), within)
	}
	if g := l.k.Guard; g != nil {
		within = l.is(ir.OpAnd, g.Point, within)
	}
	l.k.Guard = &kernel.Guard{Point: within}
	return l.indexOf(v, kernel.Last(extent))
}

// updatePosition maps a coordinate of the update along axis to the coordinate of the result at which
// dynamic_update_slice n writes that element.
func (l *lowerer) updatePosition(n *ir.Node, axis int, at kernel.Index) kernel.Index {
	at = at.Plus(l.startIndex(n, axis))
	if n.Attrs().Bool("wrap") {
		_, at = at.DivMod(n.Shape()[axis])
	}
	return at
}

// startIndex returns the start of dynamic_update_slice n. It is clamped so that the update fits or, if the update wraps
// around, taken modulo the extent.
func (l *lowerer) startIndex(n *ir.Node, axis int) kernel.Index {
	start := l.value(n.Arg(2), nil)
	if n.Attrs().Bool("wrap") {
		t, extent := start.DType, n.Shape()[axis]
		on := l.op(ir.OpMod, t, start, l.b.Integer(t, extent.Add))
		return l.indexOf(on, kernel.Last(extent))
	}
	room := kernel.DimIndex(n.Shape()[axis]).Minus(kernel.DimIndex(n.Arg(1).Shape()[axis]))
	return l.indexOf(start, room)
}
