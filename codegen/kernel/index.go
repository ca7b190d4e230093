package kernel

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// Index is an integer polynomial over a kernel's axes, the program's symbols
// and opaque factors (quotients, remainders, clamped run-time values), kept as
// a canonical sum of products. It addresses elements of buffers. Every factor
// is at least 0 and every axis is less than its extent, which is what lets
// division and remainder be simplified away.
type Index struct {
	terms []Term // sorted by key, coefficients not 0
	c     int64
}

// Term is one product of an Index: Coef times its factors.
type Term struct {
	Coef    int64
	Factors []*Factor // sorted by key; its symbols are one of them, their product
}

// FactorKind says what a Factor is.
type FactorKind uint8

// The factor kinds.
const (
	FactorAxis  FactorKind = iota + 1 // the coordinate along an axis
	FactorSym                         // the value of a symbol, or of a product of symbols
	FactorDiv                         // floor(X/D)
	FactorMod                         // X mod D
	FactorClamp                       // X as a signed number, limited to 0..D; 0 where D is negative
	FactorValue                       // a loaded integer; only inside a clamp
)

// Factor is one indivisible part of an Index.
type Factor struct {
	Kind   FactorKind
	Axis   int    // of FactorAxis
	Extent ir.Dim // of FactorAxis: the coordinate is less
	Sym    string // of FactorSym
	Bound  int64  // of FactorSym: the value is at most
	X, D   Index  // of FactorDiv, FactorMod, FactorClamp
	Value  *Expr  // of FactorValue
	key    string
	size   int // how many factors it consists of
}

func newFactor(f Factor) *Factor {
	f.size = 1 + f.X.Size() + f.D.Size()
	switch f.Kind {
	case FactorAxis:
		f.key = fmt.Sprintf("a%d", f.Axis)
	case FactorSym:
		f.key = f.Sym
	case FactorDiv:
		f.key = fmt.Sprintf("(%s / %s)", f.X, f.D)
	case FactorMod:
		f.key = fmt.Sprintf("(%s %% %s)", f.X, f.D)
	case FactorClamp:
		f.key = fmt.Sprintf("clamp(%s, %s)", f.X, f.D)
	case FactorValue:
		f.key = fmt.Sprintf("v%d", f.Value.ID)
	}
	return &f
}

// Const returns the index that is a number.
func Const(n int64) Index { return Index{c: n} }

// Axis returns the index that is the coordinate along axis id; an axis of
// extent 1 has only coordinate 0.
func Axis(id int, extent ir.Dim) Index {
	if extent.Is(1) {
		return Index{}
	}
	return single(newFactor(Factor{Kind: FactorAxis, Axis: id, Extent: extent}))
}

// DimIndex returns the index that is the value of a dim.
func DimIndex(d ir.Dim) Index {
	if d.IsStatic() {
		return Const(d.Add)
	}
	sym := single(newFactor(Factor{Kind: FactorSym, Sym: d.Sym, Bound: d.Bound}))
	return sym.Times(d.Mul).Plus(Const(d.Add))
}

// symbol returns the dim that a FactorSym is the value of.
func (f *Factor) symbol() ir.Dim { return ir.Dim{Sym: f.Sym, Bound: f.Bound, Mul: 1} }

// ValueIndex returns a run-time integer limited to 0..last, so that it can
// never leave its buffer.
func ValueIndex(v *Expr, last Index) Index {
	return Clamp(single(newFactor(Factor{Kind: FactorValue, Value: v})), last)
}

// Clamp returns x, as a signed number, limited to 0..last; 0 where last is
// negative, as that of an axis is that turns out to be empty.
func Clamp(x, last Index) Index {
	switch {
	case last.IsConst() && last.c <= 0:
		return Const(0)
	case !hasValue(x) && x.nonNegative() && last.Minus(x).nonNegative():
		return x
	}
	return single(newFactor(Factor{Kind: FactorClamp, X: x, D: last}))
}

func single(f *Factor) Index { return Index{terms: []Term{{1, []*Factor{f}}}} }

// Terms returns the products of the sum; do not modify.
func (x Index) Terms() []Term { return x.terms }

// Offset returns the constant of the sum.
func (x Index) Offset() int64 { return x.c }

// Size is how many factors x consists of, those inside quotients, remainders and
// clamps included as often as they stand there. What is done with an index takes
// time in proportion, and so does what is written for it: whoever makes an index
// of others bounds this.
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
		fmt.Fprint(&b, x.c)
	}
	return b.String()
}

// String prints the product.
func (t Term) String() string {
	k := factorsKey(t.Factors)
	if t.Coef == 1 {
		return k
	}
	return fmt.Sprintf("%d*%s", t.Coef, k)
}

func factorsKey(fs []*Factor) string {
	keys := make([]string, len(fs))
	for i, f := range fs {
		keys[i] = f.key
	}
	return strings.Join(keys, "*")
}

