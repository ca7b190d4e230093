package kernel

import (
	"fmt"
	"math"

	"github.com/vkc-go/vkc/ir"
)

// Kernels compute positions in 32 bits: those of elements in buffers without a
// sign, and all that is compared, limited or used as a value with one.
const (
	maxPosition = math.MaxUint32
	maxSigned   = math.MaxInt32
)

// RangeError says that a kernel would have to compute positions that its 32 bits
// do not hold.
type RangeError struct {
	What  string  // what is too large: "elements of x", "points"
	Bind  int     // the binding that What is about, or -1
	Size  float64 // at the bounds of symbols
	Limit int64
}

// Error says what is too large for what.
func (e *RangeError) Error() string {
	return fmt.Sprintf("%s: %.0f, more than the %d that positions of 32 bits reach", e.What, e.Size, e.Limit)
}

// CheckRange returns a *RangeError if some position does not fit, at the bounds
// of symbols: nothing that a kernel computes may silently wrap around.
func (k *Kernel) CheckRange() error {
	var found *RangeError
	limit := func(size float64, most int64, bind int, format string, args ...any) {
		if found == nil && size > float64(most) {
			found = &RangeError{What: fmt.Sprintf(format, args...), Bind: bind, Size: size, Limit: most}
		}
	}
	for i, b := range k.Bindings {
		limit(float64(b.Elems), maxPosition, i, "elements of %s (%s)", b.Name, b.DType)
	}
	points := 1.0
	for _, d := range k.Parallel {
		points *= maxOf(d)
	}
	limit(points, maxSigned, -1, "points that the kernel computes")
	for _, d := range []ir.Dim{k.Fold, k.Take} {
		limit(maxOf(d), maxSigned, -1, "elements of a row")
	}
	if a := k.Attention; a != nil {
		limit(maxOf(a.Dot), maxSigned, -1, "elements of a vector")
		if a.Factor != nil {
			limit(maxOf(a.Factor.Dot), maxSigned, -1, "elements of a vector")
		}
	}
	inner := func(x Index, bind int, format string, args ...any) {
		x.Walk(func(f *Factor) {
			if f.Kind == FactorClamp {
				limit(max(f.X.largest(), f.D.largest()), maxSigned, bind, "positions along an axis in "+format, args...)
			}
		})
	}
	at := func(x Index, bind int, format string, args ...any) {
		limit(x.largest(), maxPosition, bind, format, args...)
		inner(x, bind, format, args...)
	}
	value := func(x Index) {
		limit(x.largest(), maxSigned, -1, "coordinates that are used as numbers, as by iota")
		inner(x, -1, "coordinates that are used as numbers, as by iota")
	}
	Walk(k.Roots(), func(e *Expr) {
		switch e.Kind {
		case ExprLoad:
			at(e.Index, e.Bind, "elements of %s", k.Bindings[e.Bind].Name)
		case ExprRandom:
			at(e.Index, -1, "elements of a random stream")
		case ExprIndex, ExprAcc:
			value(e.Index)
		}
	})
	for _, s := range k.Stores {
		at(s.Index, s.Bind, "elements of %s", k.Bindings[s.Bind].Name)
	}
	if k.Limit != nil {
		value(k.Limit.At)
	}
	if k.Group != nil {
		value(k.Group.Of)
	}
	if k.Attention != nil && k.Attention.End != nil {
		value(*k.Attention.End)
	}
	if found == nil {
		return nil
	}
	return found
}

// maxOf is the largest value of a dim, which may be more than an int64 holds.
func maxOf(d ir.Dim) float64 { return float64(d.Mul)*float64(d.Bound) + float64(d.Add) }

// largest is a number that neither x nor any part of its sum is above.
func (x Index) largest() float64 {
	sum := max(float64(x.c), 0)
	for _, t := range x.terms {
		if t.Coef > 0 {
			product := float64(t.Coef)
			for _, f := range t.Factors {
				product *= f.largest()
			}
			sum += product
		}
	}
	return sum
}

func (f *Factor) largest() float64 {
	switch f.Kind {
	case FactorAxis:
		return max(maxOf(f.Extent)-1, 0)
	case FactorSym:
		return float64(f.Bound)
	case FactorDiv:
		if f.D.IsConst() {
			return math.Floor(f.X.largest() / float64(max(f.D.c, 1)))
		}
		return f.X.largest()
	case FactorMod:
		return min(f.X.largest(), max(f.D.largest()-1, 0))
	case FactorClamp:
		return f.D.largest()
	}
	return maxSigned // a loaded value, which lowering limits to that
}
