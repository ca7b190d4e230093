package kernel

import (
	"slices"
	"sort"

	"github.com/vkc-go/vkc/ir"
)

// DivMod returns floor(x/d) and x mod d for x >= 0 and a dim d >= 1.
func (x Index) DivMod(d ir.Dim) (quo, rem Index) {
	if d.Is(1) {
		return x, Index{}
	}
	div := DimIndex(d)
	quo, rem = x.longDivide(div)
	if rem.inRange(div) { // the division leaves no quotient of rem
		return quo, rem
	}
	quo, rem = raiseRemainder(x, div, quo, rem)
	if d.IsStatic() {
		if q, r, ok := rem.divideByParts(d.Add); ok {
			return quo.Plus(q), r
		}
	}
	// d may be 0, and an index must not divide by 0. So div becomes at least 1.
	if d.Min() == 0 && rem.HasClamp() {
		div = Clamp(div.Minus(Const(1)), Const(max(d.Max()-1, 0))).Plus(Const(1))
	}
	q := single(newFactor(Factor{Kind: FactorDiv, X: rem, D: div}))
	r := single(newFactor(Factor{Kind: FactorMod, X: rem, D: div}))
	return quo.Plus(q), r
}

// longDivide is the long division of polynomials. While a term of the remainder is a multiple of the leading term of d,
// it subtracts that multiple of d. So x = quo*d + rem.
func (x Index) longDivide(d Index) (quo, rem Index) {
	if len(d.terms) == 0 {
		return x.divideTerms(d.c)
	}
	lead := d.terms[0]
	for _, t := range d.terms[1:] {
		if len(t.Factors) > len(lead.Factors) {
			lead = t
		}
	}
	rem = x
	// Each step lowers the degree of a term, so 64 steps are enough in practice.
	for range 64 {
		i := slices.IndexFunc(rem.terms, func(t Term) bool {
			_, ok := without(t.Factors, lead.Factors)
			return ok && t.Coef%lead.Coef == 0
		})
		if i < 0 {
			break
		}
		fs, _ := without(rem.terms[i].Factors, lead.Factors)
		part := canonicalTerm(rem.terms[i].Coef/lead.Coef, fs)
		quo = quo.Plus(part)
		rem = rem.Minus(part.Mul(d))
	}
	return quo, rem
}

// divideTerms divides x by a number: quo has the terms with coefficients that d divides, and rem has the other terms.
func (x Index) divideTerms(d int64) (quo, rem Index) {
	for _, t := range x.terms {
		if t.Coef%d == 0 {
			quo.terms = append(quo.terms, Term{t.Coef / d, t.Factors})
		}
	}
	quo.c = floorDiv(x.c, d)
	return quo, x.Minus(quo.Times(d))
}

// raiseRemainder lowers quo and raises rem until rem is provably nonnegative, with x = quo*div + rem as before. If it
// cannot, it returns the quotient 0 and the remainder x. Remainders must not be negative, because devices differ in
// quotients of negative numbers.
func raiseRemainder(x, div, quo, rem Index) (Index, Index) {
	if rem.nonNegative() {
		return quo, rem
	}
	low, ok := rem.lowest()
	if !ok || !div.IsConst() {
		return Index{}, x
	}
	n := floorDiv(-low+div.c-1, div.c) // rem + n*div is at least 0: -low/div, rounded up
	return quo.Minus(Const(n)), rem.Plus(Const(n * div.c))
}

// lowest returns a lower bound of x, and false if none is known.
func (x Index) lowest() (int64, bool) {
	low := x.c
	for _, t := range x.terms {
		if t.Coef < 0 {
			up := upper(t.Factors)
			if !up.IsConst() {
				return 0, false
			}
			low += t.Coef * up.c
		}
	}
	return low, true
}

// foldEmpty returns x after adding the terms without factors to its constant.
func (x Index) foldEmpty() Index {
	out := Index{c: x.c}
	for _, t := range x.terms {
		if len(t.Factors) == 0 {
			out.c += t.Coef
		} else {
			out.terms = append(out.terms, t)
		}
	}
	return out
}

// floorDiv returns a/b, rounded down.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

// without removes one occurrence of each factor in take from the list fs. It returns false if some factor is not in fs.
// It can also divide a product of symbols in fs: taking B from B*T leaves T.
func without(fs, take []*Factor) ([]*Factor, bool) {
	rest := append([]*Factor(nil), fs...)
	for _, t := range take {
		i := slices.IndexFunc(rest, func(f *Factor) bool { return f.key == t.key })
		if i >= 0 {
			rest = append(rest[:i], rest[i+1:]...)
			continue
		}
		// t's symbols may be some of the symbols of a factor, which keeps the others.
		i = slices.IndexFunc(rest, func(f *Factor) bool { return f.Kind == FactorSym && t.Kind == FactorSym })
		if i < 0 {
			return nil, false
		}
		other, ok := rest[i].symbol().Quo2(t.symbol())
		if !ok || other.Add != 0 {
			return nil, false
		}
		rest[i] = DimIndex(other).terms[0].Factors[0]
	}
	sort.SliceStable(rest, func(i, j int) bool { return rest[i].key < rest[j].key })
	return rest, true
}

// divideByParts divides x by d if x = g*a + b, g divides d and 0 <= b < g. Then floor(x/d) = floor(a/(d/g)), and x mod
// d = g*(a mod d/g) + b. ok reports whether x has that form.
func (x Index) divideByParts(d int64) (quo, rem Index, ok bool) {
	for _, t := range x.terms {
		g := GCD(max(t.Coef, -t.Coef), d)
		if g <= 1 || g == d { // dividing by g would not make the numbers smaller
			continue
		}
		a, b := x.longDivide(Const(g))
		if !b.inRange(Const(g)) || !a.nonNegative() {
			continue
		}
		q, r := a.DivMod(ir.D(int(d / g)))
		return q, r.Times(g).Plus(b), true
	}
	return Index{}, Index{}, false
}

// GCD is the greatest common divisor.
func GCD(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