func canonical(terms []Term, c int64) Index {
	sums := map[string]*Term{}
	var order []string
	for _, t := range terms {
		k := factorsKey(t.Factors)
		if have, ok := sums[k]; ok {
			have.Coef += t.Coef
			continue
		}
		sums[k] = &Term{t.Coef, t.Factors}
		order = append(order, k)
	}
	sort.Strings(order)
	out := Index{c: c}
	for _, k := range order {
		if t := sums[k]; t.Coef != 0 {
			out.terms = append(out.terms, *t)
		}
	}
	return out.rejoin()
}

// rejoin replaces d*floor(x/d) + x mod d by x.
func (x Index) rejoin() Index {
	for i, t := range x.terms {
		for j, f := range t.Factors {
			if f.Kind != FactorMod {
				continue
			}
			rest := append(append([]*Factor(nil), t.Factors[:j]...), t.Factors[j+1:]...)
			whole := canonicalTerm(t.Coef, rest)
			quo := single(newFactor(Factor{Kind: FactorDiv, X: f.X, D: f.D})).Mul(f.D).Mul(whole)
			if len(quo.terms) != 1 || quo.c != 0 {
				continue
			}
			want := factorsKey(quo.terms[0].Factors)
			for k, u := range x.terms {
				if u.Coef == quo.terms[0].Coef && factorsKey(u.Factors) == want {
					left := Index{c: x.c}
					for n, v := range x.terms {
						if n != i && n != k {
							left.terms = append(left.terms, v)
						}
					}
					return left.Plus(f.X.Mul(whole))
				}
			}
		}
	}
	return x
}

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
	terms = append(terms, x.Times(y.c).terms...)
	terms = append(terms, y.Times(x.c).terms...)
	return canonical(terms, x.c*y.c)
}

func mulTerms(s, t Term) Term {
	fs := append([]*Factor(nil), s.Factors...)
	for _, f := range t.Factors {
		i := slices.IndexFunc(fs, func(have *Factor) bool { return have.Kind == FactorSym && f.Kind == FactorSym })
		if i < 0 {
			fs = append(fs, f)
		} else if both, err := fs[i].symbol().Mul2(f.symbol()); err == nil {
			fs[i] = DimIndex(both).terms[0].Factors[0]
		} else { // larger than any extent
			fs = append(fs, f)
		}
	}
	sort.SliceStable(fs, func(i, j int) bool { return fs[i].key < fs[j].key })
	return Term{s.Coef * t.Coef, fs}
}

// DivMod returns floor(x/d) and x mod d for x of at least 0 and a dim d of at
// least 1.
func (x Index) DivMod(d ir.Dim) (quo, rem Index) {
	if d.Is(1) {
		return x, Index{}
	}
	div := DimIndex(d)
	quo, rem = x.longDivide(div)
	if rem.inRange(div) {
		return quo, rem
	}
	quo, rem = giveBack(x, div, quo, rem)
	if d.IsStatic() {
		if q, r, ok := rem.divideByParts(d.Add); ok {
			return quo.Plus(q), r
		}
	}
	if d.Min() == 0 && hasClamp(rem) {
		div = Clamp(div.Minus(Const(1)), Const(max(d.Max()-1, 0))).Plus(Const(1))
	}
	q := single(newFactor(Factor{Kind: FactorDiv, X: rem, D: div}))
	r := single(newFactor(Factor{Kind: FactorMod, X: rem, D: div}))
	return quo.Plus(q), r
}

// hasClamp reports whether x is a position that may have been limited to an
// empty axis: then what is read there is not used, but a division by the
// extent, which is 0, could lead outside of the buffer.
func hasClamp(x Index) bool {
	found := false
	x.Walk(func(f *Factor) { found = found || f.Kind == FactorClamp })
	return found
}

// longDivide is the long division of polynomials: while a term of what is left
// is a multiple of the leading term of d, that multiple of d is taken out. So
// x = quo*d + rem.
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
	// Each step lowers the degree of a term, so few are needed.
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

// divideTerms takes multiples of a number out of every term.
func (x Index) divideTerms(d int64) (quo, rem Index) {
	for _, t := range x.terms {
		if t.Coef%d == 0 {
			quo.terms = append(quo.terms, Term{t.Coef / d, t.Factors})
		}
	}
	quo.c = floorDiv(x.c, d)
	return quo, x.Minus(quo.Times(d))
}

// giveBack makes the remainder of a division at least 0 again, where taking
// too much out of x has left it negative: quotients of negative numbers are not
// the same on all devices.
func giveBack(x, div, quo, rem Index) (Index, Index) {
	if rem.nonNegative() {
		return quo, rem
	}
	low, ok := rem.lowest()
	if !ok || !div.IsConst() {
		return Index{}, x
	}
	n := floorDiv(-low+div.c-1, div.c)
	return quo.Minus(Const(n)), rem.Plus(Const(n * div.c))
}

// lowest returns a number that x is never below.
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

// foldEmpty turns terms without factors into the constant.
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

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

