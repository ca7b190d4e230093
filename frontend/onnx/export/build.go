package export

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// weight writes op weight.
func weight(c *call) string {
	if c.node.DType().IsBlock() {
		return "" // decoded where it is used
	}
	return c.weight(c.node, c.node.DType())
}

// constant writes op const.
func constant(c *call) string {
	if c.node.DType().IsBlock() {
		return ""
	}
	return c.constant(c.node.Attrs().Data("data"))
}

// iota_ writes op iota, the coordinates along an axis: a range that is repeated along the other axes.
func iota_(c *call) string {
	s := c.node.Shape()
	axis := axisOf(c.node, len(s))
	x := c.cast(c.ranged(s[axis]), c.node.DType())
	if len(s) == 1 {
		return x
	}
	return c.spread(x, axis, s)
}

// ranged returns the coordinates 0, 1, … of an axis, int64[d].
func (w *writer) ranged(d ir.Dim) string {
	return w.emit("Range", []string{w.scalar(ir.I64, 0), w.number(d), w.scalar(ir.I64, 1)})
}

// axisOf returns attribute axis, counted from 0.
func axisOf(n *ir.Node, rank int) int {
	axis := n.Attrs().Int("axis")
	if axis < 0 {
		axis += rank
	}
	return axis
}

// cast returns value x as dtype t, which must represent it or round it as ONNX does. See function cast for other
// values.
func (w *writer) cast(x string, t ir.DType) string {
	attrs := []attribute{{"to", elemType(t)}}
	switch {
	case t == ir.F8E5M2:
		attrs = append(attrs, attribute{"saturate", int64(0)}) // numbers past the range become infinite
	case t.Float().Exponents:
		attrs = append(attrs, attribute{"round_mode", "nearest"})
	}
	return w.emit("Cast", []string{x}, attrs...)
}

// as returns argument i as dtype t.
func (c *call) as(i int, t ir.DType) string {
	n := c.node.Arg(i)
	switch {
	case n.DType() == t:
		return c.arg(i)
	case n.DType().IsBlock():
		return c.decoded(n, t)
	}
	return c.cast(c.arg(i), t)
}

// truth returns value x of dtype t as a bool.
func (w *writer) truth(x string, t ir.DType) string {
	if t == ir.Bool {
		return x
	}
	return w.cast(x, ir.Bool)
}

// cast writes op cast. ONNX leaves the conversion of floats beyond the range of an integer undefined, so cast limits
// them before.
func cast(c *call) string {
	from, to, x := c.node.Arg(0).DType(), c.node.DType(), c.arg(0)
	switch {
	case from == to:
		return x
	case to.Float().Exponents: // f8e8m0 has no sign, and ONNX would drop the sign of x
		if !from.IsFloat() || from.Bits() < 32 {
			x, from = c.cast(x, ir.F32), ir.F32
		}
		return c.cast(c.emit("Max", []string{x, c.scalar(from, 0)}), to)
	case !from.IsFloat() || !to.IsInteger():
		return c.cast(x, to)
	case from.BlockBytes() == 1:
		x, from = c.cast(x, ir.F32), ir.F32
	}
	least, most := integerRange(to)
	low, high := inside(least, from), inside(most, from) // the extreme numbers of type from that fit
	clipped := c.emit("Clip", []string{x, c.scalar(from, low), c.scalar(from, high)})
	clipped = c.emit("Where", []string{c.emit("IsNaN", []string{x}), c.scalar(from, 0), clipped})
	y := c.cast(clipped, to)
	if low != least {
		y = c.emit("Where", []string{c.emit("Less", []string{x, c.scalar(from, low)}), c.integer(to, least), y})
	}
	if high != most {
		y = c.emit("Where", []string{c.emit("Greater", []string{x, c.scalar(from, high)}), c.integer(to, most), y})
	}
	return y
}

// integer returns a scalar of an integer dtype. For v = 2^63, which no int64 has, it returns the largest int64.
func (w *writer) integer(t ir.DType, v float64) string {
	if v >= 1<<63 {
		return w.constant(&ir.Data{DType: t, Bytes: []byte{255, 255, 255, 255, 255, 255, 255, 127}})
	}
	return w.scalar(t, v)
}

