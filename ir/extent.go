package ir

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxExtentText limits the length of a Sym expression, and thereby the cost of operations on it.
const maxExtentText = 256

// linear is a linear combination of atoms plus a constant, such as 2*S + floor(T/2) + 1. An atom is the text of a
// symbol, a quotient or a product, and never negative. Code that needs the individual atoms converts a Dim to it: a
// Dim's Sym is one atom or a whole sum.
type linear struct {
	coef map[string]int64 // by atom
	add  int64
	max  int64 // its largest value, with every symbol at its bound
}

// isSum reports whether the Sym of a dim is a sum of several atoms.
func isSum(sym string) bool { return len(splitOutside(sym, '+')) > 1 }

// isProduct reports whether a dim's Sym is a product of several factors.
func isProduct(sym string) bool { return !isSum(sym) && len(splitOutside(sym, '*')) > 1 }

// splitOutside cuts an expression at each sign outside of parentheses.
func splitOutside(text string, sign byte) (parts []string) {
	depth, start := 0, 0
	for i := range len(text) {
		switch c := text[i]; {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == sign && depth == 0:
			parts, start = append(parts, text[start:i]), i+1
		}
	}
	return append(parts, text[start:])
}

// product is a Dim as a number times factors, such as 2 * B * (T+1), for multiplication and division. A factor is the
// text of a dim that is neither a product nor divisible by a number above 1.
type product struct {
	times int64
	of    []string // in the order of compareFactors
	max   int64    // of all factors together, with every symbol at its bound
}

// product splits a dim into factors.
func (d Dim) product() product {
	switch {
	case d.IsStatic():
		return product{times: d.Add, max: 1}
	case d.Add == 0 && !isSum(d.Sym):
		return product{times: d.Mul, of: splitOutside(d.Sym, '*'), max: d.Bound}
	}
	n := gcd(d.Mul, max(d.Add, -d.Add))
	factor := Dim{Sym: d.Sym, Bound: d.Bound, Mul: d.Mul / n, Add: d.Add / n}
	return product{times: n, of: []string{"(" + factor.String() + ")"}, max: factor.Max()}
}

// dim converts the product to a dim.
func (p product) dim() (Dim, error) {
	switch len(p.of) {
	case 0:
		return D(int(p.times)), nil
	case 1:
		d := factorDim(p.of[0])
		// The text of a factor has no bound. It follows from the bound of the product.
		d.Bound = (p.max - d.Add) / d.Mul
		return d.Times(p.times), nil
	}
	sym := strings.Join(p.of, "*")
	if len(sym) > maxExtentText {
		return Dim{}, fmt.Errorf("%.40s… is a product of too many symbols: declare it as a symbol of its own", sym)
	}
	return Dim{Sym: sym, Bound: p.max, Mul: p.times}, nil
}

// factorDim reads a factor, without the bound of its symbol.
func factorDim(text string) Dim {
	l, err := parseExtent(text, unbounded)
	if err != nil {
		return Dim{Sym: text, Mul: 1} // not reached for checked dims
	}
	d, err := l.dim()
	if err != nil {
		return Dim{Sym: text, Mul: 1}
	}
	d.Bound = 0
	return d
}

// multiply multiplies two products. It fails if both may be negative, because the result is then not an extent.
func (p product) multiply(o product) (product, error) {
	times, err := multiplyWithin(p.times, o.times)
	if err != nil {
		return product{}, err
	}
	most, err := multiplyWithin(p.max, o.max)
	if err != nil {
		return product{}, err
	}
	of := slices.Concat(p.of, o.of)
	slices.SortFunc(of, compareFactors)
	return product{times: times, of: of, max: most}, nil
}

// multiplyWithin returns a*b, or an error if its magnitude is over maxElems. The result is negative if both numbers
// are, so that the checks of a dim refuse it.
func multiplyWithin(a, b int64) (int64, error) {
	if m, n := max(a, -a), max(b, -b); m > 0 && n > maxElems/m {
		return 0, fmt.Errorf("the limit is %d", int64(maxElems))
	}
	if a < 0 && b < 0 {
		return -(a * b), nil
	}
	return a * b, nil
}

// compareFactors orders factors by their text, and factors in parentheses last.
func compareFactors(a, b string) int {
	switch aSum, bSum := strings.HasPrefix(a, "("), strings.HasPrefix(b, "("); {
	case aSum && !bSum:
		return 1
	case bSum && !aSum:
		return -1
	}
	return cmp.Compare(a, b)
}

