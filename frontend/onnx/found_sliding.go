package onnx

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// A slidingRule builds an op that moves windows along an axis with a valid part (see validPart). Invalid elements count
// as padding.
type slidingRule struct {
	build func(c *call) []*value
	pad   float64 // the value of padding
}

// along builds the op, and marks as many results as valid as windows fit in the input's valid part and its padding. It
// returns nil if the valid part is along the batch or the channels.
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
	// Windows begin at multiples of the stride. The last one must end within the padding.
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

// renumbered converts indices into a tensor of shape s to indices into its valid part, or in the other direction if
// back is set. columns says that indices count the axes from the second on in reverse order.
func (c *call) renumbered(at tensor, s ir.Shape, part *validPart, columns, back bool) tensor {
	inner := s[part.axis+1:] // the axes that indices count before this one
	if columns && part.axis > 1 {
		inner = s[2:part.axis]
	}
	size := castTo(c.b.DimValue(c.numel(inner)), at.DType())
	whole, valid := castTo(c.b.DimValue(s[part.axis]), at.DType()).Mul(size), part.count.Cast(at.DType()).Mul(size)
	if back {
		whole, valid = valid, whole
	}
	outer := at.Div(whole.Max(whole.Lit(1)))
	return at.Sub(outer.Mul(whole.Sub(valid)))
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
	size := to[axis].Plus(-x.Dim(axis).Add * int64(c.perAxis("strides", len(to)-2, 1)[axis-2]))
	count := v.valid.count.MulScalar(float64(c.perAxis("strides", len(to)-2, 1)[axis-2])).AddScalar(float64(size.Add))
	places := c.renumbered(c.asTensor(at), to, &validPart{axis, count}, false, true)
	places = c.validAlong(v).Where(places, places.Lit(-1)) // skipped
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
	size := c.perAxis("dilations", k, 1)[i]*(kernel[i]-1) + 1 + c.perAxis("output_padding", k, 0)[i]
	if pads := c.perAxis("pads", 2*k, 0); c.autoPad() == "NOTSET" {
		size -= pads[i] + pads[k+i]
	}
	x := v.valid
	stride := c.perAxis("strides", k, 1)[i]
	// The extent of the result.
	n := x.count.SubScalar(1).MulScalar(float64(stride)).AddScalar(float64(size)).Max(x.count.Lit(0))
	c.in = slices.Clone(c.in)
	c.hide(0, 0)
	return []*value{partlyValid(convTranspose(c), x.axis, n)}
}

// spatialAxis returns input 0 if its valid part is along an axis after batch and channels, and the number of that axis,
// not counting these two. Otherwise it returns nil. It fails if another input has only a valid part.
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
