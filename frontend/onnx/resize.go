package onnx

import (
	"math"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

var resizeOps = table{
	"Resize":   tensorOp(resize),
	"Upsample": tensorOp(upsample),
}

// resizing is a node Resize with its attributes. Axis i of the result has extent size[i]. Attribute coordinates says
// how position p of the result maps to a position of the input; the simplest mapping is p/scale[i].
//
// Factors, extents and positions are computed in f32, as in other implementations, because rounding decides which
// element is nearest.
type resizing struct {
	x           tensor
	size        ir.Shape
	sized       bool // sizes are given, and determine the factors
	scale       []float64
	mode        string    // nearest, linear or cubic
	coordinates string    // attribute coordinate_transformation_mode
	nearest     string    // attribute nearest_mode: the direction of rounding
	a           float64   // parameter of cubic convolution
	exclude     bool      // elements outside of the input get no weight, and the others share it
	antialias   bool      // widen the kernel if an axis becomes shorter
	roi         []float64 // starts and ends, for tf_crop_and_resize
	outside     float64   // the value outside of roi
}

// upsample builds Upsample, and Resize of opset 10.
func upsample(c *call) tensor {
	r := resizing{x: c.x(0), mode: c.choice("mode", "nearest", "linear", "cubic", "bilinear", "trilinear"),
		coordinates: "asymmetric", nearest: "floor", a: -0.75}
	r.scale = c.numbers(1)
	c.sizes(&r)
	return c.resize(&r)
}

// resize builds Resize since opset 11.
func resize(c *call) tensor {
	x := c.x(0)
	r := resizing{x: x, mode: c.choice("mode", "nearest", "linear", "cubic"),
		coordinates: c.choice("coordinate_transformation_mode", "half_pixel", "half_pixel_symmetric",
			"pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"),
		nearest: c.choice("nearest_mode", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
		a:       c.floatAttr("cubic_coeff_a", -0.75), exclude: c.flag("exclude_outside", false),
		antialias: c.flag("antialias", false), outside: c.floatAttr("extrapolation_value", 0)}
	policy := c.choice("keep_aspect_ratio_policy", "stretch", "not_larger", "not_smaller")
	axes := c.intsAttr("axes")
	if !c.hasAttr("axes") {
		axes = axesFrom(0, x.Rank())
	}
	spread := func(list []float64, otherwise float64) []float64 {
		if len(list) != len(axes) {
			c.fail("%d numbers for %d axes", len(list), len(axes))
		}
		all := slices.Repeat([]float64{otherwise}, x.Rank())
		for i, a := range axes {
			all[c.axis(a, x.Rank())] = list[i]
		}
		return all
	}
	if c.has(1); r.coordinates == "tf_crop_and_resize" { // input 1 has no meaning else
		roi := c.numbers(1)
		if len(roi) != 2*len(axes) {
			c.fail("roi has %d numbers for %d axes", len(roi), len(axes))
		}
		r.roi = append(spread(roi[:len(axes)], 0), spread(roi[len(axes):], 1)...)
	}
	if c.has(3) {
		if c.has(2) && c.shapeOf(c.in[2]).MaxElems() > 0 {
			c.fail("it has both scales and sizes: want one of them")
		}
		to := c.dims(3)
		if len(to) != len(axes) {
			c.fail("%d sizes for %d axes", len(to), len(axes))
		}
		r.size, r.sized = slices.Clone(x.Shape()), true
		for i, a := range axes {
			r.size[c.axis(a, x.Rank())] = to[i]
		}
		for i, d := range r.size {
			r.scale = append(r.scale, 1)
			if from := x.Shape()[i]; d != from && d.IsStatic() && from.IsStatic() {
				r.scale[i] = float64(float32(d.Add) / float32(from.Add))
			}
		}
		if policy != "stretch" {
			r.keepAspect(c, policy, c.resolved(axes, x.Rank()))
		}
		return c.resize(&r)
	}
	if policy != "stretch" {
		c.fail("keep_aspect_ratio_policy is %q, but it is for sizes, and the node has scales", policy)
	}
	r.scale = spread(c.numbers(2), 1)
	c.sizes(&r)
	return c.resize(&r)
}

// keepAspect sets the factors of axes to the smallest of them or, with policy not_smaller, the largest, and sets the
// sizes accordingly. So the axes keep their proportions.
func (r *resizing) keepAspect(c *call, policy string, axes []int) {
	one := math.NaN()
	for _, a := range axes {
		if from := r.x.Shape()[a]; !from.IsStatic() || !r.size[a].IsStatic() {
			c.fail("it keeps the proportion of axis %d, of extent %s: want a fixed extent", a, from)
		}
		if s := r.scale[a]; math.IsNaN(one) || policy == "not_larger" && s < one || policy == "not_smaller" && s > one {
			one = s
		}
	}
	r.sized = false
	for _, a := range axes {
		r.scale[a] = one
		r.size[a] = ir.D(int(math.Round(float64(float32(one) * float32(r.x.Shape()[a].Add)))))
	}
}

// numbers returns input i, constant floats.
func (c *call) numbers(i int) []float64 {
	f, err := c.constant(i).Floats()
	if err != nil {
		c.fail("input %d: %v", i, err)
	}
	return f
}

// sizes computes the extents of the result from the factors.
func (c *call) sizes(r *resizing) {
	s := r.x.Shape()
	if len(r.scale) != len(s) {
		c.fail("%d factors for %s", len(r.scale), r.x)
	}
	r.size = slices.Clone(s)
	for i, f := range r.scale {
		switch whole := math.Round(f); {
		case !(f > 0) || f > 1<<20:
			c.fail("factor %v of axis %d", f, i)
		case s[i].IsStatic():
			r.size[i] = ir.D(int(float32(s[i].Add) * float32(f)))
		case whole == f:
			r.size[i] = s[i].Times(int64(whole))
		default:
			num, den, ok := frontend.Fraction(f)
			d, err := s[i].Times(num).FloorQuo(max(den, 1))
			if !ok || err != nil {
				c.fail("axis %d of extent %s times %v is not an exact fraction: fix the symbol's value", i, s[i], f)
			}
			r.size[i] = d
		}
	}
}

// resize builds a Resize by an equivalent op, or else axis by axis.
func (c *call) resize(r *resizing) tensor {
	if r.mode == "bilinear" || r.mode == "trilinear" {
		r.mode = "linear"
	}
	if y := r.byOp(c); !y.IsZero() {
		return y
	}
	x := r.x
	for axis, to := range r.size {
		from := x.Shape()[axis]
		if from == to && r.scale[axis] == 1 && r.roi == nil {
			continue
		}
		r.wantNumbers(c, axis, from, to)
		x = r.resizeAxis(c, x, axis, from.Static(), to.Static())
	}
	return x
}

// maxResized is the largest extent of an axis for which positions are computed one by one.
const maxResized = 1 << 24

// wantNumbers fails unless an axis's extents are numbers within the limits.
func (r *resizing) wantNumbers(c *call, axis int, from, to ir.Dim) {
	if !from.IsStatic() || !to.IsStatic() || from.Add < 1 || to.Add > maxResized {
		c.fail("axis %d goes from extent %s to %s by %s with %s: want fixed numbers from 1 to %d", axis, from, to,
			r.mode, r.coordinates, maxResized)
	}
}

// byOp builds the Resize as an equivalent op of vkc, which also supports symbols. It returns the zero Tensor if there
// is none.
func (r *resizing) byOp(c *call) tensor {
	s := r.x.Shape()
	first, exact, fractions := len(s), true, true
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] != r.size[i] || r.scale[i] != 1 {
			first = i
		}
		num, den, ok := frontend.Fraction(r.scale[i])
		switch {
		case s[i].IsStatic() && r.size[i].IsStatic():
			exact = exact && (r.sized || float64(s[i].Add)*r.scale[i] == float64(r.size[i].Add))
		case r.scale[i] != 1: // otherwise the extent is given, not the factor
			exact = exact && ok && s[i].Times(num) == r.size[i].Times(den)
		}
		fractions = fractions && ok && (r.mode != "nearest" || float64(num)/float64(den) == r.scale[i])
	}
	n := len(s) - first
	if n == 0 || n > 3 || r.antialias || r.exclude || r.roi != nil || !exact && !fractions {
		return tensor{}
	}
	var size []frontend.Dim
	for _, d := range r.size[first:] {
		size = append(size, d)
	}
	if r.mode == "nearest" {
		switch {
		case exact && r.isNearest(c, first, func(i int, place int64) int64 { return place * s[i].Add / r.size[i].Add }):
			return r.x.ResizeNearest(size...)
		case fractions && r.isNearest(c, first, func(i int, place int64) int64 {
			num, den, _ := frontend.Fraction(r.scale[i])
			return min(place*den/num, s[i].Add-1)
		}):
			return r.x.ResizeBy(frontend.Nearest, r.scale[first:], size...)
		}
		return tensor{}
	}
	corners := r.coordinates == "align_corners"
	half := r.coordinates == "half_pixel"
	if r.coordinates == "pytorch_half_pixel" {
		half = !slices.ContainsFunc(r.size[first:], func(d ir.Dim) bool { return d.Min() < 2 && d.IsStatic() })
	}
	switch {
	case !corners && !half || !r.x.DType().IsFloat() || corners && !exact:
		return tensor{}
	case !exact && r.mode == "linear":
		return r.x.ResizeBy(frontend.Linear, r.scale[first:], size...)
	case !exact && r.mode == "cubic" && r.a == -0.75:
		return r.x.ResizeBy(frontend.Cubic, r.scale[first:], size...)
	case r.mode == "linear":
		return r.x.ResizeLinear(corners, size...)
	case r.mode == "cubic" && r.a == -0.75:
		return r.x.ResizeCubic(corners, size...)
	}
	return tensor{}
}