// dividedBy returns p/o, and false unless all factors of o are factors of p.
func (p product) dividedBy(o product) (product, bool) {
	of := slices.Clone(p.of)
	for _, factor := range o.of {
		i := slices.Index(of, factor)
		if i < 0 {
			return product{}, false
		}
		of = slices.Delete(of, i, i+1)
	}
	if o.times == 0 || p.times%o.times != 0 || o.max == 0 {
		return product{}, false
	}
	return product{times: p.times / o.times, of: of, max: p.max / o.max}, true
}

// linear converts a dim to a linear combination.
func (d Dim) linear() linear {
	l := linear{coef: map[string]int64{}, add: d.Add, max: d.Max()}
	switch {
	case d.IsStatic():
	case isSum(d.Sym):
		sum, err := parseExtent(d.Sym, unbounded)
		if err != nil { // not reached for checked dims
			l.coef[d.Sym] = d.Mul
			break
		}
		for atom, c := range sum.coef {
			l.coef[atom] = c * d.Mul
		}
	default:
		l.coef[d.Sym] = d.Mul
	}
	return l
}

// plus returns l + times*o.
func (l linear) plus(o linear, times int64) linear {
	out := linear{coef: maps.Clone(l.coef), add: l.add + times*o.add, max: l.max + times*o.max}
	for atom, c := range o.coef {
		out.coef[atom] += times * c
	}
	return out
}

// dim converts the sum to a dim: the coefficients' greatest common divisor becomes Mul, and the rest Sym.
func (l linear) dim() (Dim, error) {
	common, limit := int64(0), int64(maxElems)
	for atom, c := range l.coef {
		switch {
		case c < 0:
			return Dim{}, fmt.Errorf("%s is subtracted more often than it was added", atom)
		case c > limit:
			return Dim{}, fmt.Errorf("%d*%s is out of range: the limit is %d", c, atom, limit)
		}
		common = gcd(common, c)
	}
	if common == 0 {
		return Dim{Add: l.add}, nil
	}
	sum := linear{coef: maps.Clone(l.coef)}
	for atom := range sum.coef {
		sum.coef[atom] /= common
	}
	sym := sum.String()
	if len(sym) > maxExtentText {
		return Dim{}, fmt.Errorf("%.40s… is a sum of too many symbols: declare it as a symbol of its own", sym)
	}
	return Dim{Sym: sym, Bound: (l.max - l.add) / common, Mul: common, Add: l.add}, nil
}

// String prints the sum in canonical form: atoms in the order of their text, then the number.
func (l linear) String() string {
	var b strings.Builder
	for _, atom := range slices.Sorted(maps.Keys(l.coef)) {
		c := l.coef[atom]
		if c == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('+')
		}
		if c != 1 {
			fmt.Fprintf(&b, "%d*", c)
		}
		b.WriteString(atom)
	}
	if b.Len() == 0 {
		return strconv.FormatInt(l.add, 10)
	}
	if l.add != 0 {
		fmt.Fprintf(&b, "%+d", l.add)
	}
	return b.String()
}

// quoRem returns the quotient and the remainder of each coefficient of l divided by n: l is n*quo + rem.
func (l linear) quoRem(n int64) (quo, rem linear) {
	quo = linear{coef: map[string]int64{}, add: floorDiv(l.add, n), max: floorDiv(l.max, n)}
	rem = linear{coef: map[string]int64{}, add: l.add - n*quo.add}
	for atom, c := range l.coef {
		if c/n != 0 {
			quo.coef[atom] = c / n
		}
		if c%n != 0 {
			rem.coef[atom] = c % n
		}
	}
	return quo, rem
}

// reduced divides n and the coefficients of l by their common divisor. The quotient l/n, rounded down, stays the same.
func (l linear) reduced(n int64) (linear, int64) {
	common := n
	for _, c := range l.coef {
		common = gcd(common, c)
	}
	for atom := range l.coef {
		l.coef[atom] /= common
	}
	l.add /= common // rounding down changes no quotient, because n and the other terms are multiples of common
	return l, n / common
}

