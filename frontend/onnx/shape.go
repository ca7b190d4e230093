package onnx

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

var shapeOps = table{
	"Reshape":         foldedOp(reshapeDims, reshape),
	"Flatten":         tensorOp(flatten),
	"Squeeze":         foldedOp(reshapeDims, squeeze),
	"Unsqueeze":       foldedOp(reshapeDims, unsqueeze),
	"Transpose":       tensorOp(transpose),
	"Slice":           foldedOp(sliceDims, slice),
	"Split":           manyOp(split),
	"Concat":          foldedOp(concatDims, concat),
	"Expand":          manyOp(expand),
	"Tile":            tensorOp(tile),
	"Identity":        passOp(func(c *call) []*value { return []*value{c.copied(0)} }),
	"DepthToSpace":    tensorOp(depthToSpace),
	"SpaceToDepth":    tensorOp(spaceToDepth),
	"Pad":             tensorOp(pad),
	"CenterCropPad":   tensorOp(centerCropPad),
	"ReverseSequence": tensorOp(reverseSequence),
	"Shape":           controlOp(shape),
	"Size":            controlOp(size),
	"Constant":        controlOp(constantNode),
	"ConstantOfShape": manyOp(constantOfShape),
	"ConstantFill":    tensorOp(constantFill),
	"Range":           manyOp(rangeOp),
	"EyeLike":         tensorOp(eyeLike),
	"OneHot":          tensorOp(oneHot),
	"Trilu":           tensorOp(trilu),
	"Crop":            tensorOp(crop),
}

// copied returns input i as a value that may get another name.
func (c *call) copied(i int) *value {
	v := *c.input(i)
	return &v
}

// reshape builds Reshape. In the new shape, 0 means the input's extent of this axis, and -1 the extent that fits.
func reshape(c *call) tensor {
	x := c.x(0)
	to := slices.Clone(c.dims(1))
	if c.intAttr("allowzero", 0) == 0 {
		for i, d := range to {
			if d.Is(0) {
				if i >= x.Rank() {
					c.fail("extent %d of shape %s is 0 (keep the extent), but %s does not have that axis", i, to, x)
				}
				to[i] = x.Shape()[i]
			}
		}
	}
	return x.Reshape(c.inferred(x.Shape(), to))
}

// inferred returns shape `to` with 0 in place of -1 if shape `from` has no elements. Otherwise a -1 stays, and package
// frontend replaces it.
func (c *call) inferred(from, to ir.Shape) ir.Shape {
	if at := slices.Index(to, ir.Dim{Add: -1}); at >= 0 && from.MaxElems() == 0 {
		to = slices.Clone(to)
		to[at] = ir.D(0)
	}
	return to
}

// flatten builds Flatten: the axes before attribute axis become the rows of a matrix, and the others its columns.
func flatten(c *call) tensor {
	x := c.x(0)
	axis := c.intAttr("axis", 1)
	if axis < 0 {
		axis += x.Rank()
	}
	if axis < 0 || axis > x.Rank() {
		c.fail("axis %d of %s", axis, x)
	}
	return x.Reshape(c.numel(x.Shape()[:axis]), c.numel(x.Shape()[axis:]))
}

// squeeze builds Squeeze. Without axes, it removes all axes of extent 1.
func squeeze(c *call) tensor {
	x := c.x(0)
	axes, given := c.axes(1)
	if !given {
		for i, d := range x.Shape() {
			if d.Is(1) {
				axes = append(axes, i)
			}
		}
	}
	return x.Squeeze(c.resolved(axes, x.Rank())...)
}

func unsqueeze(c *call) tensor {
	x := c.x(0)
	axes := c.ints(1)
	return x.Unsqueeze(c.resolved(axes, x.Rank()+len(axes))...)
}

// transpose builds Transpose. Without perm, it reverses the axes.
func transpose(c *call) tensor {
	x := c.x(0)
	perm := c.intsAttr("perm")
	if !c.hasAttr("perm") {
		for i := range x.Rank() {
			perm = append(perm, x.Rank()-1-i)
		}
	}
	return x.Transpose(perm...)
}

// sliceArg is the slice of one axis: elements from start up to, not including, limit, step apart. With a negative step,
// coordinates decrease, and limit may be -1.
type sliceArg struct {
	start, limit ir.Dim
	step         int
}