// isNearest reports whether op(axis, place) is the nearest element for every position of the axes first and later. If
// an extent is symbolic, it returns true only for asymmetric coordinates that are rounded by floor.
func (r *resizing) isNearest(c *call, first int, op func(axis int, place int64) int64) bool {
	for axis := first; axis < len(r.size); axis++ {
		from, to := r.x.Shape()[axis], r.size[axis]
		if !from.IsStatic() || !to.IsStatic() {
			if r.coordinates != "asymmetric" || r.nearest != "floor" {
				return false
			}
			continue
		}
		r.wantNumbers(c, axis, from, to)
		for i := range to.Static() {
			at := r.round(r.source(axis, i, from.Static(), to.Static()))
			if int64(min(max(at, 0), from.Static()-1)) != op(axis, int64(i)) {
				return false
			}
		}
	}
	return true
}

// source returns the coordinate in the input for element i of the n elements along an axis of the result. The axis
// has extent from in the input. Each operation is rounded to f32.
func (r *resizing) source(axis, i, from, n int) float32 {
	scale, p, size, length := float32(r.scale[axis]), float32(i), float32(from), float32(n)
	full := float32(scale * size) // the extent of the result before rounding down
	if r.sized {
		full = length
	}
	switch r.coordinates {
	case "half_pixel_symmetric":
		offset := float64(size / 2 * (1 - length/full))
		return float32(offset + (float64(p)+0.5)/float64(scale) - 0.5)
	case "pytorch_half_pixel":
		if n == 1 {
			return 0
		}
	case "align_corners":
		if n == 1 {
			return 0
		}
		if r.mode == "nearest" {
			full = length
		}
		return p * (size - 1) / (full - 1)
	case "asymmetric":
		return p / scale
	case "tf_half_pixel_for_nn":
		return (p + 0.5) / scale
	case "tf_crop_and_resize":
		start, end := float32(r.roi[axis]), float32(r.roi[len(r.size)+axis])
		if n == 1 {
			return float32(0.5*(start+end)) * (size - 1)
		}
		return float32(start*(size-1)) + p*(end-start)*(size-1)/(length-1)
	}
	return (p+0.5)/scale - 0.5
}

