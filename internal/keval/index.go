package keval

import (
	"math"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// index returns the value of a polynomial at the current point.
func (r *run) index(x kernel.Index) int64 {
	sum := x.Offset()
	for _, t := range x.Terms() {
		prod := t.Coef
		for _, f := range t.Factors {
			prod *= r.factor(f)
		}
		sum += prod
	}
	return sum
}

// factor returns the value of a factor at the current point.
func (r *run) factor(f *kernel.Factor) int64 {
	switch f.Kind {
	case kernel.FactorAxis:
		return r.axis(f)
	case kernel.FactorSym:
		return r.extent(ir.Dim{Sym: f.Sym, Bound: f.Bound, Mul: 1})
	case kernel.FactorValue:
		return r.indexValue(f.Value)
	}
	x, d := r.index(f.X), r.index(f.D)
	if f.Kind == kernel.FactorClamp {
		return max(min(x, d), 0)
	}
	return quotient(f, x, d)
}

// axis returns the coordinate along an axis. It checks the range, because the simplification of indices relies on it.
func (r *run) axis(f *kernel.Factor) int64 {
	if f.Axis < 0 || f.Axis >= len(r.at) {
		fail("no axis %d", f.Axis)
	}
	if f.Axis == r.k.FoldAxis() && !r.inFold {
		fail("axis %d is used outside of the loop over it", f.Axis)
	}
	v := r.at[f.Axis]
	if f.Extent.IsStatic() && v < f.Extent.Add { // the usual case
		return v
	}
	if extent := r.extent(f.Extent); v >= extent {
		fail("axis %d is %d, past its extent %s = %d", f.Axis, v, f.Extent, extent)
	}
	return v
}

// quotient returns floor(x/d) or x mod d. Devices divide unsigned integers, so a negative operand is an error. d is 0
// for an empty axis. Devices then return any value, and nothing may use it, so quotient returns a large number.
func quotient(f *kernel.Factor, x, d int64) int64 {
	switch {
	case x < 0:
		fail("%d is divided, though it is negative: %s / %s", x, f.X, f.D)
	case d < 0:
		fail("division by %d: %s / %s", d, f.X, f.D)
	case d == 0:
		return math.MaxInt32
	case f.Kind == kernel.FactorMod:
		return x % d
	}
	return x / d
}

// indexValue returns a loaded integer. Its dtype must fit i32, because indices are computed in signed 32 bits.
func (r *run) indexValue(e *kernel.Expr) int64 {
	switch e.DType {
	case ir.I32, ir.I16, ir.U16, ir.I8, ir.U8:
	default:
		fail("an index comes from a value of %s, which i32 does not hold", e.DType)
	}
	v := r.value(e)
	if v.undef { // a device may load any value here, so use one that the clamp must catch
		return math.MaxInt32
	}
	return v.i
}
