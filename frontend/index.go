package frontend

import "github.com/vkc-go/vkc/ir"

// Indices are integer tensors. Methods that read, such as Gather, clamp an index out of range. Methods that write, such
// as Scatter, skip it.

// Gather returns, for each element of indices, the element of t at the same coordinates, but with the index as the
// coordinate along the axis. t and indices have the same rank, and their shapes differ at most along the axis.
func (t Tensor) Gather(axis int, indices Tensor) Tensor {
	return t.apply(ir.OpGather, []Tensor{indices}, attr("axis", axis))
}

// IndexSelect returns the slices of t along an axis at the coordinates in a vector of indices.
func (t Tensor) IndexSelect(axis int, indices Tensor) Tensor {
	return t.apply(ir.OpIndexSelect, []Tensor{indices}, attr("axis", axis))
}

// Embedding returns one row of t, a [V, D] table, per id, in dtype to. The result has the shape of ids with D appended.
// The table may be quantized.
func (t Tensor) Embedding(ids Tensor, to ir.DType) Tensor {
	if t.DType().IsBlock() {
		return t.apply(ir.OpEmbedding, []Tensor{ids}, attr("dtype", to))
	}
	rows := t.apply(ir.OpEmbedding, []Tensor{ids})
	if to == rows.DType() {
		return rows
	}
	return rows.Cast(to)
}

// Concat concatenates t and others along an axis.
func (t Tensor) Concat(axis int, others ...Tensor) Tensor {
	return t.apply(ir.OpConcat, others, attr("axis", axis))
}

// Stack joins t and others, all of the same shape, along a new axis of the result.
func (t Tensor) Stack(axis int, others ...Tensor) Tensor {
	parts := make([]Tensor, len(others))
	for i, o := range others {
		parts[i] = o.Unsqueeze(axis)
	}
	return t.Unsqueeze(axis).Concat(axis, parts...)
}

// Scatter returns t with each element of updates written at the element's own coordinates, except that the coordinate
// along the axis comes from indices. If several updates write one element, the last in row-major order wins. An index
// out of range writes nothing.
func (t Tensor) Scatter(axis int, indices, updates Tensor) Tensor {
	return t.apply(ir.OpScatter, []Tensor{indices, updates}, attr("axis", axis))
}

// ScatterDistinct returns t with updates written along an axis, as Scatter does. The caller ensures that no two updates
// write the same element: otherwise any of them may win. It can be faster than Scatter, which checks for equal indices.
func (t Tensor) ScatterDistinct(axis int, indices, updates Tensor) Tensor {
	return t.apply(ir.OpScatter, []Tensor{indices, updates}, attr("axis", axis), attr("unique", true))
}

// ScatterAdd returns t with updates added to elements, which indices select along an axis as in Scatter. Updates with
// equal indices are added in row-major order, so every run gives the same bits.
func (t Tensor) ScatterAdd(axis int, indices, updates Tensor) Tensor {
	return t.apply(ir.OpScatterAdd, []Tensor{indices, updates}, attr("axis", axis))
}

// ScatterAddUnordered returns t with updates added to elements, as ScatterAdd does, but in any order. The device may
// use float atomics, which can be faster; the last bits of floats may then differ between runs.
func (t Tensor) ScatterAddUnordered(axis int, indices, updates Tensor) Tensor {
	return t.apply(ir.OpScatterAdd, []Tensor{indices, updates}, attr("axis", axis), attr("unordered", true))
}

// ScatterReduce returns t with each element combined with its updates, which indices select along an axis as in
// Scatter. mode selects the sum ("add"), the product ("mul"), the smallest ("min") or the largest ("max").
func (t Tensor) ScatterReduce(axis int, mode string, indices, updates Tensor) Tensor {
	return t.apply(ir.OpScatterAdd, []Tensor{indices, updates}, attr("axis", axis), attr("mode", mode))
}

// IndexAdd adds slices of updates along an axis to slices of t, in order: slice i of updates is added to slice
// indices[i] of t. indices is a vector. An index out of range adds nothing.
func (t Tensor) IndexAdd(axis int, indices, updates Tensor) Tensor {
	return t.apply(ir.OpIndexAdd, []Tensor{indices, updates}, attr("axis", axis))
}

// IndexAddUnordered adds slices of updates along an axis to slices of t, as IndexAdd does, but in any order;
// see [Tensor.ScatterAddUnordered].
func (t Tensor) IndexAddUnordered(axis int, indices, updates Tensor) Tensor {
	return t.apply(ir.OpIndexAdd, []Tensor{indices, updates}, attr("axis", axis), attr("unordered", true))
}

// GatherND returns elements or slices of t. Each row of indices [..., R] has the coordinates, along the R outermost
// axes, of one element or slice.
func (t Tensor) GatherND(indices Tensor) Tensor { return t.apply(ir.OpGatherND, []Tensor{indices}) }

// ScatterND returns t with elements or slices replaced by updates. Each row of indices [..., R] has the coordinates,
// along the R outermost axes, of one element or slice. The last of equal coordinates wins. Coordinates out of range
// write nothing.
func (t Tensor) ScatterND(indices, updates Tensor) Tensor {
	return t.apply(ir.OpScatterND, []Tensor{indices, updates})
}

