package grammar

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// anyNumber is a JSON number, which readers can hold: an exponent has two digits at most.
func (s *schemas) anyNumber() *expr {
	return s.add("number", func() *expr {
		digits := repeat(set(span{'0', '9'}), 1, -1)
		exponent := seq(set(span{'E', 'E'}, span{'e', 'e'}), optional(set(span{'+', '+'}, span{'-', '-'})),
			repeat(set(span{'0', '9'}), 1, 2))
		return seq(optional(text("-")), wholeUp(), optional(seq(text("."), digits)), optional(exponent))
	})
}

// wholeUp is a whole number from 0 on.
func wholeUp() *expr {
	return alt(text("0"), seq(set(span{'1', '9'}), repeat(set(span{'0', '9'}), 0, -1)))
}

// maxDigits bounds the digits of a bound of numbers.
const maxDigits = 40

// wholeNumber reads a number without a fraction, such as 3, 3.0 or 3e2.
func wholeNumber(n json.Number) (*big.Int, bool) {
	if len(n) > maxDigits || strings.ContainsAny(string(n), "eE") {
		return nil, false
	}
	whole, fraction, _ := strings.Cut(string(n), ".")
	v, ok := new(big.Int).SetString(whole, 10)
	return v, ok && strings.Trim(fraction, "0") == ""
}

// larger returns the larger of two numbers, or with sign -1 the smaller.
func larger(a, b any, sign int) (any, error) {
	x, okX := a.(json.Number)
	y, okY := b.(json.Number)
	if okX && okY {
		p, okP := wholeNumber(x)
		q, okQ := wholeNumber(y)
		if okP && okQ {
			if p.Cmp(q)*sign >= 0 {
				return a, nil
			}
			return b, nil
		}
	}
	return nil, fmt.Errorf("the bounds %v and %v: want whole numbers", a, b)
}

// bound is an end of a range of numbers; nil is none.
type bound struct {
	at   *big.Int
	open bool // the number itself is not in the range
}

// bounds reads the ends of a range.
func (s *schemas) bounds(o *object, where string, sign int, names ...string) (b *bound) {
	for i, name := range names {
		if !o.has(name) {
			continue
		}
		n, _ := o.values[name].(json.Number)
		v, ok := wholeNumber(n)
		if !ok {
			s.fail(where, "%s is %v: want a whole number of at most %d digits", name, o.values[name], maxDigits)
			return nil
		}
		next := &bound{v, i == 1}
		if b == nil || next.at.Cmp(b.at)*sign > 0 || next.at.Cmp(b.at) == 0 && next.open {
			b = next
		}
	}
	return b
}

var one = big.NewInt(1)

func (s *schemas) number(o *object, where string, whole bool) *expr {
	low := s.bounds(o, where, 1, "minimum", "exclusiveMinimum")
	high := s.bounds(o, where, -1, "maximum", "exclusiveMaximum")
	if low == nil && high == nil {
		if !whole {
			return s.anyNumber()
		}
		return s.add("integer", func() *expr { return seq(optional(text("-")), wholeUp()) })
	}
	if whole {
		if low != nil && low.open {
			low = &bound{new(big.Int).Add(low.at, one), false}
		}
		if high != nil && high.open {
			high = &bound{new(big.Int).Sub(high.at, one), false}
		}
	}
	e := alt(magnitudes(low, high, whole))
	if low == nil || low.at.Sign() < 0 { // numbers below 0 are those above it, mirrored
		e.list = append(e.list, seq(text("-"), magnitudes(negative(high), negative(low), whole)))
	}
	return e
}

func negative(b *bound) *bound {
	if b == nil {
		return nil
	}
	return &bound{new(big.Int).Neg(b.at), b.open}
}