// sliceArgs returns the arguments of Slice for each axis of a tensor of shape s. Inputs 1 to 4 are starts, ends, axes
// and steps. Without axes, the starts belong to the first axes; without steps, each step is 1.
func (c *call) sliceArgs(s ir.Shape) []sliceArg {
	out := make([]sliceArg, len(s))
	for i, d := range s {
		out[i] = sliceArg{ir.D(0), d, 1}
	}
	starts, ends := c.dims(1), c.dims(2)
	axes, given := c.axes(3)
	if !given {
		axes = axesFrom(0, len(starts))
	}
	steps := slices.Repeat([]int{1}, len(axes))
	if c.has(4) {
		steps = c.ints(4)
	}
	if len(axes) != len(starts) || len(axes) != len(ends) || len(axes) != len(steps) {
		c.fail("%d starts, %d ends, %d axes and %d steps", len(starts), len(ends), len(axes), len(steps))
	}
	for i, a := range axes {
		a = c.axis(a, len(s))
		out[a] = c.sliceArg(s[a], starts[i], ends[i], steps[i])
	}
	return out
}

// sliceArg returns the slice of an axis from the arguments of Slice. Negative numbers count from the end of the axis,
// and numbers out of range are clamped.
func (c *call) sliceArg(extent, start, end ir.Dim, step int) sliceArg {
	if step == 0 {
		c.fail("a step is 0")
	}
	low, high := ir.D(0), extent // the range of end
	if step < 0 {
		low, high = ir.Dim{Add: -1}, extent.Plus(-1)
	}
	first, okFirst := c.clamped(start, extent, ir.D(0), high)
	last, okLast := c.clamped(end, extent, low, high)
	if !okFirst || !okLast {
		c.fail("the number of elements from %s to %s of an axis of extent %s is unknown", start, end, extent)
	}
	size, err := last.Less(first) // the error says that their difference is no extent
	if !first.IsStatic() {
		if step != 1 || err != nil {
			c.fail("it begins at %s: want a number", first)
		}
		c.atLeast(first, 0)
	}
	if step < 0 && (!last.IsStatic() || !extent.IsStatic()) {
		c.fail("it reverses an axis of extent %s: want a fixed extent", extent)
	}
	if step > 0 && err == nil && size.IsStatic() && size.Add < 0 {
		last = first
	}
	return sliceArg{first, last, step}
}

// clamped returns position d on an axis, clamped to low and high. A negative d counts from the end of the axis. ok is
// false if the result depends on the values of symbols.
func (c *call) clamped(d, extent, low, high ir.Dim) (position ir.Dim, ok bool) {
	if d.IsStatic() && d.Add < 0 {
		if d.Add <= -math.MaxInt32 {
			return low, true
		}
		d = extent.Plus(d.Add)
		if !d.IsStatic() {
			return d, true // vkc assumes that the axis is long enough
		}
	}
	if d.IsStatic() && d.Add >= math.MaxInt32 || d == high {
		return high, true
	}
	if atLeastLow, ok := maxDims(c, d, low); ok {
		if clamped, ok := minDims(c, atLeastLow, high); ok {
			return clamped, true
		}
	}
	if d.IsStatic() && d.Add >= 0 { // vkc assumes that an axis of symbolic extent is long enough
		c.atLeast(extent, d.Add)
		return d, true
	}
	return d, false
}

// slice builds Slice axis by axis: as a view, or as a dynamic_slice if its start depends on a symbol.
func slice(c *call) tensor {
	x := c.x(0)
	for axis, s := range c.sliceArgs(x.Shape()) {
		n, start := x.Shape()[axis], s.start.Static()
		switch {
		case s == sliceArg{ir.D(0), n, 1}: // the whole axis
		case !s.start.IsStatic():
			size, _ := s.limit.Less(s.start)
			x = x.DynamicSlice(axis, c.asTensor(dimsValue(ir.Shape{s.start}, true)), size)
		case s.step > 0:
			x = x.SliceStep(axis, start, s.limit, s.step)
		case start <= s.limit.Static(): // a negative step, and no elements
			x = x.Slice(axis, 0, 0)
		default:
			// A negative step slices the flipped axis, from its other end.
			x = x.Flip(axis).SliceStep(axis, n.Static()-1-start, n.Static()-1-s.limit.Static(), -s.step)
		}
	}
	return x
}

