package onnx

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// The functions in this file build ops that move elements along an axis of input 0 that is valid in part (see
// validPart). The result has another number of valid elements. They return nil for a node that moves none along it.

// coordinatesTo returns the coordinates 0 … n-1 as a vector.
func (c *call) coordinatesTo(n ir.Dim) tensor { return c.b.Iota(ir.I32, 0, n) }

// gatherAlong builds Gather along an axis of which only a part is valid. A negative index counts from the last valid
// element. A run ends with an error if an index is out of the valid part.
func gatherAlong(c *call) []*value {
	v := c.in[0]
	if v.valid.axis != c.axis(c.intAttr("axis", 0), c.rank(0)) || c.input(1).valid != nil {
		return nil
	}
	at := c.x(1)
	n := v.valid.count.Cast(at.DType())
	if at.DType().Kind() == ir.KindInt {
		at = at.Lt(at.Lit(0)).Where(at.Add(n), at)
	}
	inside := at.Ge(at.Lit(0)).And(at.Lt(n))
	if axes := axesFrom(0, at.Rank()); len(axes) > 0 {
		inside = inside.All(axes...)
	}
	c.check(v, inside)
	c.setInput(1, &value{tensor: at})
	return one(gather(c))
}

// concatAlong builds Concat. The valid elements of each input directly follow the valid elements of the input before.
func concatAlong(c *call) []*value {
	axis := c.axis(c.mustInt("axis"), c.rank(0))
	for _, v := range c.in {
		if v.valid != nil && v.valid.axis != axis {
			return nil
		}
	}
	list := c.all()
	y := list[0].Concat(axis, list[1:]...)  // with the invalid elements, which the result skips
	place := c.coordinatesTo(y.Dim(axis))   // in the result
	from, end := place, c.b.Const(int32(0)) // the coordinate in y of each place, and the end of the inputs so far
	for i, x := range list {
		extent := c.b.DimValue(x.Dim(axis))
		n := extent
		if v := c.in[i].valid; v != nil {
			n = v.count
		}
		end = end.Add(n)
		from = from.Add(place.Ge(end).Where(extent.Sub(n), extent.Lit(0))) // later places skip the invalid elements
	}
	return []*value{partlyValid(y.IndexSelect(axis, from), axis, end)}
}

// sliceAlong builds a Slice, by steps of 1, along the axis of which only a part is valid. Starts and ends count the
// valid elements. It returns nil if the Slice has other axes only.
func sliceAlong(c *call) []*value {
	v := c.input(0)
	axis, n := v.valid.axis, v.valid.count
	axes, given := c.axes(3)
	if !given {
		axes = axesFrom(0, len(c.dims(1)))
	}
	i := slices.IndexFunc(axes, func(a int) bool { return c.axis(a, c.rank(0)) == axis })
	if i < 0 {
		return nil
	}
	if len(axes) > 1 || c.has(4) && !slices.Equal(c.ints(4), []int{1}) {
		c.failPartlyValid(v)
	}
	limits := slices.Concat(c.ints(1), c.ints(2))
	if len(limits) != 2 {
		c.fail("%d starts and ends for one axis", len(limits))
	}
	x := c.asTensor(v)
	at := func(limit int) tensor { // the number of valid elements before the start or end `limit`
		bound := n.Lit(float64(max(-math.MaxInt32, min(limit, math.MaxInt32))))
		if limit < 0 {
			bound = n.Add(bound).Max(n.Lit(0))
		}
		return bound.Min(n)
	}
	start, end := at(limits[0]), at(limits[1])
	extent := x.Dim(axis)
	// A start and an end that count from the same side bound the result's length.
	if sameSide := (limits[0] < 0) == (limits[1] < 0); sameSide && extent.IsStatic() {
		extent = ir.D(max(0, min(limits[1]-limits[0], extent.Static())))
	}
	y := x.IndexSelect(axis, c.coordinatesTo(extent).Add(start))
	return []*value{partlyValid(y, axis, end.Sub(start).Max(n.Lit(0)))}
}

