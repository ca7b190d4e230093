package frontend

import (
	"errors"
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// The number of results of the functions in this file depends on values at run time. So results have the maximum size
// and come with a count, i32[]: the first `count` elements are valid, and the rest is zero.

// Compress selects slices like numpy.compress, but keeps the shape. front has the dtype and shape of t: first the
// slices along the axis for which keep, a bool[n], is true, in their order, and then zeros. count is the number of
// these slices.
func (t Tensor) Compress(axis int, keep Tensor) (front, count Tensor) {
	n, b := t.Dim(axis), t.Builder()
	if keep.DType() != ir.Bool || !keep.Shape().Equal(ir.Shape{n}) {
		fail("compress", fmt.Errorf("the condition %s must be bool[%s]", keep, n), t)
	}
	kept := keep.Cast(ir.I32)
	// Slices that are not kept go to an index past the end, where nothing is written.
	to := keep.Where(kept.CumSum(0, Exclusive()), b.DimValue(n).Cast(ir.I32))
	a, _ := ir.ResolveAxis(int64(axis), t.Rank()) // t.Dim has checked it
	to = to.Unsqueeze(otherAxes(t, a)...).Broadcast(t.Shape())
	zero := b.Scalar(ir.I32, 0).Cast(t.DType()).Broadcast(t.Shape())
	return zero.ScatterDistinct(axis, to, t), kept.Sum()
}

// otherAxes returns all axes of t except the given one.
func otherAxes(t Tensor, axis int) (others []int) {
	for i := range t.Rank() {
		if i != axis {
			others = append(others, i)
		}
	}
	return others
}

// Nonzero returns the coordinates of the nonzero elements, like numpy.nonzero. Column j of coordinates, i32[rank,
// elements], belongs to the j-th nonzero element in row-major order. The rank of t is at least 1.
func (t Tensor) Nonzero() (coordinates, count Tensor) {
	if t.Rank() == 0 {
		fail("nonzero", errors.New("a scalar has no coordinates: reshape it to [1]"), t)
	}
	b, flat := t.Builder(), t.Reshape(-1)
	if flat.DType() != ir.Bool {
		flat = flat.Ne(flat.Lit(0))
	}
	at, count := b.Iota(ir.I32, 0, flat.Dim(0)).Compress(0, flat) // positions in row-major order
	columns := make([]Tensor, t.Rank())
	for axis := t.Rank() - 1; axis > 0; axis-- {
		// The remainder is the coordinate on this axis, and the quotient is the position in the axes before it.
		n := b.DimValue(t.Dim(axis)).Cast(ir.I32)
		columns[axis], at = at.Rem(n), at.Div(n)
	}
	columns[0] = at
	return columns[0].Stack(0, columns[1:]...), count
}

// Uniques holds the distinct slices of a tensor along an axis, like the results of numpy.unique.
type Uniques struct {
	Values  Tensor // the distinct values
	First   Tensor // i32, the first occurrence of each
	Inverse Tensor // i32, for each slice of the tensor its index in Values
	Counts  Tensor // i32, the number of occurrences of each
	Count   Tensor // i32[], the number of valid elements of Values, First and Counts
}

// maxUniqueElems limits the elements of a slice, because Unique sorts the slices once per element.
const maxUniqueElems = 64

// Unique returns the distinct slices along an axis, in ascending order.
func (t Tensor) Unique(axis int) Uniques {
	n, b := t.Dim(axis), t.Builder()
	a, _ := ir.ResolveAxis(int64(axis), t.Rank()) // t.Dim has checked it
	rows := t.Transpose(append([]int{a}, otherAxes(t, a)...)...)
	elems, err := rows.Shape()[1:].Numel()
	if err != nil || !elems.IsStatic() || elems.Add < 1 || elems.Add > maxUniqueElems {
		fail("unique", fmt.Errorf("slices along axis %d have %s elements: want a number from 1 to %d", axis, elems,
			maxUniqueElems), t)
	}
	rows = rows.Reshape(n, elems)
	places := b.Iota(ir.I32, 0, n)
	order := places
	// Sorts are stable. So sorting by the last element first orders slices by their first element, then the second,
	// etc.
	for k := elems.Static() - 1; k >= 0; k-- {
		order = order.IndexSelect(0, rows.Index(1, k).IndexSelect(0, order).Argsort(0))
	}
	rows = rows.IndexSelect(0, order)
	before := rows.IndexSelect(0, places.SubScalar(1))             // before the first slice is itself: reading clamps
	isFirst := rows.Ne(before).Any(1).Or(places.Eq(places.Lit(0))) // of equal slices
	group := isFirst.Cast(ir.I32).CumSum(0).SubScalar(1)
	var u Uniques
	u.Values, u.Count = t.IndexSelect(axis, order).Compress(axis, isFirst)
	u.First, _ = order.Compress(0, isFirst)
	u.Inverse = b.Full(ir.I32, 0, n).ScatterDistinct(0, order, group)
	u.Counts = b.Full(ir.I32, 0, n).ScatterAdd(0, group, b.Full(ir.I32, 1, n))
	return u
}
