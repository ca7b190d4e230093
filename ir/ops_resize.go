package ir

import (
	"fmt"
	"slices"
)

// maxResize limits the product of an axis's extents before and after a resize, so that 32-bit coordinates are exact.
const maxResize = 1 << 29

// init adds the rows of the resizing ops to the op table.
func init() {
	x := []ArgInfo{{Name: "x"}}
	size := AttrInfo{Name: "size", Kind: AttrShape, Doc: "new extents of as many innermost axes (1 to 3)"}
	align := AttrInfo{Name: "align_corners", Kind: AttrBool, Default: false,
		Doc: "whether the first and last element of an axis stay in place. Coordinate i of the result is then i*(from-1)/(to-1) in x, and otherwise ((2*i+1)*from-to)/(2*to)"}
	scales := AttrInfo{Name: "scales", Kind: AttrInts, Default: []int64{},
		Doc: "numerator and denominator of each resized axis's factor, if size was rounded. Coordinates use this fraction instead of to/from. Empty means the ratio of the extents."}
	tol := Tolerance{Eps: 64, Abs: 1e-6, Sum: true}
	rows(
		OpInfo{Op: OpResizeNearest, Name: "resize_nearest", Class: ClassWindow, Args: x, Picks: always,
			Attrs: []AttrInfo{size, scales},
			Infer: inferResize(KindFloat, KindInt, KindUint, KindBool),
			Doc:   "The nearest elements of x, for other extents of the innermost axes. Along an axis, element i of the result is element floor(i*from/to) of x."},
		OpInfo{Op: OpResizeLinear, Cost: 20, Name: "resize_linear", Class: ClassWindow, Args: x, Picks: always,
			Attrs: []AttrInfo{size, align, scales},
			Infer: inferResize(KindFloat), Tol: tol,
			Doc: "Linear interpolation along each resized axis (bilinear over two), not antialiased. It interpolates between the elements of x at floor(c) and floor(c)+1. Attribute align_corners defines c, which is an exact quotient. Coordinates outside x are clamped to its edge."},
		OpInfo{Op: OpResizeCubic, Cost: 40, Name: "resize_cubic", Class: ClassWindow, Args: x, Picks: always,
			Attrs: []AttrInfo{size, align, scales},
			Infer: inferResize(KindFloat), Tol: tol,
			Doc: "As resize_linear, by cubic convolution (Keys 1981, a = -0.75) of the elements at floor(c)-1 to floor(c)+2."},
	)
}

// inferResize returns the type rule of a resize: the innermost axes get the extents of attribute size.
func inferResize(kinds ...Kind) func(*Call) (Type, error) {
	return func(c *Call) (Type, error) {
		if err := c.wantKinds(0, kinds...); err != nil {
			return Type{}, err
		}
		x, size := c.Shape(0), c.Attrs.Shape("size")
		if len(size) < 1 || len(size) > min(maxWindowAxes, len(x)) {
			return Type{}, fmt.Errorf("size %s names %d innermost axes of %s %s, want 1 to %d", size, len(size),
				c.arg(0), x, min(maxWindowAxes, len(x)))
		}
		if n := len(c.Attrs.Ints("scales")); n != 0 && n != 2*len(size) {
			return Type{}, fmt.Errorf("scales has %d numbers, want two for each of %d axes", n, len(size))
		} else if n > 0 && c.Op != OpResizeNearest && c.Attrs.Bool("align_corners") {
			return Type{}, fmt.Errorf("align_corners and scales exclude each other: leave one out")
		}
		outer := len(x) - len(size)
		for i, to := range size {
			from := x[outer+i]
			num, den := ResizeScale(c.Attrs, i, from, to)
			switch {
			case from.Max() == 0 && to.Max() > 0:
				return Type{}, fmt.Errorf("axis %d of %s is empty: there is nothing to resize", outer+i, x)
			case len(c.Attrs.Ints("scales")) > 0 && (num.Add < 1 || num.Add > maxResize || den.Add < 1):
				return Type{}, fmt.Errorf("axis %d has the scale %s/%s: want numbers from 1 to %d", outer+i, num,
					den, maxResize)
			case den.Max() > 0 && to.Max() > maxResize/den.Max():
				return Type{}, fmt.Errorf("axis %d goes from %s to %s: the limit of their product is %d", outer+i,
					den, to, maxResize)
			}
		}
		return Type{c.DType(0), append(slices.Clone(x[:outer]), size...)}, nil
	}
}

// ResizeScale returns the factor to/from of the i-th resized axis with the given extents: from attribute scales if it
// is set, otherwise the extents themselves.
func ResizeScale(attrs Attrs, i int, fromExtent, toExtent Dim) (to, from Dim) {
	if scales := attrs.Ints("scales"); len(scales) > 2*i+1 {
		return Dim{Add: scales[2*i]}, Dim{Add: scales[2*i+1]}
	}
	return toExtent, fromExtent
}