// foundShape returns the extents of input 0, with a symbol for the number of valid elements along its axis.
func (c *call) foundShape() ir.Shape {
	v := c.input(0)
	s := slices.Clone(c.shapeOf(v))
	s[v.valid.axis] = c.foundSymbol(v.valid.count, s[v.valid.axis])
	return s
}

// shapeAlong builds Shape, which has the number of valid elements.
func shapeAlong(c *call) []*value {
	start, end := c.shapeBounds()
	return []*value{{dims: c.foundShape()[start:end], isDims: true}}
}

// sizeAlong builds Size.
func sizeAlong(c *call) []*value {
	return []*value{dimsValue(ir.Shape{c.numel(c.foundShape())}, true)}
}

// flattenAlong builds Flatten of an input with a valid part. All extents must be static.
func flattenAlong(c *call) []*value {
	s, axis := c.shapeOf(c.input(0)), c.intAttr("axis", 1)
	if axis < 0 {
		axis += len(s)
	}
	if axis < 0 || axis > len(s) || !s.IsStatic() {
		c.failPartlyValid(c.in[0])
	}
	to := []int{int(s[:axis].MaxElems()), -1} // -1 for the axis of the result that is valid in part
	if c.in[0].valid.axis < axis {
		to = []int{-1, int(s[axis:].MaxElems())}
	}
	return c.reshapedAlong(to)
}

// reshapeAlong builds Reshape of a tensor that is only partly valid, to extents that are numbers. One of them may be
// -1.
func reshapeAlong(c *call) []*value {
	extents, part := c.largestShape(c.extents(1))
	if part != nil { // the number of valid elements, as the extent that Reshape would infer
		if part.count != c.input(0).valid.count || slices.Contains(extents, ir.Dim{Add: -1}) {
			c.failPartlyValid(c.in[0])
		}
		extents[part.axis] = ir.Dim{Add: -1}
	}
	to := make([]int, len(extents))
	for i, d := range extents {
		if !d.IsStatic() {
			c.failPartlyValid(c.in[0])
		}
		to[i] = int(d.Add)
	}
	if c.intAttr("allowzero", 0) == 0 {
		c.setKeptExtents(to)
	}
	return c.reshapedAlong(to)
}

// setKeptExtents replaces each 0 in the extents of a Reshape by the extent of the same axis of input 0, but by -1 if
// that axis is valid in part. A -1 that the node has itself then becomes the number that Reshape would infer.
func (c *call) setKeptExtents(to []int) {
	s, axis := c.shapeOf(c.input(0)), c.in[0].valid.axis
	keepsPart := axis < len(to) && to[axis] == 0
	for i, n := range to {
		if n != 0 {
			continue
		}
		if i >= len(s) || !s[i].IsStatic() {
			c.failPartlyValid(c.in[0])
		}
		to[i] = s[i].Static()
	}
	if !keepsPart {
		return
	}
	if inferred := slices.Index(to, -1); inferred >= 0 {
		if !s.IsStatic() {
			c.failPartlyValid(c.in[0])
		}
		rest := 1 // the elements of the other axes of the input, divided by the other extents of the result
		for a, d := range s {
			if a != axis {
				rest *= d.Static()
			}
		}
		for a, extent := range to {
			if a != axis && extent > 0 {
				rest /= extent
			}
		}
		to[inferred] = rest
	}
	to[axis] = -1
}