// integerRange returns the least and the largest value of an integer dtype.
func integerRange(t ir.DType) (least, most float64) {
	bits := t.Bits()
	if t.Kind() == ir.KindUint {
		return 0, math.Ldexp(1, bits) - 1
	}
	return -math.Ldexp(1, bits-1), math.Ldexp(1, bits-1) - 1
}

// inside returns the number of float dtype t that is nearest to limit and not past it. limit is a limit of an integer
// dtype. For i64 it is 2^63, the nearest float64 to the largest int64, but the result is below 2^63.
func inside(limit float64, t ir.DType) float64 {
	if v := ir.RoundTo(limit, t); v == limit && limit < 1<<63 {
		return v
	}
	low, high := 0.0, math.Abs(limit) // bisection: low is inside, and high is not
	for range 1100 {                  // more steps than a float has bits of exponent and mantissa
		mid := low + (high-low)/2
		v := math.Abs(ir.RoundTo(mid, t))
		if v <= math.Abs(limit) && v < 1<<63 && !math.IsInf(v, 0) {
			low = max(mid, v)
		} else {
			high = mid
		}
		if mid == low && high-low < 1 {
			break
		}
	}
	v := math.Abs(ir.RoundTo(low, t))
	return math.Copysign(v, limit)
}

// bitcast writes op bitcast.
func bitcast(c *call) string {
	return c.emit("BitCast", []string{c.arg(0)}, attribute{"to", elemType(c.node.DType())})
}

// clamp writes op clamp as Clip. It leaves out a bound that is infinite.
func clamp(c *call) string {
	t, in := c.node.DType(), []string{c.arg(0)}
	low, high := c.node.Attrs().Float("min"), c.node.Attrs().Float("max")
	if math.IsInf(low, -1) && math.IsInf(high, 1) {
		return c.arg(0)
	}
	for _, v := range []float64{low, high} {
		if math.IsInf(v, 0) {
			in = append(in, "")
		} else {
			in = append(in, c.scalar(t, v))
		}
	}
	if in[2] == "" {
		in = in[:2]
	}
	return c.emit("Clip", in)
}

// shift writes shifts of integers. ONNX only has shifts of unsigned integers, by less than their width. Signed integers
// are multiplied or divided by powers of 2.
func shift(c *call) string {
	t, left := c.node.DType(), c.node.Op() == ir.OpShl
	a, b := c.arg(0), c.arg(1)
	width := 8 * t.BlockBytes()
	if t.Kind() == ir.KindUint {
		past := c.emit("GreaterOrEqual", []string{b, c.scalar(t, float64(width))})
		by := c.emit("Where", []string{past, c.scalar(t, 0), b})
		direction := "RIGHT"
		if left {
			direction = "LEFT"
		}
		y := c.emit("BitShift", []string{a, by}, attribute{"direction", direction})
		return c.emit("Where", []string{past, c.scalar(t, 0), y})
	}
	a, b = c.cast(a, ir.I64), c.cast(b, ir.I64)
	if !left {
		width-- // a shift by width-1 or more leaves just the sign
	}
	past := c.emit("Or", []string{c.emit("Less", []string{b, c.scalar(ir.I64, 0)}),
		c.emit("GreaterOrEqual", []string{b, c.scalar(ir.I64, float64(width))})})
	powers := make([]int64, width)
	for i := range powers {
		powers[i] = 1 << i
	}
	by := c.emit("Gather", []string{c.ints(powers...), c.emit("Where", []string{past, c.scalar(ir.I64, 0), b})})
	shifted := func(x string) string {
		op := "Div"
		if left {
			op = "Mul"
		}
		return c.emit("Where", []string{past, c.scalar(ir.I64, 0), c.emit(op, []string{x, by})})
	}
	if left {
		return c.cast(shifted(a), t)
	}
	// Div rounds towards 0, but a shift of a negative number a rounds down: it is ^(^a >> b).
	inverted := c.emit("BitwiseNot", []string{shifted(c.emit("BitwiseNot", []string{a}))})
	return c.cast(c.emit("Where", []string{c.emit("Less", []string{a, c.scalar(ir.I64, 0)}), inverted, shifted(a)}), t)
}