// taps are the elements along an axis that contribute to one result element, and their weights.
type taps struct {
	at    []int
	share []float64
}

// taps returns the elements around a coordinate of the input, and their weights. scale is the axis's factor.
func (r *resizing) taps(place float32, scale float64) taps {
	if r.mode == "nearest" {
		return taps{[]int{r.round(place)}, []float64{1}}
	}
	x := float64(place)
	reach, stretch := 1.0, 1.0
	kernel := func(d float64) float64 { return max(0, 1-math.Abs(d)) }
	if r.mode == "cubic" {
		reach, kernel = 2, r.cubic
	}
	if r.antialias && scale < 1 {
		stretch = scale
	}
	var t taps
	floor := math.Floor(x)
	low := int(floor) + 1 - int(math.Ceil(reach/stretch))
	high := int(floor) + int(math.Ceil(reach/stretch))
	for at := low; at <= high; at++ {
		t.at = append(t.at, at)
		t.share = append(t.share, kernel((x-float64(at))*stretch))
	}
	return t
}

// cubic is the kernel of cubic convolution (Keys 1981).
func (r *resizing) cubic(d float64) float64 {
	d = math.Abs(d)
	switch {
	case d <= 1:
		return float64((float64((r.a+2)*d)-(r.a+3))*d*d) + 1
	case d < 2:
		return float64((float64((float64(r.a*d)-float64(5*r.a))*d)+float64(8*r.a))*d) - float64(4*r.a)
	}
	return 0
}