// split builds Split: slices along an axis, of given or equal sizes.
func split(c *call) []*value {
	x := c.x(0)
	axis := c.axis(c.intAttr("axis", 0), x.Rank())
	sizes, given := c.axes(1)
	d := x.Shape()[axis]
	n := c.intAttr("num_outputs", len(c.node.Outputs))
	if n != len(c.node.Outputs) {
		c.fail("num_outputs is %d, but the node has %d results", n, len(c.node.Outputs))
	}
	if !given {
		if n < 1 || n > maxCalls {
			c.fail("it splits into %d", n)
		}
		if part, ok := d.Quo(int64(n)); ok && !d.IsStatic() {
			c.fail("it splits an axis of extent %s into %d of %s: want fixed sizes of the parts", d, n, part)
		}
		part := (d.Static() + n - 1) / n // the last part may be smaller
		for left := d.Static(); len(sizes) < n; left -= part {
			sizes = append(sizes, max(0, min(part, left)))
		}
	}
	return several(x.Split(axis, sizes...)...)
}

// concat builds Concat.
func concat(c *call) tensor {
	list := c.all()
	axis := c.axis(c.mustInt("axis"), list[0].Rank())
	if len(list) == 1 {
		return list[0]
	}
	// The other axes must have equal extents, so symbols on them are equal too.
	for a := range list[0].Rank() {
		if a == axis {
			continue
		}
		var extents []ir.Dim
		for _, x := range list {
			if x.Rank() == list[0].Rank() {
				extents = append(extents, x.Dim(a))
			}
		}
		c.agree(extents...)
	}
	return list[0].Concat(axis, list[1:]...)
}

// expand builds Expand: x broadcast against a shape, in both directions.
func expand(c *call) []*value {
	x := c.x(0)
	shape, part := c.largestShape(c.extents(1))
	to, err := broadcastDims(x.Shape(), shape)
	if err != nil {
		c.fail("%v", err)
	}
	if part != nil {
		at := *part
		at.axis += len(to) - len(shape) // shapes are aligned on the right
		if from := x.Rank() - len(to) + at.axis; from >= 0 && !x.Dim(from).Is(1) {
			c.fail("axis %d of %s would have an extent that is known only in a run", from, x)
		}
		part = &at
	}
	return []*value{{tensor: x.Broadcast(to), valid: part}}
}

// tile builds Tile: it repeats x along each axis.
func tile(c *call) tensor {
	x, repeats := c.x(0), c.dims(1)
	if len(repeats) != x.Rank() {
		c.fail("%d repeats for %s", len(repeats), x)
	}
	return c.tiled(x, repeats)
}

// tiled repeats x along each axis as often as repeats says. For n = 2, slices a and b become a, b, a, b.
func (c *call) tiled(x tensor, repeats ir.Shape) tensor {
	for axis, n := range repeats {
		if n.Is(1) {
			continue
		}
		s := x.Shape()
		total, err := s[axis].Mul2(n)
		if err != nil {
			c.fail("axis %d: %v", axis, err)
		}
		x = x.Unsqueeze(axis).
			Broadcast(slices.Concat(s[:axis], ir.Shape{n}, s[axis:])).
			Reshape(slices.Concat(s[:axis], ir.Shape{total}, s[axis+1:]))
	}
	return x
}

// depthToSpace builds DepthToSpace: [N, C*n*n, H, W] becomes [N, C, H*n, W*n]. The channels are [n, n, C] in mode DCR,
// and [C, n, n] in mode CRD.
func depthToSpace(c *call) tensor {
	x, n := c.x(0), c.mustInt("blocksize")
	s := x.Shape()
	if len(s) != 4 || n < 1 {
		c.fail("blocks of %d of %s: want a tensor [N, C, H, W]", n, x)
	}
	depth, ok := s[1].Quo(int64(n) * int64(n))
	if !ok {
		c.fail("%s channels are not a multiple of %d*%d", s[1], n, n)
	}
	if c.choice("mode", "DCR", "CRD") == "CRD" {
		x = x.Reshape(s[0], depth, n, n, s[2], s[3]).Transpose(0, 1, 4, 2, 5, 3)
	} else {
		x = x.Reshape(s[0], n, n, depth, s[2], s[3]).Transpose(0, 3, 4, 1, 5, 2)
	}
	return x.Reshape(s[0], depth, s[2].Times(int64(n)), s[3].Times(int64(n)))
}

