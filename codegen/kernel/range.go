package kernel

import (
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Kernels compute coordinates in signed 32 bits, and also values that are compared, clamped or used as numbers. The
// position of an element in a buffer is a sum of multiplied coordinates. A kernel splits a position above 32 bits into
// a row of 2^16 elements, with a 32-bit row number, and the rest. Custom kernels, random streams and block readers are
// limited to 32-bit positions.
const (
	maxSigned   = math.MaxInt32
	maxPosition = math.MaxUint32
	maxWide     = 1<<48 - 1
)

// BlockUnit is the size in bytes, at most 4, of the words that kernels read from blocks of a format. It is the largest
// power of two that divides the block size.
func BlockUnit(t ir.DType) int {
	n := t.BlockBytes()
	return min(n&-n, 4)
}

// RangeError says that a kernel would have to count beyond the range of its integers.
type RangeError struct {
	What  string  // what there are too many of: "elements of x", "points"
	Bind  int     // the binding that What is about, or -1
	Size  float64 // the number, at the bounds of symbols
	Limit int64
}

// Error names the quantity and the limit.
func (e *RangeError) Error() string {
	return fmt.Sprintf("%s: %.0f, more than the %d that kernels count", e.What, e.Size, e.Limit)
}

// CheckRange returns a *RangeError if some position may overflow at the bounds of symbols. A kernel would wrap around
// silently.
func (k *Kernel) CheckRange() error {
	c := rangeChecker{Kernel: k}
	c.checkBindings()
	c.checkExtents()
	c.checkIndices()
	if c.found == nil {
		return nil
	}
	return c.found
}

// rangeChecker finds the first quantity of a kernel that exceeds the range of its integers.
type rangeChecker struct {
	*Kernel
	found *RangeError
}

// limit records an error if size exceeds most. format and args describe the quantity, which is about a binding, or -1.
func (c *rangeChecker) limit(size float64, most int64, bind int, format string, args ...any) {
	if c.found == nil && size > float64(most) {
		c.found = &RangeError{What: fmt.Sprintf(format, args...), Bind: bind, Size: size, Limit: most}
	}
}

// checkBindings checks the sizes of buffers, as the kernel counts them.
func (c *rangeChecker) checkBindings() {
	for i, b := range c.Bindings {
		switch {
		// Custom kernels, tables and blocks are counted in 32 bits. All other positions may have 64.
		case c.Family == FamilyCustom:
			c.limit(float64(b.Elems), maxPosition, i, "elements of %s (%s), which a custom kernel counts", b.Name,
				b.DType)
		case c.Group != nil && c.Group.Bind == i:
			c.limit(float64(b.Elems), maxPosition, i, "elements of the table %s", b.Name)
		case b.DType.IsBlock():
			unit := BlockUnit(b.DType)
			units := float64(b.Elems) / float64(b.DType.BlockElems()) * float64(b.DType.BlockBytes()/unit)
			c.limit(units, maxPosition, i, "units of %d bytes of %s (%s)", unit, b.Name, b.DType)
		}
		c.limit(float64(b.Elems), maxWide, i, "elements of %s (%s)", b.Name, b.DType)
	}
}

// checkExtents checks the extents of all axes.
func (c *rangeChecker) checkExtents() {
	for _, d := range c.Parallel {
		c.limit(maxOf(d), maxSigned, -1, "elements along an axis")
	}
	for _, d := range []ir.Dim{c.Fold, c.Take} {
		c.limit(maxOf(d), maxSigned, -1, "elements of a row")
	}
	if a := c.Attention; a != nil {
		c.limit(maxOf(a.Dot), maxSigned, -1, "elements of a vector")
		if a.Factor != nil {
			c.limit(maxOf(a.Factor.Dot), maxSigned, -1, "elements of a vector")
		}
	}
	if r := c.Recurrence; r != nil {
		c.limit(maxOf(r.Keys), maxSigned, -1, "elements of a row")
	}
}

// checkIndices checks the indices of loads and stores, and the coordinates that are used as values.
func (c *rangeChecker) checkIndices() {
	Walk(c.Roots(), func(e *Expr) {
		switch e.Kind {
		case ExprLoad:
			c.position(e.Index, e.Bind, "elements of %s", c.Bindings[e.Bind].Name)
		case ExprRandom:
			c.limit(e.Index.Largest(), maxPosition, -1, "elements of a random stream")
			c.position(e.Index, -1, "elements of a random stream")
		case ExprIndex, ExprAcc:
			c.value(e.Index)
		}
	})
	for _, s := range c.Stores {
		c.position(s.Index, s.Bind, "elements of %s", c.Bindings[s.Bind].Name)
	}
	if c.Kernel.Limit != nil {
		c.value(c.Kernel.Limit.At)
	}
	if c.Group != nil {
		c.value(c.Group.Of)
	}
	if c.Attention != nil && c.Attention.End != nil {
		c.value(*c.Attention.End)
	}
}

// position checks the index of an element of a buffer. bind is the buffer's binding, or -1 for a random stream; format
// and args describe the elements.
func (c *rangeChecker) position(x Index, bind int, format string, args ...any) {
	c.limit(x.Largest(), maxWide, bind, format, args...)
	c.clamps(x, bind, format, args...)
}

// value checks an index that is used as a number.
func (c *rangeChecker) value(x Index) {
	c.limit(x.Largest(), maxSigned, -1, "coordinates that are used as numbers, as by iota")
	c.clamps(x, -1, "coordinates that are used as numbers, as by iota")
}

// clamps checks the clamped coordinates in an index.
func (c *rangeChecker) clamps(x Index, bind int, format string, args ...any) {
	x.Walk(func(f *Factor) {
		if f.Kind == FactorClamp {
			c.limit(max(f.X.Largest(), f.D.Largest()), maxSigned, bind, "positions along an axis in "+format, args...)
		}
	})
}

// LargestPosition is an upper bound of all positions that the kernel computes.
func (k *Kernel) LargestPosition() float64 {
	most := 0.0
	for _, b := range k.Bindings {
		most = max(most, float64(b.Elems-1))
	}
	k.WalkIndices(func(x Index) {
		most = max(most, x.Largest())
		x.Walk(func(f *Factor) { most = max(most, f.X.Largest(), f.D.Largest()) })
	})
	return most
}

// maxOf is the largest value of a dim, as a float because it may exceed an int64.
func maxOf(d ir.Dim) float64 { return float64(float64(d.Mul)*float64(d.Bound)) + float64(d.Add) }

// Largest is an upper bound of x and of all partial sums, at the bounds of symbols.
func (x Index) Largest() float64 {
	sum := max(float64(x.c), 0)
	for _, t := range x.terms {
		if t.Coef > 0 {
			product := float64(t.Coef)
			for _, f := range t.Factors {
				product = float64(product * f.Largest())
			}
			sum += product
		}
	}
	return sum
}

// Largest is an upper bound of the factor.
func (f *Factor) Largest() float64 {
	switch f.Kind {
	case FactorAxis:
		return max(maxOf(f.Extent)-1, 0)
	case FactorSym:
		return float64(f.Bound)
	case FactorDiv:
		if f.D.IsConst() {
			return math.Floor(f.X.Largest() / float64(max(f.D.c, 1)))
		}
		return f.X.Largest()
	case FactorMod:
		return min(f.X.Largest(), max(f.D.Largest()-1, 0))
	case FactorClamp:
		return f.D.Largest()
	}
	return maxSigned // a loaded value, which lowering clamps to that
}

// inRange reports whether 0 <= x < d is proven.
func (x Index) inRange(d Index) bool {
	return x.nonNegative() && d.Minus(Const(1)).Minus(x).nonNegative()
}

// NonNegative reports whether x >= 0 is proven for all axes and symbols, and x has no loaded values.
func (x Index) NonNegative() bool { return !x.HasValue() && x.nonNegative() }

// nonNegative reports whether x >= 0 is provable for all axes and symbols. It replaces every negative term by its
// minimum. It drops positive terms, which may be 0, unless they consist of symbols only.
func (x Index) nonNegative() bool {
	low := Const(x.c)
	for _, t := range x.terms {
		switch {
		case t.Coef < 0:
			low = low.Plus(upper(t.Factors).Times(t.Coef))
		case symbolsOnly(t.Factors):
			low = low.Plus(Index{terms: []Term{t}})
		}
	}
	// The terms left are products of symbols. They are at least 0 if their coefficients are.
	return low.c >= 0 && !slices.ContainsFunc(low.terms, func(t Term) bool { return t.Coef < 0 })
}

// symbolsOnly reports whether all factors are symbols.
func symbolsOnly(fs []*Factor) bool {
	return !slices.ContainsFunc(fs, func(f *Factor) bool { return f.Kind != FactorSym })
}

// upper returns a polynomial in symbols that is at least the product of the factors.
func upper(fs []*Factor) Index {
	out := Const(1)
	for _, f := range fs {
		out = out.Mul(f.upper())
	}
	return out
}

// upper returns a polynomial in symbols that is at least f.
func (f *Factor) upper() Index {
	switch f.Kind {
	case FactorAxis:
		return DimIndex(f.Extent).Minus(Const(1))
	case FactorMod:
		return f.D.Minus(Const(1))
	case FactorClamp:
		if !f.D.nonNegative() { // an axis that may be empty: D may be -1, and the clamp is then 0
			return upperSum(f.D).Plus(Const(1))
		}
		return upperSum(f.D)
	case FactorDiv:
		if f.D.IsConst() {
			if up := upperSum(f.X); up.IsConst() {
				return Const(floorDiv(max(up.c, 0), f.D.c))
			}
		}
		return upperSum(f.X)
	case FactorSym:
		return single(f)
	}
	return Const(1 << 40) // FactorValue: unknown
}

// upperSum returns an upper bound of x: it drops negative terms, unless they consist of symbols only.
func upperSum(x Index) Index {
	out := Const(x.c)
	for _, t := range x.terms {
		if t.Coef > 0 {
			out = out.Plus(upper(t.Factors).Times(t.Coef))
		} else if symbolsOnly(t.Factors) {
			out = out.Plus(Index{terms: []Term{t}})
		}
	}
	return out
}

// Upper returns an upper bound of x, and false if none is known.
func (x Index) Upper() (int64, bool) {
	up := upperSum(x)
	return up.c, up.IsConst() && !x.HasValue()
}

// HasValue reports whether a loaded value is a factor of a term of x.
func (x Index) HasValue() bool {
	isValue := func(f *Factor) bool { return f.Kind == FactorValue }
	return slices.ContainsFunc(x.terms, func(t Term) bool { return slices.ContainsFunc(t.Factors, isValue) })
}
