package onnx

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// A slidingRule builds an op that moves windows along an axis with a valid part (see validPart). Invalid elements get
// the value of padding.
type slidingRule struct {
	build func(c *call) []*value
	pad   float64 // the value of padding
}

// along builds the op. The result's number of valid elements is the number of windows that fit in the valid part of the
// input and its padding. along returns nil if the valid part is along the batch or the channels.
func (r slidingRule) along(c *call) []*value {
	v, i := c.spatialAxis()
	if v == nil {
		return nil
	}
	kernel := c.intsAttr("kernel_shape")
	if len(c.in) > 1 {
		kernel = c.kernelOf(c.x(1))
	}
	w, x := c.window(c.shapeOf(v), kernel), v.valid
	if c.autoPad() != "VALID" && c.autoPad() != "NOTSET" && w.stride[i] > 1 {
		c.fail("auto_pad needs the number of elements of %q, which is known only in a run: give pads", v.name)
	}
	stride := x.count.Lit(float64(w.stride[i]))
	// The number of windows is places/stride. Windows begin at multiples of the stride, and the last must end within
	// the padding.
	places := x.count.AddScalar(float64(w.low[i] + w.high[i] - w.dilation[i]*(w.kernel[i]-1) - 1)).Add(stride)
	if c.intAttr("ceil_mode", 0) != 0 { // the last may end later, if it begins at an element or in the padding before
		begins := x.count.AddScalar(float64(w.low[i])).Add(stride).SubScalar(1)
		places = places.Add(stride).SubScalar(1).Min(begins)
	}
	n := places.Max(stride.Lit(0)).Div(stride)
	c.in = slices.Clone(c.in)
	c.hide(0, r.pad)
	results := r.build(c)
	for _, y := range results {
		y.valid = &validPart{x.axis, n}
	}
	return results
}

// maxPoolAlong builds MaxPool. Its indices do not count the invalid elements.
func maxPoolAlong(c *call) []*value {
	v := c.in[0]
	results := slidingRule{maxPool, math.Inf(-1)}.along(c)
	if !c.wants(1) {
		return results
	}
	if results == nil { // along the batch or the channels
		results = maxPool(c)
		for _, y := range results {
			y.valid = v.valid
		}
	}
	results[1].tensor = c.renumbered(results[1].tensor, c.shapeOf(v), v.valid, c.flag("storage_order", false), false)
	return results
}

// renumbered converts indices `at` of elements of a tensor with shape s to indices in its valid part, or in the other
// direction if back is set. columns says that an index counts the axes from the second on in reverse order.
func (c *call) renumbered(at tensor, s ir.Shape, part *validPart, columns, back bool) tensor {
	inner := s[part.axis+1:] // the axes that an index counts faster than part.axis
	if columns && part.axis > 1 {
		inner = s[2:part.axis]
	}
	size := castTo(c.b.DimValue(c.numel(inner)), at.DType())
	// The index counts `from` elements for each slice along the outer axes, and the new index counts `to`.
	from, to := castTo(c.b.DimValue(s[part.axis]), at.DType()).Mul(size), part.count.Cast(at.DType()).Mul(size)
	if back {
		from, to = to, from
	}
	outer := at.Div(from.Max(from.Lit(1)))
	return at.Sub(outer.Mul(from.Sub(to)))
}

// unpoolAlong builds MaxUnpool of an input with a valid part.
func unpoolAlong(c *call) []*value {
	v, at := c.in[0], c.input(1)
	if v.valid.axis < 2 {
		return nil
	}
	if at.valid == nil || *at.valid != *v.valid || c.has(2) {
		c.fail("%q and the indices have different numbers of elements, or output_shape is given, and %q has an axis "+
			"of an extent that is known only in a run", v.name, v.name)
	}
	x, to := c.asTensor(v), c.unpooledShape()
	axis := v.valid.axis
	stride := c.perAxis("strides", len(to)-2, 1)[axis-2]
	// The result's extent is stride*n + more for an input's extent n.
	more := to[axis].Plus(-x.Dim(axis).Add * int64(stride)).Add
	count := v.valid.count.MulScalar(float64(stride)).AddScalar(float64(more))
	places := c.renumbered(c.asTensor(at), to, &validPart{axis, count}, false, true)
	places = c.validAlong(v).Where(places, places.Lit(-1)) // MaxUnpool skips index -1
	return []*value{partlyValid(x.MaxUnpool(places, to), axis, count)}
}

// spreadAlong builds ConvTranspose of an input with a valid part. It replaces the invalid elements by 0, so that they
// do not change the sums.
func spreadAlong(c *call) []*value {
	v, i := c.spatialAxis()
	if v == nil {
		return nil
	}
	if mode := c.autoPad(); mode != "VALID" && mode != "NOTSET" || c.hasAttr("output_shape") {
		c.fail("output_shape and auto_pad need the number of elements of %q, which is known only in a run: give "+
			"pads", v.name)
	}
	kernel := c.kernelOf(c.x(1))
	k := len(kernel)
	// The result's extent is stride*(n-1) + size for an input's extent n.
	size := c.perAxis("dilations", k, 1)[i]*(kernel[i]-1) + 1 + c.perAxis("output_padding", k, 0)[i]
	if pads := c.perAxis("pads", 2*k, 0); c.autoPad() == "NOTSET" {
		size -= pads[i] + pads[k+i]
	}
	x := v.valid
	stride := c.perAxis("strides", k, 1)[i]
	n := x.count.SubScalar(1).MulScalar(float64(stride)).AddScalar(float64(size)).Max(x.count.Lit(0))
	c.in = slices.Clone(c.in)
	c.hide(0, 0)
	return []*value{partlyValid(convTranspose(c), x.axis, n)}
}

// spatialAxis returns input 0 if its valid part is along a spatial axis, an axis after batch and channels. Otherwise it
// returns nil. axis is the number of that axis among the spatial axes. spatialAxis fails if another input is partly
// valid.
func (c *call) spatialAxis() (x *value, axis int) {
	for _, v := range c.in[1:] {
		if v != nil && v.valid != nil {
			c.failPartlyValid(v)
		}
	}
	if v := c.in[0]; v.valid.axis >= 2 {
		return v, v.valid.axis - 2
	}
	return nil, 0
}
