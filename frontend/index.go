package frontend

import "github.com/vkc-go/vkc/ir"

// Indices are integer tensors. An index out of range is clamped.

// Gather picks, for each element of indices, the element of t at the same
// coordinates, except that along the axis the index is the coordinate. Both have
// one rank and differ at most along the axis.
func (t Tensor) Gather(axis int, indices Tensor) Tensor {
	return t.apply(ir.OpGather, []Tensor{indices}, attr("axis", axis))
}

// IndexSelect returns the slices of t along an axis that a vector of indices
// picks.
func (t Tensor) IndexSelect(axis int, indices Tensor) Tensor {
	return t.apply(ir.OpIndexSelect, []Tensor{indices}, attr("axis", axis))
}

// Embedding returns rows of t, a [V, D] table, one per id, as to: in the shape of
// ids with D appended. The table may be quantized.
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

// Concat joins t and others along an axis.
func (t Tensor) Concat(axis int, others ...Tensor) Tensor {
	return t.apply(ir.OpConcat, others, attr("axis", axis))
}

// Pad adds low[i] elements of that value before and high[i] after t along each
// axis i.
func (t Tensor) Pad(low, high []int, value float64) Tensor {
	return t.unary(ir.OpPad, attr("low", low), attr("high", high), attr("value", value))
}

// DynamicUpdateSlice returns t with update written over it from coordinate start
// on along an axis. Start, an integer scalar, is clamped so that update fits. A
// state updated with the result is changed in place.
func (t Tensor) DynamicUpdateSlice(axis int, update, start Tensor) Tensor {
	return t.apply(ir.OpDynamicUpdateSlice, []Tensor{update, start}, attr("axis", axis))
}

// Tril keeps the elements of the two innermost axes on and below the k-th
// diagonal, counted to the right from the main one, and puts 0 elsewhere.
func (t Tensor) Tril(k int) Tensor { return t.unary(ir.OpTril, attr("k", k)) }

// Triu keeps the elements of the two innermost axes on and above the k-th
// diagonal, counted to the right from the main one, and puts 0 elsewhere.
func (t Tensor) Triu(k int) Tensor { return t.unary(ir.OpTriu, attr("k", k)) }

// OneHot appends an axis of that depth to indices t: 1 at the index and 0
// elsewhere. An index out of range gives zeros.
func (t Tensor) OneHot(depth int, to ir.DType) Tensor {
	return t.unary(ir.OpOneHot, attr("depth", depth), attr("dtype", to))
}

// Dequantize returns the values of a quantized tensor as a float dtype.
func (t Tensor) Dequantize(to ir.DType) Tensor {
	return t.unary(ir.OpDequantize, attr("dtype", to))
}