// floorQuo returns l/n rounded down. It extracts the part of l that is divisible by n for all values of its atoms, so
// that equal quotients have the same text. The rest becomes a new atom.
func (l linear) floorQuo(n int64) (linear, error) {
	if n < 1 || n > maxElems {
		return linear{}, fmt.Errorf("%s is divided by %d, want a number of 1 to %d", l, n, int64(maxElems))
	}
	out, rest := l.quoRem(n)
	if len(rest.coef) == 0 {
		return out, nil
	}
	rest, n = rest.reduced(n)
	inner, by, err := rest.soleQuotient()
	if err != nil {
		return linear{}, err
	}
	if by > 0 { // floor((floor(x/by)+a)/n) is floor((x+by*a)/(by*n))
		if rest.add > maxElems/by || n > maxElems/by {
			return linear{}, fmt.Errorf("%s is divided by %d too often", inner, by)
		}
		inner.add += by * rest.add
		nested, err := inner.floorQuo(by * n)
		if err != nil {
			return linear{}, err
		}
		sum := out.plus(nested, 1)
		sum.max = out.max // which quoRem has computed for the whole quotient
		return sum, nil
	}
	num := rest.String()
	if !IsIdent(num) {
		num = "(" + num + ")"
	}
	atom := fmt.Sprintf("floor(%s/%d)", num, n)
	if len(atom) > maxExtentText {
		return linear{}, fmt.Errorf("%.40s… is too long: declare it as a symbol of its own", atom)
	}
	out.coef[atom]++
	return out, nil
}

// soleQuotient returns x and n if l is floor(x/n) plus a number. Otherwise n is 0.
func (l linear) soleQuotient() (x linear, n int64, err error) {
	for atom, c := range l.coef {
		if len(l.coef) > 1 || c != 1 || !strings.HasPrefix(atom, "floor(") || len(splitOutside(atom, '*')) > 1 {
			break
		}
		p := extentParser{strings.TrimPrefix(atom, "floor("), unbounded}
		return p.quotient()
	}
	return linear{}, 0, nil
}

// floorDiv returns a/n rounded down.
func floorDiv(a, n int64) int64 {
	q := a / n
	if a%n < 0 {
		q--
	}
	return q
}

// gcd returns the greatest common divisor.
func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// parseExtent parses a sum of numbers, symbols, quotients and products: 6, 4*T+1, S+2*T, floor((T+1)/2), B*(T+1). It
// substitutes of(symbol) for each symbol.
func parseExtent(text string, of func(symbol string) (Dim, error)) (linear, error) {
	if len(text) > 2*maxExtentText {
		return linear{}, errExtent
	}
	p := extentParser{rest: text, of: of}
	l, err := p.sum()
	if err == nil && p.rest != "" {
		err = errExtent
	}
	return l, err
}

// errExtent describes the syntax of dims.
var errExtent = fmt.Errorf("want a number, a symbol, or sums and products of them: 4*T+1, S+T, B*(T+1), floor((T+1)/2)")

// unbounded returns a dim for a symbol without a bound, for callers that do not need bounds.
func unbounded(symbol string) (Dim, error) { return Symbol(symbol, 0), nil }

// extentParser is a recursive-descent parser of dims: rest is the unread input, and of(symbol) replaces each symbol.
type extentParser struct {
	rest string
	of   func(symbol string) (Dim, error)
}

// take skips prefix in the unread input, and reports whether it was there.
func (p *extentParser) take(prefix string) bool {
	after, ok := strings.CutPrefix(p.rest, prefix)
	p.rest = after
	return ok
}

// sum reads terms joined by + and -.
func (p *extentParser) sum() (linear, error) {
	sum := linear{coef: map[string]int64{}}
	for minus := false; ; {
		l, err := p.product(minus)
		if err != nil {
			return linear{}, err
		}
		sum = sum.plus(l, 1)
		minus = p.take("-")
		if !minus && !p.take("+") {
			return sum, nil
		}
	}
}

