package kernel

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Walk calls visit for every factor of x, including those inside quotients, remainders and clamps.
func (x Index) Walk(visit func(*Factor)) {
	for _, t := range x.terms {
		for _, f := range t.Factors {
			visit(f)
			switch f.Kind {
			case FactorDiv, FactorMod, FactorClamp:
				f.X.Walk(visit)
				f.D.Walk(visit)
			}
		}
	}
}

// Values lists the loaded values in x, including those inside quotients, remainders and clamps.
func (x Index) Values() []*Expr {
	var values []*Expr
	x.Walk(func(f *Factor) {
		if f.Kind == FactorValue {
			values = append(values, f.Value)
		}
	})
	return values
}

// HasClamp reports whether x contains a clamp. The clamped axis may be empty. Nothing then uses the value that is read,
// but a division by the extent, which is 0, could lead outside of the buffer.
func (x Index) HasClamp() bool {
	found := false
	x.Walk(func(f *Factor) { found = found || f.Kind == FactorClamp })
	return found
}

// Uses reports whether x depends on the axis, directly or through loaded values.
func (x Index) Uses(axis int) bool {
	return slices.ContainsFunc(x.terms, func(t Term) bool { return t.uses(axis) })
}

func (t Term) uses(axis int) bool {
	return slices.ContainsFunc(t.Factors, func(f *Factor) bool { return f.uses(axis) })
}

// uses reports whether f depends on the axis, directly or through the factors or values in it.
func (f *Factor) uses(axis int) bool {
	switch f.Kind {
	case FactorAxis:
		return f.Axis == axis
	case FactorDiv, FactorMod, FactorClamp:
		return f.X.Uses(axis) || f.D.Uses(axis)
	case FactorValue:
		return f.Value.Uses(axis)
	}
	return false
}

// Stride returns the increase of x when the coordinate along the axis grows by one, as a polynomial. It reports false
// if x is not linear in the axis.
func (x Index) Stride(axis int) (Index, bool) {
	var terms []Term
	for _, t := range x.terms {
		if !t.uses(axis) {
			continue
		}
		i := slices.IndexFunc(t.Factors, func(f *Factor) bool { return f.Kind == FactorAxis && f.Axis == axis })
		if i < 0 {
			return Index{}, false
		}
		rest := Term{t.Coef, slices.Concat(t.Factors[:i], t.Factors[i+1:])}
		if rest.uses(axis) { // the axis occurs squared, or also inside another factor
			return Index{}, false
		}
		terms = append(terms, rest)
	}
	return canonical(terms, 0).foldEmpty(), true
}

// DropAxis returns x with the coordinate along the axis set to 0. x must be linear in the axis.
func (x Index) DropAxis(axis int) Index {
	if _, linear := x.Stride(axis); !linear {
		return x
	}
	// The other terms are in canonical form, as x is.
	return Index{slices.DeleteFunc(slices.Clone(x.terms), func(t Term) bool { return t.uses(axis) }), x.c}
}

// Multiple returns the largest power of two, up to limit, that provably divides x.
func (x Index) Multiple(limit int64) int64 {
	m := limit
	for m > 1 && x.c%m != 0 {
		m /= 2
	}
	for _, t := range x.terms {
		for m > 1 && t.Coef%m != 0 {
			m /= 2
		}
	}
	return m
}

// Substitute returns x with every axis replaced by the result of at, and every loaded value by the result of value.
func (x Index) Substitute(at func(axis int, extent ir.Dim) Index, value func(*Expr) *Expr) Index {
	out := Const(x.c)
	for _, t := range x.terms {
		prod := Const(t.Coef)
		for _, f := range t.Factors {
			prod = prod.Mul(f.substitute(at, value))
		}
		out = out.Plus(prod)
	}
	return out
}

// substitute is [Index.Substitute] for one factor.
func (f *Factor) substitute(at func(int, ir.Dim) Index, value func(*Expr) *Expr) Index {
	sub := func(x Index) Index { return x.Substitute(at, value) }
	switch f.Kind {
	case FactorAxis:
		return at(f.Axis, f.Extent)
	case FactorDiv, FactorMod:
		x, d := sub(f.X), sub(f.D)
		if !d.IsConst() || d.c < 1 { // the divisor is no constant by which DivMod could divide
			return single(newFactor(Factor{Kind: f.Kind, X: x, D: d}))
		}
		quo, rem := x.DivMod(ir.D(int(d.c)))
		if f.Kind == FactorMod {
			return rem
		}
		return quo
	case FactorClamp:
		return Clamp(sub(f.X), sub(f.D))
	case FactorValue:
		return single(newFactor(Factor{Kind: FactorValue, Value: value(f.Value)}))
	}
	return single(f)
}

// Adjacent reports whether x grows by one when the coordinate along the axis does, and is a multiple of n whenever that
// coordinate is. Then n neighbors along the axis are one aligned vector.
func (x Index) Adjacent(axis, n int) bool {
	stride, linear := x.Stride(axis)
	return linear && stride.isOne() && x.DropAxis(axis).Multiple(int64(n)) == int64(n)
}

// isOne reports whether x is the number 1.
func (x Index) isOne() bool { return x.IsConst() && x.c == 1 }

// Axes returns the coordinates along parallel axes: axis 0, axis 1, …
func Axes(parallel []ir.Dim) []Index {
	at := make([]Index, len(parallel))
	for i, d := range parallel {
		at[i] = Axis(i, d)
	}
	return at
}

// Linear returns the row-major position of coordinates in a shape.
func Linear(s ir.Shape, at []Index) Index {
	x := Const(0)
	for i, d := range s {
		x = x.Mul(DimIndex(d)).Plus(at[i])
	}
	return x
}

// Unflatten returns the coordinates of a row-major position in a shape.
func Unflatten(s ir.Shape, x Index) []Index {
	at := make([]Index, len(s))
	for i := len(s) - 1; i > 0; i-- {
		if s[i].IsStatic() && s[i].Add == 0 {
			continue // an empty tensor has no positions
		}
		x, at[i] = x.DivMod(s[i])
	}
	if len(s) > 0 {
		at[0] = x
	}
	return at
}

// Last returns the largest coordinate along an axis.
func Last(d ir.Dim) Index { return DimIndex(d).Minus(Const(1)) }

// ReadsBuffer reports whether a kernel reads a buffer, or must run after the kernels that store to it.
func (k *Kernel) ReadsBuffer(buffer int) bool {
	return slices.Contains(k.After, buffer) ||
		slices.ContainsFunc(k.Bindings, func(b Binding) bool { return b.Read && b.Buffer == buffer })
}

// FirstStored returns the buffer of a kernel's first store, or -1.
func (k *Kernel) FirstStored() int {
	if len(k.Stores) == 0 {
		return -1
	}
	return k.Bindings[k.Stores[0].Bind].Buffer
}
