package frontend

import (
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// Reshape returns the same elements in row-major order with another shape. One extent may be -1: it is computed from
// the others.
func (t Tensor) Reshape(dims ...Dim) Tensor {
	to := mustShape(ir.OpReshape, dims, t)
	to, err := fillInferred(t.Shape(), to)
	if err != nil {
		fail("reshape", err, t)
	}
	return t.unary(ir.OpReshape, attr("shape", to))
}

// Transpose permutes the axes: axis i of the result is axis perm[i] of t.
func (t Tensor) Transpose(perm ...int) Tensor { return t.unary(ir.OpTranspose, attr("perm", perm)) }

// T swaps the two innermost axes.
func (t Tensor) T() Tensor {
	n := t.Rank()
	if n < 2 {
		fail("transpose", fmt.Errorf("T swaps the two innermost axes, and %s has %d", t.Shape(), n), t)
	}
	return t.SwapAxes(n-2, n-1)
}

// SwapAxes exchanges two axes.
func (t Tensor) SwapAxes(a, b int) Tensor {
	perm := make([]int, t.Rank())
	for i := range perm {
		perm[i] = i
	}
	i, j := t.axis(ir.OpTranspose, a), t.axis(ir.OpTranspose, b)
	perm[i], perm[j] = j, i
	return t.Transpose(perm...)
}

// Slice returns the elements from start up to, not including, limit along one axis. The limit may be symbolic, but must
// not exceed the extent for any value of the symbol.
func (t Tensor) Slice(axis, start int, limit Dim) Tensor { return t.SliceStep(axis, start, limit, 1) }

// SliceStep returns every step-th element of t along an axis, from index start up to, not including, limit.
func (t Tensor) SliceStep(axis, start int, limit Dim, step int) Tensor {
	a := t.axis(ir.OpSlice, axis)
	starts, steps := make([]int, t.Rank()), []int{} // no steps are steps of 1
	limits := append(ir.Shape{}, t.Shape()...)
	starts[a], limits[a] = start, mustDim(ir.OpSlice, limit, t)
	if step != 1 {
		steps = make([]int, t.Rank())
		for i := range steps {
			steps[i] = 1
		}
		steps[a] = step
	}
	return t.unary(ir.OpSlice, attr("starts", starts), attr("limits", limits), attr("steps", steps))
}

// Index returns the slice at coordinate i of an axis, without that axis. A negative i counts from the end of an axis
// with a static extent.
func (t Tensor) Index(axis, i int) Tensor {
	if d := t.Dim(axis); i < 0 && d.IsStatic() {
		i += d.Static()
	}
	return t.Slice(axis, i, i+1).Squeeze(axis)
}

// Broadcast repeats t to the given shape: along axes of extent 1, and along new outer axes. Elementwise methods
// broadcast implicitly.
func (t Tensor) Broadcast(dims ...Dim) Tensor {
	return t.unary(ir.OpBroadcast, attr("shape", mustShape(ir.OpBroadcast, dims, t)))
}

// Squeeze removes the given axes, which must have extent 1.
func (t Tensor) Squeeze(axes ...int) Tensor { return t.unary(ir.OpSqueeze, attr("axes", axes)) }

// Unsqueeze inserts axes of extent 1. axes are their positions in the result.
func (t Tensor) Unsqueeze(axes ...int) Tensor { return t.unary(ir.OpUnsqueeze, attr("axes", axes)) }

// Flip reverses the order along the given axes, or along all if none is given.
func (t Tensor) Flip(axes ...int) Tensor { return t.unary(ir.OpFlip, attr("axes", axes)) }

// Roll shifts the elements along an axis by shift coordinates, cyclically.
func (t Tensor) Roll(axis, shift int) Tensor {
	shifts := make([]int, t.Rank())
	shifts[t.axis(ir.OpRoll, axis)] = shift
	return t.unary(ir.OpRoll, attr("shifts", shifts))
}

// Split splits t along an axis into parts with the given extents, which must add up to the axis's extent.
func (t Tensor) Split(axis int, sizes ...int) []Tensor {
	total := 0
	for _, n := range sizes {
		total += n
	}
	if d := t.Dim(axis); !d.Is(total) {
		fail("slice", fmt.Errorf("the parts %v along axis %d have the sum %d: want %s", sizes, axis, total, d), t)
	}
	parts, start := make([]Tensor, len(sizes)), 0
	for i, n := range sizes {
		parts[i] = t.Slice(axis, start, start+n)
		start += n
	}
	return parts
}

// axis resolves an axis of t for op.
func (t Tensor) axis(op ir.Op, axis int) int {
	a, err := ir.ResolveAxis(int64(axis), t.Rank())
	if err != nil {
		fail(op.String(), err, t)
	}
	return a
}