// nearHalf is how close to a half a position counts as a half, because rounding the factor to f32 moves positions by
// about that much.
const nearHalf = 1e-6

// round returns the nearest element to a coordinate.
func (r *resizing) round(place float32) int {
	x := float64(place)
	if half := math.Floor(x) + 0.5; math.Abs(x-half) < nearHalf && strings.HasPrefix(r.nearest, "round") {
		x = half
	}
	switch r.nearest {
	case "round_prefer_ceil":
		return int(math.Floor(x + 0.5))
	case "floor":
		return int(math.Floor(x))
	case "ceil":
		return int(math.Ceil(x))
	default:
		return int(math.Ceil(x - 0.5))
	}
}

// denseTaps is the largest number of elements per result for which elements are gathered. Above it, an axis is resized
// by a matmul with a matrix of weights.
const denseTaps = 8

// resizeAxis resizes one axis from extent from to extent to.
func (r *resizing) resizeAxis(c *call, x tensor, axis, from, to int) tensor {
	all := make([]taps, to)
	widest := 1
	var outside []bool
	for i := range all {
		place := r.source(axis, i, from, to)
		outside = append(outside, r.roi != nil && (place < 0 || place > float32(from-1)))
		t := r.taps(place, r.scale[axis])
		normalize := r.exclude || r.antialias
		total := 0.0
		for k, at := range t.at {
			if r.exclude && (at < 0 || at >= from) {
				t.share[k] = 0
			}
			total += t.share[k]
			t.at[k] = min(max(at, 0), from-1)
		}
		for k := range t.share {
			if normalize && total != 0 {
				t.share[k] /= total
			}
		}
		all[i] = t
		widest = max(widest, len(t.at))
	}
	var y tensor
	switch {
	case r.mode == "nearest":
		at := make([]int32, to)
		for i, t := range all {
			at[i] = int32(t.at[0])
		}
		y = x.IndexSelect(axis, c.b.Const(at))
	case !x.DType().IsFloat():
		c.fail("%s is interpolated: want floats", x)
	default:
		y = wide(x, func(x tensor) tensor { return interpolated(c, x, axis, from, all, widest) })
	}
	if slices.Contains(outside, true) {
		out := channelsAt(c.b.Const(outside), axis, y.Rank())
		y = out.Where(y.Lit(r.outside), y)
	}
	return y
}

// channelsAt reshapes a vector so that it broadcasts along one axis of a tensor of that rank.
func channelsAt(v tensor, axis, rank int) tensor {
	for range rank - 1 - axis {
		v = v.Unsqueeze(v.Rank())
	}
	return v
}

// interpolated computes the weighted sums of the elements in all along an axis. widest is the largest number of
// elements per sum.
func interpolated(c *call, x tensor, axis, from int, all []taps, widest int) tensor {
	if widest > denseTaps {
		shares := make([]float64, len(all)*from)
		for i, t := range all {
			for k, at := range t.at {
				shares[at*len(all)+i] += t.share[k]
			}
		}
		d, err := ir.FromFloats(x.DType(), shares, from, len(all))
		if err != nil {
			panic(nodeError{err})
		}
		last := x.Rank() - 1
		return x.SwapAxes(axis, last).MatMul(c.b.Const(d)).SwapAxes(axis, last)
	}
	var sum tensor
	for k := range widest {
		at, share := make([]int32, len(all)), make([]float64, len(all))
		for i, t := range all {
			at[i], share[i] = int32(t.at[k]), t.share[k]
		}
		d, err := ir.FromFloats(x.DType(), share, len(all))
		if err != nil {
			panic(nodeError{err})
		}
		part := x.IndexSelect(axis, c.b.Const(at)).Mul(channelsAt(c.b.Const(d), axis, x.Rank()))
		if k == 0 {
			sum = part
		} else {
			sum = sum.Add(part)
		}
	}
	return sum
}
