package gomlx

import (
	"math"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapeinference"
	"github.com/pkg/errors"
	"github.com/vkc-go/vkc/ir"
)

// reductions has the operations that fold axes away.
var reductions = map[compute.OpType]func(x tensor, axes []int) tensor{
	compute.OpTypeReduceSum:        func(x tensor, axes []int) tensor { return x.Sum(axes...) },
	compute.OpTypeReduceProduct:    func(x tensor, axes []int) tensor { return x.Prod(axes...) },
	compute.OpTypeReduceMax:        func(x tensor, axes []int) tensor { return x.ReduceMax(axes...) },
	compute.OpTypeReduceMin:        func(x tensor, axes []int) tensor { return x.ReduceMin(axes...) },
	compute.OpTypeReduceLogicalAnd: func(x tensor, axes []int) tensor { return x.All(axes...) },
	compute.OpTypeReduceLogicalOr:  func(x tensor, axes []int) tensor { return x.Any(axes...) },
	compute.OpTypeReduceLogicalXor: func(x tensor, axes []int) tensor {
		odd := x.Cast(ir.I32).Sum(axes...)
		return odd.And(odd.Lit(1)).Ne(odd.Lit(0))
	},
	compute.OpTypeReduceBitwiseAnd: func(x tensor, axes []int) tensor { return foldByHalves(x, axes, tensor.And) },
	compute.OpTypeReduceBitwiseOr:  func(x tensor, axes []int) tensor { return foldByHalves(x, axes, tensor.Or) },
	compute.OpTypeReduceBitwiseXor: func(x tensor, axes []int) tensor { return foldByHalves(x, axes, tensor.Xor) },
}

// reduce adds a reduction of x along axes, or along all axes if none are given.
func (f *Function) reduce(kind compute.OpType, x compute.Value, axes []int) (compute.Value, error) {
	args, err := f.values(kind, x)
	if err != nil {
		return nil, err
	}
	if len(axes) == 0 {
		axes = firstAxes(args[0].shape.Rank())
	}
	shape, err := shapeinference.Reduce(args[0].shape, axes)
	return f.addOne(kind, args, shape, err, one(func(in []tensor) tensor {
		if len(axes) == 0 {
			return in[0] // a scalar
		}
		return reductions[kind](in[0], axes)
	}))
}

// firstAxes returns the axes 0 to n-1.
func firstAxes(n int) []int {
	axes := make([]int, n)
	for i := range axes {
		axes[i] = i
	}
	return axes
}

// foldByHalves folds axes of x with a binary operation. It folds the second half of the elements onto the first until
// one is left.
func foldByHalves(x tensor, axes []int, by func(x, y tensor) tensor) tensor {
	x = toBack(x, axes)
	kept := x.Rank() - len(axes)
	dims := sizes(x)[:kept]
	n := 1
	for _, d := range sizes(x)[kept:] {
		n *= d
	}
	if n == 0 {
		x.Builder().Fail("reduce", errors.New("a bitwise reduction of no elements"))
	}
	x = x.Reshape(dims, n)
	for ; n > 1; n -= n / 2 {
		half := n / 2
		folded := by(cut(x, kept, 0, half, 1), cut(x, kept, half, 2*half, 1))
		if n%2 == 1 { // the middle element waits for the next round
			folded = folded.Concat(kept, cut(x, kept, n-1, n, 1))
		}
		x = folded
	}
	return x.Squeeze(kept)
}

// toBack moves the given axes behind all others, in the given order.
func toBack(x tensor, axes []int) tensor {
	back := map[int]bool{}
	for _, a := range axes {
		back[a] = true
	}
	var perm []int
	for a := range x.Rank() {
		if !back[a] {
			perm = append(perm, a)
		}
	}
	return transpose(x, append(perm, axes...))
}

// ReduceSum implements compute.Function: the sum of x along axes. Without axes, reductions are along all of them.
func (f *Function) ReduceSum(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceSum, x, axes)
}

// ReduceProduct implements compute.Function: the product of x along axes.
func (f *Function) ReduceProduct(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceProduct, x, axes)
}

// ReduceMax implements compute.Function: the largest element of x along axes, or NaN if there is one.
func (f *Function) ReduceMax(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceMax, x, axes)
}

// ReduceMin implements compute.Function: the smallest element of x along axes, or NaN if there is one.
func (f *Function) ReduceMin(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceMin, x, axes)
}

// ReduceLogicalAnd implements compute.Function: whether all elements along axes are true.
func (f *Function) ReduceLogicalAnd(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceLogicalAnd, x, axes)
}

// ReduceLogicalOr implements compute.Function: whether any element along axes is true.
func (f *Function) ReduceLogicalOr(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceLogicalOr, x, axes)
}

// ReduceLogicalXor implements compute.Function: whether the number of true elements along axes is odd.
func (f *Function) ReduceLogicalXor(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceLogicalXor, x, axes)
}