// spaceToDepth builds SpaceToDepth. See spaceToDepthOf.
func spaceToDepth(c *call) tensor { return c.spaceToDepthOf(c.x(0)) }

// spaceToDepthOf moves each block of n by n pixels of x [N, C, H, W] to the channels: [N, C*n*n, H/n, W/n].
func (c *call) spaceToDepthOf(x tensor) tensor {
	n, s := c.mustInt("blocksize"), x.Shape()
	if len(s) != 4 || n < 1 {
		c.fail("blocks of %d of %s: want a tensor [N, C, H, W]", n, x)
	}
	h, ok := s[2].Quo(int64(n))
	w, ok2 := s[3].Quo(int64(n))
	if !ok || !ok2 {
		c.fail("extents %s and %s are not multiples of %d", s[2], s[3], n)
	}
	return x.Reshape(s[0], s[1], h, n, w, n).Transpose(0, 3, 5, 1, 2, 4).
		Reshape(s[0], s[1].Times(int64(n)*int64(n)), h, w)
}

// pad builds Pad. Negative padding removes elements.
func pad(c *call) tensor {
	x := c.x(0)
	low, high := c.pads(x.Rank())
	return c.padded(x, low, high)
}

// pads returns the padding of Pad before and after the elements of each axis. Input 1 has the padding before each axis
// in a list, and then the padding after each. Input 3 is the list, by default all axes.
func (c *call) pads(rank int) (low, high []int) {
	pads, axes := c.ints(1), axesFrom(0, rank)
	if c.has(3) {
		axes = c.ints(3)
	}
	if len(pads) != 2*len(axes) {
		c.fail("%d pads for %d axes", len(pads), len(axes))
	}
	low, high = make([]int, rank), make([]int, rank)
	for i, a := range axes {
		a = c.axis(a, rank)
		low[a], high[a] = pads[i], pads[len(axes)+i]
	}
	return low, high
}

// padded pads x in the mode of Pad. It changes negative numbers in low and high to 0.
func (c *call) padded(x tensor, low, high []int) tensor {
	for a := range low { // a negative pad removes elements
		if cut, tail := max(0, -low[a]), max(0, -high[a]); cut > 0 || tail > 0 {
			x = x.Slice(a, cut, x.Shape()[a].Plus(int64(-tail)))
			low[a], high[a] = max(0, low[a]), max(0, high[a])
		}
	}
	switch c.padMode() {
	case "reflect":
		return x.PadReflect(low, high)
	case "edge":
		return x.PadReplicate(low, high)
	case "wrap":
		return x.PadWrap(low, high)
	}
	return x.Pad(low, high, c.padValue())
}

func (c *call) padMode() string { return c.choice("mode", "constant", "reflect", "edge", "wrap") }

// padValue returns the value of constant padding.
func (c *call) padValue() float64 {
	if c.has(2) {
		return c.number(2)
	}
	return 0
}

// centerCropPad builds CenterCropPad: it crops or pads axes to given extents, equally at both ends.
func centerCropPad(c *call) tensor {
	x, to := c.x(0), c.ints(1)
	axes := c.intsAttr("axes")
	if !c.hasAttr("axes") {
		axes = axesFrom(0, x.Rank())
	}
	low, high := make([]int, x.Rank()), make([]int, x.Rank())
	for i, a := range axes {
		a = c.axis(a, x.Rank())
		n := x.Shape()[a].Static()
		if i >= len(to) || !x.Shape()[a].IsStatic() {
			c.fail("want axes with fixed extents, and a size for each")
		}
		if to[i] < n {
			start := (n - to[i]) / 2
			x = x.Slice(a, start, start+to[i])
		} else {
			low[a] = (to[i] - n) / 2 // an odd element goes to the end
			high[a] = to[i] - n - low[a]
		}
	}
	return x.Pad(low, high, 0)
}

// reverseSequence reverses the elements of each sequence up to its length, and keeps the elements after it.
func reverseSequence(c *call) tensor {
	x, lens := c.x(0), c.x(1).Cast(ir.I32)
	batch, time := c.intAttr("batch_axis", 1), c.intAttr("time_axis", 0)
	if batch+time != 1 || x.Rank() < 2 {
		c.fail("batch_axis %d and time_axis %d of %s: want 0 and 1", batch, time, x)
	}
	at := c.b.Iota(ir.I32, time, x.Shape()[:2])
	n := lens.Unsqueeze(time)
	at = at.Lt(n).Where(n.SubScalar(1).Sub(at), at) // element i < n of a sequence is element n-1-i
	return x.Gather(time, spread(at, 1, x.Rank()).Broadcast(x.Shape()))
}