// expand repeats the argument to the op's shape.
func expand(c *call) string {
	if c.node.Shape().Equal(c.node.Arg(0).Shape()) {
		return c.arg(0)
	}
	return c.emit("Expand", []string{c.arg(0), c.shape(c.node.Shape())})
}

// transpose writes op transpose.
func transpose(c *call) string {
	return c.emit("Transpose", []string{c.arg(0)}, attribute{"perm", c.node.Attrs().Ints("perm")})
}

// slice writes op slice, with only the axes that change.
func slice(c *call) string {
	s, a := c.node.Arg(0).Shape(), c.node.Attrs()
	starts, limits, steps := a.Ints("starts"), a.Shape("limits"), a.Ints("steps")
	var axes, from, by []int64
	var to ir.Shape
	for i, d := range s {
		step := int64(1)
		if len(steps) > 0 {
			step = steps[i]
		}
		if starts[i] == 0 && limits[i] == d && step == 1 {
			continue
		}
		axes, from, by, to = append(axes, int64(i)), append(from, starts[i]), append(by, step), append(to, limits[i])
	}
	if len(axes) == 0 {
		return c.arg(0)
	}
	in := []string{c.arg(0), c.ints(from...), c.shape(to), c.ints(axes...)}
	if slices.ContainsFunc(by, func(n int64) bool { return n != 1 }) {
		in = append(in, c.ints(by...))
	}
	return c.emit("Slice", in)
}

// flip writes op flip: each flipped axis is a slice with step -1, from the last element to before the first.
func flip(c *call) string {
	x := c.arg(0)
	for i, flipped := range axesOf(c.node) {
		if flipped {
			x = c.emit("Slice", []string{x, c.ints(-1), c.ints(math.MinInt64), c.ints(int64(i)), c.ints(-1)})
		}
	}
	return x
}

// axesOf returns which axes of the argument attribute axes lists. An empty list means all.
func axesOf(n *ir.Node) []bool {
	list, err := ir.ResolveAxes(n.Attrs().Ints("axes"), n.Arg(0).Rank())
	if err != nil {
		panic(fmt.Sprintf("export: axes of %s: %v", n, err)) // the graph has been verified
	}
	return list
}

// roll writes op roll, axis by axis: result[i] = x[(i-shift) mod n]. So the result is the elements of x from coordinate
// (-shift) mod n on, followed by the elements before that coordinate.
func roll(c *call) string {
	x := c.arg(0)
	for i, shift := range c.node.Attrs().Ints("shifts") {
		d := c.node.Shape()[i]
		if shift == 0 || d.Is(0) {
			continue
		}
		place, axis := c.remainder(-shift, d), int64(i)
		x = c.emit("Concat", []string{c.sliced(x, place, c.ints(toEnd), axis), c.sliced(x, c.ints(0), place, axis)},
			attribute{"axis", axis})
	}
	return x
}

// remainder returns a mod d, from 0 to d-1, as int64[1]. If a symbolic extent d is 0, it returns 0.
func (c *call) remainder(a int64, d ir.Dim) string {
	if d.IsStatic() {
		n := d.Add
		return c.ints((a%n + n) % n)
	}
	n := c.emit("Max", []string{c.dim(d), c.ints(1)}) // Mod must not divide by 0
	return c.emit("Mod", []string{c.ints(a), n})
}

// axesOp returns a function that writes the op's node as the ONNX op `op`, which takes the axes as an input.
func axesOp(op string) func(c *call) string {
	return func(c *call) string {
		axes := c.node.Attrs().Ints("axes")
		if len(axes) == 0 {
			return c.arg(0)
		}
		return c.emit(op, []string{c.arg(0), c.ints(axes...)})
	}
}