// ReduceBitwiseAnd implements compute.Function: the bitwise and of all elements along axes.
func (f *Function) ReduceBitwiseAnd(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceBitwiseAnd, x, axes)
}

// ReduceBitwiseOr implements compute.Function: the bitwise or of all elements along axes.
func (f *Function) ReduceBitwiseOr(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceBitwiseOr, x, axes)
}

// ReduceBitwiseXor implements compute.Function: the bitwise xor of all elements along axes.
func (f *Function) ReduceBitwiseXor(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceBitwiseXor, x, axes)
}

// ArgMinMax implements compute.Function: the coordinate, in dtype `to`, of the first smallest element along an axis if
// isMin is true, or else of the first largest.
func (f *Function) ArgMinMax(x compute.Value, axis int, to dtypes.DType, isMin bool) (compute.Value, error) {
	args, err := f.values(compute.OpTypeArgMinMax, x)
	if err != nil {
		return nil, err
	}
	t, err := elementType(to)
	if err != nil {
		return nil, err
	}
	shape, err := shapeinference.ArgMinMax(args[0].shape, axis, to)
	return f.addOne(compute.OpTypeArgMinMax, args, shape, err, one(func(in []tensor) tensor {
		if isMin {
			return cast(in[0].Argmin(axis), t)
		}
		return cast(in[0].Argmax(axis), t)
	}))
}

// windowOps describes the window reductions: the initial value, also used for padding, the binary op, and the reduction
// along an axis.
var windowOps = map[compute.ReduceOpType]struct {
	start func(t ir.DType) float64
	by    func(x, y tensor) tensor
	fold  func(x tensor, axis int) tensor
}{
	compute.ReduceOpSum: {func(ir.DType) float64 { return 0 }, tensor.Add,
		func(x tensor, axis int) tensor { return x.Sum(axis) }},
	compute.ReduceOpProduct: {func(ir.DType) float64 { return 1 }, tensor.Mul,
		func(x tensor, axis int) tensor { return x.Prod(axis) }},
	compute.ReduceOpMax: {func(t ir.DType) float64 { return bound(t, -1) }, tensor.Max,
		func(x tensor, axis int) tensor { return x.ReduceMax(axis) }},
	compute.ReduceOpMin: {func(t ir.DType) float64 { return bound(t, 1) }, tensor.Min,
		func(x tensor, axis int) tensor { return x.ReduceMin(axis) }},
}

// bound returns the largest value of a dtype, or the smallest if sign is negative. For i64 the largest is the largest
// float64 below 2^63.
func bound(t ir.DType, sign int) float64 {
	if t.IsFloat() {
		return math.Inf(sign)
	}
	low, high := ir.IntRange(t)
	switch {
	case sign < 0:
		return float64(low)
	case t == ir.I64:
		return math.Nextafter(float64(high), 0) // float64(high) is rounded up to 2^63
	}
	return float64(high)
}

// longWindow is the smallest extent for which windows are gathered and then reduced. Shorter windows are combined
// element by element.
const longWindow = 16

// ReduceWindow implements compute.Function. It reduces the windows along one axis after the other, which gives the same
// result as all at once for sums, products, maxima and minima.
func (f *Function) ReduceWindow(x compute.Value, reduction compute.ReduceOpType, window, strides, inputDilations,
	windowDilations []int, paddings [][2]int) (compute.Value, error) {
	kind := compute.OpTypeReduceWindow
	args, err := f.values(kind, x)
	if err != nil {
		return nil, err
	}
	op, ok := windowOps[reduction]
	if !ok {
		return nil, errors.Wrapf(compute.ErrNotImplemented, "ReduceWindow by %s", reduction)
	}
	if len(strides) == 0 {
		strides = window
	}
	shape, err := shapeinference.ReduceWindow(args[0].shape, window, strides, inputDilations, windowDilations, paddings)
	return f.addOne(kind, args, shape, err, func(l *lowering, in []tensor) []tensor {
		t := in[0].DType()
		if t.IsFloat() && t.BlockBytes() < 4 && (reduction == compute.ReduceOpSum ||
			reduction == compute.ReduceOpProduct) {
			in[0] = in[0].Cast(ir.F32) // rounds once, not for each axis
		}
		y := pad(in[0], op.start(t), padAxes(paddings, inputDilations, len(window)))
		for a, n := range l.dims(shape) {
			if window[a] == 1 && strides[a] == 1 { // nothing to reduce
				continue
			}
			w := windows{numbers(l.b, ir.Shape{n})[0], window[a], strides[a], at(windowDilations, a, 1)}
			if w.size >= longWindow {
				y = op.fold(w.gather(y, a), a+1)
				continue
			}
			// A few binary operations are faster than a gather.
			folded := w.element(y, a, 0)
			for k := 1; k < w.size; k++ {
				folded = op.by(folded, w.element(y, a, k))
			}
			y = folded
		}
		return []tensor{cast(y, t)}
	})
}

