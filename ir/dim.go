package ir

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Dim is the extent of one axis: a number, or a linear expression Mul*Sym+Add. The value of Sym (0 to Bound) is known
// only at run time. Sym is a symbol's name or an expression over several symbols: a sum such as S+2*T, a product such
// as B*(T+1), or a quotient such as floor((T+1)/2). Expressions have a canonical form, so dims are comparable with ==:
// two dims are equal exactly if they are equal for all values of their symbols.
type Dim struct {
	Sym   string // empty for a number
	Bound int64  // largest value of Sym; 0 for a number
	Mul   int64  // at least 1 if Sym is set, 0 for a number
	Add   int64
}

// D returns the dim that is the number n.
func D(n int) Dim { return Dim{Add: int64(n)} }

// Symbol returns a dim that is a symbol with values 0 to bound.
func Symbol(name string, bound int) Dim {
	return Dim{Sym: name, Bound: int64(bound), Mul: 1}
}

// IsStatic reports whether d is a number.
func (d Dim) IsStatic() bool { return d.Sym == "" }

// isDerived reports whether Sym is an expression rather than a single symbol.
func (d Dim) isDerived() bool { return !d.IsStatic() && !IsIdent(d.Sym) }

// Symbols lists the symbols in d, in the order of its text.
func (d Dim) Symbols() []string {
	var names []string
	renameExtent(d.Sym, func(symbol string) string {
		names = append(names, symbol)
		return symbol
	})
	return names
}

// Rename returns d with other names for its symbols.
func (d Dim) Rename(name func(symbol string) string) Dim {
	d.Sym = renameExtent(d.Sym, name)
	return d
}

// Max returns the largest value of d, which sizes buffers.
func (d Dim) Max() int64 { return d.Mul*d.Bound + d.Add }

// Min returns the smallest value of d.
func (d Dim) Min() int64 { return max(d.Add, 0) }

// MayBeNegative reports whether d is a symbol minus a number, as in T-2, and thus negative, and not a valid extent, for
// small values of the symbol.
func (d Dim) MayBeNegative() bool { return !d.IsStatic() && strings.Contains(d.String(), "-") }

// Static returns the number that d is; it is only meaningful for static dims.
func (d Dim) Static() int { return int(d.Add) }

// Is reports whether d is the number n.
func (d Dim) Is(n int) bool { return d.Sym == "" && d.Add == int64(n) }

// Plus returns d+n.
func (d Dim) Plus(n int64) Dim { d.Add += n; return d }

// Times returns d*n.
func (d Dim) Times(n int64) Dim {
	d.Mul *= n
	d.Add *= n
	if n == 0 {
		return Dim{}
	}
	return d
}

// Mul2 returns d*o. It fails if neither is a number and the product is out of range.
func (d Dim) Mul2(o Dim) (Dim, error) {
	switch {
	case o.IsStatic():
		return d.Times(int64(o.Static())), nil
	case d.IsStatic():
		return o.Times(int64(d.Static())), nil
	}
	p, err := d.product().multiply(o.product())
	if err != nil {
		return Dim{}, fmt.Errorf("(%s)*(%s) is out of range: %w", d, o, err)
	}
	return p.dim()
}

// Factors splits d into factors: 2, B and T+1 for 2*B*(T+1). The first is a number, 1 if d has none. The others are
// neither products nor divisible by a number above 1, and their symbols have no bounds.
func (d Dim) Factors() []Dim {
	if d.IsStatic() {
		return []Dim{d}
	}
	p := d.product()
	list := []Dim{D(int(p.times))}
	for _, text := range p.of {
		list = append(list, factorDim(text))
	}
	return list
}

// Sum returns d+o. It fails if the text of the sum is longer than 256 bytes.
func (d Dim) Sum(o Dim) (Dim, error) {
	switch {
	case o.IsStatic():
		return d.Plus(o.Add), nil
	case d.IsStatic():
		return o.Plus(d.Add), nil
	}
	return d.linear().plus(o.linear(), 1).dim()
}