// product parses factors. The first may be a number. After a minus sign (minus), the term must be a number alone.
func (p *extentParser) product(minus bool) (linear, error) {
	n, isNumber, err := p.number()
	switch {
	case err != nil:
		return linear{}, err
	case !isNumber && minus:
		return linear{}, errExtent
	case isNumber && !p.take("*"):
		if minus {
			n = -n
		}
		return linear{coef: map[string]int64{}, add: n, max: n}, nil
	case isNumber && (minus || n < 1):
		return linear{}, errExtent
	}
	l, err := p.factor()
	for err == nil && p.take("*") {
		var next linear
		if next, err = p.factor(); err == nil {
			l, err = l.multiply(next)
		}
	}
	if err != nil || !isNumber {
		return l, err
	}
	// The number is multiplied last, so that an overflow can be reported.
	for _, c := range append(slices.Collect(maps.Values(l.coef)), l.add, l.max) {
		if max(c, -c) > maxElems/n {
			return linear{}, fmt.Errorf("%d*(%s) is out of range: the limit is %d", n, l, int64(maxElems))
		}
	}
	return linear{coef: map[string]int64{}}.plus(l, n), nil
}

// multiply multiplies two sums, as the factors of a product.
func (l linear) multiply(o linear) (linear, error) {
	a, err := l.dim()
	if err != nil {
		return linear{}, err
	}
	b, err := o.dim()
	if err != nil {
		return linear{}, err
	}
	d, err := a.Mul2(b)
	return d.linear(), err
}

// number reads an unsigned integer. ok is false if there is none.
func (p *extentParser) number() (n int64, ok bool, err error) {
	// The space ends a number at the end of the input.
	end := strings.IndexFunc(p.rest+" ", func(r rune) bool { return r < '0' || r > '9' })
	if end == 0 {
		return 0, false, nil
	}
	n, err = strconv.ParseInt(p.rest[:end], 10, 64)
	if err != nil || n > maxElems {
		return 0, false, fmt.Errorf("%s is out of range: the limit is %d", p.rest[:end], int64(maxElems))
	}
	p.rest = p.rest[end:]
	return n, true, nil
}

// factor reads a symbol, a quotient, or a sum in parentheses.
func (p *extentParser) factor() (linear, error) {
	if p.take("floor(") {
		x, n, err := p.quotient()
		if err != nil {
			return linear{}, err
		}
		return x.floorQuo(n)
	}
	if p.take("(") {
		l, err := p.sum()
		if err == nil && !p.take(")") {
			err = errExtent
		}
		return l, err
	}
	// The + ends a name at the end of the input.
	end := strings.IndexAny(p.rest+"+", "+-*/()")
	name := p.rest[:end]
	if !IsIdent(name) {
		return linear{}, errExtent
	}
	d, err := p.of(name)
	p.rest = p.rest[end:]
	return d.linear(), err
}

// quotient reads FACTOR/NUMBER) after "floor(".
func (p *extentParser) quotient() (x linear, n int64, err error) {
	if x, err = p.factor(); err != nil {
		return linear{}, 0, err
	}
	ok := p.take("/")
	if ok {
		n, ok, err = p.number()
	}
	ok = ok && p.take(")")
	if !ok || n < 1 {
		return linear{}, 0, cmp.Or(err, errExtent)
	}
	return x, n, nil
}

// checkSym returns an error unless sym is a symbol's name or an expression in canonical form.
func checkSym(sym string) error {
	if IsIdent(sym) {
		return nil
	}
	l, err := parseExtent(sym, unbounded)
	if err != nil {
		return fmt.Errorf("symbol %.80q: %w", sym, err)
	}
	d, err := l.dim()
	if err != nil {
		return fmt.Errorf("symbol %.80q: %w", sym, err)
	}
	d.Bound = 0
	if want := (Dim{Sym: sym, Mul: 1}); d != want {
		return fmt.Errorf("symbol %.80q: want it written as a dim prints it, %s", sym, d)
	}
	return nil
}

// renameExtent returns the expression with each symbol replaced by rename(symbol).
func renameExtent(sym string, rename func(symbol string) string) string {
	var b strings.Builder
	for len(sym) > 0 {
		end := strings.IndexAny(sym+"+", "+-*/()") // the + ends a name at the end of sym
		name := sym[:end]
		isFloor := name == "floor" && strings.HasPrefix(sym[end:], "(")
		if IsIdent(name) && !isFloor {
			name = rename(name)
		}
		b.WriteString(name)
		if end < len(sym) { // copy the operator too
			b.WriteByte(sym[end])
			end++
		}
		sym = sym[end:]
	}
	text := b.String()
	if l, err := parseExtent(text, unbounded); err == nil {
		return l.String() // in the order of the new names
	}
	return text
}