// magnitudes is the numbers of a range that are not below 0, without a sign.
func magnitudes(low, high *bound, whole bool) *expr {
	if low == nil || low.at.Sign() < 0 {
		low = &bound{at: new(big.Int)}
	}
	if high != nil && (high.at.Cmp(low.at) < 0 || high.at.Cmp(low.at) == 0 && (high.open || low.open)) {
		return alt()
	}
	digit := set(span{'0', '9'})
	fraction := seq(text("."), repeat(digit, 1, -1))
	if whole {
		fraction = alt()
	}
	e := alt()
	from := low.at
	if low.open { // the fraction has a digit that is not 0
		positive := seq(text("."), repeat(digit, 0, -1), set(span{'1', '9'}), repeat(digit, 0, -1))
		e.list = append(e.list, seq(text(low.at.String()), positive))
		from = new(big.Int).Add(from, one)
	}
	if high == nil {
		e.list = append(e.list, seq(wholeFrom(from), optional(fraction)))
		return e
	}
	if last := new(big.Int).Sub(high.at, one); from.Cmp(last) <= 0 {
		e.list = append(e.list, seq(wholeRange(from.String(), last.String()), optional(fraction)))
	}
	if !high.open {
		e.list = append(e.list, text(high.at.String()))
		if !whole {
			e.list = append(e.list, seq(text(high.at.String()+"."), repeat(text("0"), 1, -1)))
		}
	}
	return e
}

// wholeFrom is the whole numbers from one on.
func wholeFrom(low *big.Int) *expr {
	if low.Sign() == 0 {
		return wholeUp()
	}
	digits := low.String()
	longer := seq(set(span{'1', '9'}), repeat(set(span{'0', '9'}), len(digits), -1))
	return alt(wholeRange(digits, strings.Repeat("9", len(digits))), longer)
}

// wholeRange is the whole numbers from one to another.
func wholeRange(low, high string) *expr {
	e := alt()
	for n := len(low); n <= len(high); n++ {
		a, z := low, high
		if n > len(low) {
			a = "1" + strings.Repeat("0", n-1)
		}
		if n < len(high) {
			z = strings.Repeat("9", n)
		}
		e.list = append(e.list, digitRange(a, z))
	}
	return e
}

// digitRange is the digits from some to others of equal number.
func digitRange(low, high string) *expr {
	digit := func(a, z byte) *expr { return set(span{rune(a), rune(z)}) }
	switch n := len(low) - 1; {
	case n < 0:
		return seq()
	case low[0] == high[0]:
		return seq(text(low[:1]), digitRange(low[1:], high[1:]))
	default:
		e := alt(seq(text(low[:1]), digitRange(low[1:], strings.Repeat("9", n))),
			seq(text(high[:1]), digitRange(strings.Repeat("0", n), high[1:])))
		if low[0]+1 < high[0] {
			e.list = append(e.list, seq(digit(low[0]+1, high[0]-1), repeat(set(span{'0', '9'}), n, n)))
		}
		return e
	}
}

// formats are patterns of strings.
var formats = map[string]string{
	"date": date, "time": clock, "date-time": date + "T" + clock,
	"uuid": `[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`,
}

// Dates and times are RFC 3339's, without leap days and leap seconds.
const (
	date = `[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|` +
		`02-(0[1-9]|1[0-9]|2[0-8]))`
	clock = `([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])`
)

func (s *schemas) string(o *object, where string) *expr {
	low, high := s.count(o, "minLength", where, 0), s.count(o, "maxLength", where, -1)
	pattern, ok := o.values["pattern"].(string)
	if o.has("pattern") && !ok {
		return s.fail(where, "pattern: want a string")
	}
	if o.has("format") {
		name, _ := o.values["format"].(string)
		known, ok := formats[name]
		if !ok {
			return s.fail(where, "format %q is not supported: want date, time, date-time or uuid, or a pattern", name)
		}
		if o.has("pattern") {
			return s.fail(where, "format beside pattern is not supported: leave one out")
		}
		pattern = "^(" + known + ")$"
	}
	switch {
	case pattern == "" && low == 0 && high < 0:
		return s.anyString()
	case high >= 0 && low > high:
		return alt()
	case pattern == "":
		return seq(text(`"`), repeat(s.char(), low, high), text(`"`))
	case low > 0 || high >= 0:
		return s.fail(where, "minLength and maxLength beside a pattern or format are not supported: say the "+
			"length in it, as in ^[a-z]{1,8}$")
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return s.fail(where, "pattern: %v", err)
	}
	return seq(text(`"`), s.searched(re, where, false, false), text(`"`))
}

