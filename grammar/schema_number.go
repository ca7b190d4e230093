package grammar

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// digit matches a digit in a range, and digits a number of digits.
func digit(low, high byte) *expr   { return set(span{rune(low), rune(high)}) }
func digits(least, most int) *expr { return repeat(digit('0', '9'), least, most) }

// anyNumber returns the expression of a JSON number in the range that readers support: an exponent has at most two
// digits.
func (s *schemas) anyNumber() *expr {
	return s.add("number", func() *expr {
		sign := optional(set(span{'+', '+'}, span{'-', '-'}))
		exponent := seq(set(span{'E', 'E'}, span{'e', 'e'}), sign, digits(1, 2))
		return seq(optional(text("-")), anyWhole(), anyFraction(), optional(exponent))
	})
}

// anyWhole returns the expression of a whole number from 0 on.
func anyWhole() *expr { return alt(text("0"), seq(digit('1', '9'), digits(0, -1))) }

// anyFraction returns the expression of an optional fraction.
func anyFraction() *expr { return optional(seq(text("."), digits(1, -1))) }

// maxDigits limits the digits of a number in a schema, written without an exponent. The largest float64 has 309.
const maxDigits = 400

// decimal is a number: a sign, a nonnegative integer, and the digits of a fraction without trailing zeros. Zero has no
// sign.
type decimal struct {
	negative bool
	whole    *big.Int
	fraction string
}

// decimalOf returns the exact value of a JSON number. ok is false for another value, or for a number of too many
// digits.
func decimalOf(v any) (d decimal, ok bool) {
	n, ok := v.(json.Number)
	if !ok {
		return d, false
	}
	text, negative := strings.CutPrefix(string(n), "-")
	text, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	whole, fraction, _ := strings.Cut(text, ".")
	shift := 0 // the exponent: digits to move the point to the right
	if exponent != "" {
		var err error
		if shift, err = strconv.Atoi(exponent); err != nil {
			return d, false
		}
	}
	if len(text) > maxDigits || shift > maxDigits || shift < -maxDigits {
		return d, false
	}
	if shift > 0 {
		fraction += strings.Repeat("0", max(shift-len(fraction), 0))
		whole, fraction = whole+fraction[:shift], fraction[shift:]
	} else {
		whole = strings.Repeat("0", max(-shift-len(whole), 0)) + whole
		whole, fraction = whole[:len(whole)+shift], whole[len(whole)+shift:]+fraction
	}
	d.fraction = strings.TrimRight(fraction, "0")
	d.whole, ok = new(big.Int).SetString("0"+whole, 10)
	d.negative = negative && (d.whole.Sign() != 0 || d.fraction != "")
	return d, ok && len(whole) <= maxDigits && len(d.fraction) <= maxDigits
}

// compare returns -1, 0 or 1 if d is less than, equal to or greater than o.
func (d decimal) compare(o decimal) int {
	if d.negative != o.negative {
		if d.negative {
			return -1
		}
		return 1
	}
	c := cmp.Or(d.whole.Cmp(o.whole), strings.Compare(d.fraction, o.fraction))
	if d.negative {
		return -c
	}
	return c
}

// wholeNumber reads an integer, such as 3, 3.0 or 3e2.
func wholeNumber(v any) (n *big.Int, ok bool) {
	d, ok := decimalOf(v)
	if !ok || d.fraction != "" {
		return nil, false
	}
	if d.negative {
		d.whole.Neg(d.whole)
	}
	return d.whole, true
}

// larger returns the larger of two numbers, or with sign -1 the smaller.
func larger(a, b any, sign int) (any, error) {
	x, okX := decimalOf(a)
	y, okY := decimalOf(b)
	switch {
	case !okX || !okY:
		return nil, fmt.Errorf("the bounds %v and %v: want numbers of at most %d digits", a, b, maxDigits)
	case x.compare(y)*sign >= 0:
		return a, nil
	}
	return b, nil
}

// bound is an end of a range of numbers; nil means no bound.
type bound struct {
	decimal
	open bool // whether the range excludes the number itself
}

// The ends of a range of numbers. A number inside is beyond a bound in the direction of the sign.
const lowEnd, highEnd = 1, -1

