package onnx

import (
	"github.com/vkc-go/vkc/ir"
)

var reduceOps = table{
	"ReduceSum":       reduction(tensor.Sum, tensor.SumKeep),
	"ReduceMean":      tensorOp(reduceMean),
	"ReduceProd":      foldedReduction(tensor.Prod, tensor.ProdKeep),
	"ReduceMax":       reduction(extreme(tensor.ReduceMax, tensor.Any), extreme(tensor.ReduceMaxKeep, tensor.AnyKeep)),
	"ReduceMin":       reduction(extreme(tensor.ReduceMin, tensor.All), extreme(tensor.ReduceMinKeep, tensor.AllKeep)),
	"ReduceL1":        reduction(norm1(tensor.Norm1, tensor.Sum), norm1(tensor.Norm1Keep, tensor.SumKeep)),
	"ReduceL2":        reduction(tensor.Norm2, tensor.Norm2Keep),
	"ReduceLogSumExp": reduction(tensor.LogSumExp, tensor.LogSumExpKeep),
	"ReduceLogSum":    reduction(logSum(tensor.Sum), logSum(tensor.SumKeep)),
	"ReduceSumSquare": reduction(sumSquare(tensor.Sum), sumSquare(tensor.SumKeep)),
	"ArgMax":          tensorOp(func(c *call) tensor { return c.arg(tensor.Argmax, tensor.ArgmaxKeep) }),
	"ArgMin":          tensorOp(func(c *call) tensor { return c.arg(tensor.Argmin, tensor.ArgminKeep) }),
}

// reducer reduces axes, as the methods of frontend.Tensor do: without axes, all of them.
type reducer func(x tensor, axes ...int) tensor

// reduction returns the row of a reduction. drop removes the reduced axes, and keep leaves them with extent 1.
func reduction(drop, keep reducer) row {
	return tensorOp(func(c *call) tensor { return c.reduced(drop, keep) })
}

// reduced builds a reduction of input 0 over the axes of input 1. See reduction.
func (c *call) reduced(drop, keep reducer) tensor {
	x := c.x(0)
	axes, _ := c.axes(1)
	none, keepsAxes := c.flag("noop_with_empty_axes", false), c.flag("keepdims", true)
	if len(axes) == 0 && (none || x.Rank() == 0) {
		return keep(x.Unsqueeze(0), 0).Squeeze(0) // reduces each element alone
	}
	axes = c.resolved(axes, x.Rank())
	if keepsAxes {
		return keep(x, axes...)
	}
	return drop(x, axes...)
}

// reduceMean builds ReduceMean. If the input is valid in part (c.mask), only valid elements count.
func reduceMean(c *call) tensor {
	if c.mask == nil {
		return c.reduced(tensor.Mean, tensor.MeanKeep)
	}
	every := func(x tensor, axes []int) []int { // without axes, all of them
		if len(axes) == 0 {
			return axesFrom(0, x.Rank())
		}
		return axes
	}
	keep := func(x tensor, axes ...int) tensor { return c.mean(x, every(x, axes)...) }
	drop := func(x tensor, axes ...int) tensor { return keep(x, axes...).Squeeze(every(x, axes)...) }
	return c.reduced(drop, keep)
}

// foldedReduction returns the row of ReduceProd: a reduction that can also multiply integers that depend on symbols
// (see prodDims).
func foldedReduction(drop, keep reducer) row {
	row := reduction(drop, keep)
	row.fold = prodDims
	return row
}

// extreme returns a reducer for numbers that also accepts bools: the maximum of bools is whether any is true.
func extreme(numbers, bools reducer) reducer {
	return func(x tensor, axes ...int) tensor {
		if x.DType() == ir.Bool {
			return bools(x, axes...)
		}
		return numbers(x, axes...)
	}
}

// norm1 returns a reducer for floats that also accepts integers: it adds their magnitudes.
func norm1(floats, sum reducer) reducer {
	return func(x tensor, axes ...int) tensor {
		if x.DType().IsFloat() {
			return floats(x, axes...)
		}
		return sum(x.Abs(), axes...)
	}
}

func logSum(sum reducer) reducer {
	return func(x tensor, axes ...int) tensor { return sum(x, axes...).Log() }
}

func sumSquare(sum reducer) reducer {
	return func(x tensor, axes ...int) tensor { return sum(x.Sqr(), axes...) }
}

// arg builds ArgMax and ArgMin: the coordinate of the first or, with select_last_index, the last extreme element. keep
// finds the first one and keeps the reduced axis, and drop removes the axis.
func (c *call) arg(drop, keep func(x tensor, axis int) tensor) tensor {
	x := c.x(0)
	axis := c.axis(c.intAttr("axis", 0), x.Rank())
	find := drop
	if c.intAttr("keepdims", 1) != 0 {
		find = keep
	}
	if c.intAttr("select_last_index", 0) == 0 {
		return find(x, axis).Cast(ir.I64)
	}
	// The last extreme element is the first on the flipped axis. `last` is the largest coordinate.
	last, flipped := c.asTensor(dimsValue(ir.Shape{x.Shape()[axis].Plus(-1)}, true)), tensor{}
	if c.mask != nil && c.mask.axis == axis { // flip only the valid elements
		n, place := c.mask.count, c.b.Iota(ir.I32, 0, x.Dim(axis))
		end := n.SubScalar(1)
		last, flipped = end.Cast(ir.I64), x.IndexSelect(axis, place.Lt(n).Where(end.Sub(place), place))
	} else {
		flipped = x.Flip(axis)
	}
	return last.Sub(find(flipped, axis).Cast(ir.I64))
}
