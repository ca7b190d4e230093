package frontend

import "github.com/vkc-go/vkc/ir"

// Sorts are stable, take -0 and 0 as equal, and NaN as larger than any number.

// CumSumOption changes what CumSum does.
type CumSumOption func() ir.Attr

// Exclusive leaves each element itself out of its sum, so that the first is 0.
func Exclusive() CumSumOption { return func() ir.Attr { return attr("exclusive", true) } }

// Reverse adds up from the end of the axis.
func Reverse() CumSumOption { return func() ir.Attr { return attr("reverse", true) } }

// CumSum is the running sum along an axis; integers wrap.
func (t Tensor) CumSum(axis int, options ...CumSumOption) Tensor {
	attrs := []ir.Attr{attr("axis", axis)}
	for _, o := range options {
		attrs = append(attrs, o())
	}
	return t.unary(ir.OpCumSum, attrs...)
}

// Sort orders the elements along an axis, smallest first.
func (t Tensor) Sort(axis int) Tensor { return t.unary(ir.OpSort, attr("axis", axis)) }

// SortDescending is Sort with the largest first.
func (t Tensor) SortDescending(axis int) Tensor {
	return t.unary(ir.OpSort, attr("axis", axis), attr("descending", true))
}

// Argsort returns the coordinates, as i32, that Gather needs to give the order
// of Sort.
func (t Tensor) Argsort(axis int) Tensor { return t.unary(ir.OpArgsort, attr("axis", axis)) }

// ArgsortDescending is Argsort for SortDescending.
func (t Tensor) ArgsortDescending(axis int) Tensor {
	return t.unary(ir.OpArgsort, attr("axis", axis), attr("descending", true))
}

// TopKIndices returns the coordinates, as i32, of the k largest elements along an
// axis, largest first.
func (t Tensor) TopKIndices(axis, k int) Tensor {
	return t.unary(ir.OpTopKIndices, attr("k", k), attr("axis", axis))
}

// BottomKIndices returns the coordinates, as i32, of the k smallest elements along
// an axis, smallest first.
func (t Tensor) BottomKIndices(axis, k int) Tensor {
	return t.unary(ir.OpTopKIndices, attr("k", k), attr("axis", axis), attr("largest", false))
}

// TopK returns the k largest elements along an axis, largest first, and their
// coordinates.
func (t Tensor) TopK(axis, k int) (values, indices Tensor) {
	indices = t.TopKIndices(axis, k)
	return t.Gather(axis, indices), indices
}
