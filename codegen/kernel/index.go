package kernel

import (
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// Index is the position of an element in a buffer, or a coordinate: an integer polynomial over the kernel's axes, the
// program's symbols and opaque factors (quotients, remainders, clamped run-time values). For a row-major f32[4,8] it is
// a0*8 + a1. It is kept in a canonical form, as a sum of terms. Every factor is at least 0, and every coordinate is
// less than its axis's extent. These bounds allow divisions and remainders to be simplified.
type Index struct {
	terms []Term // sorted by key, coefficients not 0
	c     int64  // the constant of the sum
}

// Term is one summand of an Index: Coef times its factors.
type Term struct {
	Coef    int64
	Factors []*Factor // sorted by key; all symbols of the term form one factor
}

// FactorKind is the kind of a Factor.
type FactorKind uint8

// The factor kinds.
const (
	FactorAxis  FactorKind = iota + 1 // the coordinate along an axis
	FactorSym                         // the value of a symbol, or of a product of symbols
	FactorDiv                         // floor(X/D)
	FactorMod                         // X mod D
	FactorClamp                       // X as a signed number, limited to 0..D; 0 if D is negative
	FactorValue                       // a loaded integer; only inside a clamp
)

// Factor is one indivisible part of an Index.
type Factor struct {
	Kind   FactorKind
	Axis   int    // of FactorAxis
	Extent ir.Dim // of FactorAxis: the coordinate is less than this
	Sym    string // of FactorSym
	Bound  int64  // of FactorSym: the value is at most this
	X, D   Index  // of FactorDiv, FactorMod, FactorClamp
	Value  *Expr  // of FactorValue
	// key is equal for equal factors, and sorts them.
	key  string
	size int // number of factors in it, itself included
}

// newFactor returns a copy of f with its key and size set.
func newFactor(f Factor) *Factor {
	// X and D are zero for kinds of factors without them. Equal factors have equal keys.
	f.size = 1 + f.X.Size() + f.D.Size()
	switch f.Kind {
	case FactorAxis:
		f.key = "a" + strconv.Itoa(f.Axis)
	case FactorSym:
		f.key = f.Sym
	case FactorDiv:
		f.key = "(" + f.X.String() + " / " + f.D.String() + ")"
	case FactorMod:
		f.key = "(" + f.X.String() + " % " + f.D.String() + ")"
	case FactorClamp:
		f.key = "clamp(" + f.X.String() + ", " + f.D.String() + ")"
	case FactorValue:
		f.key = "v" + strconv.Itoa(f.Value.ID)
	}
	return &f
}

// Const returns the constant index n.
func Const(n int64) Index { return Index{c: n} }

// Axis returns the coordinate along axis id as an index. An axis of extent 1 has only coordinate 0.
func Axis(id int, extent ir.Dim) Index {
	if extent.Is(1) {
		return Index{}
	}
	return single(newFactor(Factor{Kind: FactorAxis, Axis: id, Extent: extent}))
}

// DimIndex returns a dim's value as an index.
func DimIndex(d ir.Dim) Index {
	if d.IsStatic() {
		return Const(d.Add)
	}
	sym := single(newFactor(Factor{Kind: FactorSym, Sym: d.Sym, Bound: d.Bound}))
	return sym.Times(d.Mul).Plus(Const(d.Add))
}

// symbol returns the value of a FactorSym as a dim.
func (f *Factor) symbol() ir.Dim { return ir.Dim{Sym: f.Sym, Bound: f.Bound, Mul: 1} }

// ValueIndex returns the run-time integer v, clamped to 0..last so that the index cannot leave its buffer.
func ValueIndex(v *Expr, last Index) Index {
	return Clamp(single(newFactor(Factor{Kind: FactorValue, Value: v})), last)
}

// Clamp returns x, as a signed number, clamped to 0..last. If last is negative, as for an empty axis, the result is 0.
func Clamp(x, last Index) Index {
	switch {
	case last.IsConst() && last.c <= 0, x.IsConst() && x.c <= 0:
		return Const(0)
	case x.NonNegative() && last.Minus(x).nonNegative():
		return x
	}
	return single(newFactor(Factor{Kind: FactorClamp, X: x, D: last}))
}

// single returns the index that is one factor.
func single(f *Factor) Index { return Index{terms: []Term{{1, []*Factor{f}}}} }

// Terms returns the terms of the sum; do not modify them.
func (x Index) Terms() []Term { return x.terms }

// Offset returns the constant of the sum.
func (x Index) Offset() int64 { return x.c }

// Size is the number of factors in x, including those inside quotients, remainders and clamps. The time to process an
// index, and the length of its generated code, are proportional to it. So a pass that builds indices from other indices
// must bound it.
func (x Index) Size() int {
	size := 0
	for _, t := range x.terms {
		for _, f := range t.Factors {
			size += f.size
		}
	}
	return size
}

// IsConst reports whether x is a number.
func (x Index) IsConst() bool { return len(x.terms) == 0 }

// Equal reports whether two indices are the same polynomial.
func (x Index) Equal(y Index) bool { return x.String() == y.String() }

// String prints the polynomial in its canonical form.
func (x Index) String() string {
	var b strings.Builder
	for i, t := range x.terms {
		if i > 0 {
			b.WriteString(" + ")
		}
		b.WriteString(t.String())
	}
	if x.c != 0 || len(x.terms) == 0 {
		if len(x.terms) > 0 {
			b.WriteString(" + ")
		}
		b.WriteString(strconv.FormatInt(x.c, 10))
	}
	return b.String()
}

// String prints the term as a product.
func (t Term) String() string {
	k := factorsKey(t.Factors)
	if t.Coef == 1 {
		return k
	}
	return strconv.FormatInt(t.Coef, 10) + "*" + k
}

// factorsKey returns a string that is equal for equal products of factors.
func factorsKey(fs []*Factor) string {
	if len(fs) == 1 {
		return fs[0].key
	}
	keys := make([]string, len(fs))
	for i, f := range fs {
		keys[i] = f.key
	}
	return strings.Join(keys, "*")
}

// canonical returns the sum of terms and c in canonical form: it adds up terms with equal factors and sorts the terms.
func canonical(terms []Term, c int64) Index {
	if len(terms) == 0 || len(terms) == 1 && terms[0].Coef != 0 { // there is nothing to add up or to sort
		return Index{terms, c}
	}
	type keyed struct {
		Term
		key string
	}
	sorted := make([]keyed, len(terms))
	for i, t := range terms {
		sorted[i] = keyed{t, factorsKey(t.Factors)}
	}
	slices.SortStableFunc(sorted, func(t, u keyed) int { return strings.Compare(t.key, u.key) })
	out := Index{c: c}
	for i := 0; i < len(sorted); {
		sum, key := sorted[i].Term, sorted[i].key
		for i++; i < len(sorted) && sorted[i].key == key; i++ {
			sum.Coef += sorted[i].Coef
		}
		if sum.Coef != 0 {
			out.terms = append(out.terms, sum)
		}
	}
	return out.rejoin()
}

// rejoin returns x with d*floor(y/d) + y mod d, times any factors, replaced by y times these factors.
func (x Index) rejoin() Index {
	for i, t := range x.terms {
		for j, f := range t.Factors {
			if f.Kind != FactorMod {
				continue
			}
			if joined, ok := x.joined(i, j); ok {
				return joined
			}
		}
	}
	return x
}

// joined is rejoin for factor j of term i, a remainder y mod d. It returns false if no term of x has the quotient of y.
func (x Index) joined(i, j int) (Index, bool) {
	t := x.terms[i]
	f := t.Factors[j]
	scale := canonicalTerm(t.Coef, slices.Concat(t.Factors[:j], t.Factors[j+1:])) // of the remainder
	quo := single(newFactor(Factor{Kind: FactorDiv, X: f.X, D: f.D})).Mul(f.D).Mul(scale)
	if len(quo.terms) != 1 || quo.c != 0 {
		return x, false
	}
	want := quo.terms[0]
	k := slices.IndexFunc(x.terms, func(u Term) bool {
		return u.Coef == want.Coef && factorsKey(u.Factors) == factorsKey(want.Factors)
	})
	if k < 0 {
		return x, false
	}
	left := Index{c: x.c}
	for n, u := range x.terms {
		if n != i && n != k {
			left.terms = append(left.terms, u)
		}
	}
	return left.Plus(f.X.Mul(scale)), true
}

// canonicalTerm returns coef times the factors as an index; without factors it is a constant.
func canonicalTerm(coef int64, fs []*Factor) Index {
	return Index{terms: []Term{{coef, fs}}}.foldEmpty()
}

// Plus returns x+y.
func (x Index) Plus(y Index) Index {
	if x.IsConst() && y.IsConst() {
		return Const(x.c + y.c)
	}
	return canonical(append(append([]Term(nil), x.terms...), y.terms...), x.c+y.c)
}

// Minus returns x-y.
func (x Index) Minus(y Index) Index { return x.Plus(y.Times(-1)) }

// Times returns x*n.
func (x Index) Times(n int64) Index {
	out := Index{c: x.c * n}
	if n == 0 {
		return out
	}
	for _, t := range x.terms {
		out.terms = append(out.terms, Term{t.Coef * n, t.Factors})
	}
	return out
}

// Mul returns x*y.
func (x Index) Mul(y Index) Index {
	if y.IsConst() {
		return x.Times(y.c)
	}
	if x.IsConst() {
		return y.Times(x.c)
	}
	var terms []Term
	for _, s := range x.terms {
		for _, t := range y.terms {
			terms = append(terms, mulTerms(s, t))
		}
	}
	// The constants x.c and y.c are not among the terms.
	terms = append(terms, x.Times(y.c).terms...)
	terms = append(terms, y.Times(x.c).terms...)
	return canonical(terms, x.c*y.c)
}

// mulTerms returns the product of two terms. Their symbols become one factor, unless that exceeds the largest extent.
func mulTerms(s, t Term) Term {
	factors := append([]*Factor(nil), s.Factors...)
	for _, f := range t.Factors {
		i := slices.IndexFunc(factors, func(have *Factor) bool { return have.Kind == FactorSym && f.Kind == FactorSym })
		if i >= 0 {
			if both, err := factors[i].symbol().Mul2(f.symbol()); err == nil {
				factors[i] = DimIndex(both).terms[0].Factors[0] // the only factor of the only term
				continue
			}
		}
		factors = append(factors, f)
	}
	sort.SliceStable(factors, func(i, j int) bool { return factors[i].key < factors[j].key })
	return Term{s.Coef * t.Coef, factors}
}