// bounds reads one end of a range of numbers from two keywords: names[0] is an inclusive bound, such as minimum, and
// names[1] an exclusive one. It returns the tighter bound, or nil if there is none.
func (s *schemas) bounds(o *object, where string, end int, names ...string) (b *bound) {
	for i, name := range names {
		if !o.has(name) {
			continue
		}
		at, ok := decimalOf(o.values[name])
		if !ok {
			s.fail(where, "%s is %.40v: want a number of at most %d digits", name, o.values[name], maxDigits)
			return nil
		}
		if b == nil || at.compare(b.decimal)*end >= 0 {
			b = &bound{at, i == 1}
		}
	}
	return b
}

// mirrored returns the bound of the numbers with the other sign.
func (b *bound) mirrored() *bound {
	if b == nil {
		return nil
	}
	m := *b
	m.negative = !b.negative && (b.whole.Sign() != 0 || b.fraction != "")
	return &m
}

var one = big.NewInt(1)

// toWhole returns the smallest integer of the range above a lower bound, or the largest one below an upper bound, as an
// inclusive bound.
func (b *bound) toWhole(end int) *bound {
	if b == nil {
		return nil
	}
	floor, ceil := new(big.Int).Set(b.whole), new(big.Int).Set(b.whole)
	if b.fraction != "" {
		ceil.Add(ceil, one)
	}
	// The magnitude's floor is the number's ceiling.
	if b.negative {
		floor, ceil = ceil.Neg(ceil), floor.Neg(floor)
	}
	at := floor
	switch {
	case end == lowEnd && b.open:
		at.Add(floor, one)
	case end == lowEnd:
		at = ceil
	case b.open:
		at = ceil.Sub(ceil, one)
	}
	return &bound{decimal: decimal{at.Sign() < 0, new(big.Int).Abs(at), ""}}
}

// number returns the expression of the numbers that a schema allows. With whole they are integers.
func (s *schemas) number(o *object, where string, whole bool) *expr {
	low := s.bounds(o, where, lowEnd, "minimum", "exclusiveMinimum")
	high := s.bounds(o, where, highEnd, "maximum", "exclusiveMaximum")
	for _, name := range textsOf(o.values["format"]) {
		if ends, ok := numberFormats[name]; ok && whole {
			low, high = tighter(low, ends[0], lowEnd), tighter(high, ends[1], highEnd)
		}
	}
	if o.has("multipleOf") {
		step := powerOfTen(o.values["multipleOf"])
		switch {
		case step == nil:
			s.leave(where, "multipleOf", " unless it is a power of ten")
		case step.whole.Sign() > 0: // 1 or more
			return s.multiples(low.toWhole(lowEnd), high.toWhole(highEnd), len(step.whole.String())-1)
		case !whole:
			return signed(low, high, len(step.fraction))
		}
	}
	if low == nil && high == nil {
		if !whole {
			return s.anyNumber()
		}
		return s.add("integer", func() *expr { return seq(optional(text("-")), anyWhole()) })
	}
	if whole {
		return signed(low.toWhole(lowEnd), high.toWhole(highEnd), 0)
	}
	return signed(low, high, anyPlaces)
}

// powerOfTen returns a number if it is a power of ten, and else nil.
func powerOfTen(v any) *decimal {
	d, ok := decimalOf(v)
	if !ok || d.negative || d.whole.Sign() > 0 && d.fraction != "" {
		return nil
	}
	if strings.Trim(d.whole.String()+d.fraction, "0") != "1" { // its digits without the zeros around them
		return nil
	}
	return &d
}

// tighter returns the tighter of a bound and a number, for one end of a range.
func tighter(b *bound, n json.Number, end int) *bound {
	d, _ := decimalOf(n)
	if b == nil || d.compare(b.decimal)*end > 0 {
		return &bound{d, false}
	}
	return b
}

