package frontend

import "github.com/vkc-go/vkc/ir"

// Sorts are stable. They treat -0 and 0 as equal, and NaN as larger than any number.

// ScanOption sets an option of CumSum, CumProd, CumMax and CumMin.
type ScanOption func() ir.Attr

// Exclusive excludes each element from its own result. So the first result is the value for no elements: 0 for a sum, 1
// for a product, and the smallest value of the dtype for a maximum.
func Exclusive() ScanOption { return func() ir.Attr { return attr("exclusive", true) } }

// Reverse scans from the end of the axis.
func Reverse() ScanOption { return func() ir.Attr { return attr("reverse", true) } }

// CumSum returns the running sum along an axis. Integers wrap.
func (t Tensor) CumSum(axis int, options ...ScanOption) Tensor {
	return t.scanOp(ir.OpCumSum, axis, options)
}

// CumProd returns the running product along an axis. Integers wrap.
func (t Tensor) CumProd(axis int, options ...ScanOption) Tensor {
	return t.scanOp(ir.OpCumProd, axis, options)
}

// CumMax returns the running maximum along an axis. From the first NaN on it is NaN.
func (t Tensor) CumMax(axis int, options ...ScanOption) Tensor {
	return t.scanOp(ir.OpCumMax, axis, options)
}

// CumMin returns the running minimum along an axis. From the first NaN on it is NaN.
func (t Tensor) CumMin(axis int, options ...ScanOption) Tensor {
	return t.scanOp(ir.OpCumMin, axis, options)
}

// scanOp adds a scan along an axis: each result combines the elements up to its position.
func (t Tensor) scanOp(op ir.Op, axis int, options []ScanOption) Tensor {
	attrs := []ir.Attr{attr("axis", axis)}
	for _, o := range options {
		attrs = append(attrs, o())
	}
	return t.unary(op, attrs...)
}

// Sort sorts the elements along an axis in ascending order.
func (t Tensor) Sort(axis int) Tensor { return t.unary(ir.OpSort, attr("axis", axis)) }

// SortDescending sorts the elements along an axis in descending order.
func (t Tensor) SortDescending(axis int) Tensor {
	return t.unary(ir.OpSort, attr("axis", axis), attr("descending", true))
}

// Argsort returns the coordinates, as i32, that sort the elements along an axis in ascending order: Gather with them
// gives Sort.
func (t Tensor) Argsort(axis int) Tensor { return t.unary(ir.OpArgsort, attr("axis", axis)) }

// ArgsortDescending returns the coordinates, as i32, that sort the elements along an axis in descending order: Gather
// with them gives SortDescending.
func (t Tensor) ArgsortDescending(axis int) Tensor {
	return t.unary(ir.OpArgsort, attr("axis", axis), attr("descending", true))
}

// TopKIndices returns the coordinates, as i32, of the k largest elements along an axis, largest first.
func (t Tensor) TopKIndices(axis, k int) Tensor {
	return t.unary(ir.OpTopKIndices, attr("k", k), attr("axis", axis))
}

// BottomKIndices returns the coordinates, as i32, of the k smallest elements along an axis, smallest first.
func (t Tensor) BottomKIndices(axis, k int) Tensor {
	return t.unary(ir.OpTopKIndices, attr("k", k), attr("axis", axis), attr("largest", false))
}

// TopK returns the k largest elements along an axis, largest first, and their coordinates along it, as i32.
func (t Tensor) TopK(axis, k int) (values, indices Tensor) {
	indices = t.TopKIndices(axis, k)
	return t.Gather(axis, indices), indices
}
