package gomlx

import (
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapeinference"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
	"github.com/vkc-go/vkc/ir"
)

// moved adds an operation of one result that has a build of tensors alone.
func (f *Function) moved(kind compute.OpType, x compute.Value, infer func(x shapes.Shape) (shapes.Shape, error),
	b func(l *lowering, x tensor, to ir.Shape) tensor) (compute.Value, error) {
	args, err := f.values(kind, x)
	if err != nil {
		return nil, err
	}
	shape, err := infer(args[0].shape)
	return f.addOne(kind, args, shape, err, func(l *lowering, in []tensor) []tensor {
		return []tensor{b(l, in[0], l.dims(shape))}
	})
}

// Reshape implements compute.Function: the elements of x in row-major order under other extents.
func (f *Function) Reshape(x compute.Value, dims ...int) (compute.Value, error) {
	return f.moved(compute.OpTypeReshape, x,
		func(x shapes.Shape) (shapes.Shape, error) { return shapeinference.Reshape(x, dims) },
		func(_ *lowering, x tensor, to ir.Shape) tensor { return x.Reshape(to) })
}

// Transpose implements compute.Function: x with permuted axes. Axis i of the result is axis perm[i] of x.
func (f *Function) Transpose(x compute.Value, perm ...int) (compute.Value, error) {
	return f.moved(compute.OpTypeTranspose, x,
		func(x shapes.Shape) (shapes.Shape, error) { return shapeinference.Transpose(x, perm) },
		func(_ *lowering, x tensor, _ ir.Shape) tensor { return transpose(x, perm) })
}

// inverse returns the permutation that undoes perm.
func inverse(perm []int) []int {
	back := make([]int, len(perm))
	for i, a := range perm {
		back[a] = i
	}
	return back
}

// transpose transposes x. It returns x itself for the identity permutation.
func transpose(x tensor, perm []int) tensor {
	if slices.IsSorted(perm) {
		return x
	}
	return x.Transpose(perm...)
}

// BroadcastInDim implements compute.Function: x repeated to a shape. Axis i of x becomes axis axes[i] of the result.
func (f *Function) BroadcastInDim(x compute.Value, to shapes.Shape, axes []int) (compute.Value, error) {
	return f.moved(compute.OpTypeBroadcastInDim, x,
		func(x shapes.Shape) (shapes.Shape, error) {
			return to, shapeinference.BroadcastInDim(x, to, axes, f.builder.axisNames())
		},
		func(_ *lowering, x tensor, to ir.Shape) tensor { return spread(x, axes, len(to)).Broadcast(to) })
}

// spread expands a tensor to a rank. Its axes become the given axes, and the others have extent 1.
func spread(x tensor, axes []int, rank int) tensor {
	dims := ir.ShapeOf(ones(rank)...)
	for i, a := range axes {
		dims[a] = x.Dim(i)
	}
	return x.Reshape(dims)
}

func ones(n int) []int {
	return slices.Repeat([]int{1}, n)
}

// Iota implements compute.Function: a tensor in which each element is its coordinate along axis.
func (f *Function) Iota(shape shapes.Shape, axis int) (compute.Value, error) {
	if err := f.open(); err != nil {
		return nil, err
	}
	t, err := elementType(shape.DType)
	return f.addOne(compute.OpTypeIota, nil, shape, err, func(l *lowering, _ []tensor) []tensor {
		return []tensor{l.b.Iota(t, axis, l.dims(shape))}
	})
}

// Reverse implements compute.Function: x with the order of its elements reversed along axes.
func (f *Function) Reverse(x compute.Value, axes ...int) (compute.Value, error) {
	return f.moved(compute.OpTypeReverse, x, unchanged, func(_ *lowering, x tensor, _ ir.Shape) tensor {
		if len(axes) == 0 {
			return x
		}
		return x.Flip(axes...)
	})
}

func unchanged(x shapes.Shape) (shapes.Shape, error) { return x, nil }

// Slice implements compute.Function: the elements of x from starts to limits (exclusive) along each axis, in steps of
// strides. Without strides the steps are 1.
func (f *Function) Slice(x compute.Value, starts, limits, strides []int) (compute.Value, error) {
	return f.moved(compute.OpTypeSlice, x,
		func(x shapes.Shape) (shapes.Shape, error) { return shapeinference.Slice(x, starts, limits, strides) },
		func(_ *lowering, x tensor, _ ir.Shape) tensor {
			for a, limit := range limits {
				step := 1
				if len(strides) > 0 {
					step = strides[a]
				}
				if limit == shapes.DynamicDim { // the whole axis, because GoMLX cannot slice a dynamic axis
					continue
				}
				x = cut(x, a, starts[a], limit, step)
			}
			return x
		})
}

// cut slices along an axis. It returns x itself if the slice is the whole axis.
func cut(x tensor, axis, start, limit, step int) tensor {
	if start == 0 && x.Dim(axis).Is(limit) && step == 1 {
		return x
	}
	return x.SliceStep(axis, start, limit, step)
}

