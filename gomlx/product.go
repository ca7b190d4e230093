package gomlx

import (
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapeinference"
	"github.com/pkg/errors"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// DotGeneral implements compute.Function: a product of two tensors that sums over the contracting axes, for each
// element of the batch axes.
func (f *Function) DotGeneral(lhs compute.Value, lhsContracting, lhsBatch []int, rhs compute.Value, rhsContracting,
	rhsBatch []int, config compute.DotGeneralConfig) (compute.Value, error) {
	kind := compute.OpTypeDotGeneral
	args, err := f.values(kind, lhs, rhs)
	if err != nil {
		return nil, err
	}
	shape, err := shapeinference.DotGeneral(args[0].shape, lhsContracting, lhsBatch, args[1].shape, rhsContracting,
		rhsBatch, config)
	if err != nil {
		return nil, err
	}
	to, err := elementType(shape.DType)
	if err != nil {
		return nil, err
	}
	sums := to
	if config.AccumulatorDType != dtypes.InvalidDType {
		if sums, err = elementType(config.AccumulatorDType); err != nil {
			return nil, err
		}
	}
	lhsContracting, lhsBatch = positive(lhsContracting, args[0].shape.Rank()), positive(lhsBatch, args[0].shape.Rank())
	rhsContracting, rhsBatch = positive(rhsContracting, args[1].shape.Rank()), positive(rhsBatch, args[1].shape.Rank())
	return f.addOne(kind, args, shape, nil, func(l *lowering, in []tensor) []tensor {
		// Both become batches of matrices with one row for each element of the other axes.
		a := matrixOf(in[0], lhsBatch, lhsContracting)
		b := matrixOf(in[1], rhsBatch, rhsContracting)
		return []tensor{batchedMatMul(a, b, sums, to).Reshape(l.dims(shape))}
	})
}

// positive counts axes from 0.
func positive(axes []int, rank int) []int {
	axes = slices.Clone(axes)
	for i, a := range axes {
		if a < 0 {
			axes[i] = a + rank
		}
	}
	return axes
}

// matrixOf reshapes x to [batch, rows, columns], where the columns are the contraction axes.
func matrixOf(x tensor, batch, contracting []int) tensor {
	var cross []int
	for a := range x.Rank() {
		if !slices.Contains(batch, a) && !slices.Contains(contracting, a) {
			cross = append(cross, a)
		}
	}
	return transpose(x, slices.Concat(batch, cross, contracting)).Reshape(numel(x, batch), numel(x, cross),
		numel(x, contracting))
}

// batchedMatMul multiplies a[B,M,K] by b[B,N,K] with accumulation in dtype sums, and returns dtype to.
func batchedMatMul(a, b tensor, sums, to ir.DType) tensor {
	t := a.DType()
	switch {
	case t == ir.F64 || sums == ir.F64:
		t = ir.F64
	case t.IsFloat():
		if to == ir.F32 { // exact multiplications, rounded once
			t = ir.F32
		}
		return cast(cast(a, t).MatMulT(cast(b, t)), to)
	case (t == ir.I8 || t == ir.U8) && b.DType() == t && sums.BlockBytes() <= 4 && !sums.IsFloat():
		return cast(cast(a.MatMulT(b), sums), to) // 32-bit sums truncate to shorter wrapped ones
	default:
		t = sums
	}
	// Integer sums do not depend on the order, so this is an ordinary reduction of elementwise multiplications.
	a, b = cast(a, t).Unsqueeze(2), cast(b, t).Unsqueeze(1)
	return cast(a.Mul(b).Sum(3), to)
}

// ConvGeneral implements compute.Function: the convolution of x with a kernel. axes says what each axis of x, kernel
// and result is. inputDilations and kernelDilations put zeros between the elements of x and of the kernel.
func (f *Function) ConvGeneral(x, kernel compute.Value, axes compute.ConvolveAxesConfig, strides []int,
	paddings [][2]int, inputDilations, kernelDilations []int, channelGroups, batchGroups int) (compute.Value, error) {
	kind := compute.OpTypeConvGeneral
	args, err := f.values(kind, x, kernel)
	if err != nil {
		return nil, err
	}
	axes = axes.Clone()
	channelGroups, batchGroups = max(channelGroups, 1), max(batchGroups, 1)
	shape, err := shapeinference.ConvGeneral(args[0].shape, args[1].shape, axes, strides, paddings, inputDilations,
		kernelDilations, channelGroups, batchGroups)
	spatial := len(axes.InputSpatial)
	return f.addOne(kind, args, shape, err, one(func(in []tensor) tensor {
		// Transpose to [batch, channels, spatial axes] and [output channels, input channels, spatial axes].
		x := in[0].Transpose(slices.Concat([]int{axes.InputBatch, axes.InputChannels}, axes.InputSpatial)...)
		w := in[1].Transpose(slices.Concat([]int{axes.KernelOutputChannels, axes.KernelInputChannels},
			axes.KernelSpatial)...)
		groups := channelGroups
		if batchGroups > 1 {
			// Each batch group has its own output channels, just as channel groups do. So they become channel groups.
			dims := sizes(x)
			batch, channels := dims[0]/batchGroups, dims[1]
			x = x.Reshape(batchGroups, batch, channels, dims[2:])
			x = moveAxis(x, 0, 1).Reshape(batch, batchGroups*channels, dims[2:])
			groups *= batchGroups
		}
		noPadding := make([]compute.PadAxis, 2) // of the batch and the channels
		x = pad(x, 0, append(noPadding, padAxes(paddings, inputDilations, spatial)...))
		step := func(i int) windows {
			size, stride, dilation := extent(w, 2+i), at(strides, i, 1), at(kernelDilations, i, 1)
			count := (extent(x, 2+i)-(size-1)*dilation-1)/stride + 1
			return windows{count, size, stride, dilation}
		}
		y := convolve(x, w, groups, step)
		perm := make([]int, 2+spatial) // result axis -> axis of y
		perm[axes.OutputBatch], perm[axes.OutputChannels] = 0, 1
		for i, a := range axes.OutputSpatial {
			perm[a] = 2 + i
		}
		return transpose(y, perm)
	}))
}

// convolve returns the convolution of x[N,C,…] with w[O,C/groups,…]. It uses op conv where possible.
func convolve(x, w tensor, groups int, step func(axis int) windows) tensor {
	spatial := x.Rank() - 2
	var all []windows
	for i := range spatial {
		all = append(all, step(i))
	}
	if spatial >= 1 && spatial <= 3 && x.DType().IsFloat() && x.DType() != ir.F64 {
		var stride, dilation []int
		for _, s := range all {
			stride, dilation = append(stride, s.stride), append(dilation, s.dilation)
		}
		return x.Conv(w, frontend.Stride(stride...), frontend.Dilation(dilation...), frontend.Groups(groups))
	}
	// A matmul of windows and weights, group by group.
	n, o, c := extent(x, 0), extent(w, 0), extent(w, 1)
	positions, elements := 1, 1
	result := []int{n, o}
	for i := spatial - 1; i >= 0; i-- {
		s := all[i]
		elements *= s.size
		x = s.gather(x, 2+i) // [..., windows, element, …, elements so far]
		dims := sizes(x)
		x = moveAxis(x, 3+i, 2+spatial).Reshape(slices.Concat(dims[:3+i], dims[4+i:3+spatial], []int{elements}))
	}
	for _, s := range all {
		positions *= s.count
		result = append(result, s.count)
	}
	x = x.Reshape(n, groups, c, positions, elements)
	x = x.Transpose(1, 0, 3, 2, 4).Reshape(groups, n*positions, c*elements)
	// [groups, N*positions, O/groups]:
	y := batchedMatMul(x, w.Reshape(groups, o/groups, c*elements), x.DType(), x.DType())
	return y.Reshape(groups, n, positions, o/groups).Transpose(1, 0, 3, 2).Reshape(result)
}

// Gather implements compute.Function: windows of x with extents sliceSizes. Their starts are vectors along axis
// vectorAxis of starts: component i is the start along axis startMap[i] of x, clamped so that the window lies inside x.
// Result axes offsetAxes are the axes of a window, except the collapsed ones.
func (f *Function) Gather(x, starts compute.Value, vectorAxis int, offsetAxes, collapsed, startMap, sliceSizes []int,
	sorted bool) (compute.Value, error) {
	kind := compute.OpTypeGather
	args, err := f.values(kind, x, starts)
	if err != nil {
		return nil, err
	}
	shape, err := shapeinference.Gather(args[0].shape, args[1].shape, vectorAxis, offsetAxes, collapsed, startMap,
		sliceSizes, sorted)
	if err == nil && len(startMap) == 0 {
		err = errors.Wrapf(compute.ErrNotImplemented, "Gather without indexed axes")
	}
	return f.addOne(kind, args, shape, err, func(l *lowering, in []tensor) []tensor {
		x := in[0]
		window := sizesOf(sliceSizes, x)
		for a, size := range window {
			if !slices.Contains(startMap, a) { // the window begins at 0
				x = cut(x, a, 0, size, 1)
			}
		}
		at := indexVectors(in[1], vectorAxis)
		for i, a := range startMap { // windows stay inside, as in XLA
			at[i] = at[i].Clamp(0, float64(extent(x, a)-window[a]))
		}
		return []tensor{gather(x, at, startMap, window, collapsed, offsetAxes, len(l.dims(shape)))}
	})
}

// sizesOf replaces a size that is dynamic by the extent.
func sizesOf(of []int, x tensor) []int {
	of = slices.Clone(of)
	for a, n := range of {
		if n < 0 {
			of[a] = extent(x, a)
		}
	}
	return of
}

// indexVectors splits index vectors, which lie along an axis of indices, into their components. Each component has the
// shape without the axis. If axis is the rank, each element is a vector of one component. Components are i64 if the
// indices are u32 or 64-bit integers, otherwise i32.
func indexVectors(indices tensor, axis int) []tensor {
	if axis == indices.Rank() {
		indices = indices.Unsqueeze(axis)
	}
	t := ir.I32
	if w := indices.DType(); w == ir.I64 || w == ir.U32 {
		t = ir.I64
	}
	indices = cast(indices, t)
	components := make([]tensor, extent(indices, axis))
	for i := range components {
		components[i] = indices.Index(axis, i)
	}
	return components
}

// gather returns windows of x, a tensor of this rank. window has their extents. at[i] has the start of each window
// along axis startMap[i]. Along the other axes a window is the whole axis. The axes of a window become axes offsetAxes
// of the result, except the collapsed ones, which have extent 1 and are left out.
func gather(x tensor, at []tensor, startMap, window, collapsed, offsetAxes []int, rank int) tensor {
	batch := at[0].Rank()
	vectors, widened := vectorsOf(at, startMap, window)
	y := transpose(x, frontOrder(x.Rank(), startMap)).GatherND(vectors)
	// Axes of y are now: the batch, then the windows along `order`: the widened axes and the axes without an index.
	order := append(slices.Clone(widened), axesExcept(x.Rank(), startMap)...)
	offsets := axesExcept(len(window), collapsed)
	// Put the window axes into the order of x's axes, the collapsed ones last. The reshape drops these, and inserts the
	// axes that are not in order, which have extent 1 too.
	perm := firstAxes(batch)
	for _, a := range offsets {
		if i := slices.Index(order, a); i >= 0 {
			perm = append(perm, batch+i)
		}
	}
	for i, a := range order {
		if slices.Contains(collapsed, a) {
			perm = append(perm, batch+i)
		}
	}
	dims := slices.Clone(y.Shape()[:batch])
	for _, a := range offsets {
		dims = append(dims, ir.D(window[a]))
	}
	y = transpose(y, perm).Reshape(dims)
	// Move the window axes to offsetAxes. The batch axes fill the other places.
	perm, next := make([]int, rank), 0
	for i := range perm {
		if j := slices.Index(offsetAxes, i); j >= 0 {
			perm[i] = batch + j
		} else {
			perm[i] = next
			next++
		}
	}
	return transpose(y, perm)
}

// axesExcept returns the axes of a tensor of some rank without the listed ones.
func axesExcept(rank int, without []int) []int {
	return slices.DeleteFunc(firstAxes(rank), func(a int) bool { return slices.Contains(without, a) })
}

// frontOrder returns the axes that are listed and then the others.
func frontOrder(rank int, front []int) []int {
	perm := slices.Clone(front)
	for a := range rank {
		if !slices.Contains(front, a) {
			perm = append(perm, a)
		}
	}
	return perm
}

// vectorsOf combines components into index vectors. at[i] has the start of each window along axis startMap[i]. The
// result has one vector for each element of each window. widened lists the axes along which a window has more than one
// element; they become axes of the result after the batch axes.
func vectorsOf(at []tensor, startMap, window []int) (vectors tensor, widened []int) {
	batch := at[0].Rank()
	for _, a := range startMap {
		if window[a] != 1 {
			widened = append(widened, a)
		}
	}
	dims := slices.Clone(at[0].Shape())
	for _, a := range widened {
		dims = append(dims, ir.D(window[a]))
	}
	for i, a := range startMap {
		// The start of the window, plus the element's place in it along axis a.
		c := at[i].Reshape(at[i].Shape(), ones(len(widened)))
		if w := slices.Index(widened, a); w >= 0 {
			c = c.Add(c.Builder().Iota(c.DType(), batch+w, dims))
		}
		c = c.Broadcast(dims).Unsqueeze(len(dims))
		if i == 0 {
			vectors = c
		} else {
			vectors = vectors.Concat(len(dims), c)
		}
	}
	return vectors, widened
}

// ScatterSum implements compute.Function: x with updates added to it. indices has a vector for each update, along axis
// vectorAxis. Component i of the vector is the start of the update along axis toAxes[i] of x. Updates that are partly
// outside x are skipped.
func (f *Function) ScatterSum(x, indices, updates compute.Value, vectorAxis int, windowAxes, inserted, toAxes []int,
	sorted,
	unique bool) (compute.Value, error) {
	return f.scatter(compute.OpTypeScatterSum, x, indices, updates, vectorAxis, windowAxes, inserted, toAxes)
}

// ScatterMax implements compute.Function: x in which an element is the largest of itself and its updates. indices and
// updates are as in ScatterSum.
func (f *Function) ScatterMax(x, indices, updates compute.Value, vectorAxis int, windowAxes, inserted, toAxes []int,
	sorted,
	unique bool) (compute.Value, error) {
	return f.scatter(compute.OpTypeScatterMax, x, indices, updates, vectorAxis, windowAxes, inserted, toAxes)
}

// ScatterMin implements compute.Function: x in which an element is the smallest of itself and its updates. indices and
// updates are as in ScatterSum.
func (f *Function) ScatterMin(x, indices, updates compute.Value, vectorAxis int, windowAxes, inserted, toAxes []int,
	sorted,
	unique bool) (compute.Value, error) {
	return f.scatter(compute.OpTypeScatterMin, x, indices, updates, vectorAxis, windowAxes, inserted, toAxes)
}

// scatters describes the scatter operations: whether each index is the index of an element, and how to write.
var scatters = map[compute.OpType]struct {
	elements bool
	write    func(x, indices, updates tensor) tensor
}{
	compute.OpTypeScatterSum: {false, tensor.ScatterNDAdd},
	compute.OpTypeScatterMax: {true, scatterLargest},
	compute.OpTypeScatterMin: {true, func(x, indices, updates tensor) tensor {
		if x.DType().IsFloat() {
			return scatterLargest(x.Neg(), indices, updates.Neg()).Neg()
		}
		return scatterOrdered(x, indices, updates, updates.Reshape(-1).ArgsortDescending(0), 1).Min(x)
	}},
}

func scatterLargest(x, indices, updates tensor) tensor {
	return scatterOrdered(x, indices, updates, updates.Reshape(-1).Argsort(0), -1).Max(x)
}

// scatterOrdered returns a tensor like x with updates written in the given order, so that the last write to each
// element wins. Elements without a write get the largest value of the dtype, or the smallest if sign is negative.
// indices has a vector for each update, with a negative first component for no write.
func scatterOrdered(x, indices, updates, order tensor, sign int) tensor {
	dims := sizes(x)
	// The index of the element in the flattened tensor.
	place, pitch := tensor{}, 1
	for a := len(dims) - 1; a >= 0; a-- {
		c := indices.Index(-1, a).MulScalar(float64(pitch))
		pitch *= dims[a]
		if place.IsZero() {
			place = c
		} else {
			place = place.Add(c)
		}
	}
	outside := indices.Index(-1, 0)
	place = outside.Lt(outside.Lit(0)).Where(place.Lit(-1), place).Reshape(-1)
	empty := x.Builder().Full(x.DType(), bound(x.DType(), sign), pitch)
	return empty.Scatter(0, place.IndexSelect(0, order), updates.Reshape(-1).IndexSelect(0, order)).Reshape(dims)
}

// scatter implements the scatter operations. kind says how updates change an element: the result is their sum with it,
// or the largest or smallest of them all. The vectors along axis vectorAxis of indices are the starts of windows of x:
// component i is the start along axis toAxes[i]. Axes windowAxes of updates are the axes of a window, except the
// inserted ones, which have extent 1.
func (f *Function) scatter(kind compute.OpType, x, indices, updates compute.Value, vectorAxis int,
	windowAxes, inserted, toAxes []int) (compute.Value, error) {
	args, err := f.values(kind, x, indices, updates)
	if err != nil {
		return nil, err
	}
	shape, err := shapeinference.Scatter(args[0].shape, args[1].shape, args[2].shape, vectorAxis, windowAxes, inserted,
		toAxes)
	if err != nil {
		return nil, err
	}
	if len(toAxes) == 0 {
		return nil, errors.Wrapf(compute.ErrNotImplemented, "%s without indexed axes", kind)
	}
	return f.addOne(kind, args, shape, nil, one(func(in []tensor) tensor {
		x, updates := in[0], in[2]
		// Extents of the window along each axis of x.
		window, offsets := ones(x.Rank()), axesExcept(x.Rank(), inserted)
		for i, a := range offsets {
			window[a] = extent(updates, windowAxes[i])
		}
		at := indexVectors(in[1], vectorAxis)
		// Skip a window that is partly out of range.
		inside := tensor{}
		for i, a := range toAxes {
			fits := at[i].Ge(at[i].Lit(0)).And(at[i].Le(at[i].Lit(float64(extent(x, a) - window[a]))))
			inside = joined(inside, fits, tensor.And)
		}
		axes := slices.Clone(toAxes)
		for a, n := range window { // a window along an axis that is not indexed begins at 0
			if !slices.Contains(axes, a) && (scatters[kind].elements || !x.Dim(a).Is(n)) {
				axes, at = append(axes, a), append(at, at[0].MulScalar(0))
			}
		}
		// All elements of a skipped window must be out of range, so its start is far below 0.
		at[0] = inside.Where(at[0], at[0].Lit(-float64(extent(x, axes[0]))-1))
		vectors, widened := vectorsOf(at, axes, window)
		// Axes of updates: the batch, then the windows along widened axes, then the axes that are not indexed.
		order := append(slices.Clone(widened), axesExcept(x.Rank(), axes)...)
		dims := slices.Clone(at[0].Shape())
		for _, a := range order {
			dims = append(dims, ir.D(window[a]))
		}
		updates = transpose(updates, updatesOrder(updates.Rank(), windowAxes, offsets, order)).Reshape(dims)
		front := frontOrder(x.Rank(), axes)
		return transpose(scatters[kind].write(transpose(x, front), vectors, updates), inverse(front))
	}))
}

// updatesOrder returns the order of a scatter's updates, a list of axes: the batch, then the windows along the axes
// `order` of x, then the other windows, which have extent 1. Axis windowAxes[i] is the window along axis offsets[i].
func updatesOrder(rank int, windowAxes, offsets, order []int) (axes []int) {
	for a := range rank {
		if !slices.Contains(windowAxes, a) {
			axes = append(axes, a)
		}
	}
	for _, a := range order {
		if i := slices.Index(offsets, a); i >= 0 {
			axes = append(axes, windowAxes[i])
		}
	}
	for i, a := range offsets {
		if !slices.Contains(order, a) {
			axes = append(axes, windowAxes[i])
		}
	}
	return axes
}