// searched is the strings in which a pattern is found, which begins or ends with them where it says so.
func (s *schemas) searched(re *syntax.Regexp, where string, begins, ends bool) *expr {
	switch re.Op {
	case syntax.OpCapture:
		return s.searched(re.Sub[0], where, begins, ends)
	case syntax.OpAlternate:
		e := alt()
		for _, x := range re.Sub {
			e.list = append(e.list, s.searched(x, where, begins, ends))
		}
		return e
	}
	list := []*syntax.Regexp{re}
	if re.Op == syntax.OpConcat {
		list = re.Sub
	}
	for len(list) > 0 && list[0].Op == syntax.OpBeginText {
		begins, list = true, list[1:]
	}
	for len(list) > 0 && list[len(list)-1].Op == syntax.OpEndText {
		ends, list = true, list[:len(list)-1]
	}
	e := seq()
	if !begins {
		e.list = append(e.list, repeat(s.char(), 0, -1))
	}
	for _, x := range list {
		e.list = append(e.list, s.pattern(x, where))
	}
	if !ends {
		e.list = append(e.list, repeat(s.char(), 0, -1))
	}
	return e
}

// pattern is the texts of a regular expression, as a JSON string has them.
func (s *schemas) pattern(re *syntax.Regexp, where string) *expr {
	sub := func() (list []*expr) {
		for _, x := range re.Sub {
			list = append(list, s.pattern(x, where))
		}
		return list
	}
	switch re.Op {
	case syntax.OpEmptyMatch:
		return seq()
	case syntax.OpNoMatch:
		return alt()
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return s.fail(where, "pattern: letters of either case, (?i), are not supported: want classes such as [Aa]")
		}
		q := quote(string(re.Rune))
		return text(q[1 : len(q)-1])
	case syntax.OpCharClass:
		var list []span
		for i := 0; i+1 < len(re.Rune); i += 2 {
			list = append(list, span{re.Rune[i], re.Rune[i+1]})
		}
		return inString(list)
	case syntax.OpAnyChar:
		return inString([]span{{0, utf8.MaxRune}})
	case syntax.OpAnyCharNotNL: // by ECMA-262, which JSON Schema follows
		return inString(invert([]span{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}))
	case syntax.OpCapture, syntax.OpConcat:
		return seq(sub()...)
	case syntax.OpAlternate:
		return alt(sub()...)
	case syntax.OpStar:
		return repeat(sub()[0], 0, -1)
	case syntax.OpPlus:
		return repeat(sub()[0], 1, -1)
	case syntax.OpQuest:
		return optional(sub()[0])
	case syntax.OpRepeat:
		return repeat(sub()[0], re.Min, re.Max)
	}
	return s.fail(where, "pattern: %v is not supported inside of a pattern", re)
}

// inString is a character of a set as a JSON string has it.
func inString(list []span) *expr {
	e := alt(set(invert(append(invert(list), span{0, ' ' - 1}, span{'"', '"'}, span{'\\', '\\'}))...))
	has := func(c rune) bool {
		return slices.ContainsFunc(list, func(s span) bool { return s.low <= c && c <= s.high })
	}
	for c := rune(0); c <= '\\'; c++ {
		if has(c) && (c < ' ' || c == '"' || c == '\\') {
			q := quote(string(c))
			e.list = append(e.list, text(q[1:len(q)-1]))
		}
	}
	return e
}