// ScatterNDDistinct returns t with elements or slices replaced by updates, as ScatterND does, for distinct coordinates.
// The caller must ensure that: otherwise any of the updates may win.
func (t Tensor) ScatterNDDistinct(indices, updates Tensor) Tensor {
	return t.apply(ir.OpScatterND, []Tensor{indices, updates}, attr("unique", true))
}

// ScatterNDAdd returns t with updates added to elements or slices, in the row-major order of indices. indices are those
// of ScatterND.
func (t Tensor) ScatterNDAdd(indices, updates Tensor) Tensor {
	return t.apply(ir.OpScatterNDAdd, []Tensor{indices, updates})
}

// ScatterNDAddUnordered returns t with updates added to elements or slices, as ScatterNDAdd does, but may add floats in
// any order; see [Tensor.ScatterAddUnordered].
func (t Tensor) ScatterNDAddUnordered(indices, updates Tensor) Tensor {
	return t.apply(ir.OpScatterNDAdd, []Tensor{indices, updates}, attr("unordered", true))
}

// ScatterNDReduce returns t with elements or slices combined with updates, by a mode of ScatterReduce. indices are
// those of ScatterND.
func (t Tensor) ScatterNDReduce(mode string, indices, updates Tensor) Tensor {
	return t.apply(ir.OpScatterNDAdd, []Tensor{indices, updates}, attr("mode", mode))
}

// Pad adds low[i] elements of the given value before t and high[i] after it along each axis i.
func (t Tensor) Pad(low, high []int, value float64) Tensor {
	return t.unary(ir.OpPad, attr("low", low), attr("high", high), attr("value", value))
}

// PadReflect pads with t mirrored at its first and last element along each axis, repeatedly if the padding is longer
// than t.
func (t Tensor) PadReflect(low, high []int) Tensor {
	return t.unary(ir.OpPad, attr("low", low), attr("high", high), attr("mode", "reflect"))
}

// PadReplicate pads with the first and last element along each axis.
func (t Tensor) PadReplicate(low, high []int) Tensor {
	return t.unary(ir.OpPad, attr("low", low), attr("high", high), attr("mode", "replicate"))
}

// PadWrap pads with repetitions of t along each axis.
func (t Tensor) PadWrap(low, high []int) Tensor {
	return t.unary(ir.OpPad, attr("low", low), attr("high", high), attr("mode", "wrap"))
}

// DynamicSlice returns size elements of t from coordinate start on along an axis. start, an integer scalar, is clamped
// so that size fits.
func (t Tensor) DynamicSlice(axis int, start Tensor, size Dim) Tensor {
	return t.apply(ir.OpDynamicSlice, []Tensor{start}, attr("axis", axis),
		attr("size", ir.Shape{mustDim(ir.OpDynamicSlice, size, t)}))
}

// DynamicUpdateSlice returns t with update written over it from coordinate start on along an axis. start, an integer
// scalar, is clamped so that update fits. If the result updates the state t, the state is changed in place.
func (t Tensor) DynamicUpdateSlice(axis int, update, start Tensor) Tensor {
	return t.apply(ir.OpDynamicUpdateSlice, []Tensor{update, start}, attr("axis", axis))
}

// RingUpdateSlice is DynamicUpdateSlice on a ring: start is taken modulo the axis's extent, and elements beyond the end
// continue at the beginning. The extent must be static.
func (t Tensor) RingUpdateSlice(axis int, update, start Tensor) Tensor {
	return t.apply(ir.OpDynamicUpdateSlice, []Tensor{update, start}, attr("axis", axis), attr("wrap", true))
}

// Tril keeps the elements of the two innermost axes on and below the k-th diagonal, counted to the right from the main
// diagonal, and sets the others to 0.
func (t Tensor) Tril(k int) Tensor { return t.unary(ir.OpTril, attr("k", k)) }

// Triu keeps the elements of the two innermost axes on and above the k-th diagonal, counted to the right from the main
// diagonal, and sets the others to 0.
func (t Tensor) Triu(k int) Tensor { return t.unary(ir.OpTriu, attr("k", k)) }

// OneHot turns indices t into vectors along a new innermost axis of extent depth: 1 at the index and 0 elsewhere. An
// index out of range gives zeros.
func (t Tensor) OneHot(depth int, to ir.DType) Tensor {
	return t.unary(ir.OpOneHot, attr("depth", depth), attr("dtype", to))
}

// Quantize returns t, of f32, f16 or bf16, in blocks along its innermost axis: q4_0, q4_1, q5_0, q5_1, q8_0 or iq4_nl,
// bit for bit as package quant does. DynamicUpdateSlice writes them into a state of that dtype; Dequantize reads them.
func (t Tensor) Quantize(to ir.DType) Tensor { return t.unary(ir.OpQuantize, attr("dtype", to)) }

// Dequantize returns the values of a quantized tensor as a float dtype.
func (t Tensor) Dequantize(to ir.DType) Tensor {
	return t.unary(ir.OpDequantize, attr("dtype", to))
}