// multiples matches the integers from low to high, a bound of nil being infinite, that end with at least the given
// number of zeros. It divides the bounds by 10^zeros, matches the integers between them, and appends the zeros.
func (s *schemas) multiples(low, high *bound, zeros int) *expr {
	if zeros == 0 {
		return signed(low, high, 0)
	}
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(zeros)), nil)
	// divided rounds into the range: a lower bound up, and an upper bound down.
	divided := func(b *bound, up bool) *bound {
		if b == nil {
			return nil
		}
		n, rest := new(big.Int).QuoRem(b.whole, scale, new(big.Int))
		awayFromZero := up && !b.negative || !up && b.negative
		if awayFromZero && rest.Sign() != 0 {
			n.Add(n, one)
		}
		return &bound{decimal: decimal{b.negative && n.Sign() > 0, n, ""}}
	}
	low, high = divided(low, true), divided(high, false)
	e := alt()
	// addSign adds the numbers with a sign, from magnitude least (at least 1) to most, with the zeros after them.
	addSign := func(sign string, least, most *bound) {
		if least == nil || least.negative || least.whole.Sign() == 0 {
			least = &bound{decimal: decimal{whole: big.NewInt(1)}}
		}
		e.list = append(e.list, seq(text(sign), magnitudes(least, most, 0), text(strings.Repeat("0", zeros))))
	}
	hasNegatives := low == nil || low.negative
	onlyNegatives := high != nil && high.negative
	if !onlyNegatives {
		addSign("", low, high)
		if hasNegatives || low.whole.Sign() == 0 {
			e.list = append(e.list, text("0")) // 0 has no zeros after it
		}
	}
	switch {
	case onlyNegatives:
		addSign("-", high.mirrored(), low.mirrored())
	case hasNegatives:
		addSign("-", nil, low.mirrored())
	}
	return e
}

const anyPlaces = -1 // a fraction may have any number of digits

// signed matches the numbers of a range. places is the largest number of digits of a fraction, or anyPlaces.
func signed(low, high *bound, places int) *expr {
	e := alt(magnitudes(low, high, places))
	if low == nil || low.negative { // mirror numbers below 0 to those above
		e.list = append(e.list, seq(text("-"), magnitudes(high.mirrored(), low.mirrored(), places)))
	}
	return e
}

// magnitudes matches the nonnegative numbers from low to high, without a sign. places is the maximum number of digits
// of a fraction, or anyPlaces. It is 0 for integers, and the bounds are then inclusive integers. Otherwise the
// alternatives are numbers with the whole part of low, numbers with the whole part of high, and numbers with a whole
// part between.
func magnitudes(low, high *bound, places int) *expr {
	if low == nil || low.negative {
		low = &bound{decimal: decimal{whole: new(big.Int)}}
	}
	if high != nil {
		if c := high.compare(low.decimal); c < 0 || c == 0 && (high.open || low.open) {
			return alt()
		}
	}
	from, whole := low.whole, places == 0
	e, fraction := alt(), seq()
	if !whole {
		fraction = optional(seq(text("."), digits(1, places)))
		if high != nil && from.Cmp(high.whole) == 0 {
			return seq(text(from.String()), between(low.fraction, high.fraction, low.open, high.open, places).expr())
		}
		e.list = append(e.list, seq(text(from.String()), atLeast(low.fraction, low.open, places).expr()))
		from = new(big.Int).Add(from, one)
	}
	if high == nil {
		e.list = append(e.list, seq(wholeFrom(from), fraction))
		return e
	}
	last := high.whole
	if !whole {
		e.list = append(e.list, seq(text(last.String()), atMost(high.fraction, high.open, places).expr()))
		last = new(big.Int).Sub(last, one)
	}
	if from.Cmp(last) <= 0 {
		e.list = append(e.list, seq(wholeRange(from.String(), last.String()), fraction))
	}
	return e
}

// fraction is a set of fractions: possibly the empty one, and others.
type fraction struct {
	none bool
	some *expr
}

// expr matches the fraction after an integer.
func (f fraction) expr() *expr {
	e := alt(seq(text("."), f.some))
	if f.none {
		e.list = append(e.list, seq())
	}
	return e
}

// digits matches the digits of a fraction, without its point.
func (f fraction) digits() *expr {
	if f.none {
		return alt(seq(), f.some)
	}
	return f.some
}

// rest returns the largest number of digits after one digit. places is the largest number of digits. If it is negative,
// there may be any number of digits; the functions below use it in the same way.
func rest(places int) int {
	if places > 0 {
		return places - 1
	}
	return places
}