// reshapedAlong reshapes input 0, of which an axis is valid in part, to the extents `to`. A -1 stands for the axis of
// the result that is valid in part. Without a -1 the whole result is valid. A run checks that the number of valid
// elements fits the other extents.
func (c *call) reshapedAlong(to []int) []*value {
	v := c.in[0]
	x, axis, count := c.asTensor(v), v.valid.axis, v.valid.count
	s := x.Shape()
	if !s.IsStatic() || s.MaxElems() > math.MaxInt32 || s.MaxElems() == 0 {
		c.failPartlyValid(v)
	}
	at := slices.Index(to, -1)
	other := 1 // elements along the other axes
	for i, n := range to {
		if i != at {
			other *= n
		}
	}
	outer, extent, inner := int(s[:axis].MaxElems()), s[axis].Static(), int(s[axis+1:].MaxElems())
	if other < 1 || other > math.MaxInt32 {
		c.failPartlyValid(v)
	}
	if at < 0 { // no axis is to be inferred: the shape fixes the count, which a run checks
		n := other / (outer * inner)
		if n*outer*inner != other || n > extent {
			c.fail("%v elements are wanted of %s", other, x)
		}
		c.check(v, count.Eq(count.Lit(float64(n))))
		return one(x.Slice(axis, 0, ir.D(n)).Reshape(ir.ShapeOf(to...)))
	}
	lit := func(n int) tensor { return count.Lit(float64(n)) }
	valid := count.Mul(lit(outer * inner)) // the number of valid elements
	n := valid.Div(lit(other))             // the number of valid elements along the result's axis
	c.check(v, n.Mul(lit(other)).Eq(valid))
	most := outer * extent * inner / other
	shape := ir.ShapeOf(to...)
	shape[at] = ir.D(most)
	before, after := int(shape[:at].MaxElems()), int(shape[at+1:].MaxElems())
	if before == outer && most*other == outer*extent*inner { // the valid elements stay where they are
		return []*value{partlyValid(x.Reshape(shape), at, n)}
	}
	// Valid element number i of the result is valid element number i of x. The result is [before, most, after], with n
	// valid elements along the middle axis, and x is [outer, extent, inner], with count ones.
	coord := func(axis int) tensor { return c.b.Iota(ir.I32, axis, before, most, after) }
	number := coord(0).Mul(n).Add(coord(1)).Mul(lit(after)).Add(coord(2)).Reshape(-1)
	perRow := count.Mul(lit(inner)).Max(lit(1)) // valid elements of x in each of the outer rows
	row := number.Div(perRow)
	position := row.Mul(lit(extent * inner)).Add(number.Sub(row.Mul(perRow)))
	return []*value{partlyValid(x.Reshape(-1).IndexSelect(0, position).Reshape(shape), at, n)}
}

// expandAlong builds Expand of an input with a valid part. For the axis with that part, the node's shape has the number
// of valid elements, or 1.
func expandAlong(c *call) []*value {
	v := c.input(0)
	to, part := c.largestShape(c.extents(1))
	x := c.asTensor(v)
	axis := len(to) - x.Rank() + v.valid.axis // of `to`; negative if the input has more axes
	if part != nil && part.axis != axis {
		c.fail("its result would have two axes with extents that are known only in a run")
	}
	if axis >= 0 && !to[axis].Is(1) {
		n := c.lengthOf(to[axis], ir.I32) // both must be equal, which a run checks
		if part != nil {
			n = part.count
		}
		if n != v.valid.count {
			c.check(v, n.Eq(v.valid.count))
		}
		to[axis] = x.Dim(v.valid.axis)
	}
	to, err := broadcastDims(x.Shape(), to)
	if err != nil {
		c.fail("%v", err)
	}
	return []*value{partlyValid(x.Broadcast(to), len(to)-x.Rank()+v.valid.axis, v.valid.count)}
}

// depthToSpaceAlong builds DepthToSpace of a picture with rows or columns that are valid in part.
func depthToSpaceAlong(c *call) []*value {
	v := c.input(0)
	if v.valid.axis < 2 {
		return nil
	}
	n := v.valid.count.MulScalar(float64(c.mustInt("blocksize")))
	return []*value{partlyValid(depthToSpace(c), v.valid.axis, n)}
}

// spaceToDepthAlong builds SpaceToDepth of a picture with rows or columns that are valid in part. A run checks that
// blocksize divides their number.
func spaceToDepthAlong(c *call) []*value {
	v, size := c.input(0), c.mustInt("blocksize")
	axis := v.valid.axis
	if axis < 2 || size < 1 {
		return nil
	}
	count, by := v.valid.count, v.valid.count.Lit(float64(size))
	c.check(v, count.Mod(by).Eq(count.Lit(0)))
	x := c.asTensor(v)
	if d := x.Dim(axis); d.IsStatic() { // at most a multiple of the size is valid
		x = x.Slice(axis, 0, d.Static()/size*size)
	}
	return []*value{partlyValid(c.spaceToDepthOf(x), axis, count.Div(by))}
}

