package ir

import (
	"fmt"
	"slices"
)

// init adds the rows of the convolutions and pooling ops to the op table.
func init() {
	each := []int64{}
	padding := []AttrInfo{
		{Name: "padding_low", Kind: AttrInts, Default: each, Doc: "number of padding elements before the first, per " +
			"axis; empty means 0"},
		{Name: "padding_high", Kind: AttrInts, Default: each, Doc: "number of padding elements after the last, per " +
			"axis; empty means 0"},
	}
	stride := AttrInfo{Name: "stride", Kind: AttrInts, Default: each,
		Doc: "distance between windows, per axis; empty means 1"}
	dilation := AttrInfo{Name: "dilation", Kind: AttrInts, Default: each,
		Doc: "distance between elements in a window, per axis; empty means 1"}
	groups := AttrInfo{Name: "groups", Kind: AttrInt, Default: int64(1),
		Doc: "number of groups of channels with separate convolutions; C groups are a depthwise convolution"}
	kernel := AttrInfo{Name: "kernel", Kind: AttrInts,
		Doc: "extents of the window, for as many innermost axes (1 to 3)"}
	apart := AttrInfo{Name: "stride", Kind: AttrInts, Default: each,
		Doc: "distance between windows, per axis; empty means the kernel's extents"}
	ceil := AttrInfo{Name: "ceil_mode", Kind: AttrBool, Default: false,
		Doc: "include a last window that extends past the high end, if it starts before the high padding"}
	around := AttrInfo{Name: "padding_value", Kind: AttrInt, Default: int64(0),
		Doc: "value of the padding of an int8 or uint8 tensor, such as its zero point; float tensors are padded with 0"}
	weighted := []ArgInfo{{Name: "x"}, {Name: "w"}}
	x := []ArgInfo{{Name: "x"}}
	products := Tolerance{Eps: 64, Abs: 1e-5, Sum: true}
	rows(
		OpInfo{Op: OpConv, Name: "conv", Class: ClassWindow, Args: weighted,
			Attrs: slices.Concat([]AttrInfo{stride}, padding, []AttrInfo{around, dilation, groups, windowPrecision}), Infer: inferConv, Tol: products,
			Doc: "Convolution (cross-correlation) of x[N, C, …] with w[O, C/groups, …] over 1 to 3 innermost axes, accumulated in f32. result[n, o, i] is the sum of x[n, c, i*stride-padding_low+k*dilation] * w[o, c, k] over the channels c of o's group and all k. Padding is padding_value. i8 by i8 and u8 by u8 give i32: exact sums, which wrap past 32 bits."},
		OpInfo{Op: OpConvTranspose, Name: "conv_transpose", Class: ClassWindow, Args: weighted,
			Attrs: slices.Concat([]AttrInfo{stride}, padding, []AttrInfo{
				{Name: "output_padding", Kind: AttrInts, Default: each, Doc: "number of elements added after the " +
					"result's last, per axis, fewer than stride or dilation; empty means " +
					"0"}, dilation, groups, windowPrecision}),
			Infer: inferConvTranspose, Tol: products,
			Doc: "Transpose (gradient) of conv, for x[N, C, …] and w[C, O/groups, …]. It adds each x[n, c, i] times w[c, o, k] to result[n, o, i*stride-padding_low+k*dilation]. Padding is removed from the result, so its extent is (d-1)*stride-padding_low-padding_high+dilation*(k-1)+output_padding+1."},
		OpInfo{Op: OpAvgPool, Name: "avg_pool", Class: ClassWindow, Args: x,
			Attrs: slices.Concat([]AttrInfo{kernel, apart}, padding, []AttrInfo{dilation, ceil,
				{Name: "count_include_pad", Kind: AttrBool, Default: true, Doc: "divide by the number of elements in " +
					"x and its padding, instead of the number in x only"}}),
			Infer: inferPool([]Kind{KindFloat}), Tol: Tolerance{Eps: 64, Abs: 1e-6, Sum: true},
			Doc: "Mean over windows of the innermost axes; padding is 0. Elements past the padding do not count."},
		OpInfo{Op: OpMaxPool, Name: "max_pool", Class: ClassWindow, Args: x,
			Attrs: slices.Concat([]AttrInfo{kernel, apart}, padding, []AttrInfo{dilation, ceil}),
			Infer: inferPool([]Kind{KindFloat, KindInt, KindUint}),
			Doc:   "Largest element over windows of the innermost axes, NaN if a window contains one. Padding does not count. A window that has only padding gives the smallest value of the dtype."},
	)
}

// inferWindow returns the window of a convolution. It checks that x[N, C, …] and w have one dtype and rank, and that
// the window is valid.
func (c *Call) inferWindow() (Window, error) {
	if c.DType(1).IsBlock() {
		return Window{}, c.wantKinds(1, KindFloat)
	}
	if err := c.wantSame(0, 1); err != nil {
		return Window{}, err
	}
	x, w := c.Shape(0), c.Shape(1)
	if len(x) < 3 || len(x) != len(w) {
		return Window{}, fmt.Errorf("%s is %s and %s is %s: want one rank, of batch, channels and 1 to %d axes to go "+
			"over", c.arg(0), x, c.arg(1), w, maxWindowAxes)
	}
	for _, d := range w[2:] {
		if !d.IsStatic() {
			return Window{}, fmt.Errorf("the extent %s of the kernel is symbolic: want a number", d)
		}
	}
	if g := c.Attrs.Int("groups"); g < 1 || g > maxWindow {
		return Window{}, fmt.Errorf("groups %d is outside 1..%d", g, maxWindow)
	}
	win := windowOf(c.Op, c.Args, c.Attrs)
	return win, win.check()
}

