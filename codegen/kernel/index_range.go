package kernel

import "slices"

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
