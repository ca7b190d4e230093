package onnx

import (
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

var resizeOps = table{
	"Resize":   manyOp(resize),
	"Upsample": manyOp(upsample),
}

// resizing is a node Resize with its attributes.
//
// Factors, extents and positions are computed in f32, as in other implementations, because rounding decides which
// element is nearest.
type resizing struct {
	x           tensor
	size        ir.Shape   // of the result
	part        *validPart // of the result, if its sizes depend on numbers of elements that a run finds
	sized       bool       // sizes are given, and determine the factors
	scale       []float64  // by axis: the factor
	mode        string     // nearest, linear or cubic
	coordinates string     // attribute coordinate_transformation_mode; the simplest maps p of the result to p/scale
	nearest     string     // attribute nearest_mode: the direction of rounding
	a           float64    // parameter of cubic convolution
	exclude     bool       // elements outside of the input get no weight, and the others share it
	antialias   bool       // widen the kernel if an axis becomes shorter
	roi         []float64  // starts and ends, for tf_crop_and_resize
	outside     float64    // the value outside of roi
}

// upsample builds Upsample, and Resize of opset 10.
func upsample(c *call) []*value {
	r := resizing{x: c.x(0), mode: c.choice("mode", "nearest", "linear", "cubic", "bilinear", "trilinear"),
		coordinates: "asymmetric", nearest: "floor", a: -0.75}
	r.scale = c.numbers(1)
	c.sizes(&r)
	return c.resize(&r)
}

// resize builds Resize as opset 11 and later define it.
func resize(c *call) []*value {
	x := c.x(0)
	r := resizing{x: x, mode: c.choice("mode", "nearest", "linear", "cubic"),
		coordinates: c.choice("coordinate_transformation_mode", "half_pixel", "half_pixel_symmetric",
			"pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"),
		nearest: c.choice("nearest_mode", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
		a:       c.floatAttr("cubic_coeff_a", -0.75), exclude: c.flag("exclude_outside", false),
		antialias: c.flag("antialias", false), outside: c.floatAttr("extrapolation_value", 0)}
	policy := c.choice("keep_aspect_ratio_policy", "stretch", "not_larger", "not_smaller")
	axes := axesFrom(0, x.Rank())
	if c.hasAttr("axes") {
		axes = c.intsAttr("axes") // in the order of sizes and factors
		for i, a := range axes {
			axes[i] = c.axis(a, x.Rank())
		}
	}
	byAxis := func(list []float64, otherwise float64) []float64 { // numbers for `axes` as a list by axis
		if len(list) != len(axes) {
			c.fail("%d numbers for %d axes", len(list), len(axes))
		}
		all := slices.Repeat([]float64{otherwise}, x.Rank())
		for i, a := range axes {
			all[a] = list[i]
		}
		return all
	}
	c.has(1) // input 1 only has a meaning for this mode, but is always allowed
	if r.coordinates == "tf_crop_and_resize" {
		roi := c.numbers(1)
		if len(roi) != 2*len(axes) {
			c.fail("roi has %d numbers for %d axes", len(roi), len(axes))
		}
		r.roi = append(byAxis(roi[:len(axes)], 0), byAxis(roi[len(axes):], 1)...)
	}
	sized := c.has(3)
	switch {
	case sized && c.has(2) && c.shapeOf(c.in[2]).MaxElems() > 0:
		c.fail("it has both scales and sizes: want one of them")
	case sized:
		r.setSizes(c, axes)
		if policy != "stretch" {
			r.keepAspect(c, policy, axes)
		}
	case policy != "stretch":
		c.fail("keep_aspect_ratio_policy is %q, but it is for sizes, and the node has scales", policy)
	default:
		r.scale = byAxis(c.numbers(2), 1)
		c.sizes(&r)
	}
	return c.resize(&r)
}

// setSizes sets the extents of the result along `axes` from input 3, and computes the factors from them.
func (r *resizing) setSizes(c *call, axes []int) {
	to := c.extents(3)
	if len(to) != len(axes) {
		c.fail("%d sizes for %d axes", len(to), len(axes))
	}
	r.size, r.sized = slices.Clone(r.x.Shape()), true
	for i, a := range axes {
		r.size[a] = to[i]
	}
	r.size, r.part = c.largestShape(r.size)
	for i, d := range r.size {
		r.scale = append(r.scale, 1)
		if from := r.x.Shape()[i]; d != from && d.IsStatic() && from.IsStatic() {
			r.scale[i] = float64(float32(d.Add) / float32(from.Add))
		}
	}
}

// keepAspect gives all axes in the list the same factor, and sets the sizes accordingly: the smallest of their factors
// or, with policy not_smaller, the largest.
func (r *resizing) keepAspect(c *call, policy string, axes []int) {
	var factors []float64
	for _, a := range axes {
		from := r.x.Shape()[a]
		switch {
		case !from.IsStatic() || !r.size[a].IsStatic():
			c.fail("it keeps the proportion of axis %d, of extent %s: want a fixed extent", a, from)
		case c.isValidAxis(a) || r.isFoundAxis(a):
			c.fail("it keeps the proportion of axis %d, and its extent is known only in a run: want a fixed extent", a)
		}
		factors = append(factors, r.scale[a])
	}
	if len(axes) == 0 {
		return
	}
	factor := slices.Min(factors)
	if policy == "not_smaller" {
		factor = slices.Max(factors)
	}
	r.sized = false // the sizes follow from the factors now
	for _, a := range axes {
		r.scale[a] = factor
		r.size[a] = ir.D(int(math.Round(float64(float32(factor) * float32(r.x.Shape()[a].Add)))))
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

// sizes computes the extents of the result from the factors. ONNX defines an extent as floor(extent * factor) in f32.
func (c *call) sizes(r *resizing) {
	s := r.x.Shape()
	if len(r.scale) != len(s) {
		c.fail("%d factors for %s", len(r.scale), r.x)
	}
	r.size = slices.Clone(s)
	for i, f := range r.scale {
		whole := math.Round(f)
		switch {
		case !(f > 0) || f > 1<<20: // also NaN
			c.fail("factor %v of axis %d", f, i)
		case c.isValidAxis(i):
			n := c.validExtent(i, ir.F32).MulScalar(f).Floor().Cast(ir.I32)
			r.size[i], r.part = ir.D(int(float32(s[i].Max())*float32(f))), &validPart{i, n}
		case s[i].IsStatic():
			r.size[i] = ir.D(int(float32(s[i].Add) * float32(f)))
		case whole == f:
			r.size[i] = s[i].Times(int64(whole))
		default:
			num, den, ok := frontend.Fraction(f)
			d, err := s[i].Times(num).FloorQuo(max(den, 1)) // max: den may be 0 if ok is false
			if !ok || err != nil {
				c.fail("axis %d of extent %s times %v is not an exact fraction: fix the symbol's value", i, s[i], f)
			}
			r.size[i] = d
		}
	}
}

// resize builds a Resize as an equivalent op of vkc or, if there is none, axis by axis.
func (c *call) resize(r *resizing) []*value {
	if r.mode == "bilinear" || r.mode == "trilinear" {
		r.mode = "linear"
	}
	if v := c.in[0].valid; c.mask == nil && v != nil && r.part != nil && *v == *r.part {
		r.part = nil // the axis keeps its size
	}
	result := &value{valid: r.part}
	if fixed := r.part == nil && c.mask == nil; fixed {
		result.tensor = r.byOp(c)
	}
	if result.tensor.IsZero() {
		result.tensor = r.x
		for axis, to := range r.size {
			same := to == r.x.Dim(axis) && r.scale[axis] == 1 && r.roi == nil
			if !same || c.isValidAxis(axis) || r.isFoundAxis(axis) {
				result.tensor = r.resizeAxis(c, result.tensor, axis)
			}
		}
	}
	return []*value{result}
}

// isValidAxis reports whether the op folds this axis of input 0, and the input is valid in part along it (see c.mask).
func (c *call) isValidAxis(axis int) bool { return c.mask != nil && c.mask.axis == axis }

// resizeLabels labels Resize. An axis that is valid in part keeps its label if it keeps its extent. Otherwise Resize
// folds it.
func resizeLabels(c *call) labels {
	l := c.likeInput()
	v := c.in[0]
	if v.valid == nil {
		return l
	}
	axis, at := v.valid.axis, v.valid.axis // at is the axis's index among the sizes or factors, or -1
	if axes := c.intsAttr("axes"); c.hasAttr("axes") {
		at = slices.IndexFunc(axes, func(a int) bool { return c.axis(a, c.rank(0)) == axis })
	}
	kept := at < 0
	switch {
	case kept || c.textAttr("coordinate_transformation_mode", "") == "tf_crop_and_resize": // it crops the axis
	case c.has(3):
		to := c.extents(3)
		kept = at < len(to) && to[at] == c.foundShape()[axis]
	default:
		scales := c.numbers(len(c.in) - 1) // input 1 or 2
		kept = at < len(scales) && scales[at] == 1
	}
	if !kept {
		l.out[0] = slices.Clone(l.out[0])
		l.out[0][axis], l.folded = opaque, []int{axis}
	}
	return l
}

// byOp builds the Resize as an equivalent op of vkc, which also supports symbols. It returns the zero Tensor if there
// is none.
func (r *resizing) byOp(c *call) tensor {
	first, exact, fractions := r.factors()
	n := r.x.Rank() - first
	if n == 0 || n > 3 || r.antialias || r.exclude || r.roi != nil || !exact && !fractions {
		return tensor{}
	}
	var size []frontend.Dim
	for _, d := range r.size[first:] {
		size = append(size, d)
	}
	if r.mode == "nearest" {
		// Check that this Resize takes the same elements as the ops.
		s := r.x.Shape()
		byExtents := func(axis int, place int64) int64 { return place * s[axis].Add / r.size[axis].Add }
		byFactor := func(axis int, place int64) int64 {
			num, den, _ := frontend.Fraction(r.scale[axis])
			return min(place*den/num, s[axis].Add-1)
		}
		switch {
		case exact && r.isNearest(c, first, byExtents):
			return r.x.ResizeNearest(size...)
		case fractions && r.isNearest(c, first, byFactor):
			return r.x.ResizeBy(frontend.Nearest, r.scale[first:], size...)
		}
		return tensor{}
	}
	corners := r.coordinates == "align_corners"
	half := r.coordinates == "half_pixel"
	if r.coordinates == "pytorch_half_pixel" { // it differs for a result of extent 1, from a larger extent
		half = true
		for i := first; i < r.x.Rank(); i++ {
			enlarged := r.scale[i] > 1 || r.size[i] == r.x.Dim(i)
			half = half && (enlarged || r.size[i].Min() > 1)
		}
	}
	const opsA = -0.75 // the parameter of cubic convolution of vkc's ops
	switch {
	case !corners && !half || !r.x.DType().IsFloat() || corners && !exact || r.mode == "cubic" && r.a != opsA:
		return tensor{}
	case r.mode == "linear" && exact:
		return r.x.ResizeLinear(corners, size...)
	case r.mode == "linear":
		return r.x.ResizeBy(frontend.Linear, r.scale[first:], size...)
	case r.mode == "cubic" && exact:
		return r.x.ResizeCubic(corners, size...)
	case r.mode == "cubic":
		return r.x.ResizeBy(frontend.Cubic, r.scale[first:], size...)
	}
	return tensor{}
}

// factors returns the first resized axis, or the rank if there is none. exact says that for each axis, the ratio of the
// extents is the factor. fractions says that all factors are ratios of small integers.
func (r *resizing) factors() (first int, exact, fractions bool) {
	s := r.x.Shape()
	first, exact, fractions = len(s), true, true
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
	return first, exact, fractions
}

// isNearest reports whether this Resize, in mode nearest, takes element op(axis, place) of the input for every place of
// the result, along the axes from `first` on. If an extent is symbolic, it returns true only for asymmetric coordinates
// that are rounded by floor.
func (r *resizing) isNearest(c *call, first int, op func(axis int, place int64) int64) bool {
	for axis := first; axis < len(r.size); axis++ {
		from, to := r.x.Dim(axis), r.size[axis]
		if !from.IsStatic() || !to.IsStatic() {
			if r.coordinates != "asymmetric" || r.nearest != "floor" {
				return false
			}
			continue
		}
		constants := r.constantTaps(c, axis)
		if constants == nil {
			return false
		}
		places, err := constants[0].at.Ints()
		for i, at := range places {
			if err != nil || at != op(axis, int64(i)) {
				return false
			}
		}
	}
	return true
}

// resizedAxis is an axis while its positions are computed.
type resizedAxis struct {
	*resizing
	axis int
	from tensor // the number of valid elements of the input, an f32 scalar
	to   tensor // the number of valid elements of the result
	n    ir.Dim // the extent of the result
}

// tap is one of the input's elements that contribute to an element of the result, for all elements of the result along
// an axis. T is a tensor or its constant value.
type tap[T any] struct {
	at      T // the coordinates in the input
	share   T // the weights
	outside T // whether the result's coordinate in the input is outside of it
}

// source returns the coordinates in the input of the elements of the result along the axis, and the factor, as ONNX
// defines them for each coordinate_transformation_mode.
func (r *resizedAxis) source() (place, scale tensor) {
	b := r.from.Builder()
	p, lit := b.Iota(ir.F32, 0, r.n), r.from.Lit
	scale = lit(r.scale[r.axis])
	full := scale.Mul(r.from) // the extent of the result before rounding down
	if r.sized {
		scale, full = r.to.Div(r.from), r.to
	}
	half := p.AddScalar(0.5).Div(scale).SubScalar(0.5)
	notSingle := func(otherwise, x tensor) tensor { return r.to.Eq(lit(1)).Where(otherwise, x) }
	switch r.coordinates {
	case "half_pixel_symmetric":
		return half.Add(r.from.MulScalar(0.5).Mul(lit(1).Sub(r.to.Div(full)))), scale
	case "pytorch_half_pixel":
		return notSingle(lit(0), half), scale
	case "align_corners":
		if r.mode == "nearest" {
			full = r.to
		}
		return notSingle(lit(0), p.Mul(r.from.SubScalar(1)).Div(full.SubScalar(1))), scale
	case "asymmetric":
		return p.Div(scale), scale
	case "tf_half_pixel_for_nn":
		return p.AddScalar(0.5).Div(scale), scale
	case "tf_crop_and_resize":
		start, end := float32(r.roi[r.axis]), float32(r.roi[len(r.size)+r.axis])
		last := r.from.SubScalar(1)
		step := p.MulScalar(float64(end - start)).Mul(last).Div(r.to.SubScalar(1))
		return notSingle(last.MulScalar(float64(0.5*(start+end))), last.MulScalar(float64(start)).Add(step)), scale
	}
	return half, scale
}

// nearHalf is the distance within which a position counts as a half between two elements. Rounding the factor to f32
// moves positions by about that much.
const nearHalf = 1e-6

// round returns the nearest element to each coordinate, as attribute nearest_mode says.
func (r *resizing) round(x tensor) tensor {
	if strings.HasPrefix(r.nearest, "round") {
		// Rounding errors of the coordinate must not decide a tie.
		half := x.Floor().AddScalar(0.5)
		x = x.Sub(half).Abs().Lt(x.Lit(nearHalf)).Where(half, x)
	}
	switch r.nearest {
	case "round_prefer_ceil":
		return x.AddScalar(0.5).Floor()
	case "floor":
		return x.Floor()
	case "ceil":
		return x.Ceil()
	}
	return x.SubScalar(0.5).Ceil()
}

// taps returns the elements of the input that contribute to each element of the result, with weights in dtype t.
func (r *resizedAxis) taps(t ir.DType) []tap[tensor] {
	place, scale := r.source()
	last := r.from.SubScalar(1)
	outside := place.Lt(place.Lit(0)).Or(place.Gt(last))
	clamped := func(at tensor) tensor { return at.Max(at.Lit(0)).Min(last).Cast(ir.I32) }
	if r.mode == "nearest" {
		return []tap[tensor]{{at: clamped(r.round(place)), share: place.Lit(1), outside: outside}}
	}
	// Linear interpolation: the weight falls from 1 to 0 at distance 1.
	reach, kernel := 1.0, func(d tensor) tensor { return d.Neg().AddScalar(1).Relu() }
	if r.mode == "cubic" {
		reach, kernel = 2, r.cubic
	}
	width := reach // the largest distance of an element that contributes
	stretch := place.Lit(1).Cast(t)
	if r.antialias {
		// A smaller result takes the mean of more elements.
		stretch = scale.Min(scale.Lit(1)).Cast(t)
		width = math.Ceil(reach / min(1, r.scale[r.axis]))
	}
	var list []tap[tensor]
	var total tensor
	for k := 1 - int(width); k <= int(width); k++ {
		at := place.Floor().AddScalar(float64(k))
		share := kernel(place.Cast(t).Sub(at.Cast(t)).Mul(stretch).Abs())
		if r.exclude {
			share = at.Ge(at.Lit(0)).And(at.Le(last)).Where(share, share.Lit(0))
		}
		if len(list) == 0 {
			total = share
		} else {
			total = total.Add(share)
		}
		list = append(list, tap[tensor]{at: clamped(at), share: share, outside: outside})
	}
	if r.exclude || r.antialias {
		total = total.Eq(total.Lit(0)).Where(total.Lit(1), total)
		for k := range list {
			list[k].share = list[k].share.Div(total)
		}
	}
	return list
}

// cubic returns the kernel of cubic convolution (Keys 1981) at distance d, at least 0.
func (r *resizing) cubic(d tensor) tensor {
	near := d.MulScalar(r.a + 2).SubScalar(r.a + 3).Mul(d).Mul(d).AddScalar(1)
	far := d.MulScalar(r.a).SubScalar(5 * r.a).Mul(d).AddScalar(8 * r.a).Mul(d).SubScalar(4 * r.a)
	return d.Le(d.Lit(1)).Where(near, d.Lt(d.Lit(2)).Where(far, d.Lit(0)))
}

// constantTaps returns the taps of an axis as constants. It returns nil if an extent is not known when the graph is
// built, or is above maxFolded.
func (r *resizing) constantTaps(c *call, axis int) []tap[*ir.Data] {
	from, to := r.x.Dim(axis), r.size[axis]
	if !from.IsStatic() || !to.IsStatic() || to.Add > maxFolded || c.isValidAxis(axis) || r.isFoundAxis(axis) {
		return nil
	}
	data := evaluated(func(b *frontend.Builder) (all []tensor) {
		a := &resizedAxis{r, axis, b.Scalar(ir.F32, float64(from.Add)), b.Scalar(ir.F32, float64(to.Add)), to}
		for _, t := range a.taps(ir.F64) {
			all = append(all, t.at, t.share, t.outside)
		}
		return all
	})
	var list []tap[*ir.Data]
	for t := range slices.Chunk(data, 3) {
		list = append(list, tap[*ir.Data]{t[0], t[1], t[2]})
	}
	return list
}

// isFoundAxis reports whether a run finds the size of the result along an axis.
func (r *resizing) isFoundAxis(axis int) bool { return r.part != nil && r.part.axis == axis }

// denseTaps is the largest number of taps of an axis that is resized by gathering elements. An axis with more taps is
// resized by a matmul with a matrix of weights.
const denseTaps = 8

// maxTaps is the largest number of taps.
const maxTaps = 1 << 10

// resizeAxis resizes one axis of x. Other axes of x may be resized already.
func (r *resizing) resizeAxis(c *call, x tensor, axis int) tensor {
	t := x.DType()
	from, to := x.Dim(axis), r.size[axis]
	known := from.IsStatic() && to.IsStatic() && !c.isValidAxis(axis) && !r.isFoundAxis(axis)
	switch {
	case from.Is(0) && !to.Is(0):
		c.fail("axis %d of %s has no elements", axis, r.x)
	case r.mode != "nearest" && !t.IsFloat():
		c.fail("%s is interpolated: want floats", x)
	case r.antialias && (r.sized && !known || 4 > maxTaps*r.scale[axis]): // cubic has 4/scale taps
		c.fail("axis %d goes from extent %s to %s with antialias: want fixed extents, and at most %d elements for "+
			"each of the result", axis, from, to, maxTaps)
	}
	if known && r.mode != "nearest" && to.Add <= maxFolded {
		if list := r.constantTaps(c, axis); len(list) > denseTaps {
			return wide(x, func(x tensor) tensor { return c.resizedDensely(x, axis, list) })
		}
	}
	list := r.tapsOf(c, axis)
	var y tensor
	if r.mode == "nearest" {
		y = x.IndexSelect(axis, list[0].at)
	} else {
		y = wide(x, func(x tensor) (sum tensor) {
			for k, tap := range list {
				part := x.IndexSelect(axis, tap.at).Mul(spread(castTo(tap.share, x.DType()), axis, x.Rank()))
				if k == 0 {
					sum = part
				} else {
					sum = sum.Add(part)
				}
			}
			return sum
		})
	}
	if r.roi != nil {
		y = spread(list[0].outside, axis, y.Rank()).Where(y.Lit(r.outside), y)
	}
	return y
}

// tapsOf returns the taps of an axis as constants, or computed in a run.
func (r *resizing) tapsOf(c *call, axis int) []tap[tensor] {
	if constants := r.constantTaps(c, axis); constants != nil {
		var list []tap[tensor]
		for _, t := range constants {
			list = append(list, tap[tensor]{c.b.Const(t.at), c.b.Const(t.share), c.b.Const(t.outside)})
		}
		return list
	}
	a := &resizedAxis{r, axis, c.validExtent(axis, ir.F32), c.lengthOf(r.size[axis], ir.F32), r.size[axis]}
	if r.isFoundAxis(axis) {
		a.to = r.part.count.Cast(ir.F32)
	}
	return a.taps(ir.F32)
}

// resizedDensely resizes an axis of x by a matmul with the matrix [from, to] of the weights of all taps. A tap has a
// weight for each element of the result, or one for all.
func (c *call) resizedDensely(x tensor, axis int, list []tap[*ir.Data]) tensor {
	from, to := x.Dim(axis).Static(), len(list[0].at.Bytes)/ir.I32.BlockBytes()
	shares := make([]float64, to*from)
	for _, t := range list {
		at, err := t.at.Ints()
		share, err2 := t.share.Floats()
		if err := errors.Join(err, err2); err != nil {
			panic(nodeError{err})
		}
		for i := range to {
			shares[int(at[i])*to+i] += share[min(i, len(share)-1)]
		}
	}
	d, err := ir.FromFloats(x.DType(), shares, from, to)
	if err != nil {
		panic(nodeError{err})
	}
	last := x.Rank() - 1
	if last == 0 { // op matmul takes no vectors
		return x.Unsqueeze(0).MatMul(c.b.Const(d)).Squeeze(0)
	}
	return x.SwapAxes(axis, last).MatMul(c.b.Const(d)).SwapAxes(axis, last)
}