// Less returns d-o. It fails if o has more of some symbol than d.
func (d Dim) Less(o Dim) (Dim, error) {
	if o.IsStatic() {
		return d.Plus(-o.Add), nil
	}
	less, err := d.linear().plus(o.linear(), -1).dim()
	if err != nil {
		return Dim{}, fmt.Errorf("%s-%s is not an extent: %w", d, o, err)
	}
	return less, nil
}

// FloorQuo returns d/n rounded down: T+1 for d = 2*T+2 and n = 2, and the new expression floor(T/2) for d = T, since 2
// does not divide every value of T.
func (d Dim) FloorQuo(n int64) (Dim, error) {
	q, err := d.linear().floorQuo(n)
	if err != nil {
		return Dim{}, err
	}
	return q.dim()
}

// Quo returns d/n if n divides d for every value of its symbol, and otherwise false.
func (d Dim) Quo(n int64) (Dim, bool) {
	if n <= 0 || d.Mul%n != 0 || d.Add%n != 0 {
		return Dim{}, false
	}
	d.Mul /= n
	d.Add /= n
	return d, true
}

// Quo2 returns d/o if all factors of o are factors of d, and otherwise false.
func (d Dim) Quo2(o Dim) (Dim, bool) {
	if o.IsStatic() {
		return d.Quo(o.Add)
	}
	p, ok := d.product().dividedBy(o.product())
	if !ok {
		return Dim{}, false
	}
	q, err := p.dim()
	return q, err == nil
}

// Eval returns the value of d under the symbol values.
func (d Dim) Eval(symbols map[string]int64) (int64, error) {
	if d.IsStatic() {
		return d.Add, nil
	}
	v, ok := symbols[d.Sym] // symbols may also have the values of expressions
	switch {
	case ok:
	case IsIdent(d.Sym):
		return 0, noValue(d.Sym)
	default:
		// The largest value of an expression is its value if each symbol has its value as bound.
		l, err := parseExtent(d.Sym, func(symbol string) (Dim, error) {
			bound, ok := symbols[symbol]
			if !ok {
				return Dim{}, noValue(symbol)
			}
			return Dim{Sym: symbol, Bound: bound, Mul: 1}, nil
		})
		if err != nil {
			return 0, err
		}
		v = l.max
	}
	if v < 0 || v > d.Bound {
		return 0, OutsideBound(d.Sym, v, 0, d.Bound)
	}
	return d.Mul*v + d.Add, nil
}

// noValue returns the error for a symbol without a value.
func noValue(symbol string) error {
	return fmt.Errorf("symbol %s has no value, because no axis of an input has this size: pass it by name (vkc run: "+
		"--symbol %[1]s=N)", symbol)
}

// String prints the dim as text IR and graph.json write it: 6, T, 4*T+1, S+T, 2*(S+T), B*(T+1), floor((T+1)/2).
func (d Dim) String() string {
	if d.IsStatic() {
		return strconv.FormatInt(d.Add, 10)
	}
	var b strings.Builder
	switch {
	case d.Mul == 1:
		b.WriteString(d.Sym)
	case isSum(d.Sym):
		fmt.Fprintf(&b, "%d*(%s)", d.Mul, d.Sym)
	default:
		fmt.Fprintf(&b, "%d*%s", d.Mul, d.Sym)
	}
	if d.Add != 0 {
		fmt.Fprintf(&b, "%+d", d.Add)
	}
	return b.String()
}

// ParseDim parses the output of String. bounds maps symbols to their bounds.
func ParseDim(s string, bounds map[string]int64) (Dim, error) {
	return ParseDimOf(s, func(symbol string) (Dim, error) {
		if bound, ok := bounds[symbol]; ok {
			return Dim{Sym: symbol, Bound: bound, Mul: 1}, nil
		}
		return Dim{}, fmt.Errorf("symbol %s is not declared", symbol)
	})
}

// ParseDimOf parses the output of String and substitutes a dim for each symbol.
func ParseDimOf(s string, of func(symbol string) (Dim, error)) (Dim, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return checkDim(Dim{Add: n})
	}
	l, err := parseExtent(s, of)
	if err != nil {
		return Dim{}, fmt.Errorf("dim %q: %w", clip(s), err)
	}
	d, err := l.dim()
	if err != nil {
		return Dim{}, fmt.Errorf("dim %q: %w", clip(s), err)
	}
	return checkDim(d)
}