// more matches at most places digits: one from low to high, and then any digits.
func more(low, high byte, places int) *expr {
	if places == 0 || low > high {
		return alt()
	}
	return seq(digit(low, high), digits(0, rest(places)))
}

// atLeast returns the set of fractions of at most places digits (-1 for any) that are at least low, or above it if
// open. low has the digits after the point.
func atLeast(low string, open bool, places int) fraction {
	switch {
	case places == 0:
		return fraction{low == "" && !open, alt()}
	case low == "" && open:
		if places < 0 {
			return fraction{false, seq(repeat(text("0"), 0, -1), digit('1', '9'), digits(0, -1))}
		}
		e := alt()
		for n := range places {
			e.list = append(e.list, seq(text(strings.Repeat("0", n)), more('1', '9', places-n)))
		}
		return fraction{false, e}
	case low == "":
		return fraction{true, digits(1, places)}
	}
	return fraction{false, alt(seq(text(low[:1]), atLeast(low[1:], open, rest(places)).digits()),
		more(low[0]+1, '9', places))}
}

// atMost returns the set of fractions of at most places digits (-1 for any) that are at most high, or below it if open.
// high has the digits after the point.
func atMost(high string, open bool, places int) fraction {
	switch {
	case places == 0:
		return fraction{high != "" || !open, alt()}
	case high == "" && open:
		return fraction{false, alt()}
	case high == "":
		return fraction{true, repeat(text("0"), 1, places)}
	}
	return fraction{true, alt(seq(text(high[:1]), atMost(high[1:], open, rest(places)).digits()),
		more('0', high[0]-1, places))}
}

// between returns the set of fractions of up to `places` digits from low to high, without low if lowOpen and without
// high if highOpen is set. high is not below low.
func between(low, high string, lowOpen, highOpen bool, places int) fraction {
	switch {
	case high == "" || low == "" && !lowOpen: // no fraction is below the empty one
		return atMost(high, highOpen, places)
	case places == 0:
		return fraction{false, alt()}
	case low == "":
		low = "0"
	}
	a, z := low[0], high[0]
	if a == z {
		return fraction{false, seq(text(low[:1]),
			between(low[1:], high[1:], lowOpen, highOpen, rest(places)).digits())}
	}
	return fraction{false, alt(seq(text(low[:1]), atLeast(low[1:], lowOpen, rest(places)).digits()),
		seq(text(high[:1]), atMost(high[1:], highOpen, rest(places)).digits()), more(a+1, z-1, places))}
}

// wholeFrom returns the expression of the whole numbers from low on.
func wholeFrom(low *big.Int) *expr {
	if low.Sign() == 0 {
		return anyWhole()
	}
	n := len(low.String())
	return alt(digitRange(low.String(), strings.Repeat("9", n)), seq(digit('1', '9'), digits(n, -1)))
}

// wholeRange matches the integers from low to high. high is not below low.
func wholeRange(low, high string) *expr {
	if len(low) == len(high) {
		return digitRange(low, high)
	}
	e := alt(digitRange(low, strings.Repeat("9", len(low))), digitRange("1"+strings.Repeat("0", len(high)-1), high))
	if len(high)-len(low) > 1 {
		e.list = append(e.list, seq(digit('1', '9'), digits(len(low), len(high)-2)))
	}
	return e
}

// digitRange matches the digit strings from low to high, of equal length. Digits after which any digits may follow are
// merged into one range, so each position has at most two separate ends.
func digitRange(low, high string) *expr {
	n := len(low) - 1
	switch {
	case n < 0:
		return seq()
	case low[0] == high[0]:
		return seq(text(low[:1]), digitRange(low[1:], high[1:]))
	}
	e, a, z := alt(), low[0], high[0]
	if zeros := strings.Repeat("0", n); low[1:] != zeros {
		e.list = append(e.list, seq(text(low[:1]), digitRange(low[1:], strings.Repeat("9", n))))
		a++
	}
	if nines := strings.Repeat("9", n); high[1:] != nines {
		e.list = append(e.list, seq(text(high[:1]), digitRange(strings.Repeat("0", n), high[1:])))
		z--
	}
	if a <= z {
		e.list = append(e.list, seq(digit(a, z), digits(n, n)))
	}
	return e
}
