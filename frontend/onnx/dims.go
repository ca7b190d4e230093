package onnx

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// The functions in this file compute ops while the graph is built, on integers that may depend on symbols, such as the
// extents of inputs. A function returns nil if it cannot; the op then becomes a node of the graph.

// vectors returns the inputs as lists of integers, which may depend on symbols. scalar reports whether all inputs are
// scalars. ok is false if an input is no list of integers, or if all inputs are constants: constants are folded as for
// any other op.
func (c *call) vectors() (list []ir.Shape, scalar, ok bool) {
	scalar, symbolic := true, false
	for i, v := range c.in {
		if !c.has(i) {
			return nil, false, false
		}
		s, isScalar, ok := dimsOf(v)
		if !ok {
			return nil, false, false
		}
		list = append(list, s)
		scalar = scalar && isScalar
		symbolic = symbolic || v.isDims
	}
	return list, scalar, symbolic && len(list) > 0
}

// foldDims returns a function that combines the node's inputs, lists of integers, element by element with f. A list of
// one element is broadcast. The function returns nil if an input is no such list or f cannot combine two elements.
func foldDims(f func(c *call, a, b ir.Dim) (ir.Dim, bool)) func(c *call) *value {
	return func(c *call) *value {
		list, scalar, ok := c.vectors()
		if !ok {
			return nil
		}
		out := list[0]
		for _, s := range list[1:] {
			n := max(len(out), len(s))
			if len(out) == 0 || len(s) == 0 {
				n = 0 // an empty list broadcasts to an empty one
			}
			next := make(ir.Shape, n)
			for i := range next {
				a, b := out[min(i, len(out)-1)], s[min(i, len(s)-1)]
				if next[i], ok = f(c, a, b); !ok {
					return nil
				}
			}
			out = next
		}
		return dimsValue(out, scalar)
	}
}

func addDims(_ *call, a, b ir.Dim) (ir.Dim, bool) { d, err := a.Sum(b); return d, err == nil }
func subDims(_ *call, a, b ir.Dim) (ir.Dim, bool) { d, err := a.Less(b); return d, err == nil }

// mulDims returns the product of two extents. ok is false if no ir.Dim expresses it.
func mulDims(_ *call, a, b ir.Dim) (product ir.Dim, ok bool) {
	if a.Sym != "" && b.Add < 0 || b.Sym != "" && a.Add < 0 {
		return ir.Dim{}, false // the coefficient of a symbol cannot be negative
	}
	d, err := a.Mul2(b)
	return d, err == nil
}

// divDims returns a/b rounded towards 0. ok is false if no ir.Dim expresses it.
func divDims(c *call, a, b ir.Dim) (quotient ir.Dim, ok bool) {
	if q, ok := a.Quo2(b); ok {
		return q, true
	}
	switch {
	case !b.IsStatic() || b.Add == 0:
		return ir.Dim{}, false
	case a.IsStatic():
		return ir.Dim{Add: a.Add / b.Add}, true
	case b.Add < 0:
		return ir.Dim{}, false
	}
	// FloorQuo rounds down, which is towards 0 only for a quotient of at least 0.
	c.atLeast(a, 0)
	q, err := a.FloorQuo(b.Add)
	return q, err == nil
}

// maxDims returns the larger of two extents. known is false if that depends on the values of symbols.
func maxDims(_ *call, a, b ir.Dim) (larger ir.Dim, known bool) {
	// Less may be able to express only one of the two differences. A difference d is at least d.Add, because symbols
	// are not negative, and at most d.Max().
	switch d, err := a.Less(b); {
	case err == nil && d.Add >= 0:
		return a, true
	case err == nil && (d.IsStatic() || d.Max() <= 0):
		return b, true
	}
	switch d, err := b.Less(a); {
	case err == nil && d.Add >= 0:
		return b, true
	case err == nil && d.Max() <= 0:
		return a, true
	}
	return ir.Dim{}, false
}

// minDims returns the smaller of two extents. known is false if that depends on the values of symbols.
func minDims(c *call, a, b ir.Dim) (smaller ir.Dim, known bool) {
	larger, ok := maxDims(c, a, b)
	if ok && larger == a {
		return b, true
	}
	return a, ok
}

// sameDims computes a Cast of a list of extents to another integer dtype. It returns nil for other casts.
func sameDims(c *call) *value {
	v := c.input(0)
	to := c.typeAttr("to")
	if !v.isDims || !dataTypes[to].dtype.IsInteger() || dataTypes[to].dtype.StorageOnly() {
		return nil
	}
	// These two attributes only matter for casts to floats of 8 bits or less.
	c.consumed.atAttr("saturate")
	c.consumed.atAttr("round_mode")
	cast := dimsValue(v.dims, v.scalar)
	cast.as = dataTypes[to].dtype
	return cast
}