// boolInt returns 1 for true and 0 for false, as ONNX's attributes have bools.
func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// wide returns argument i in a dtype that ONNX's reductions accept, and the dtype. Integers of less than 32 bits become
// i32, and floats of 8 bits f32.
func (c *call) wide(i int) (name string, t ir.DType) {
	t = c.node.Arg(i).DType()
	if t.IsFloat() && t.BlockBytes() == 1 {
		return c.cast(c.arg(i), ir.F32), ir.F32
	}
	if t.IsInteger() && t.BlockBytes() < 4 {
		return c.cast(c.arg(i), ir.I32), ir.I32
	}
	return c.arg(i), t
}

// reduction writes ONNX's reduction op of x over the node's axes. If keep is set, they stay with extent 1.
func (c *call) reduction(op, x string, keep bool) string {
	in := []string{x}
	if axes := c.node.Attrs().Ints("axes"); len(axes) > 0 {
		in = append(in, c.ints(axes...))
	}
	return c.emit(op, in, attribute{"keepdims", boolInt(keep)})
}

func (c *call) keeps() bool { return c.node.Attrs().Bool("keepdims") }

// reduce returns a function that writes a node as ONNX's reduction op.
func reduce(op string) func(c *call) string {
	return func(c *call) string {
		x, t := c.wide(0)
		y := c.reduction(op, x, c.keeps())
		if to := c.node.DType(); t != to && to.IsInteger() && strings.HasPrefix(op, "ReduceM") && c.mayFoldNone() {
			// The extreme of no elements is the least or largest number of t, which is past the range of to.
			least, most := integerRange(to)
			y = c.emit("Clip", []string{y, c.scalar(t, least), c.scalar(t, most)})
		}
		if t != c.node.DType() {
			y = c.cast(y, c.node.DType())
		}
		return y
	}
}

// mayFoldNone reports whether a reduction may have no elements to fold.
func (c *call) mayFoldNone() bool {
	shape := c.node.Arg(0).Shape()
	for i, folded := range axesOf(c.node) {
		if folded && shape[i].Min() == 0 {
			return true
		}
	}
	return false
}

// normP writes op norm_p. It divides by the largest magnitude before it takes powers, so that they do not overflow.
func normP(c *call) string {
	t, p := computed(c.node.DType()), c.node.Attrs().Float("p")
	x := c.emit("Abs", []string{c.float(0)})
	divisor := func(keep bool) string { // the largest magnitude, or 1 if that is 0 or infinite
		most := c.reduction("ReduceMax", x, keep)
		none := c.emit("Or", []string{c.emit("IsInf", []string{most}), c.emit("Equal", []string{most, c.scalar(t, 0)})})
		return c.emit("Where", []string{none, c.scalar(t, 1), most})
	}
	powers := c.emit("Pow", []string{c.emit("Div", []string{x, divisor(true)}), c.scalar(t, p)})
	root := c.emit("Pow", []string{c.reduction("ReduceSum", powers, c.keeps()), c.scalar(t, 1/p)})
	return c.rounded(c.emit("Mul", []string{root, divisor(c.keeps())}), t)
}

// variance writes op variance: the sum of the squared differences from the mean, divided by n-correction for n
// elements.
func variance(c *call) string {
	x, t := c.float(0), computed(c.node.DType())
	d := c.emit("Sub", []string{x, c.reduction("ReduceMean", x, true)})
	sum := c.reduction("ReduceSum", c.emit("Mul", []string{d, d}), c.keeps())
	isReduced := axesOf(c.node)
	var reduced ir.Shape // the extents of the axes
	for i, d := range c.node.Arg(0).Shape() {
		if isReduced[i] {
			reduced = append(reduced, d)
		}
	}
	n, err := reduced.Numel()
	if err != nil { // an ir.Dim cannot express the product
		return c.fail("%v", err)
	}
	correction := int64(c.node.Attrs().Int("correction"))
	var divisor string
	if n.IsStatic() {
		divisor = c.scalar(t, float64(max(n.Add-correction, 0)))
	} else {
		less := c.emit("Sub", []string{c.number(n), c.scalar(ir.I64, float64(correction))})
		divisor = c.cast(c.emit("Max", []string{less, c.scalar(ir.I64, 0)}), t)
	}
	return c.rounded(c.emit("Div", []string{sum, divisor}), t)
}