// Concatenate implements compute.Function: the operands joined along an axis.
func (f *Function) Concatenate(axis int, operands ...compute.Value) (compute.Value, error) {
	args, err := f.values(compute.OpTypeConcatenate, operands...)
	if err != nil {
		return nil, err
	}
	of := make([]shapes.Shape, len(args))
	for i, a := range args {
		of[i] = a.shape
	}
	shape, err := shapeinference.Concatenate(of, axis)
	return f.addOne(compute.OpTypeConcatenate, args, shape, err,
		one(func(in []tensor) tensor {
			if len(in) == 1 {
				return in[0]
			}
			return in[0].Concat(axis, in[1:]...)
		}))
}

// Pad implements compute.Function: x with elements fill before, after and between its elements along each axis. A
// negative number of elements before or after removes elements of x.
func (f *Function) Pad(x, fill compute.Value, axes ...compute.PadAxis) (compute.Value, error) {
	args, err := f.values(compute.OpTypePad, x, fill)
	if err != nil {
		return nil, err
	}
	shape, err := shapeinference.Pad(args[0].shape, axes...)
	return f.addOne(compute.OpTypePad, args, shape, err, one(func(in []tensor) tensor {
		if number := constant(args[1]); number != nil {
			return pad(in[0], number[0], axes)
		}
		// Op pad takes constants only: pad with 0, and choose the fill where there is no element.
		inside := in[0].Builder().Full(ir.Bool, 1, in[0].Shape())
		return pad(inside, 0, axes).Where(pad(in[0], 0, axes), in[1])
	}))
}

// pad adds elements with the given value before, between and after the elements of x along each axis. Negative padding
// removes elements.
func pad(x tensor, value float64, axes []compute.PadAxis) tensor {
	for a, p := range axes {
		if p.Interior > 0 && !x.Dim(a).Is(1) {
			n, dims := extent(x, a), sizes(x)
			// A new innermost axis holds an element and the padding after it. The padding after the last is cut off.
			apart := addAround(x.Unsqueeze(a+1), a+1, 0, p.Interior, value)
			dims[a] = n * (1 + p.Interior)
			x = cut(apart.Reshape(dims), a, 0, dims[a]-p.Interior, 1)
		}
	}
	for a, p := range axes {
		if p.Start < 0 || p.End < 0 {
			x = cut(x, a, max(-p.Start, 0), extent(x, a)-max(-p.End, 0), 1)
		}
		x = addAround(x, a, max(p.Start, 0), max(p.End, 0), value)
	}
	return x
}

// addAround pads x with a value: before elements at the start of an axis and after elements at its end.
func addAround(x tensor, axis, before, after int, value float64) tensor {
	if before == 0 && after == 0 {
		return x
	}
	low, high := make([]int, x.Rank()), make([]int, x.Rank())
	low[axis], high[axis] = before, after
	return x.Pad(low, high, value)
}

// startsOf returns one scalar for each axis, from separate scalars or from one vector.
func startsOf(kind compute.OpType, x *value, starts []*value) (func(in []tensor) []tensor, error) {
	rank := x.shape.Rank()
	if len(starts) == 1 && starts[0].shape.Rank() == 1 && starts[0].shape.Dimensions[0] == rank {
		return func(in []tensor) []tensor { return indexVectors(in[0], 0) }, nil
	}
	if len(starts) != rank {
		return nil, errors.Errorf("%s: %d starts for shape %s", kind, len(starts), x.shape)
	}
	return func(in []tensor) []tensor { return in }, nil
}

// DynamicSlice implements compute.Function: the part of x with extents dims that begins at starts. starts are clamped,
// so that the part lies inside x. They are one scalar for each axis, or one vector.
func (f *Function) DynamicSlice(x compute.Value, starts []compute.Value, dims []int) (compute.Value, error) {
	kind := compute.OpTypeDynamicSlice
	args, err := f.values(kind, append([]compute.Value{x}, starts...)...)
	if err != nil {
		return nil, err
	}
	scalars, err := startsOf(kind, args[0], args[1:])
	if err != nil {
		return nil, err
	}
	shape, err := shapeinference.DynamicSlice(args[0].shape, dims)
	return f.addOne(kind, args, shape, err, one(func(in []tensor) tensor {
		x := in[0]
		for a, start := range scalars(in[1:]) {
			if !x.Dim(a).Is(dims[a]) {
				x = x.DynamicSlice(a, start, dims[a])
			}
		}
		return x
	}))
}

// DynamicUpdateSlice implements compute.Function: x with update written over the part that begins at starts. starts are
// as in DynamicSlice.
func (f *Function) DynamicUpdateSlice(x, update compute.Value, starts []compute.Value) (compute.Value, error) {
	kind := compute.OpTypeDynamicUpdateSlice
	args, err := f.values(kind, append([]compute.Value{x, update}, starts...)...)
	if err != nil {
		return nil, err
	}
	scalars, err := startsOf(kind, args[0], args[2:])
	if err != nil {
		return nil, err
	}
	shape, err := shapeinference.DynamicUpdateSlice(args[0].shape, args[1].shape)
	return f.addOne(kind, args, shape, err,
		one(func(in []tensor) tensor { return updateFrom(0, in[0], in[1], scalars(in[2:])) }))
}