// shape builds Shape: some of the input's extents, as integers that may depend on symbols.
func shape(c *call) []*value {
	start, end := c.shapeBounds()
	return []*value{{dims: c.shapeOf(c.input(0))[start:end], isDims: true, from: []string{}}}
}

// shapeBounds returns the first axis of Shape, and the axis after the last one.
func (c *call) shapeBounds() (start, end int) {
	n := c.rank(0)
	bound := func(i int) int {
		if i < 0 {
			i += n
		}
		return max(0, min(i, n))
	}
	start, end = bound(c.intAttr("start", 0)), bound(c.intAttr("end", n))
	return start, max(start, end)
}

func size(c *call) []*value {
	return []*value{{dims: ir.Shape{c.numel(c.shapeOf(c.input(0)))}, scalar: true, isDims: true, from: []string{}}}
}

// constantNode builds Constant. One attribute has the value: "value" a tensor, and others numbers of the type in their
// name.
func constantNode(c *call) []*value {
	var d *ir.Data
	var err error
	unsigned := false
	for _, a := range c.node.Attributes {
		c.consumed.atAttr(a.Name)
		switch a.Name {
		case "value":
			if a = c.attr("value", AttrTensor); a != nil && a.Tensor != nil {
				d, err = a.Tensor.data(c.file.externals)
				unsigned = dataTypes[a.Tensor.Type].unsigned
			}
		case "value_float":
			d, err = ir.FromFloats(ir.F32, []float64{c.floatAttr(a.Name, 0)})
		case "value_floats":
			if a = c.attr(a.Name, AttrFloats); a != nil {
				d, err = ir.FromFloats(ir.F32, widened(a.Floats), len(a.Floats))
			}
		case "value_int":
			d, err = ir.FromInts(ir.I64, []int64{int64(c.intAttr(a.Name, 0))})
		case "value_ints":
			if a = c.attr(a.Name, AttrInts); a != nil {
				d, err = ir.FromInts(ir.I64, a.Ints, len(a.Ints))
			}
		default:
			c.fail("a constant of %s is not supported", a.Name)
		}
	}
	switch {
	case err != nil:
		panic(nodeError{err})
	case d == nil:
		c.fail("it has no value")
	}
	return []*value{{data: d, unsigned: unsigned}}
}

// widened converts floats to float64.
func widened(list []float32) []float64 {
	out := make([]float64, len(list))
	for i, f := range list {
		out[i] = float64(f)
	}
	return out
}

// constantOfShape builds ConstantOfShape: a tensor with one value in all elements.
func constantOfShape(c *call) []*value {
	fill := c.b.Const(float32(0))
	if a := c.attr("value", AttrTensor); a != nil && a.Tensor != nil {
		d, err := a.Tensor.data(c.file.externals)
		if err != nil {
			panic(nodeError{err})
		}
		fill = c.b.Const(d).Reshape()
	}
	to, part := c.largestShape(c.extents(0))
	return []*value{{tensor: fill.Broadcast(to), valid: part}}
}

// constantFill builds ConstantFill, which ConstantOfShape has replaced.
func constantFill(c *call) tensor {
	var to ir.Shape
	inputAsShape := c.flag("input_as_shape", false)
	switch {
	case c.hasAttr("shape"):
		to = ir.ShapeOf(c.intsAttr("shape")...)
	case inputAsShape:
		to = c.dims(0)
	default:
		to = c.x(0).Shape()
	}
	to = slices.Concat(to, ir.ShapeOf(c.intsAttr("extra_shape")...))
	return c.b.Full(c.dtypeAttr("dtype", ir.F32), c.floatAttr("value", 0), to)
}

