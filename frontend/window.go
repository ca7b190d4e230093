package frontend

import (
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// WindowOption sets an option of a convolution or pooling. Options with values per axis also take a single value for
// all axes.
type WindowOption func(*window)

// window collects the attributes that options set, and the bias.
type window struct {
	op    string
	t     Tensor
	axes  int
	bias  Tensor
	attrs []ir.Attr
}

// perAxis sets an attribute to values, one for each axis of the window. A single value is used for all axes.
func (w *window) perAxis(name string, values []int) {
	if len(values) == 1 {
		values = slices.Repeat(values, max(1, w.axes))
	}
	if len(values) != w.axes {
		fail(w.op, fmt.Errorf("%s %v has %d values for a window of %d axes", name, values, len(values), w.axes), w.t)
	}
	w.attrs = append(w.attrs, attr(name, values))
}

// Stride sets the distance of windows. The default is 1, or the window's extents for pooling.
func Stride(n ...int) WindowOption { return func(w *window) { w.perAxis("stride", n) } }

// Padding sets the number of padding elements at both ends of an axis; 0 by default.
func Padding(n ...int) WindowOption { return PaddingLowHigh(n, n) }

// PaddingLowHigh sets the number of padding elements before and after an axis separately.
func PaddingLowHigh(low, high []int) WindowOption {
	return func(w *window) {
		w.perAxis("padding_low", low)
		w.perAxis("padding_high", high)
	}
}

// PaddingValue sets the value of padding elements of an int8 convolution, such as the zero point; 0 by default.
func PaddingValue(n int) WindowOption {
	return func(w *window) { w.attrs = append(w.attrs, attr("padding_value", n)) }
}

// Dilation sets the distance of elements within a window; 1 by default. AvgPool does not accept it.
func Dilation(n ...int) WindowOption { return func(w *window) { w.perAxis("dilation", n) } }

// Groups splits the channels of a convolution into independent groups. With as many groups as channels it is depthwise.
func Groups(n int) WindowOption {
	return func(w *window) { w.attrs = append(w.attrs, attr("groups", n)) }
}

// Bias adds one number per channel to the result of a convolution.
func Bias(bias Tensor) WindowOption { return func(w *window) { w.bias = bias } }

// InPrecision allows a device to compute a convolution in lower precision, [HalfPrecision] or [HalfSums], if that is
// faster.
func InPrecision(p Precision) WindowOption {
	return func(w *window) { w.attrs = append(w.attrs, attr("precision", string(p))) }
}

// OutputPadding adds elements to the end of the result of ConvTranspose. Several extents of an input give the same
// result extent in a convolution with a stride; OutputPadding chooses among them.
func OutputPadding(n ...int) WindowOption {
	return func(w *window) { w.perAxis("output_padding", n) }
}

// CeilMode lets the last window of a pooling extend beyond the end of an axis.
func CeilMode() WindowOption {
	return func(w *window) { w.attrs = append(w.attrs, attr("ceil_mode", true)) }
}

// ExcludePadding makes AvgPool divide by the number of elements in the window without its padding.
func ExcludePadding() WindowOption {
	return func(w *window) { w.attrs = append(w.attrs, attr("count_include_pad", false)) }
}

// newWindow applies options for a window over the given number of innermost axes of t.
func (t Tensor) newWindow(op ir.Op, axes int, options []WindowOption) *window {
	w := &window{op: op.String(), t: t, axes: axes}
	for _, o := range options {
		o(w)
	}
	return w
}

// Conv returns the convolution (cross-correlation) of t [N, C, …] with weights [O, C/groups, …] over 1 to 3 innermost
// axes, accumulated in f32. For i8 by i8, and u8 by u8, it is exact in i32.
func (t Tensor) Conv(weights Tensor, options ...WindowOption) Tensor {
	return t.convolve(ir.OpConv, weights, options)
}

// ConvTranspose returns the transpose (gradient) of Conv, with weights [C, O/groups, …]: each element of t [N, C, …]
// times the weights is added to the result at its window. Padding is removed from the result.
func (t Tensor) ConvTranspose(weights Tensor, options ...WindowOption) Tensor {
	return t.convolve(ir.OpConvTranspose, weights, options)
}

// convolve adds a conv or conv_transpose with the options, and the bias [channels of the result] if an option sets one.
func (t Tensor) convolve(op ir.Op, weights Tensor, options []WindowOption) Tensor {
	w := t.newWindow(op, t.Rank()-2, options)
	y := t.apply(op, []Tensor{weights}, w.attrs...)
	if w.bias.IsZero() {
		return y
	}
	if channels := y.Shape()[1]; w.bias.DType() != y.DType() || !w.bias.Shape().Equal(ir.Shape{channels}) {
		fail(op.String(), fmt.Errorf("the bias is %s: want one number per channel of the result, %s",
			w.bias.node.Type(), ir.Type{DType: y.DType(), Shape: ir.Shape{channels}}), t, weights, w.bias)
	}
	return y.Add(w.bias.withOnes(w.axes)) // as [channels, 1, ...], to broadcast over the axes of the window
}

// AvgPool returns the mean over windows of 1 to 3 innermost axes. kernel has the extents of the windows. Padding
// elements count as 0.
func (t Tensor) AvgPool(kernel []int, options ...WindowOption) Tensor {
	return t.pool(ir.OpAvgPool, kernel, options)
}

// MaxPool returns the largest element over windows of 1 to 3 innermost axes. kernel has the extents of the windows.
// Padding elements do not count.
func (t Tensor) MaxPool(kernel []int, options ...WindowOption) Tensor {
	return t.pool(ir.OpMaxPool, kernel, options)
}

func (t Tensor) pool(op ir.Op, kernel []int, options []WindowOption) Tensor {
	w := t.newWindow(op, len(kernel), options)
	return t.unary(op, append([]ir.Attr{attr("kernel", kernel)}, w.attrs...)...)
}

// GlobalAvgPool returns the mean over all axes after the channels of t [N, C, …]. It keeps these axes with extent 1.
func (t Tensor) GlobalAvgPool() Tensor { return t.MeanKeep(t.spatialAxes("mean")...) }

// GlobalMaxPool returns the maximum over all axes after the channels of t [N, C, …]. It keeps these axes with extent 1.
func (t Tensor) GlobalMaxPool() Tensor { return t.ReduceMaxKeep(t.spatialAxes("reduce_max")...) }

// spatialAxes returns the axes after batch and channels.
func (t Tensor) spatialAxes(op string) []int {
	axes := []int{}
	for axis := 2; axis < t.Rank(); axis++ {
		axes = append(axes, axis)
	}
	if len(axes) == 0 {
		fail(op, fmt.Errorf("%s has no axes after batch and channels", t.Shape()), t)
	}
	return axes
}

// ResizeNearest changes the extents of the innermost axes: element i of the result is element floor(i*from/to) of t,
// where from and to are the old and the new extent.
func (t Tensor) ResizeNearest(size ...Dim) Tensor {
	return t.unary(ir.OpResizeNearest, attr("size", mustShape(ir.OpResizeNearest, size, t)))
}

// ResizeLinear changes the extents of 1 to 3 innermost axes by linear interpolation (bilinear for two). With
// alignCorners the corner elements keep their positions; otherwise t and the result cover the same area.
func (t Tensor) ResizeLinear(alignCorners bool, size ...Dim) Tensor {
	return t.unary(ir.OpResizeLinear, attr("size", mustShape(ir.OpResizeLinear, size, t)),
		attr("align_corners", alignCorners))
}

// ResizeCubic changes the extents of the innermost axes by cubic convolution (bicubic over two axes). alignCorners
// means the same as for ResizeLinear.
func (t Tensor) ResizeCubic(alignCorners bool, size ...Dim) Tensor {
	return t.unary(ir.OpResizeCubic, attr("size", mustShape(ir.OpResizeCubic, size, t)),
		attr("align_corners", alignCorners))
}

// ResizeMode is the interpolation of a resize.
type ResizeMode ir.Op

// The modes: see ResizeNearest, ResizeLinear and ResizeCubic.
const (
	Nearest = ResizeMode(ir.OpResizeNearest)
	Linear  = ResizeMode(ir.OpResizeLinear)
	Cubic   = ResizeMode(ir.OpResizeCubic)
)

// ResizeBy scales 1 to 3 innermost axes by factors. A factor must be a fraction of numbers up to 4096, such as 1.5.
// size has the new extents; without it, they are the extents of t times the factors, rounded down. Coordinates use the
// exact factor, as PyTorch's scale_factor does: element i is at i/scale for Nearest, otherwise at (i+0.5)/scale-0.5.
func (t Tensor) ResizeBy(mode ResizeMode, scales []float64, size ...Dim) Tensor {
	op := ir.Op(mode)
	t.must(op.String())
	axes := len(scales)
	if axes < 1 || axes > t.Rank() || len(size) > 0 && len(size) != axes {
		fail(op.String(), fmt.Errorf("%d factors and %d extents for %s", axes, len(size), t.Shape()), t)
	}
	var fractions []int64
	for i, f := range scales {
		num, den, ok := Fraction(f)
		if !ok {
			fail(op.String(), fmt.Errorf("factor %v is not a fraction of numbers from 1 to %d", f, maxFraction), t)
		}
		fractions = append(fractions, num, den)
		if len(size) < axes {
			d, err := t.Dim(t.Rank() - axes + i).Times(num).FloorQuo(den)
			if err != nil {
				fail(op.String(), err, t)
			}
			size = append(size, d)
		}
	}
	return t.unary(op, attr("size", mustShape(op, size, t)), attr("scales", fractions))
}

// maxFraction is the largest numerator and denominator of a factor of ResizeBy.
const maxFraction = 1 << 12

// Fraction returns a factor as a fraction of numbers from 1 to 4096: the first convergent of its continued fraction
// that rounds to the same f32. ok is false if there is none.
func Fraction(f float64) (num, den int64, ok bool) {
	if !(f > 0) || f > maxFraction {
		return 0, 0, false
	}
	n0, d0, n1, d1 := int64(0), int64(1), int64(1), int64(0) // the last two convergents: n0/d0, and then n1/d1
	for x := f; ; x = 1 / (x - math.Floor(x)) {
		whole := math.Floor(x)
		if whole > maxFraction {
			return 0, 0, false
		}
		n0, d0, n1, d1 = n1, d1, int64(whole)*n1+n0, int64(whole)*d1+d0
		switch {
		case n1 > maxFraction || d1 > maxFraction:
			return 0, 0, false
		case n1 > 0 && float32(float64(n1)/float64(d1)) == float32(f):
			return n1, d1, true
		case x == whole: // the continued fraction ends
			return 0, 0, false
		}
	}
}