// at returns list[i], or empty if the list is empty.
func at(list []int, i, empty int) int {
	if len(list) == 0 {
		return empty
	}
	return list[i]
}

// padAxes converts optional padding and dilation to the axes of a pad.
func padAxes(paddings [][2]int, dilations []int, rank int) []compute.PadAxis {
	axes := make([]compute.PadAxis, rank)
	for i := range axes {
		axes[i].Interior = at(dilations, i, 1) - 1
		if len(paddings) > 0 {
			axes[i].Start, axes[i].End = paddings[i][0], paddings[i][1]
		}
	}
	return axes
}

// windows has the number of windows along an axis, their size, their distance and the distance of their elements.
type windows struct{ count, size, stride, dilation int }

// element returns element k of each window of x along an axis.
func (w windows) element(x tensor, axis, k int) tensor {
	start := k * w.dilation
	return cut(x, axis, start, start+(w.count-1)*w.stride+1, w.stride)
}

// gather returns x with an axis replaced by two: the windows, and the elements of each.
func (w windows) gather(x tensor, axis int) tensor {
	places := make([]int, 0, w.count*w.size)
	for i := range w.count {
		for k := range w.size {
			places = append(places, i*w.stride+k*w.dilation)
		}
	}
	dims := sizes(x)
	to := slices.Concat(dims[:axis], []int{w.count, w.size}, dims[axis+1:])
	return x.IndexSelect(axis, x.Builder().Const(places, len(places))).Reshape(to)
}

// SelectAndScatterMax implements compute.Function. The result has x's shape. It begins as zeros, and for each window of
// x it adds an element of source to the position of the first largest element in the window.
func (f *Function) SelectAndScatterMax(x, source compute.Value, window, strides []int, paddings [][2]int) (
	compute.Value, error) {
	return f.selectAndScatter(compute.OpTypeSelectAndScatterMax, x, source, window, strides, paddings)
}

// SelectAndScatterMin implements compute.Function. It is like SelectAndScatterMax, but adds to the position of the
// first smallest element.
func (f *Function) SelectAndScatterMin(x, source compute.Value, window, strides []int, paddings [][2]int) (
	compute.Value, error) {
	return f.selectAndScatter(compute.OpTypeSelectAndScatterMin, x, source, window, strides, paddings)
}

// selectAndScatter adds each element of source to one element of the result: the position of the first largest, or
// smallest, element in the window of x.
func (f *Function) selectAndScatter(kind compute.OpType, x, source compute.Value, window, strides []int,
	paddings [][2]int) (compute.Value, error) {
	args, err := f.values(kind, x, source)
	if err != nil {
		return nil, err
	}
	if len(strides) == 0 {
		strides = window
	}
	shape, err := shapeinference.SelectAndScatter(args[0].shape, args[1].shape, window, strides, paddings)
	return f.addOne(kind, args, shape, err, one(func(in []tensor) tensor {
		x, source := in[0], in[1]
		sign, pick := -1, tensor.Argmax
		if kind == compute.OpTypeSelectAndScatterMin {
			sign, pick = 1, tensor.Argmin
		}
		axes := padAxes(paddings, nil, x.Rank())
		padded := pad(x, bound(x.DType(), sign), axes)
		picked := pick(windowsLast(padded, sizes(source), window, strides), -1)

		// The index in the padded tensor, in row-major order.
		place, rest := picked.Lit(0), picked
		dims, pitch := sizes(padded), 1
		for a := x.Rank() - 1; a >= 0; a-- {
			size := rest.Lit(float64(window[a]))
			first := x.Builder().Iota(ir.I32, a, sizes(source)).MulScalar(float64(strides[a])) // of the window
			place = place.Add(first.Add(rest.Rem(size)).MulScalar(float64(pitch)))
			rest, pitch = rest.Div(size), pitch*dims[a]
		}
		elements := pitch
		sums := x.Builder().Full(source.DType(), 0, elements).ScatterAdd(0, place.Reshape(-1),
			source.Reshape(-1)).Reshape(dims)
		for a, p := range axes {
			sums = cut(sums, a, p.Start, dims[a]-p.End, 1)
		}
		return sums
	}))
}

// windowsLast returns the windows of a tensor: axes for the positions of the windows, and a last axis for the elements
// of each.
func windowsLast(x tensor, counts, window, strides []int) tensor {
	elements := 1
	for a := x.Rank() - 1; a >= 0; a-- {
		elements *= window[a]
		w := windows{counts[a], window[a], strides[a], 1}
		x = w.gather(x, a) // [..., windows, element, ...windows of axes after it, their elements]
		x = moveAxis(x, a+1, len(window)).Reshape(slices.Concat(sizes(x)[:a+1], counts[a+1:], []int{elements}))
	}
	return x
}

// moveAxis moves an axis to another position.
func moveAxis(x tensor, from, to int) tensor {
	var perm []int
	for a := range x.Rank() {
		if a != from {
			perm = append(perm, a)
		}
	}
	return transpose(x, slices.Insert(perm, to, from))
}
