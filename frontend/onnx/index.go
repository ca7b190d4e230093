package onnx

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

var indexOps = table{
	"Gather":          foldedOp(gatherDims, gather),
	"GatherElements":  tensorOp(gatherElements),
	"GatherND":        tensorOp(gatherND),
	"Scatter":         tensorOp(scatter),
	"ScatterElements": tensorOp(scatter),
	"ScatterND":       tensorOp(scatterND),
	"TensorScatter":   tensorOp(tensorScatter),
	"TopK":            manyOp(topK).leaves("sorted", "elements in order are right where any order is"),
	"RotaryEmbedding": tensorOp(rotaryEmbedding),
	"CumSum":          tensorOp(scanOp(tensor.CumSum)),
	"CumProd":         tensorOp(scanOp(tensor.CumProd)),
}

// wrapNegative converts indices in -extent … extent-1 to nonnegative ones: an index below 0 counts from the end.
func (c *call) wrapNegative(indices tensor, extent ir.Dim) tensor {
	if indices.DType().Kind() == ir.KindUint {
		return indices
	}
	n := castTo(c.asTensor(dimsValue(ir.Shape{extent}, true)), indices.DType())
	return indices.Lt(indices.Lit(0)).Where(indices.Add(n), indices)
}

// isNonnegative reports whether v is a constant without negative integers.
func isNonnegative(v *value) bool {
	d := constant(v)
	if d == nil {
		return false
	}
	ints, err := d.Ints()
	return err == nil && (len(ints) == 0 || slices.Min(ints) >= 0)
}

// indices returns input i as nonnegative indices along an axis of the given extent.
func (c *call) indices(i int, extent ir.Dim) tensor {
	if t := c.x(i); isNonnegative(c.in[i]) {
		return t
	}
	return c.wrapNegative(c.x(i), extent)
}

// gather builds Gather: slices of x along an axis, selected by a tensor of indices.
func gather(c *call) tensor {
	x := c.x(0)
	axis := c.axis(c.intAttr("axis", 0), x.Rank())
	at := c.indices(1, x.Shape()[axis])
	if axis == 0 && x.Rank() == 2 && !x.DType().IsInteger() && x.DType() != ir.Bool && at.Rank() > 0 {
		return x.Embedding(at, x.DType())
	}
	switch at.Rank() {
	case 0:
		return x.IndexSelect(axis, at.Reshape(1)).Squeeze(axis)
	case 1:
		return x.IndexSelect(axis, at)
	}
	s := x.Shape()
	return x.IndexSelect(axis, at.Reshape(-1)).Reshape(slices.Concat(s[:axis], at.Shape(), s[axis+1:]))
}

// cropToIndices slices x to the extents of indices along all axes except the given one, as GatherElements needs.
func (c *call) cropToIndices(x, indices tensor, axis int) tensor {
	if indices.Rank() != x.Rank() {
		c.fail("indices %s of %s: want as many axes", indices, x)
	}
	for i, d := range indices.Shape() {
		if i != axis && d != x.Shape()[i] {
			x = x.Slice(i, 0, d)
		}
	}
	return x
}

// gatherElements builds GatherElements: for each index the element of x at that index along an axis.
func gatherElements(c *call) tensor {
	x := c.x(0)
	axis := c.axis(c.intAttr("axis", 0), x.Rank())
	at := c.indices(1, x.Shape()[axis])
	return c.cropToIndices(x, at, axis).Gather(axis, at)
}

// coordinates returns input i as nonnegative coordinates. Its last axis has a coordinate for each axis of x from axis
// `skip` on, or for the first of these axes. In the input, a negative coordinate counts from the end of its axis.
func (c *call) coordinates(i int, x tensor, skip int) tensor {
	at := c.x(i)
	if at.Rank() == 0 || !at.Dim(-1).IsStatic() || at.Dim(-1).Static()+skip > x.Rank() {
		c.fail("indices are %s for %s: want at most one coordinate per axis, along the innermost axis", at, x)
	}
	if isNonnegative(c.in[i]) {
		return at
	}
	extents := castTo(c.asTensor(dimsValue(x.Shape()[skip:skip+at.Dim(-1).Static()], false)), at.DType())
	return at.Lt(at.Lit(0)).Where(at.Add(extents), at)
}

// gatherND builds GatherND. Batch axes are indexed by their own coordinates.
func gatherND(c *call) tensor {
	x, batch := c.x(0), c.intAttr("batch_dims", 0)
	if batch < 0 || batch >= c.x(1).Rank() {
		c.fail("batch_dims is %d for indices %s", batch, c.x(1))
	}
	at := c.coordinates(1, x, batch)
	// Prepend the coordinates along the batch axes, from the last one to the first.
	for i := batch - 1; i >= 0; i-- {
		s := slices.Clone(at.Shape())
		s[len(s)-1] = ir.D(1)
		at = c.b.Iota(at.DType(), i, s).Concat(-1, at)
	}
	return x.GatherND(at)
}

// reductions are the values of attribute reduction, which says how an update is combined with the element.
var reductions = []string{"none", "add", "mul", "min", "max"}