// checkDim refuses dims that are negative or too large to compute with.
func checkDim(d Dim) (Dim, error) {
	switch {
	case d.Mul < 0 || d.Bound < 0 || d.Bound > maxElems || d.Mul > maxElems || d.Add > maxElems || d.Add < -maxElems:
		return Dim{}, fmt.Errorf("dim %s is out of range: the limit is %d", d, int64(maxElems))
	case d.IsStatic() && d.Add < 0:
		return Dim{}, fmt.Errorf("dim %s is negative", d)
	case d.Mul > 0 && d.Bound > (maxElems-max(d.Add, 0))/d.Mul:
		return Dim{}, fmt.Errorf("dim %s exceeds the limit of %d", d, int64(maxElems))
	}
	return d, nil
}

// IsIdent reports whether s can name a symbol: a letter or underscore, then
// letters, digits and underscores, at most 64 bytes.
func IsIdent(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i, r := range s {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return true
}

// Shape has the extent of each axis, outermost first; a scalar has none.
type Shape []Dim

// ShapeOf returns a static shape.
func ShapeOf(dims ...int) Shape {
	s := make(Shape, len(dims))
	for i, d := range dims {
		s[i] = D(d)
	}
	return s
}

// String prints the shape as text IR does: [6,4*T].
func (s Shape) String() string {
	parts := make([]string, len(s))
	for i, d := range s {
		parts[i] = d.String()
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// Equal reports whether two shapes are equal for all symbol values.
func (s Shape) Equal(o Shape) bool { return slices.Equal(s, o) }

// IsStatic reports whether no axis has a symbol.
func (s Shape) IsStatic() bool {
	for _, d := range s {
		if !d.IsStatic() {
			return false
		}
	}
	return true
}

// MaxElems returns the largest number of elements, for sizing buffers.
func (s Shape) MaxElems() int64 {
	n := int64(1)
	for _, d := range s {
		n *= d.Max()
	}
	return n
}

// Eval returns the concrete extents under the symbol values.
func (s Shape) Eval(symbols map[string]int64) ([]int, error) {
	out := make([]int, len(s))
	for i, d := range s {
		v, err := d.Eval(symbols)
		if err != nil {
			return nil, err
		}
		if v < 0 {
			return nil, fmt.Errorf("axis %d of %s is %d under these symbol values", i, s, v)
		}
		out[i] = int(v)
	}
	return out, nil
}

// Check refuses shapes over the limits of rank, extent and size.
func (s Shape) Check() error {
	if len(s) > MaxRank {
		return fmt.Errorf("rank %d is over the limit of %d", len(s), MaxRank)
	}
	n := int64(1)
	for _, d := range s {
		if _, err := checkDim(d); err != nil {
			return err
		}
		if m := d.Max(); m > 0 {
			if n > maxElems/m {
				return fmt.Errorf("shape %s can hold more than %d elements", s, int64(maxElems))
			}
			n *= m
		}
	}
	return nil
}

// Numel returns the number of elements as a dim.
func (s Shape) Numel() (Dim, error) {
	n := D(1)
	var err error
	for _, d := range s {
		if n, err = n.Mul2(d); err != nil {
			return Dim{}, err
		}
	}
	return n, nil
}

// Type is the element type and shape of a value.
type Type struct {
	DType DType
	Shape Shape
}

// String prints the type as text IR does: f32[6,4].
func (t Type) String() string { return t.DType.String() + t.Shape.String() }

// Equal reports whether two types are the same.
func (t Type) Equal(o Type) bool { return t.DType == o.DType && t.Shape.Equal(o.Shape) }

// MaxBytes returns the bytes of the value at the bound of every symbol.
func (t Type) MaxBytes() (int64, error) {
	dims := make([]int, len(t.Shape))
	for i, d := range t.Shape {
		dims[i] = int(d.Max())
	}
	return ByteSize(t.DType, dims)
}
