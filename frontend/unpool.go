package frontend

import (
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// maxIndexed is the largest number of elements of a window in MaxPoolIndices.
const maxIndexed = 256

// MaxPoolIndices returns the largest element of each window, as MaxPool does, and its index in all of t, as i64. Among
// equal elements, the first of the window counts. Indices are row-major or, with columnMajor, have the innermost axes
// in reverse order, as in ONNX's storage_order 1. All extents except the batch axis must be static, and a window has at
// most 256 elements.
func (t Tensor) MaxPoolIndices(kernel []int, columnMajor bool, options ...WindowOption) (largest, places Tensor) {
	const op = "max_pool with indices"
	largest = t.MaxPool(kernel, options...)
	to := largest.Shape()
	w := ir.WindowOf(largest.node)
	elements := int64(1)
	for _, k := range w.Kernel {
		elements *= k
		if elements > maxIndexed {
			fail(op, fmt.Errorf("windows of %v: want at most %d elements", kernel, maxIndexed), t)
		}
	}
	first := t.Rank() - len(kernel)
	if from := min(first, 1); !t.Shape()[from:].IsStatic() || !to[from:].IsStatic() {
		fail(op, fmt.Errorf("want fixed extents of %s after the batch", t.Shape()), t)
	}
	// Pad x, and the indices of its elements, up to the end of the last window.
	low, high := make([]int, t.Rank()), make([]int, t.Rank())
	for i := range kernel {
		axis := first + i
		low[axis] = int(w.Low[i])
		reach := (to[axis].Static()-1)*int(w.Stride[i]) + int(w.Dilation[i]*(w.Kernel[i]-1)) + 1
		high[axis] = max(0, reach-low[axis]-t.Shape()[axis].Static())
	}
	x, place := t, t.places(first, columnMajor)
	if !x.DType().IsFloat() {
		x = x.Cast(ir.F64)
	}
	x, place = x.Pad(low, high, math.Inf(-1)), place.Pad(low, high, 0)
	var values, at []Tensor // by element of a window: its value and its index, for all windows
	for k := range int(elements) {
		a, b, rest := x, place, k
		for i := len(kernel) - 1; i >= 0; i-- {
			coordinate := rest % kernel[i] // of the element in the window
			rest /= kernel[i]
			start, stride := coordinate*int(w.Dilation[i]), int(w.Stride[i])
			limit := start + (to[first+i].Static()-1)*stride + 1
			a, b = a.SliceStep(first+i, start, limit, stride), b.SliceStep(first+i, start, limit, stride)
		}
		values, at = append(values, a), append(at, b)
	}
	found := values[0].Stack(-1, values[1:]...).ArgmaxKeep(-1)
	return largest, at[0].Stack(-1, at[1:]...).Gather(-1, found).Squeeze(-1)
}

// places returns the row-major index of each element of t, as i64. If columnMajor is set, the axes from `first` on are
// in reverse order: the index counts axis `first` fastest.
func (t Tensor) places(first int, columnMajor bool) Tensor {
	var order []int // the fastest axis comes first
	for axis := t.Rank() - 1; axis >= 0; axis-- {
		order = append(order, axis)
	}
	if columnMajor {
		slices.Reverse(order[:t.Rank()-first])
	}
	place, stride := t.b.Const(int64(0)).Broadcast(t.Shape()), int64(1)
	for _, axis := range order {
		place = place.Add(t.b.Iota(ir.I64, axis, t.Shape()).MulScalar(float64(stride)))
		stride *= t.Shape()[axis].Max()
	}
	return place
}

// MaxUnpool returns a tensor of the given shape that has the elements of t at places, the indices that MaxPoolIndices
// found, and 0 elsewhere. The indices are row-major over the whole tensor, and places has t's shape. If two elements
// have the same index, because windows overlap, the last in row-major order wins.
func (t Tensor) MaxUnpool(places Tensor, shape ...Dim) Tensor {
	const op = "max_unpool"
	t.must(op)
	places.must(op)
	if !places.Shape().Equal(t.Shape()) {
		fail(op, fmt.Errorf("positions are %s: want one for each element of %s", places.Shape(), t.Shape()), t, places)
	}
	total, err := mustShape(ir.OpScatter, shape, t, places).Numel()
	if err != nil {
		fail(op, err, t, places)
	}
	zeros := t.b.Full(t.DType(), 0, total)
	return zeros.Scatter(0, places.Reshape(-1), t.Reshape(-1)).Reshape(shape...)
}
