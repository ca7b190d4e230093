package onnx

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

var windowOps = table{
	"Conv":              manyOp(conv),
	"ConvTranspose":     tensorOp(convTranspose),
	"AveragePool":       tensorOp(averagePool),
	"MaxPool":           manyOp(maxPool),
	"LpPool":            tensorOp(lpPool),
	"MaxUnpool":         tensorOp(maxUnpool),
	"GlobalAveragePool": tensorOp(globalAveragePool),
	"GlobalMaxPool":     tensorOp(func(c *call) tensor { return c.x(0).GlobalMaxPool() }),
	"GlobalLpPool":      tensorOp(globalLpPool),
}

// window has the parameters of a convolution or pooling, with one element for each of the innermost axes.
type window struct {
	kernel, stride, dilation, low, high []int
}

// window returns the parameters of a node that moves a window with extents `kernel` over a tensor of shape x.
func (c *call) window(x ir.Shape, kernel []int) window {
	n := len(kernel)
	if len(x) != n+2 {
		c.fail("a window of %d axes and a tensor of %d: it does not fit %s", n, n+2, x)
	}
	w := window{kernel: kernel, stride: c.perAxis("strides", n, 1), dilation: c.perAxis("dilations", n, 1),
		low: make([]int, n), high: make([]int, n)}
	pads := c.perAxis("pads", 2*n, 0) // ignored with another auto_pad
	switch mode := c.autoPad(); mode {
	case "NOTSET":
		w.low, w.high = pads[:n], pads[n:]
	case "SAME_UPPER", "SAME_LOWER":
		for i := range n {
			w.pad(i, w.samePadding(c, i, x[i+2]), mode == "SAME_LOWER")
		}
	}
	return w
}

// pad sets the padding of both ends of axis i, total elements together. With atBeginning, an odd element is at the
// beginning.
func (w *window) pad(i, total int, atBeginning bool) {
	w.low[i], w.high[i] = total/2, total-total/2
	if atBeginning {
		w.low[i], w.high[i] = w.high[i], w.low[i]
	}
}

// windowOf returns tensor x and the window that the node's attributes describe for it. If padding depends on a symbol,
// x is padded by elements of value pad, and the window has no padding along that axis.
func (c *call) windowOf(x tensor, kernel []int, pad float64) (padded tensor, w window) {
	mode, s := c.autoPad(), slices.Clone(x.Shape())
	stride, dilation := c.perAxis("strides", len(kernel), 1), c.perAxis("dilations", len(kernel), 1)
	var padHere []int // the axes, without batch and channels, along which x is padded
	for i := range min(len(kernel), len(s)-2) {
		d, by := s[i+2], int64(stride[i])
		windows, err := d.Plus(by - 1).FloorQuo(max(by, 1)) // d/by, rounded up
		if mode != "SAME_UPPER" && mode != "SAME_LOWER" || d.IsStatic() || by < 2 || err != nil {
			continue
		}
		c.atLeast(d, 1)
		whole := windows.Times(by).Plus(int64(dilation[i]*(kernel[i]-1)+1) - by) // the extent with padding
		size := c.b.DimValue(d)
		total := c.b.DimValue(whole).Sub(size).Max(size.Lit(0)) // elements of padding at both ends
		odd := 0.0                                              // 1 if an odd element is at the beginning
		if mode == "SAME_LOWER" {
			odd = 1
		}
		at := c.coordinatesTo(whole).Sub(total.AddScalar(odd).Div(total.Lit(2)))
		inside := spread(at.Ge(at.Lit(0)).And(at.Lt(size)), i+2, x.Rank())
		x = inside.Where(x.IndexSelect(i+2, at), c.b.Const(elementOf(x.DType(), false, pad)))
		s[i+2] = ir.D(1) // a number, so that c.window computes some padding, which is dropped below
		padHere = append(padHere, i)
	}
	w = c.window(s, kernel)
	for _, i := range padHere {
		w.low[i], w.high[i] = 0, 0
	}
	return x, w
}