// whereDims computes Where on integers that may depend on symbols, with a constant condition. It returns nil if it
// cannot, and for constants, which need not be i64.
func whereDims(c *call) *value {
	if !c.input(1).isDims && !c.input(2).isDims {
		return nil
	}
	cond := constant(c.input(0))
	a, aScalar, aOK := dimsOf(c.input(1))
	b, bScalar, bOK := dimsOf(c.input(2))
	if cond == nil || !aOK || !bOK || len(cond.Dims) > 1 {
		return nil
	}
	bits, err := cond.Ints()
	if err != nil || len(bits) == 0 || len(a) == 0 || len(b) == 0 {
		return nil
	}
	out := make(ir.Shape, max(len(bits), len(a), len(b)))
	for i := range out { // a list of one element is broadcast
		out[i] = b[min(i, len(b)-1)]
		if bits[min(i, len(bits)-1)] != 0 {
			out[i] = a[min(i, len(a)-1)]
		}
	}
	return dimsValue(out, len(cond.Dims) == 0 && aScalar && bScalar)
}

// onlyAxis reports whether axes lists just the axis of a vector, as 0 or -1.
func onlyAxis(axes ...int) bool { return len(axes) == 1 && (axes[0] == 0 || axes[0] == -1) }

// concatDims computes a Concat of shapes while the graph is built. It returns nil if the inputs are no shapes.
func concatDims(c *call) *value {
	list, _, ok := c.vectors()
	if !ok || !onlyAxis(c.intAttr("axis", 0)) {
		return nil
	}
	return dimsValue(slices.Concat(list...), false)
}

// gatherDims computes Gather from a vector of integers that may depend on symbols. It returns nil if it cannot.
func gatherDims(c *call) *value {
	v := c.input(0)
	at, scalar, ok := dimsOf(c.input(1))
	if !v.isDims || v.scalar || !ok || !onlyAxis(c.intAttr("axis", 0)) {
		return nil
	}
	out := make(ir.Shape, len(at))
	for i, d := range at {
		k := d.Add
		if k < 0 {
			k += int64(len(v.dims))
		}
		if !d.IsStatic() || k < 0 || k >= int64(len(v.dims)) {
			return nil
		}
		out[i] = v.dims[k]
	}
	return dimsValue(out, scalar)
}

// reshapeDims computes Reshape, Squeeze, Unsqueeze and Flatten of a list of extents, if the result is a vector or a
// scalar too. It returns nil if it cannot.
func reshapeDims(c *call) *value {
	v := c.input(0)
	if !v.isDims {
		return nil
	}
	scalar := v.scalar
	switch c.node.Op {
	case "Unsqueeze":
		if axes := c.ints(1); !v.scalar || !onlyAxis(axes...) {
			return nil
		}
		scalar = false
	case "Squeeze":
		if axes, given := c.axes(1); v.scalar || len(v.dims) != 1 || given && !onlyAxis(axes...) {
			return nil
		}
		scalar = true
	case "Reshape":
		to := c.dims(1)
		c.flag("allowzero", false) // read, but without effect: it is for extents of 0, and the vector has elements
		if len(to) > 1 {
			return nil
		}
		scalar = len(to) == 0
	}
	return dimsValue(v.dims, scalar)
}

// sliceDims computes Slice of a vector of integers that may depend on symbols. It returns nil if it cannot.
func sliceDims(c *call) *value {
	v := c.input(0)
	if !v.isDims || v.scalar {
		return nil
	}
	n := len(v.dims)
	s := c.sliceArgs(ir.ShapeOf(n))[0]
	if !s.start.IsStatic() {
		return nil
	}
	limit := s.limit.Static()
	inside := func(i int) bool { return s.step > 0 && i < limit || s.step < 0 && i > limit }
	var out ir.Shape
	for i := s.start.Static(); inside(i); i += s.step {
		out = append(out, v.dims[i])
	}
	return dimsValue(out, false)
}

// prodDims computes ReduceProd of a vector of integers, such as the number of elements of a shape. It returns nil if it
// cannot.
func prodDims(c *call) *value {
	v := c.input(0)
	if !v.isDims || v.scalar {
		return nil
	}
	keep, noop := c.flag("keepdims", true), c.flag("noop_with_empty_axes", false)
	if axes, given := c.axes(1); given && !onlyAxis(axes...) || !given && noop {
		return nil
	}
	n, err := v.dims.Numel()
	if err != nil {
		return nil
	}
	return dimsValue(ir.Shape{n}, !keep)
}