// scatter builds ScatterElements: updates replace elements along an axis, or are combined with them.
func scatter(c *call) tensor {
	x, updates := c.x(0), c.x(2)
	axis := c.axis(c.intAttr("axis", 0), x.Rank())
	at := c.indices(1, x.Shape()[axis])
	// The updates may be smaller than x along the other axes. So they are scattered into a part of x of their size.
	part := c.cropToIndices(x, at, axis)
	if mode := c.choice("reduction", reductions...); mode != "none" {
		return withRest(x, part.ScatterReduce(axis, mode, at, updates), axis)
	}
	return withRest(x, part.Scatter(axis, at, updates), axis)
}

// withRest returns x with y in place of its first elements along all axes except the given one, along which y has the
// extent of x.
func withRest(x, y tensor, axis int) tensor {
	for i, d := range x.Shape() {
		if i == axis || d == y.Shape()[i] {
			continue
		}
		// The rest beyond y along axis i: the axes before i are complete again, the axes after i are still cropped.
		rest := x
		for k := i + 1; k < x.Rank(); k++ {
			if k != axis && y.Shape()[k] != x.Shape()[k] {
				rest = rest.Slice(k, 0, y.Shape()[k])
			}
		}
		y = y.Concat(i, rest.Slice(i, y.Shape()[i].Static(), d))
	}
	return y
}

// scatterND builds ScatterND: updates replace slices at rows of coordinates, or are combined with them.
func scatterND(c *call) tensor {
	x, updates := c.x(0), c.x(2)
	at := c.coordinates(1, x, 0)
	if mode := c.choice("reduction", reductions...); mode != "none" {
		return x.ScatterNDReduce(mode, at, updates)
	}
	return x.ScatterND(at, updates)
}

// tensorScatter writes updates into a cache, from a position on. Each sequence of a batch may have its own position.
func tensorScatter(c *call) tensor {
	x, update := c.x(0), c.x(1)
	axis := c.axis(c.intAttr("axis", -2), x.Rank())
	start, circular := c.b.Const(int64(0)), c.choice("mode", "linear", "circular") == "circular"
	if c.has(2) {
		start = c.x(2)
	}
	if single := start.Rank() == 0 || start.Dim(0).Is(1); !single {
		return c.scatterEach(x, update, start, axis, circular)
	}
	if circular {
		return x.RingUpdateSlice(axis, update, start.Reshape())
	}
	return x.DynamicUpdateSlice(axis, update, start.Reshape())
}

// scatterEach writes update into x along an axis: in sequence i of the batch from position start[i] on. If circular is
// set, elements past the end of the axis continue at its beginning.
func (c *call) scatterEach(x, update, start tensor, axis int, circular bool) tensor {
	if start.Rank() != 1 || axis == 0 {
		c.fail("write_indices %s for %s along axis %d: want one index per sequence of the batch", start, x, axis)
	}
	start = spread(start, 0, x.Rank())
	size, length := c.b.DimValue(x.Dim(axis)).Cast(ir.I64), c.b.DimValue(update.Dim(axis)).Cast(ir.I64)
	from := c.b.Iota(ir.I64, axis, x.Shape()).Sub(start) // the index in update of each element of x
	if circular {
		from = from.Lt(from.Lit(0)).Where(from.Add(size), from)
	}
	written := from.Ge(from.Lit(0)).And(from.Lt(length))
	return written.Where(update.Gather(axis, written.Where(from, from.Lit(0))), x)
}

// topK builds TopK: the k largest or smallest elements along an axis, and their indices.
func topK(c *call) []*value {
	x := c.x(0)
	axis := c.axis(c.intAttr("axis", -1), x.Rank())
	k := c.ints(1)
	if len(k) != 1 {
		c.fail("k is %v, want one number", k)
	}
	if c.mask != nil {
		c.check(c.in[0], c.mask.count.Ge(c.mask.count.Lit(float64(k[0]))))
	}
	var at tensor
	if c.flag("largest", true) {
		at = x.TopKIndices(axis, k[0])
	} else {
		at = x.BottomKIndices(axis, k[0])
	}
	if k[0] == 0 {
		return several(x.Slice(axis, 0, ir.D(0)), at.Cast(ir.I64)) // an axis without elements has nothing to gather
	}
	return several(x.Gather(axis, at), at.Cast(ir.I64))
}

// scanOp returns the builder of a scan op, such as a cumulative sum, from a method of frontend.Tensor. Input 1, the
// axis, must be known when the graph is built.
func scanOp(along func(x tensor, axis int, options ...frontend.ScanOption) tensor) func(c *call) tensor {
	return func(c *call) tensor {
		x, axis := c.x(0), c.ints(1)
		if len(axis) != 1 {
			c.fail("axis is %v, want one number", axis)
		}
		var options []frontend.ScanOption
		if c.intAttr("exclusive", 0) != 0 {
			options = append(options, frontend.Exclusive())
		}
		if c.intAttr("reverse", 0) != 0 {
			options = append(options, frontend.Reverse())
		}
		return along(x, c.axis(axis[0], x.Rank()), options...)
	}
}