func (c *call) autoPad() string {
	return c.choice("auto_pad", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
}

// samePadding returns the elements of padding at both ends of axis i with which there are ceil(extent/stride) windows.
func (w window) samePadding(c *call, i int, extent ir.Dim) int {
	reach := w.dilation[i]*(w.kernel[i]-1) + 1 // elements from the first to the last of a window
	if w.stride[i] == 1 {
		return reach - 1
	}
	if !extent.IsStatic() {
		c.fail("the padding depends on extent %s: fix the symbol's value", extent)
	}
	n := extent.Static()
	windows := ceil.Div(n, w.stride[i])
	return max(0, (windows-1)*w.stride[i]+reach-n)
}

// perAxis returns an attribute with n integers, or n times the default. If the default is positive, as for strides and
// dilations, the integers must be too.
func (c *call) perAxis(name string, n, otherwise int) []int {
	list := c.intsAttr(name)
	if len(list) == 0 {
		for range n {
			list = append(list, otherwise)
		}
	}
	if len(list) != n {
		c.fail("attribute %s is %v, want %d numbers", name, list, n)
	}
	if otherwise > 0 && n > 0 && slices.Min(list) < 1 {
		c.fail("attribute %s is %v, want numbers of at least 1", name, list)
	}
	return list
}

func (w window) options() []frontend.WindowOption {
	return []frontend.WindowOption{frontend.Stride(w.stride...), frontend.PaddingLowHigh(w.low, w.high)}
}

// kernelOf returns the extents of the windows of a convolution with weights w. Attribute kernel_shape must equal them.
func (c *call) kernelOf(w tensor) []int {
	if w.Rank() < 3 || !w.Shape().IsStatic() {
		c.fail("the weights are %s: want [O, C, …]", w)
	}
	kernel := make([]int, w.Rank()-2)
	for i, d := range w.Shape()[2:] {
		kernel[i] = d.Static()
	}
	if given := c.intsAttr("kernel_shape"); len(given) > 0 && !slices.Equal(given, kernel) {
		c.fail("attribute kernel_shape is %v, but the weights are %s", given, w)
	}
	return kernel
}

// convolution has the operands of a convolution, so that a batch normalization after it can change the weights instead.
type convolution struct {
	x, weights, bias tensor // the zero Tensor for no bias
	options          []frontend.WindowOption
}

// result returns the result of the convolution.
func (v *convolution) result() tensor {
	options := v.options
	if !v.bias.IsZero() {
		options = append(slices.Clip(options), frontend.Bias(v.bias))
	}
	return v.x.Conv(v.weights, options...)
}

// scaled returns the result of the convolution times a factor plus an offset, each with an element per channel. It
// changes the weights and the bias instead of the result.
func (v *convolution) scaled(factor, offset tensor) tensor {
	bias := offset
	if !v.bias.IsZero() {
		bias = v.bias.Mul(factor).Add(offset)
	}
	weights := v.weights.Mul(spread(factor, 0, v.weights.Rank()))
	return (&convolution{v.x, weights, bias, v.options}).result()
}

// conv builds Conv. If its weights are constants, it records the convolution in the value (see convolution).
func conv(c *call) []*value {
	v := c.convOf(c.x(0))
	y := &value{tensor: v.result()}
	if constant(c.in[1]) != nil && (!c.has(2) || constant(c.in[2]) != nil) {
		y.conv = v
	}
	return []*value{y}
}

// convOf returns the convolution of x with the node's weights, input 1, and bias, input 2.
func (c *call) convOf(x tensor) *convolution {
	w := c.x(1)
	x, win := c.windowOf(x, c.kernelOf(w), 0)
	v := &convolution{x: x, weights: w, options: append(win.options(), frontend.Dilation(win.dilation...),
		frontend.Groups(c.intAttr("group", 1)))}
	if c.has(2) {
		v.bias = c.x(2)
	}
	return v
}

// convTranspose builds ConvTranspose, with padding that is given or follows from output_shape or auto_pad.
func convTranspose(c *call) tensor {
	x, w := c.x(0), c.x(1)
	kernel := c.kernelOf(w)
	n := len(kernel)
	if x.Rank() != n+2 {
		c.fail("weights %s do not fit %s", w, x)
	}
	t := window{kernel: kernel, stride: c.perAxis("strides", n, 1), dilation: c.perAxis("dilations", n, 1)}
	more := c.perAxis("output_padding", n, 0)
	pads := c.perAxis("pads", 2*n, 0)
	t.low, t.high = pads[:n:n], pads[n:]
	mode, to := c.autoPad(), c.intsAttr("output_shape")
	if mode == "VALID" {
		t.low, t.high = make([]int, n), make([]int, n)
	}
	if len(to) > n {
		to = to[len(to)-n:] // without batch and channels
	}
	if len(to) == n || mode == "SAME_UPPER" || mode == "SAME_LOWER" {
		for i, in := range x.Shape()[2:] {
			if !in.IsStatic() {
				c.fail("the padding depends on extent %s: want a fixed extent", in)
			}
			extent := in.Static() * t.stride[i]
			if len(to) == n {
				extent = to[i]
			}
			atBeginning := mode == "SAME_LOWER" || mode != "SAME_UPPER" && len(to) == n
			t.fitTransposed(i, in.Static(), extent, &more[i], atBeginning)
		}
	}
	options := append(t.options(), frontend.Dilation(t.dilation...), frontend.OutputPadding(more...),
		frontend.Groups(c.intAttr("group", 1)))
	if c.has(2) {
		options = append(options, frontend.Bias(c.x(2)))
	}
	return x.ConvTranspose(w, options...)
}

// fitTransposed sets the padding of axis i so that a transposed convolution of extent `from` has a result of extent
// `to`. If that takes negative padding, it increases more, the output_padding, instead. atBeginning says on which side
// an odd element of padding is.
func (w *window) fitTransposed(i, from, to int, more *int, atBeginning bool) {
	total := w.stride[i]*(from-1) + *more + (w.kernel[i]-1)*w.dilation[i] + 1 - to
	if total < 0 {
		*more, total = *more-total, 0
	}
	w.pad(i, total, atBeginning)
}

// pool returns the windows of a pooling of x and the options of the pooling op. It returns x too, padded with the value
// pad if windowOf does so.
func (c *call) pool(x tensor, pad float64) (padded tensor, w window, options []frontend.WindowOption) {
	x, w = c.windowOf(x, c.mustInts("kernel_shape"), pad)
	options = append(w.options(), frontend.Dilation(w.dilation...))
	if c.flag("ceil_mode", false) {
		options = append(options, frontend.CeilMode())
	}
	return x, w, options
}

func averagePool(c *call) tensor { return c.averagePoolOf(c.x(0)) }

// averagePoolOf builds AveragePool of x. With count_include_pad, a window's sum is divided by the number of elements of
// the window, and otherwise by the number of elements of x in it. If x is valid in part (c.mask), the divisor counts
// valid elements only.
func (c *call) averagePoolOf(given tensor) tensor {
	x, w, options := c.pool(given, 0)
	countsPadding := c.flag("count_include_pad", false)
	if !countsPadding {
		options = append(options, frontend.ExcludePadding())
	}
	y := x.AvgPool(w.kernel, options...)
	switch {
	case x != given && !countsPadding: // divide by the share of elements that are no padding
		share, _, _ := c.pool(c.b.Full(x.DType(), 1, slices.Concat(ones(2), given.Shape()[2:])), 0)
		return y.Div(share.AvgPool(w.kernel, options...))
	case c.mask == nil:
		return y
	case !countsPadding: // divide by the share of elements that are valid
		share := c.mask.valid.Cast(x.DType()).Broadcast(slices.Concat(ones(2), x.Shape()[2:]))
		return y.Div(share.AvgPool(w.kernel, options...))
	}
	// The last windows may reach past the padding after the valid elements, and do not count what is there. So replace
	// the divisor, the number of counted elements with all of x, by the number with the valid part.
	axis := c.mask.axis
	i := axis - 2
	places := ones(x.Rank())
	places[axis] = y.Dim(axis)
	start := c.b.Iota(ir.I32, axis, places).Affine(float64(w.stride[i]), float64(-w.low[i]))
	counted := func(end tensor) tensor { // the elements along the axis of each window, up to the padding after `end`
		room := end.AddScalar(float64(w.high[i] + w.dilation[i] - 1)).Sub(start)
		return room.Div(room.Lit(float64(w.dilation[i]))).Clamp(1, float64(w.kernel[i])).Cast(y.DType())
	}
	return y.Mul(counted(c.b.DimValue(x.Dim(axis)))).Div(counted(c.mask.count))
}

// maxPool builds MaxPool, with indices if a second result is wanted.
func maxPool(c *call) []*value {
	x, w, options := c.pool(c.x(0), math.Inf(-1))
	columns := c.flag("storage_order", false) // indices count in column-major order
	if x != c.x(0) && c.wants(1) {
		c.fail("its padding depends on an extent, and its indices too: fix the symbol's value")
	}
	if !c.wants(1) {
		return one(x.MaxPool(w.kernel, options...))
	}
	return several(x.MaxPoolIndices(w.kernel, columns, options...))
}

// volume returns the product of extents.
func volume(list []int) int {
	n := 1
	for _, v := range list {
		n *= v
	}
	return n
}

// lpPool builds LpPool: the p-th root of the sum of p-th powers in each window. The sum is computed as a mean times the
// number of elements of a window. The mean does not count what is past the padding, so the padding is first extended to
// the end of the last window.
func lpPool(c *call) tensor {
	x, w, _ := c.pool(c.x(0), 0)
	ceil, rank := c.flag("ceil_mode", false), x.Rank()
	low, high := make([]int, rank), make([]int, rank)
	for i := range w.kernel {
		low[i+2], high[i+2] = w.low[i], w.high[i]
		if ceil {
			high[i+2] += w.overhang(c, i, x.Shape()[i+2])
		}
	}
	p, n := c.root(), volume(w.kernel)
	y := x.Abs().Powf(p)
	if slices.Max(low) > 0 || slices.Max(high) > 0 {
		y = y.Pad(low, high, 0)
	}
	return y.AvgPool(w.kernel, frontend.Stride(w.stride...), frontend.Dilation(w.dilation...)).MulScalar(float64(n)).
		Powf(1 / p)
}

// overhang returns the number of elements by which the last window extends beyond the padding at the end of axis i,
// with ceil_mode. The last window begins at an element or in the padding before the elements, and not in the padding
// after.
func (w window) overhang(c *call, i int, extent ir.Dim) int {
	if w.stride[i] == 1 {
		return 0
	}
	if !extent.IsStatic() {
		c.fail("windows reach past the end of extent %s: fix the symbol's value", extent)
	}
	n, reach := extent.Static()+w.low[i], w.dilation[i]*(w.kernel[i]-1)+1 // reach: extent of a dilated window
	// The start of the last window: the first multiple of the stride that covers the end, but one before n.
	last := min(n+w.high[i]-reach+w.stride[i]-1, n-1) / w.stride[i] * w.stride[i]
	return max(0, last+reach-n-w.high[i])
}

// root returns attribute p of a pooling, which is a float in old files.
func (c *call) root() float64 {
	a := c.anyAttr("p")
	switch {
	case a == nil:
		return 2
	case a.Type == AttrFloat:
		return float64(a.Float)
	}
	return float64(c.intAttr("p", 2))
}

// globalAveragePool builds GlobalAveragePool.
func globalAveragePool(c *call) tensor {
	if x := c.x(0); c.mask != nil {
		return c.mean(x, axesFrom(2, x.Rank())...)
	}
	return c.x(0).GlobalAvgPool()
}

// globalLpPool builds GlobalLpPool: the p-norm of each channel.
func globalLpPool(c *call) tensor {
	x, p := c.x(0), c.root()
	return x.Abs().Powf(p).SumKeep(axesFrom(2, x.Rank())...).Powf(1 / p)
}

// maxUnpool builds MaxUnpool: it writes elements to the indices that MaxPool has found, which count over the whole
// tensor.
func maxUnpool(c *call) tensor {
	x, at, to := c.x(0), c.x(1), c.unpooledShape()
	y := x.MaxUnpool(at, to)
	if !c.has(2) {
		return y
	}
	// Indices refer to a tensor of the shape that the pooling implies. For a larger output_shape, pad the result.
	low, high := make([]int, x.Rank()), make([]int, x.Rank())
	for i, d := range c.dims(2) {
		more, err := d.Less(to[i])
		if err != nil || !more.IsStatic() || more.Add < 0 {
			c.fail("output_shape is %s, and the regular shape %s", c.dims(2), to)
		}
		high[i] = more.Static()
	}
	return y.Pad(low, high, 0)
}

// unpooledShape returns the shape of the tensor that a pooling to the shape of input 0 reads: along each axis,
// (extent-1)*stride + kernel - pads. The two outermost axes, images and channels, stay.
func (c *call) unpooledShape() ir.Shape {
	s := c.shapeOf(c.input(0))
	n := len(s) - 2
	kernel := c.mustInts("kernel_shape")
	if n < 1 || len(kernel) != n || c.has(2) && len(c.dims(2)) != len(s) {
		c.fail("kernel_shape %v and the output_shape do not fit %s", kernel, s)
	}
	to := append(ir.Shape{}, s[:2]...)
	stride, pads := c.perAxis("strides", n, 1), c.perAxis("pads", 2*n, 0)
	for i := range n {
		d, err := s[i+2].Plus(-1).Times(int64(stride[i])).Sum(ir.D(kernel[i] - pads[i] - pads[n+i]))
		if err != nil {
			c.fail("%v", err)
		}
		to = append(to, d)
	}
	return to
}