// without removes each factor of take once.
func without(fs, take []*Factor) ([]*Factor, bool) {
	rest := append([]*Factor(nil), fs...)
	for _, t := range take {
		i := slices.IndexFunc(rest, func(f *Factor) bool { return f.key == t.key })
		if i >= 0 {
			rest = append(rest[:i], rest[i+1:]...)
			continue
		}
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

// divideByParts handles x = g*a + b with g dividing d and 0 <= b < g: then
// floor(x/d) = floor(a/(d/g)) and x mod d = g*(a mod d/g) + b.
func (x Index) divideByParts(d int64) (quo, rem Index, ok bool) {
	for _, t := range x.terms {
		g := gcd(abs(t.Coef), d)
		if g <= 1 || g == d {
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

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func abs(a int64) int64 { return max(a, -a) }

// inRange reports whether 0 <= x < d is proven.
func (x Index) inRange(d Index) bool {
	return x.nonNegative() && d.Minus(Const(1)).Minus(x).nonNegative()
}

// NonNegative reports whether x >= 0 is proven for all axes and symbols.
func (x Index) NonNegative() bool { return !hasValue(x) && x.nonNegative() }

// nonNegative reports whether x >= 0 is proven for all axes and symbols: with
// every negative term at its largest and every positive term that could be 0
// at 0, what is left has no negative coefficient.
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
	for _, t := range low.terms {
		if t.Coef < 0 {
			return false
		}
	}
	return low.c >= 0
}

func symbolsOnly(fs []*Factor) bool {
	for _, f := range fs {
		if f.Kind != FactorSym {
			return false
		}
	}
	return true
}

// upper returns a polynomial in symbols that is no less than the product.
func upper(fs []*Factor) Index {
	out := Const(1)
	for _, f := range fs {
		out = out.Mul(f.upper())
	}
	return out
}

func (f *Factor) upper() Index {
	switch f.Kind {
	case FactorAxis:
		return DimIndex(f.Extent).Minus(Const(1))
	case FactorMod:
		return f.D.Minus(Const(1))
	case FactorClamp:
		if !f.D.nonNegative() { // an axis that can be empty: D can be -1, the clamp is 0
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

// upperSum bounds x from above by dropping its negative terms.
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

// Upper returns a number that x is never above, and false where none is known.
func (x Index) Upper() (int64, bool) {
	up := upperSum(x)
	return up.c, up.IsConst() && !hasValue(x)
}

func hasValue(x Index) bool {
	for _, t := range x.terms {
		for _, f := range t.Factors {
			if f.Kind == FactorValue {
				return true
			}
		}
	}
	return false
}

// Walk calls visit for every factor of x, those inside quotients, remainders
// and clamps included.
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

// Uses reports whether x depends on the axis, through loaded values too.
func (x Index) Uses(axis int) bool {
	used := false
	x.Walk(func(f *Factor) {
		switch f.Kind {
		case FactorAxis:
			used = used || f.Axis == axis
		case FactorValue:
			used = used || f.Value.Uses(axis)
		}
	})
	return used
}

// Stride returns the polynomial that x grows by per step along the axis, and
// false where x is not linear in it.
func (x Index) Stride(axis int) (Index, bool) {
	var terms []Term
	for _, t := range x.terms {
		n := 0
		var rest []*Factor
		for _, f := range t.Factors {
			switch {
			case f.Kind == FactorAxis && f.Axis == axis:
				n++
			case single(f).Uses(axis):
				return Index{}, false
			default:
				rest = append(rest, f)
			}
		}
		if n > 1 {
			return Index{}, false
		}
		if n == 1 {
			terms = append(terms, Term{t.Coef, rest})
		}
	}
	return canonical(terms, 0).foldEmpty(), true
}

// DropAxis returns x at coordinate 0 of the axis; x must be linear in it.
func (x Index) DropAxis(axis int) Index {
	s, _ := x.Stride(axis)
	// An extent that is never 1 keeps the axis a factor.
	return x.Minus(s.Mul(Axis(axis, ir.D(2))))
}

// Multiple returns the largest power of two, up to limit, that provably
// divides every value of x.
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

// Substitute returns x with every axis replaced by what at gives for it.
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

func (f *Factor) substitute(at func(int, ir.Dim) Index, value func(*Expr) *Expr) Index {
	sub := func(x Index) Index { return x.Substitute(at, value) }
	switch f.Kind {
	case FactorAxis:
		return at(f.Axis, f.Extent)
	case FactorDiv, FactorMod:
		x, d := sub(f.X), sub(f.D)
		if !d.IsConst() || d.c < 1 {
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

// Adjacent reports whether x grows by one per step along the axis, and whether
// it is a multiple of n wherever the coordinate along the axis is: then n
// neighbours are one aligned vector.
func (x Index) Adjacent(axis, n int) bool {
	stride, linear := x.Stride(axis)
	return linear && stride.Equal(Const(1)) && x.DropAxis(axis).Multiple(int64(n)) == int64(n)
}