// anyOf writes ops any and all. ONNX does not reduce bools, so any is a comparison of their sum with 0. For all, it
// uses all(x) = not any(not x).
func anyOf(c *call) string {
	x, inverted := c.arg(0), c.node.Op() == ir.OpAll
	if inverted {
		x = c.emit("Not", []string{x})
	}
	n := c.reduction("ReduceSum", c.cast(x, ir.I32), c.keeps())
	y := c.emit("Greater", []string{n, c.scalar(ir.I32, 0)})
	if inverted {
		y = c.emit("Not", []string{y})
	}
	return y
}

// argmax writes ops argmax and argmin.
func argmax(c *call) string {
	op := "ArgMax"
	if c.node.Op() == ir.OpArgmin {
		op = "ArgMin"
	}
	x, _ := c.wide(0)
	y := c.emit(op, []string{x}, attribute{"axis", int64(c.node.Attrs().Int("axis"))},
		attribute{"keepdims", boolInt(c.keeps())})
	return c.cast(y, ir.I32)
}

// scan returns a function that writes a cumulative sum or product as ONNX's op. If the scan restarts after every n
// elements, the axis is first split into parts of n elements.
func scan(op string) func(c *call) string {
	return func(c *call) string {
		a := c.node.Attrs()
		x, t := c.wide(0)
		s, axis := c.node.Shape(), axisOf(c.node, c.node.Rank())
		at := axis // the axis of x along which it scans
		if n := int64(a.Int("restart")); n > 0 {
			parts, ok := s[axis].Quo(n)
			if !ok {
				return c.fail("ONNX's %s cannot restart after %d of %s elements", op, n, s[axis])
			}
			x, at = c.reshaped(x, slices.Concat(s[:axis], ir.Shape{parts, ir.D(int(n))}, s[axis+1:])), axis+1
		}
		y := c.emit(op, []string{x, c.scalar(ir.I64, float64(at))},
			attribute{"exclusive", boolInt(a.Bool("exclusive"))}, attribute{"reverse", boolInt(a.Bool("reverse"))})
		if at != axis {
			y = c.reshaped(y, s)
		}
		if t != c.node.DType() {
			y = c.cast(y, c.node.DType())
		}
		return y
	}
}

// sorted writes ops sort, argsort and topk_indices as TopK. For sort and argsort, k is the number of all elements.
func sorted(c *call) string {
	a, x := c.node.Attrs(), c.node.Arg(0)
	axis := axisOf(c.node, x.Rank())
	k, largest := c.dim(x.Shape()[axis]), a.Bool("descending")
	if c.node.Op() == ir.OpTopKIndices {
		k, largest = c.ints(int64(a.Int("k"))), a.Bool("largest")
	}
	value, t := c.wide(0)
	out := c.emitAll("TopK", 2, []string{value, k}, attribute{"axis", int64(axis)},
		attribute{"largest", boolInt(largest)}, attribute{"sorted", int64(1)})
	switch {
	case c.node.Op() != ir.OpSort: // the results are indices
		return c.cast(out[1], ir.I32)
	case t != c.node.DType():
		return c.cast(out[0], c.node.DType())
	}
	return out[0]
}

// along returns a function that writes a node as the ONNX op `op`, with the same axis.
func along(op string) func(c *call) string {
	return func(c *call) string {
		return c.emit(op, []string{c.arg(0)}, attribute{"axis", int64(c.node.Attrs().Int("axis"))})
	}
}

// scale returns argument i, a weight or bias of a norm. If the node lacks it, scale returns a vector of n elements with
// the value `otherwise`.
func (c *call) scale(i int, n ir.Dim, otherwise float64) string {
	switch {
	case i < len(c.node.Args()):
		return c.as(i, c.node.DType())
	case !n.IsStatic():
		return c.fail("it has no weights, and normalizes over %s elements: want a fixed number", n)
	}
	return c.filled(c.node.DType(), int(n.Add), otherwise)
}

