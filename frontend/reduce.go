package frontend

import "github.com/vkc-go/vkc/ir"

// Reductions fold the given axes, or all axes if none is given. The Keep forms leave each folded axis with extent 1, so
// that the result broadcasts against t.

// Sum returns the sum over the given axes, or over all axes if none is given. Integers wrap. The sum of no elements is
// 0.
func (t Tensor) Sum(axes ...int) Tensor { return t.reduce(ir.OpSum, axes, false) }

// SumKeep returns the sum over axes, as Sum does, and keeps each of these axes with extent 1.
func (t Tensor) SumKeep(axes ...int) Tensor { return t.reduce(ir.OpSum, axes, true) }

// Mean returns the arithmetic mean of floats over the given axes, or over all. The mean of no elements is NaN.
func (t Tensor) Mean(axes ...int) Tensor { return t.reduce(ir.OpMean, axes, false) }

// MeanKeep returns the mean over axes, as Mean does, and keeps each of these axes with extent 1.
func (t Tensor) MeanKeep(axes ...int) Tensor { return t.reduce(ir.OpMean, axes, true) }

// Prod returns the product over the given axes, or over all. Integers wrap. The product of no elements is 1.
func (t Tensor) Prod(axes ...int) Tensor { return t.reduce(ir.OpProd, axes, false) }

// ProdKeep returns the product over axes, as Prod does, and keeps each of these axes with extent 1.
func (t Tensor) ProdKeep(axes ...int) Tensor { return t.reduce(ir.OpProd, axes, true) }

// ReduceMax returns the largest element over the given axes, or over all. It is NaN if an element is NaN. Over no
// elements it is the smallest value of the dtype.
func (t Tensor) ReduceMax(axes ...int) Tensor { return t.reduce(ir.OpReduceMax, axes, false) }

// ReduceMaxKeep returns the largest element over axes, as ReduceMax does, and keeps each of these axes with extent 1.
func (t Tensor) ReduceMaxKeep(axes ...int) Tensor { return t.reduce(ir.OpReduceMax, axes, true) }

// ReduceMin returns the smallest element over the given axes, or over all. It is NaN if an element is NaN. Over no
// elements it is the largest value of the dtype.
func (t Tensor) ReduceMin(axes ...int) Tensor { return t.reduce(ir.OpReduceMin, axes, false) }

// ReduceMinKeep returns the smallest element over axes, as ReduceMin does, and keeps each of these axes with extent 1.
func (t Tensor) ReduceMinKeep(axes ...int) Tensor { return t.reduce(ir.OpReduceMin, axes, true) }

// Any returns whether any of the bools over the given axes, or over all, is true. Over no elements it is false.
func (t Tensor) Any(axes ...int) Tensor { return t.reduce(ir.OpAny, axes, false) }

// AnyKeep returns whether any of the bools over axes is true, as Any does, and keeps each of these axes with extent 1.
func (t Tensor) AnyKeep(axes ...int) Tensor { return t.reduce(ir.OpAny, axes, true) }

// All returns whether all of the bools over the given axes, or over all, are true. Over no elements it is true.
func (t Tensor) All(axes ...int) Tensor { return t.reduce(ir.OpAll, axes, false) }

// AllKeep returns whether all of the bools over axes are true, as All does, and keeps each of these axes with extent 1.
func (t Tensor) AllKeep(axes ...int) Tensor { return t.reduce(ir.OpAll, axes, true) }

// Norm1 returns the sum of absolute values over the given axes, or over all. Over no elements it is 0.
func (t Tensor) Norm1(axes ...int) Tensor { return t.reduce(ir.OpNorm1, axes, false) }

// Norm1Keep returns the sum of absolute values over axes, as Norm1 does, and keeps each of these axes with extent 1.
func (t Tensor) Norm1Keep(axes ...int) Tensor { return t.reduce(ir.OpNorm1, axes, true) }

// Norm2 returns the square root of the sum of squares over the given axes, or over all. Over no elements it is 0.
func (t Tensor) Norm2(axes ...int) Tensor { return t.reduce(ir.OpNorm2, axes, false) }

// Norm2Keep returns the Euclidean norm over axes, as Norm2 does, and keeps each of these axes with extent 1.
func (t Tensor) Norm2Keep(axes ...int) Tensor { return t.reduce(ir.OpNorm2, axes, true) }