// tileAlong builds Tile: the valid elements follow one another as often as they are repeated.
func tileAlong(c *call) []*value {
	v := c.input(0)
	x, repeats := c.asTensor(v), c.ints(1)
	if len(repeats) != x.Rank() {
		c.fail("%d repeats for %s", len(repeats), x)
	}
	axis, n, times := v.valid.axis, v.valid.count, repeats[v.valid.axis]
	// Element i of the repeated axis is the valid element i mod n.
	if times != 1 {
		x = x.IndexSelect(axis, c.coordinatesTo(x.Dim(axis).Times(int64(times))).Mod(n))
		repeats[axis] = 1
	}
	return []*value{partlyValid(c.tiled(x, ir.ShapeOf(repeats...)), axis, n.MulScalar(float64(times)))}
}

// padAlong builds Pad of an input with a valid part. The padding at the end directly follows the valid elements.
func padAlong(c *call) []*value {
	v := c.input(0)
	x := c.asTensor(v)
	low, high := c.pads(x.Rank()) // negative numbers remove elements
	axis := v.valid.axis
	before, after := max(0, low[axis]), max(0, high[axis])
	cutFront, cutBack := max(0, -low[axis]), max(0, -high[axis])
	low[axis], high[axis] = 0, 0 // padded pads the other axes
	x = c.padded(x, low, high)
	n := v.valid.count
	n = n.AddScalar(float64(-(cutFront + cutBack))).Max(n.Lit(0)) // valid elements that are not removed
	mode := c.padMode()
	least := 0 // the number of elements that the padding needs
	if before+after > 0 && mode != "constant" {
		least = 1
	}
	places := ones(x.Rank())
	places[axis] = x.Dim(axis).Plus(int64(before + after))
	from := c.b.Iota(ir.I32, axis, places).SubScalar(float64(before))
	inside := from.Ge(from.Lit(0)).And(from.Lt(n))
	switch last := n.SubScalar(1); mode {
	case "edge":
		from = from.Max(from.Lit(0)).Min(last)
	case "wrap":
		from = from.Mod(n)
	case "reflect": // Abs reflects at element 0; the other differences reflect at the last element
		from = last.Sub(last.Sub(from.Abs()).Abs())
		least = max(before, after) + 1
	}
	if least > 0 {
		c.check(v, n.Ge(n.Lit(float64(least))))
	}
	y := x.IndexSelect(axis, from.AddScalar(float64(cutFront)).Reshape(-1))
	if mode == "constant" {
		y = inside.Where(y, y.Lit(c.padValue()))
	}
	return []*value{partlyValid(y, axis, n.AddScalar(float64(before+after)))}
}

// uniqueAlong builds Unique of the valid elements or slices. The invalid ones become copies of the first element, so
// that only the count of the first element needs a correction.
func uniqueAlong(c *call) []*value {
	v := c.input(0)
	axis := v.valid.axis
	if c.hasAttr("axis") {
		if c.axis(c.intAttr("axis", 0), c.rank(0)) != axis {
			return nil
		}
	} else {
		v, axis = c.reshapedAlong([]int{-1})[0], 0
	}
	x, n := c.asTensor(v), v.valid.count
	if !x.Dim(axis).IsStatic() || x.Dim(axis).Static() == 0 {
		c.failPartlyValid(v)
	}
	u := c.validAlong(v).Where(x, x.Slice(axis, 0, 1)).Unique(axis)
	// The first element's count includes the copies.
	first := c.coordinatesTo(u.Counts.Dim(0)).Eq(u.Inverse.Slice(0, 0, 1))
	u.Counts = u.Counts.Sub(first.Where(c.b.DimValue(x.Dim(axis)).Sub(n), n.Lit(0)))
	u.Count = u.Count.Min(n)
	results := c.uniqueOf(u, axis, c.intAttr("sorted", 1) != 0)
	results[2].valid = &validPart{0, n}
	return results
}
