package frontend

import (
	"fmt"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// AdaptiveAvgPool pools the innermost axes to the given extents. On an axis of n elements, element i becomes the mean
// of the elements from floor(i*n/size) up to, not including, ceil((i+1)*n/size). The axes' extents must be static and
// above 0. If they are multiples of the new ones, this is AvgPool. Otherwise the windows differ in size, and
// AdaptiveAvgPool gathers them, with zeros after the shorter ones.
func (t Tensor) AdaptiveAvgPool(size ...int) Tensor {
	from := t.pooledExtents(size)
	kernel := make([]int, len(size))
	even := true // all windows have the same size and do not overlap
	for i, to := range size {
		kernel[i] = from[i] / to
		even = even && from[i]%to == 0
	}
	if even {
		return t.AvgPool(kernel)
	}
	return t.unevenAvgPool(from, size)
}

// pooledExtents returns the extents of the innermost axes, which are to be pooled to size. It fails if that is
// impossible.
func (t Tensor) pooledExtents(size []int) []int {
	refuse := func(want string) {
		fail("adaptive average pooling", fmt.Errorf("from %s to %v: want %s", t.Shape(), size, want), t)
	}
	outer := t.Rank() - len(size)
	if len(size) == 0 || outer < 0 {
		refuse(fmt.Sprintf("1 to %d extents", t.Rank()))
	}
	if !t.DType().IsFloat() {
		refuse("floats")
	}
	from := make([]int, len(size))
	for i, to := range size {
		d := t.Shape()[outer+i]
		if !d.IsStatic() || d.Static() < 1 || to < 1 {
			refuse(fmt.Sprintf("numbers above 0 for both extents of axis %d", outer+i))
		}
		from[i] = d.Static()
	}
	return from
}

// unevenAvgPool pools windows of different sizes. It gathers the windows of each axis into two axes, [size, longest
// window], zeroes the elements after a window's end, and divides the sums by the windows' sizes. It sums in f32, or in
// f64 for f64.
func (t Tensor) unevenAvgPool(from, size []int) Tensor {
	outer, acc := t.Rank()-len(size), ir.F32
	if t.DType() == ir.F64 {
		acc = ir.F64
	}
	x, split := t, append(ir.Shape{}, t.Shape()[:outer]...)
	var inside, count Tensor
	summed := []int{}
	for i, to := range size {
		w := adaptiveWindows(from[i], to)
		// Each axis becomes two, [to, longest], and the second axis is summed.
		x = x.IndexSelect(outer+i, t.b.Const(w.at))
		split = append(split, ir.D(to), ir.D(w.longest))
		summed = append(summed, outer+2*i+1)
		after := len(size) - 1 - i // the axes to the right, which masks and counts broadcast over
		inside = inside.join(Tensor.And, t.b.Const(w.inside, to, w.longest).withOnes(2*after))
		count = count.join(Tensor.Mul, t.b.Const(w.count).withOnes(after))
	}
	x = inside.Where(x.Reshape(split), t.Lit(0)).to(acc)
	return x.Sum(summed...).Div(count.to(acc)).to(t.DType())
}

// join returns f(t, u). If t is the zero Tensor, as before the first of several calls, it returns u.
func (t Tensor) join(f func(t, u Tensor) Tensor, u Tensor) Tensor {
	if t.IsZero() {
		return u
	}
	return f(t, u)
}

// withOnes appends n axes of extent 1.
func (t Tensor) withOnes(n int) Tensor {
	if n == 0 {
		return t
	}
	axes := make([]int, n)
	for i := range axes {
		axes[i] = -1 - i
	}
	return t.Unsqueeze(axes...)
}

// to returns t cast to a dtype, or t itself if it has that dtype already.
func (t Tensor) to(d ir.DType) Tensor {
	if t.DType() == d {
		return t
	}
	return t.Cast(d)
}

// windows describes n windows along one axis, padded to the longest one.
type windows struct {
	longest int
	at      []int32   // [n, longest]: the coordinates
	inside  []bool    // [n, longest]: whether the coordinate belongs to the window, and not to its padding
	count   []float32 // [n]: the number of elements of the window without padding
}

// adaptiveWindows returns the `to` windows that pool an axis of `from` elements.
func adaptiveWindows(from, to int) windows {
	first := func(i int) int { return i * from / to }
	end := func(i int) int { return ceil.Div((i+1)*from, to) }
	var w windows
	for i := range to {
		w.longest = max(w.longest, end(i)-first(i))
	}
	for i := range to {
		w.count = append(w.count, float32(end(i)-first(i)))
		for j := range w.longest {
			// Positions after the window's end are set to valid indices, and inside excludes them.
			w.at = append(w.at, int32(min(first(i)+j, from-1)))
			w.inside = append(w.inside, first(i)+j < end(i))
		}
	}
	return w
}