// rangeOp builds Range: equally spaced numbers. Their count must be known when the graph is built, but may depend on a
// symbol.
func rangeOp(c *call) []*value {
	t := c.dtypeOf(c.input(0))
	c.only("stash_type", float32Type, "it counts in floats, and the type has 16 bits")
	if t.IsInteger() {
		if v := c.integerRange(t); v != nil {
			return []*value{v}
		}
	}
	start, limit, step := c.number(0), c.number(1), c.number(2)
	n := max(0, math.Ceil((limit-start)/step))
	if math.IsNaN(n) || n > math.MaxInt32 {
		c.fail("it counts from %v to %v by %v", start, limit, step)
	}
	if t == ir.F16 || t == ir.BF16 { // 16-bit floats do not represent all of the values
		return one(c.b.Arange(ir.F32, start, step, int(n)).Cast(t))
	}
	return one(c.b.Arange(t, start, step, int(n)))
}

// integerRange builds Range of integers. It returns nil if an input is no scalar, or if only the limit minus the start
// is not expressible as an extent.
func (c *call) integerRange(t ir.DType) *value {
	start, step := c.dims(0), c.dims(2)
	limit, part := c.largestShape(c.extents(1))
	if part != nil && !(slices.Equal(start, ir.ShapeOf(0)) && slices.Equal(step, ir.ShapeOf(1))) {
		c.fail("it counts from %s by %s to a number that is known only in a run: want from 0 by 1", start, step)
	}
	if len(start) != 1 || len(limit) != 1 || len(step) != 1 || !start[0].IsStatic() || !step[0].IsStatic() {
		return nil
	}
	n, err := limit[0].Less(start[0])
	by := step[0].Add
	if err != nil || by == 0 {
		return nil
	}
	if n.IsStatic() {
		n = ir.Dim{Add: max(0, int64(math.Ceil(float64(n.Add)/float64(by))))}
	} else if by != 1 {
		c.fail("it counts from %s to %s by %d: with a symbol, want 1", start, limit, by)
	}
	return &value{tensor: c.b.Arange(t, float64(start[0].Add), float64(by), n), valid: part}
}

// eyeLike builds EyeLike: a matrix with the input's shape and 1 on the k-th diagonal. A positive k is above the main
// one.
func eyeLike(c *call) tensor {
	s := c.shapeOf(c.input(0))
	if len(s) != 2 {
		c.fail("of rank %d, want 2", len(s))
	}
	t := c.dtypeAttr("dtype", c.dtypeOf(c.in[0]))
	row, column := c.b.Iota(ir.I32, 0, s), c.b.Iota(ir.I32, 1, s)
	return row.AddScalar(float64(c.intAttr("k", 0))).Eq(column).Cast(t)
}

// oneHot builds OneHot. A new axis has one value at the index that an element of input 0 gives, and another value
// elsewhere. Input 1 is the extent of the axis, and input 2 has the value elsewhere and the value at the index.
func oneHot(c *call) tensor {
	indices, depth, values := c.x(0), int(c.number(1)), c.x(2)
	if indices.DType().IsFloat() {
		indices = indices.Cast(ir.I64)
	}
	indices = c.wrapNegative(indices, ir.D(depth))
	axis := c.axis(c.intAttr("axis", -1), indices.Rank()+1)
	s := slices.Insert(slices.Clone(indices.Shape()), axis, ir.D(depth))
	is := indices.Unsqueeze(axis).Eq(c.b.Iota(indices.DType(), axis, s))
	return is.Where(values.Index(0, 1), values.Index(0, 0))
}

// trilu builds Trilu: the upper or lower triangle of matrices, and 0 elsewhere.
func trilu(c *call) tensor {
	x, k := c.x(0), 0
	if c.has(1) {
		k = int(c.number(1))
	}
	if c.intAttr("upper", 1) != 0 {
		return x.Triu(k)
	}
	return x.Tril(k)
}

// crop builds Crop, an op of opset 1. It removes a border or, with attribute scale, extracts a window with that height
// and width after the left and top border.
func crop(c *call) tensor {
	x, border, scale := c.x(0), c.intsAttr("border"), c.intsAttr("scale")
	if x.Rank() != 4 || len(border) != 4 {
		c.fail("border %v of %s: want four numbers and a tensor [N, C, H, W]", border, x)
	}
	left, top, right, bottom := border[0], border[1], border[2], border[3]
	var endY, endX frontend.Dim = x.Shape()[2].Plus(int64(-bottom)), x.Shape()[3].Plus(int64(-right))
	if len(scale) == 2 {
		endY, endX = top+scale[0], left+scale[1]
	}
	return x.Slice(2, top, endY).Slice(3, left, endX)
}