// inferConv is the type rule of conv: [N, O, …] with an extent per number of windows, for weights [O, C/groups, …].
func inferConv(c *Call) (Type, error) {
	result, err := c.inferConvDType()
	if err != nil {
		return Type{}, err
	}
	win, err := c.inferWindow()
	if err != nil {
		return Type{}, err
	}
	x, w, groups := c.Shape(0), c.Shape(1), int64(c.Attrs.Int("groups"))
	if want := w[1].Times(groups); want != x[1] {
		return Type{}, fmt.Errorf("%s %s has %s channels, but %s %s takes %s: %s for each of its groups, and there "+
			"%s", c.arg(0), x, x[1], c.arg(1), w, want, w[1], are(groups))
	}
	if _, ok := w[0].Quo(groups); !ok {
		return Type{}, fmt.Errorf("%s %s makes %s channels, which %d groups cannot share: want a multiple of %d",
			c.arg(1), w, w[0], groups, groups)
	}
	spatial, err := win.slide(x[2:], false)
	return Type{result, append(Shape{x[0], w[0]}, spatial...)}, err
}

// inferConvDType returns the dtype of a convolution's result and checks the padding value.
func (c *Call) inferConvDType() (DType, error) {
	x, around := c.DType(0), int64(c.Attrs.Int("padding_value"))
	switch {
	case x == I8 || x == U8:
		if low, high := IntRange(x); around < low || around > high {
			return Invalid, fmt.Errorf("padding_value %d is no %s: want %d to %d", around, x, low, high)
		}
		return I32, nil
	case x.IsInteger():
		return Invalid, fmt.Errorf("%s is %s: want i8 or u8, because convolutions of other integers are not "+
			"supported", c.arg(0), x)
	case around != 0:
		return Invalid, fmt.Errorf("padding_value %d around %s of %s: only int8 and uint8 tensors take a value other "+
			"than 0",
			around, c.arg(0), x)
	}
	return x, c.wantKinds(0, KindFloat)
}

// are formats a count with the verb "to be": "is 1", "are 3".
func are(n int64) string {
	if n == 1 {
		return "is 1"
	}
	return fmt.Sprintf("are %d", n)
}

// inferConvTranspose is the type rule of conv_transpose, for weights [C, O/groups, …].
func inferConvTranspose(c *Call) (Type, error) {
	if err := c.wantKinds(0, KindFloat); err != nil {
		return Type{}, err
	}
	win, err := c.inferWindow()
	if err != nil {
		return Type{}, err
	}
	x, w, groups := c.Shape(0), c.Shape(1), int64(c.Attrs.Int("groups"))
	if w[0] != x[1] {
		return Type{}, fmt.Errorf("%s %s has %s channels, and %s %s wants %s, its first extent", c.arg(0), x, x[1],
			c.arg(1), w, w[0])
	}
	if _, ok := x[1].Quo(groups); !ok {
		return Type{}, fmt.Errorf("%s %s has %s channels, which %d groups do not divide: want a multiple of %d",
			c.arg(0), x, x[1], groups, groups)
	}
	extra := c.Attrs.perAxis("output_padding", len(win.Kernel), 0)
	if len(extra) != len(win.Kernel) {
		return Type{}, fmt.Errorf("output_padding %v has %d values for a window of %d axes", extra,
			len(extra), len(win.Kernel))
	}
	out := Shape{x[0], w[1].Times(groups)}
	for i, d := range x[2:] {
		if extra[i] < 0 || extra[i] >= max(win.Stride[i], win.Dilation[i]) {
			return Type{}, fmt.Errorf("output_padding %v of window axis %d is not below stride %d or dilation %d",
				extra, i, win.Stride[i], win.Dilation[i])
		}
		out = append(out, d.Plus(-1).Times(win.Stride[i]).Plus(win.Reach(i)+extra[i]-win.Low[i]-win.High[i]))
		if out[i+2].Max() < 1 {
			return Type{}, fmt.Errorf("padding %d and %d leaves nothing of window axis %d", win.Low[i], win.High[i], i)
		}
	}
	return Type{c.DType(0), out}, nil
}

// inferPool returns the type rule of a pooling of an argument with a dtype of these kinds.
func inferPool(kinds []Kind) func(*Call) (Type, error) {
	return func(c *Call) (Type, error) {
		if err := c.wantKinds(0, kinds...); err != nil {
			return Type{}, err
		}
		win, x := windowOf(c.Op, c.Args, c.Attrs), c.Shape(0)
		if err := win.check(); err != nil {
			return Type{}, err
		}
		outer := len(x) - len(win.Kernel)
		if outer < 0 {
			return Type{}, fmt.Errorf("kernel %v has more axes than %s %s", win.Kernel, c.arg(0), x)
		}
		for i := range win.Kernel {
			if reach := win.Reach(i); win.Low[i] >= reach || win.High[i] >= reach {
				return Type{}, fmt.Errorf("padding %d and %d of window axis %d contains whole windows of %d elements: "+
					"want less",
					win.Low[i], win.High[i], i, reach)
			}
		}
		spatial, err := win.slide(x[outer:], c.Attrs.Bool("ceil_mode"))
		return Type{c.DType(0), append(slices.Clone(x[:outer]), spatial...)}, err
	}
}