// updateFrom writes update to x along axis and the axes after it. It takes the slice of x along axis, updates the slice
// along the later axes, and writes it back.
func updateFrom(axis int, x, update tensor, starts []tensor) tensor {
	for axis < x.Rank() && x.Dim(axis) == update.Dim(axis) {
		axis++
	}
	if axis == x.Rank() {
		return update
	}
	part := x.DynamicSlice(axis, starts[axis], update.Dim(axis))
	return x.DynamicUpdateSlice(axis, updateFrom(axis+1, part, update, starts), starts[axis])
}

// Bitcast implements compute.Function: the bits of x as elements of another dtype. If the dtypes have different sizes,
// the last axis has the parts of an element.
func (f *Function) Bitcast(x compute.Value, to dtypes.DType) (compute.Value, error) {
	kind := compute.OpTypeBitcast
	args, err := f.values(kind, x)
	if err != nil {
		return nil, err
	}
	t, err := elementType(to)
	if err != nil {
		return nil, err
	}
	from := args[0].shape
	switch {
	case from.DType == dtypes.Bool || to == dtypes.Bool:
		return nil, errors.Wrapf(compute.ErrNotImplemented, "%s of %s to %s in backend %s", kind, from.DType, to, Name)
	case from.Rank() == 0 && from.DType.Bits() < to.Bits():
		return nil, errors.Errorf("%s of %s to %s: want a last axis of the parts of each %s", kind, from, to, to)
	}
	shape, err := shapeinference.Bitcast(from, to)
	return f.addOne(kind, args, shape, err, one(func(in []tensor) tensor { return in[0].Bitcast(t) }))
}

// DynamicDimensionSize implements compute.Function: the extent of x along an axis, as an int32 scalar.
func (f *Function) DynamicDimensionSize(x compute.Value, axis int) (compute.Value, error) {
	args, err := f.values(compute.OpTypeDynamicDimensionSize, x)
	if err != nil {
		return nil, err
	}
	of := args[0].shape
	if axis < 0 || axis >= of.Rank() {
		return nil, errors.Errorf("DynamicDimensionSize: axis %d of shape %s", axis, of)
	}
	results := f.keep(&operation{kind: compute.OpTypeDynamicDimensionSize, build: func(l *lowering,
		_ []tensor) []tensor {
		return []tensor{l.size(l.dims(of)[axis])}
	}}, shapes.Make(dtypes.Int32))
	return results[0], nil
}

// DynamicShape implements compute.Function: the extents of x, as an int32 vector.
func (f *Function) DynamicShape(x compute.Value) (compute.Value, error) {
	args, err := f.values(compute.OpTypeDynamicShape, x)
	if err != nil {
		return nil, err
	}
	of := args[0].shape
	results := f.keep(&operation{kind: compute.OpTypeDynamicShape, build: func(l *lowering, _ []tensor) []tensor {
		// The empty list serves a scalar, which has no extents.
		sizes := []tensor{l.b.Const([]int32{}, 0)}
		for _, d := range l.dims(of) {
			sizes = append(sizes, l.size(d).Reshape(1))
		}
		return []tensor{sizes[0].Concat(0, sizes[1:]...)}
	}}, shapes.Make(dtypes.Int32, of.Rank()))
	return results[0], nil
}

// DynamicReshape implements compute.Function. Extents given as values must follow from constants and from extents of
// parameters.
func (f *Function) DynamicReshape(x compute.Value, specs ...compute.DynamicDimensionSpec) (compute.Value, error) {
	args, err := f.values(compute.OpTypeDynamicReshape, x)
	if err != nil {
		return nil, err
	}
	extents := make([]*value, len(specs))
	for i, s := range specs {
		if s.Name != "" && s.Value != nil {
			v, err := f.values(compute.OpTypeDynamicReshape, s.Value)
			if err != nil {
				return nil, err
			}
			extents[i] = v[0]
		}
	}
	shape, err := shapeinference.DynamicReshape(args[0].shape, specs)
	return f.addOne(compute.OpTypeDynamicReshape, args, shape, err, func(l *lowering, in []tensor) []tensor {
		dims := make(ir.Shape, len(specs))
		for i, s := range specs {
			switch {
			case extents[i] != nil:
				dims[i] = l.number(extents[i])
			case s.Name != "":
				dims[i] = ir.D(-1) // the extent that the number of elements determines
			default:
				dims[i] = ir.D(s.Static)
			}
		}
		y := in[0].Reshape(dims)
		for i, s := range specs {
			if s.Name != "" {
				l.name(s.Name, y.Dim(i)) // later operations may refer to it
			}
		}
		return []tensor{y}
	})
}