// NormP returns the p-norm, sum(|x|^p)^(1/p) for p > 0, over the given axes, or over all. Over no elements it is 0.
func (t Tensor) NormP(p float64, axes ...int) Tensor { return t.normP(p, axes, false) }

// NormPKeep returns the p-norm over axes, as NormP does, and keeps each of these axes with extent 1.
func (t Tensor) NormPKeep(p float64, axes ...int) Tensor { return t.normP(p, axes, true) }

func (t Tensor) normP(p float64, axes []int, keep bool) Tensor {
	return t.unary(ir.OpNormP, attr("p", p), attr("axes", axes), attr("keepdims", keep))
}

// LogSumExp returns log(sum(exp(x))) over the given axes, or over all, computed without overflow. Over no elements it
// is -inf.
func (t Tensor) LogSumExp(axes ...int) Tensor { return t.reduce(ir.OpLogSumExp, axes, false) }

// LogSumExpKeep returns log(sum(exp(x))) over axes, as LogSumExp does, and keeps each of these axes with extent 1.
func (t Tensor) LogSumExpKeep(axes ...int) Tensor { return t.reduce(ir.OpLogSumExp, axes, true) }

// Variance returns the sum of squared differences from the mean, divided by the number of elements minus correction: 0
// for a population, 1 for a sample.
func (t Tensor) Variance(correction int, axes ...int) Tensor {
	return t.variance(correction, axes, false)
}

// VarianceKeep returns the variance over axes, as Variance does, and keeps each of these axes with extent 1.
func (t Tensor) VarianceKeep(correction int, axes ...int) Tensor {
	return t.variance(correction, axes, true)
}

// Deviations returns each element minus the mean over axes, or over all axes if none is given. The result is precise
// even if the elements are nearly equal. t.Sub(t.MeanKeep(axes...)) would not be, because it rounds the mean to the
// precision of the elements.
func (t Tensor) Deviations(axes ...int) Tensor {
	list := make([]int64, len(axes))
	for i, a := range axes {
		list[i] = int64(a)
	}
	fold, err := ir.ResolveAxes(list, t.Rank())
	if err != nil {
		fail("deviations", err, t)
	}
	// The differences from the first element are exact if the elements are nearly equal, and so small that their mean
	// is precise.
	first, symbolic := t, []int(nil)
	for i, in := range fold {
		switch {
		case in && t.Dim(i).Min() > 0:
			first = first.Slice(i, 0, 1)
		case in: // the smallest replaces the first element, which may not exist
			symbolic = append(symbolic, i)
		}
	}
	if len(symbolic) > 0 {
		first = first.ReduceMinKeep(symbolic...)
	}
	from := t.Sub(first.Add(t.Sub(first).MeanKeep(axes...)))
	return from.Sub(from.MeanKeep(axes...))
}

func (t Tensor) variance(correction int, axes []int, keep bool) Tensor {
	return t.unary(ir.OpVariance, attr("correction", correction), attr("axes", axes), attr("keepdims", keep))
}

func (t Tensor) reduce(op ir.Op, axes []int, keep bool) Tensor {
	return t.unary(op, attr("axes", axes), attr("keepdims", keep))
}

// Argmax returns the coordinate, as i32, of the first largest element along an axis. NaN counts as largest.
func (t Tensor) Argmax(axis int) Tensor { return t.arg(ir.OpArgmax, axis, false) }

// ArgmaxKeep returns the coordinate of the largest element along an axis, as Argmax does, and keeps the axis with
// extent 1.
func (t Tensor) ArgmaxKeep(axis int) Tensor { return t.arg(ir.OpArgmax, axis, true) }

// Argmin returns the coordinate, as i32, of the first smallest element along an axis. NaN counts as smallest.
func (t Tensor) Argmin(axis int) Tensor { return t.arg(ir.OpArgmin, axis, false) }

// ArgminKeep returns the coordinate of the smallest element along an axis, as Argmin does, and keeps the axis with
// extent 1.
func (t Tensor) ArgminKeep(axis int) Tensor { return t.arg(ir.OpArgmin, axis, true) }

func (t Tensor) arg(op ir.Op, axis int, keep bool) Tensor {
	return t.unary(op, attr("axis", axis), attr("keepdims", keep))
}
