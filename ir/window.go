package ir

import (
	"fmt"
	"slices"
)

const (
	// maxWindowAxes is the largest number of axes a window spans.
	maxWindowAxes = 3
	// maxWindow limits a window's extents, strides, dilations and paddings, so that expressions over them and a dim fit
	// in an int64.
	maxWindow = 1 << 20
)

// Window describes how a convolution or pooling slides over the innermost axes of its argument. Each field has one
// value per axis. Element k of the window at result coordinate i is argument coordinate i*Stride - Low + k*Dilation.
// Low and High are the padding before and after the argument. For a transposed convolution, exchange argument and
// result in all of this.
type Window struct {
	Kernel, Stride, Dilation, Low, High []int64
}

// WindowOf returns the window of a conv, conv_transpose, avg_pool or max_pool.
func WindowOf(n *Node) Window { return windowOf(n.op, n.args, n.attrs) }

// windowOf returns the window of an op with these arguments and attributes.
func windowOf(op Op, args []*Node, attrs Attrs) Window {
	w := Window{Kernel: attrs.Ints("kernel")}
	if op == OpConv || op == OpConvTranspose {
		for _, d := range args[1].typ.Shape[2:] {
			w.Kernel = append(w.Kernel, d.Add)
		}
	}
	axes := len(w.Kernel)
	w.Stride = attrs.perAxis("stride", axes, 1)
	if len(attrs.Ints("stride")) == 0 && (op == OpAvgPool || op == OpMaxPool) {
		w.Stride = w.Kernel
	}
	w.Dilation = attrs.perAxis("dilation", axes, 1)
	w.Low = attrs.perAxis("padding_low", axes, 0)
	w.High = attrs.perAxis("padding_high", axes, 0)
	return w
}

// perAxis returns an ints attribute, or otherwise for each axis if the attribute is empty.
func (a Attrs) perAxis(name string, axes int, otherwise int64) []int64 {
	if v := a.Ints(name); len(v) > 0 {
		return v
	}
	return slices.Repeat([]int64{otherwise}, axes)
}

// Reach returns the number of coordinates that the window spans along an axis.
func (w Window) Reach(axis int) int64 { return w.Dilation[axis]*(w.Kernel[axis]-1) + 1 }

// check returns an error if a field has the wrong number of values, or one out of range.
func (w Window) check() error {
	axes := len(w.Kernel)
	if axes < 1 || axes > maxWindowAxes {
		return fmt.Errorf("the window has %d axes, want 1 to %d", axes, maxWindowAxes)
	}
	for _, v := range []struct {
		name   string
		values []int64
		least  int64
	}{{"kernel", w.Kernel, 1}, {"stride", w.Stride, 1}, {"dilation", w.Dilation, 1}, {"padding_low", w.Low, 0},
		{"padding_high", w.High, 0}} {
		if len(v.values) != axes {
			return fmt.Errorf("%s %v has %d values for a window of %d axes", v.name, v.values, len(v.values), axes)
		}
		for _, x := range v.values {
			if x < v.least || x > maxWindow {
				return fmt.Errorf("%s %v is outside %d..%d", v.name, v.values, v.least, maxWindow)
			}
		}
	}
	elems := int64(1)
	for _, k := range w.Kernel {
		elems *= k
		if elems > maxWindow {
			return fmt.Errorf("kernel %v has more than %d elements", w.Kernel, maxWindow)
		}
	}
	return nil
}

// slide returns the number of windows along each axis of dims. With ceil, a last window may extend beyond the high end
// if it starts before the high padding.
func (w Window) slide(dims Shape, ceil bool) (Shape, error) {
	out := make(Shape, len(dims))
	for i, d := range dims {
		over := w.High[i] - w.Reach(i) // the last window that fits starts at d+over
		if d.Plus(w.Low[i]+over).Max() < 0 {
			return nil, fmt.Errorf("a window of %d elements does not fit the %s elements of its axis %d with padding "+
				"%d and %d", w.Reach(i), d, i, w.Low[i], w.High[i])
		}
		if ceil { // round up, but not to a window that starts in the high padding, at d or later
			over = min(over+w.Stride[i]-1, -1)
		}
		last, err := d.Plus(w.Low[i] + over).FloorQuo(w.Stride[i])
		if err != nil {
			return nil, fmt.Errorf("axis %d: %w", i, err)
		}
		out[i] = last.Plus(1)
	}
	return out, nil
}