// rmsNorm writes op rms_norm.
func rmsNorm(c *call) string {
	inner := c.node.Shape()[c.node.Rank()-1]
	return c.emit("RMSNormalization", []string{c.arg(0), c.scale(1, inner, 1)}, attribute{"axis", int64(-1)},
		attribute{"epsilon", c.node.Attrs().Float("eps")})
}

// layerNorm writes op layer_norm.
func layerNorm(c *call) string {
	inner := c.node.Shape()[c.node.Rank()-1]
	in := []string{c.arg(0), c.scale(1, inner, 1)}
	if len(c.node.Args()) > 2 {
		in = append(in, c.as(2, c.node.DType()))
	}
	return c.emit("LayerNormalization", in, attribute{"axis", int64(-1)},
		attribute{"epsilon", c.node.Attrs().Float("eps")})
}

// groupNorm writes op group_norm.
func groupNorm(c *call) string {
	channels := c.node.Shape()[1]
	return c.emit("GroupNormalization", []string{c.arg(0), c.scale(1, channels, 1), c.scale(2, channels, 0)},
		attribute{"num_groups", int64(c.node.Attrs().Int("groups"))}, attribute{"epsilon", c.node.Attrs().Float("eps")})
}

// batchNorm writes op batch_norm. Its arguments are x, mean, variance, weight and bias. In ONNX the order is x, weight,
// bias, mean and variance.
func batchNorm(c *call) string {
	channels := c.node.Shape()[1]
	return c.emit("BatchNormalization", []string{c.arg(0), c.scale(3, channels, 1), c.scale(4, channels, 0), c.arg(1),
		c.arg(2)}, attribute{"epsilon", c.node.Attrs().Float("eps")})
}

// l2Normalize writes op l2_normalize: x / max(norm, eps).
func l2Normalize(c *call) string {
	a, x, t := c.node.Attrs(), c.float(0), computed(c.node.DType())
	norm := c.emit("ReduceL2", []string{x, c.ints(int64(a.Int("axis")))}, attribute{"keepdims", int64(1)})
	return c.rounded(c.emit("Div", []string{x, c.emit("Max", []string{norm, c.scalar(t, a.Float("eps"))})}), t)
}

// triangle writes ops tril and triu.
func triangle(c *call) string {
	return c.emit("Trilu", []string{c.arg(0), c.scalar(ir.I64, float64(c.node.Attrs().Int("k")))},
		attribute{"upper", boolInt(c.node.Op() == ir.OpTriu)})
}

// oneHot writes op one_hot. It compares the indices with coordinates, because ONNX's OneHot counts negative indices
// from the end.
func oneHot(c *call) string {
	depth := ir.D(c.node.Attrs().Int("depth"))
	index := c.unsqueezed(c.cast(c.arg(0), ir.I64), -1)
	return c.cast(c.emit("Equal", []string{index, c.ranged(depth)}), c.node.DType())
}

// concat writes op concat.
func concat(c *call) string {
	var in []string
	for i := range c.node.Args() {
		in = append(in, c.arg(i))
	}
	return c.emit("Concat", in, attribute{"axis", int64(c.node.Attrs().Int("axis"))})
}

// padModes has ONNX's names of modes of padding.
var padModes = map[string]string{"constant": "constant", "reflect": "reflect", "replicate": "edge", "wrap": "wrap"}

// pad writes op pad. It refuses reflections that are not shorter than the axis, because ONNX reflects an axis only
// once.
func pad(c *call) string {
	a := c.node.Attrs()
	low, high, mode := a.Ints("low"), a.Ints("high"), a.String_("mode")
	for i, d := range c.node.Arg(0).Shape() {
		most := d.Min() - 1 // the largest padding by reflection
		if mode == "reflect" && max(low[i], high[i]) > max(most, 0) {
			return c.fail("ONNX reflects at most %d elements of an axis of %s, and the padding is %d and %d", most, d,
				low[i], high[i])
		}
	}
	in := []string{c.arg(0), c.ints(slices.Concat(low, high)...)}
	if mode == "constant" {
		in = append(in, c.floats(c.node.DType(), []float64{a.Float("value")}))
	}
	return c.emit("Pad", in, attribute{"mode", padModes[mode]})
}
