package interp

import "github.com/vkc-go/vkc/ir"

// weighted is an element's coordinate in the input along one axis, and the element's weight in a result element.
type weighted struct {
	at     int
	weight float64
}

// resize computes each result element as a weighted sum of input elements, along up to three axes. share returns the
// input coordinates and weights for a result coordinate along an axis. An element's weight is the product over the
// axes.
func resize(c *call, share func(p resizedCoord) []weighted) (value, error) {
	x, out := c.args[0].floats(), make([]float64, elems(c.dims))
	axes := len(c.attrs().Shape("size"))
	// Axes that the op does not have get extent 1, one input coordinate and weight 1.
	in, to := [maxAxes]int{1, 1, 1}, [maxAxes]int{1, 1, 1}
	copy(in[maxAxes-axes:], innermost(c.args[0].dims, axes))
	copy(to[maxAxes-axes:], innermost(c.dims, axes))
	inSize, outSize := volume(in), volume(to)
	err := c.parallelRange(outSize, elementWork*max(1, len(out)/max(outSize, 1)), func(lo, hi int) {
		for p := lo; p < hi; p++ {
			at := coords(p, to)
			var shares [maxAxes][]weighted
			for axis := range maxAxes {
				shares[axis] = []weighted{{0, 1}}
				if axis >= maxAxes-axes {
					shares[axis] = share(newResizedCoord(c.attrs(), axis-maxAxes+axes, at[axis], in[axis], to[axis]))
				}
			}
			for i := range len(out) / outSize { // for each image and channel
				out[i*outSize+p] = interpolate(x[i*inSize:(i+1)*inSize], in, shares)
			}
		}
	})
	return c.floats(out), err
}

// interpolate returns the weighted sum of the elements of x, which has extents in. shares has the weights by axis.
func interpolate(x []float64, in [maxAxes]int, shares [maxAxes][]weighted) float64 {
	acc := 0.0
	for _, a := range shares[0] {
		for _, b := range shares[1] {
			for _, e := range shares[2] {
				acc += float64(x[(a.at*in[1]+b.at)*in[2]+e.at] * (a.weight * b.weight * e.weight))
			}
		}
	}
	return acc
}

// resizedCoord is coordinate i of the result along an axis that has `extent` elements in x. The axis is scaled by
// to/from.
type resizedCoord struct{ i, extent, from, to int }

// newResizedCoord returns coordinate i along a resized axis, given the number of the axis among the resized ones, and
// its extents before and after. Attribute scales, if set, gives another scale than to/from.
func newResizedCoord(attrs ir.Attrs, axis, i, from, to int) resizedCoord {
	num, den := ir.ResizeScale(attrs, axis, ir.D(from), ir.D(to))
	return resizedCoord{i: i, extent: from, from: den.Static(), to: num.Static()}
}

// source returns the position in the input that corresponds to p: an element, and the fraction of the distance to the
// next. The element may be -1. Centers of elements are at half coordinates, unless alignCorners is set: then the first
// and the last elements of input and result correspond. It computes with integers, so there is no rounding error.
func (p resizedCoord) source(alignCorners bool) (at int, frac float64) {
	num, den := (2*p.i+1)*p.from-p.to, 2*p.to
	if alignCorners {
		num, den = p.i*(p.from-1), max(p.to-1, 1)
	}
	at = num / den
	if num%den < 0 { // round down
		at--
	}
	return at, float64(num-at*den) / float64(den)
}

// resizeLinear interpolates between two neighbours along each axis.
func resizeLinear(c *call) (value, error) {
	align := c.attrs().Bool("align_corners")
	return resize(c, func(p resizedCoord) []weighted {
		at, frac := p.source(align)
		return []weighted{
			{clampIndex(int64(at), p.extent), 1 - frac},
			{clampIndex(int64(at+1), p.extent), frac},
		}
	})
}

// resizeCubic interpolates four neighbours along each axis by cubic convolution.
func resizeCubic(c *call) (value, error) {
	align := c.attrs().Bool("align_corners")
	return resize(c, func(p resizedCoord) []weighted {
		at, t := p.source(align)
		list := make([]weighted, 4)
		// The neighbours at-1 to at+2, at the distances 1+t, t, 1-t and 2-t.
		for k, w := range [4]float64{keysOuter(1 + t), keysInner(t), keysInner(1 - t), keysOuter(2 - t)} {
			list[k] = weighted{clampIndex(int64(at+k-1), p.extent), w}
		}
		return list
	})
}

// keysA is the free parameter of the cubic convolution kernel of Keys, "Cubic
// convolution interpolation for digital image processing" (1981).
const keysA = -0.75

// keysInner is the kernel at distances d up to 1: (a+2)d³ - (a+3)d² + 1. keysOuter is the kernel at distances from 1 to
// 2: ad³ - 5ad² + 8ad - 4a.
func keysInner(d float64) float64 { return float64((float64((keysA+2)*d)-(keysA+3))*d*d) + 1 }
func keysOuter(d float64) float64 {
	return float64((float64((float64(keysA*d)-5*keysA)*d)+8*keysA)*d) - 4*keysA
}

// resizeNearest takes element floor(i*from/to) along each axis.
func resizeNearest(c *call) (value, error) {
	x := c.args[0]
	sources := make([][]int, len(c.dims))
	for axis := range sources {
		sources[axis] = NearestSources(c.node, axis, x.dims[axis], c.dims[axis])
	}
	return c.remap(x, func(axis, i int) int { return sources[axis][i] })
}

// NearestSources returns, by coordinate of the result of a resize_nearest along an axis, the coordinate of the argument
// that it takes. from and to are the extents before and after.
func NearestSources(n *ir.Node, axis, from, to int) []int {
	list, outer := make([]int, to), n.Rank()-len(n.Attrs().Shape("size"))
	for i := range list {
		list[i] = i
		if axis >= outer {
			p := newResizedCoord(n.Attrs(), axis-outer, i, from, to)
			list[i] = min(i*p.from/p.to, p.extent-1)
		}
	}
	return list
}
