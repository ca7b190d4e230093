package chat

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// layout is a parsed format specification of Python's % operator or str.format, such as >10.3f.
type layout struct {
	fill      rune
	align     rune // <, >, ^, or = for a filling after the sign; 0 for the type's default
	sign      rune // +, - or a space
	alternate bool // 0x before the digits, and so on
	group     rune // separator between groups of digits; 0 for none
	width     int
	precision int // -1 if it is not given
	verb      rune
}

// maxWidth is the largest width and precision.
const maxWidth = 10_000

// readNumber parses the number at the beginning of s and returns it with the rest of s. Without digits it is 0.
func readNumber(s str) (n int, rest str) {
	for len(s) > 0 && unmarked(s[0]) >= '0' && unmarked(s[0]) <= '9' {
		n = 10*n + int(unmarked(s[0])-'0')
		s = s[1:]
		if n > maxWidth {
			fail("a width or precision of %d and more: want at most %d", n, maxWidth)
		}
	}
	return n, s
}

// parseLayout parses the format after the colon of a replacement field of str.format:
// [[fill]align][sign][#][0][width][,][.precision][type]. It fails for other formats.
func parseLayout(s str) layout {
	whole := s
	l := layout{fill: ' ', precision: -1}
	at := func(i int) rune {
		if i < len(s) {
			return unmarked(s[i])
		}
		return 0
	}
	is := func(c rune, set string) bool { return c != 0 && strings.ContainsRune(set, c) }
	filled := is(at(1), "<>^=")
	if filled {
		l.fill, l.align, s = s[0], at(1), s[2:]
	} else if is(at(0), "<>^=") {
		l.align, s = at(0), s[1:]
	}
	if is(at(0), "+- ") {
		l.sign, s = at(0), s[1:]
	}
	if is(at(0), "#") {
		l.alternate, s = true, s[1:]
	}
	if is(at(0), "0") {
		s = s[1:]
		if !filled {
			l.fill = '0'
		}
		if l.align == 0 {
			l.align = '0' // like =, but set by a zero before the width
		}
	}
	l.width, s = readNumber(s)
	if is(at(0), ",_") {
		l.group, s = at(0), s[1:]
	}
	if is(at(0), ".") {
		rest := s[1:]
		l.precision, s = readNumber(rest)
		if len(s) == len(rest) {
			fail("the format %q has no digits after the point", whole.String())
		}
	}
	if len(s) > 0 {
		l.verb, s = at(0), s[1:]
	}
	if len(s) > 0 {
		fail("the format %q is not one of Python's", whole.String())
	}
	return l
}

// formatted formats a value by a format specification, as str.format does in Python.
func (l layout) formatted(r *run, v value) str {
	v = withoutMarkup(v)
	_, isBool := v.(bool)
	switch s, isText := v.(str); {
	case isText && l.fitsText():
		return l.text(r, s)
	case l == (layout{fill: ' ', precision: -1}): // the empty specification
		return printed(r, v)
	case isBool && l.verb == 0: // only the empty specification prints True or False
		l.verb = 'd'
	}
	i, f, isInt, ok := number(v)
	if !ok {
		fail("a format of a %s: want a string or a number", describe(v))
	}
	hasNoGroups := strings.ContainsRune("cn", l.verb) || l.group == ',' && strings.ContainsRune("boxX", l.verb)
	if l.group != 0 && (l.fill == '0' || hasNoGroups) {
		fail("the format of a number has the separator %q, which is not allowed with leading zeros, and not with "+
			"every type such as %q",
			string(l.group), string(l.verb))
	}
	if l.verb == 'c' && l.sign != 0 {
		fail("the format c has a sign: want none")
	}
	if l.verb == 'n' { // d or g in the local language, which is none here
		l.verb = 'g'
		if isInt {
			l.verb = 'd'
		}
	}
	switch {
	case isInt && (l.verb == 0 || strings.ContainsRune("bcdoxX", l.verb)):
		if l.precision >= 0 {
			fail("the format of an integer has a precision: want one of a float, such as .2f")
		}
		return l.integer(r, i)
	case l.verb == 0 || strings.ContainsRune("eEfFgG%", l.verb):
		return l.float(r, f)
	}
	fail("the format %q of a %s: want b, c, d, o, x or X for an integer, e, f, g or %% for a number",
		string(l.verb), typeName(v))
	return nil
}

// fitsText reports whether the specification is one for strings: without parts that only numbers have.
func (l layout) fitsText() bool {
	ofNumbers := l.sign != 0 || l.align == '=' || l.alternate || l.group != 0
	return (l.verb == 0 || l.verb == 's') && !ofNumbers
}

// text formats a string.
func (l layout) text(r *run, s str) str {
	if l.precision >= 0 {
		s = s[:min(len(s), l.precision)]
	}
	if l.align == 0 || l.align == '0' {
		l.align = '<'
	}
	return l.pad(r, "", s)
}

// pad pads a sign and the digits or text s with l.fill to l.width, as l.align says.
func (l layout) pad(r *run, sign string, s str) str {
	n := max(0, l.width-len(sign)-len(s))
	before, between, after := 0, 0, 0
	switch l.align {
	case '<':
		after = n
	case '^':
		before, after = n/2, n-n/2
	case '=', '0':
		between = n
	default:
		before = n
	}
	fill := func(n int) str { return slices.Repeat(str{l.fill}, n) }
	return joined(r, []value{fill(before), text(sign), fill(between), s, fill(after)}, nil)
}

// signOf returns the sign to print for a number: "-" if it is negative, and otherwise "+", a space or nothing.
func (l layout) signOf(negative bool) string {
	switch {
	case negative:
		return "-"
	case l.sign == '+' || l.sign == ' ':
		return string(l.sign)
	}
	return ""
}

// integer formats an integer in the base of l.verb, or as a character for the verb c.
func (l layout) integer(r *run, i int) str {
	if l.verb == 'c' {
		if i < 0 || i > unicode.MaxRune {
			fail("the format c of %d: want the number of a character", i)
		}
		return l.text(r, str{rune(i)})
	}
	base := map[rune]int{'b': 2, 'o': 8, 'x': 16, 'X': 16}[l.verb]
	if base == 0 {
		base = 10
	}
	digits, negative := strings.CutPrefix(strconv.FormatInt(int64(i), base), "-")
	sign := l.signOf(negative)
	if l.alternate && base != 10 {
		sign += "0" + string(l.verb)
	}
	if l.verb == 'X' {
		digits = strings.ToUpper(digits)
	}
	size := 3 // digits in a group
	if base != 10 {
		size = 4
	}
	return l.pad(r, sign, text(l.grouped(digits, size)))
}

// grouped separates groups of size digits by the character l.group.
func (l layout) grouped(digits string, size int) string {
	if l.group == 0 {
		return digits
	}
	for at := len(digits) - size; at > 0; at -= size {
		digits = digits[:at] + string(l.group) + digits[at:]
	}
	return digits
}

// float formats a float. Without a verb and a precision it has the shortest digits that represent it.
func (l layout) float(r *run, f float64) str {
	if l.alternate {
		fail("the format of a float has a #, which is not supported")
	}
	precision, verb := l.precision, unicode.ToLower(l.verb)
	if precision < 0 {
		precision = 6
	}
	if verb == 'g' || verb == 0 {
		precision = max(precision, 1)
	}
	size := math.Abs(f)
	var digits string
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		digits = floatText(size, "inf", "nan")
	case verb == 'g':
		digits = strconv.FormatFloat(size, 'g', precision, 64)
	case verb == '%':
		digits = strconv.FormatFloat(size*100, 'f', precision, 64) + "%"
	case verb != 0:
		digits = strconv.FormatFloat(size, byte(verb), precision, 64)
	case l.precision < 0:
		digits = floatText(size, "inf", "nan")
	default:
		digits = general(size, precision)
	}
	if unicode.IsUpper(l.verb) {
		digits = strings.ToUpper(digits)
	}
	// Only the digits before the point are grouped.
	whole := strings.IndexFunc(digits, func(c rune) bool { return c < '0' || c > '9' })
	if whole < 0 {
		whole = len(digits)
	}
	return l.pad(r, l.signOf(math.Signbit(f) && !math.IsNaN(f)), text(l.grouped(digits[:whole], 3)+digits[whole:]))
}

// general formats a number that is not negative, with `precision` digits, like Python's format of floats without a
// letter. It differs from format g: a number without an exponent has a point.
func general(size float64, precision int) string {
	digits := strconv.FormatFloat(size, 'e', precision-1, 64)
	e := strings.IndexByte(digits, 'e') // where the exponent begins
	exp, _ := strconv.Atoi(digits[e+1:])
	point := strings.Contains(digits[:e], ".")
	if exp >= -4 && exp < max(precision-1, 0) {
		digits = strconv.FormatFloat(size, 'f', precision-1-exp, 64)
		e, point = len(digits), true
	}
	if !point {
		return digits
	}
	mantissa := strings.TrimRight(digits[:e], "0")
	if strings.HasSuffix(mantissa, ".") && e == len(digits) {
		mantissa += "0"
	}
	return strings.TrimSuffix(mantissa, ".") + digits[e:]
}

// format implements Python's operator % on a string.
func format(r *run, s str, v value) str {
	f := percentFormat{r: r, rest: s, value: v, values: []value{v}}
	l, isList := v.(*list)
	_, isDict := v.(*dict)
	isTuple := isList && l.kind == tuple
	if isTuple {
		f.values = l.items
	}
	w := writer{r: r}
	for len(f.rest) > 0 {
		if !f.skip("%") {
			w.add(f.rest[:1])
			f.rest = f.rest[1:]
			continue
		}
		if one := f.readConversion(); one.verb == '%' {
			w.write("%")
		} else {
			w.add(one.percent(r, one.value))
		}
	}
	mustUseAll := !f.named && (isTuple || !isList && !isDict)
	if mustUseAll && f.next < len(f.values) {
		fail("the format wants fewer values than there are")
	}
	return w.out
}

// percentFormat is the state of an operator % on a string.
type percentFormat struct {
	r      *run
	rest   str     // the part of the format that is not read yet
	value  value   // the right operand
	values []value // the values that conversions take in turn: the items of a tuple, or the right operand
	next   int     // the index of the next of values
	named  bool    // whether a conversion takes its value from a mapping by name
}

// conversion is a conversion of a percentFormat, such as %5d, and its value.
type conversion struct {
	layout
	value value // nil for %%
}

// skip skips the next character of the format if it is in the set, and reports whether it was.
func (f *percentFormat) skip(set string) bool {
	if len(f.rest) == 0 || !strings.ContainsRune(set, unmarked(f.rest[0])) {
		return false
	}
	f.rest = f.rest[1:]
	return true
}

// take returns the next value.
func (f *percentFormat) take() value {
	if f.next == len(f.values) {
		fail("the format wants more values than there are")
	}
	f.next++
	return f.values[f.next-1]
}

// readConversion reads a conversion after its %: (name), flags, width, precision and letter.
func (f *percentFormat) readConversion() conversion {
	item, named := f.namedValue()
	l := layout{fill: ' ', precision: -1}
	f.readFlags(&l)
	l.width = f.amount()
	if l.width < 0 { // from *
		l.align, l.width = '<', -l.width
	}
	if f.skip(".") {
		l.precision = max(0, f.amount())
	}
	for f.skip("hlL") { // sizes of C, which mean nothing
	}
	if len(f.rest) == 0 {
		fail("the format ends in %%: want a letter, such as s")
	}
	l.verb, f.rest = unmarked(f.rest[0]), f.rest[1:]
	switch {
	case l.verb == '%' && l != (layout{fill: ' ', precision: -1, verb: '%'}):
		fail("the format has a width or a flag between two %%: want %%%%")
	case l.verb != '%' && !named:
		item = f.take() // the next value, unless a name in parentheses has chosen one
	}
	return conversion{l, item}
}

// namedValue reads (name) and returns the item of the mapping with that name. named is false if there is no name.
func (f *percentFormat) namedValue() (item value, named bool) {
	if len(f.rest) == 0 || unmarked(f.rest[0]) != '(' {
		return nil, false
	}
	n := slices.IndexFunc(f.rest, func(c rune) bool { return unmarked(c) == ')' })
	d, ok := f.value.(*dict)
	if n < 0 || !ok {
		fail("the format has %%(name), and its value is a %s: want a mapping for %%(name)s", describe(f.value))
	}
	key := f.rest[1:n]
	if item, ok = d.get(f.r, key); !ok {
		fail("the format names the key %q, which is not in the mapping", key.String())
	}
	f.rest, f.named = f.rest[n+1:], true
	return item, true
}

// readFlags reads the flags of a conversion.
func (f *percentFormat) readFlags(l *layout) {
	for len(f.rest) > 0 {
		c := unmarked(f.rest[0])
		if !f.skip("#0- +") {
			return
		}
		switch {
		case c == '#':
			l.alternate = true
		case c == '-':
			l.align = '<'
		case c == '0' && l.align == 0:
			l.align = '0'
		case c == '+' || c == ' ' && l.sign == 0:
			l.sign = c
		}
	}
}

// amount reads a width or a precision: a number, or * for the next value.
func (f *percentFormat) amount() (n int) {
	if !f.skip("*") {
		n, f.rest = readNumber(f.rest)
		return n
	}
	n, ok := index(f.take())
	if !ok || n > maxWidth || n < -maxWidth {
		fail("a width or precision of the format: want an integer of at most %d", maxWidth)
	}
	return n
}

// percent formats a value by the conversion of Python's operator %: the letter l.verb.
func (l layout) percent(r *run, v value) str {
	if l.verb == 's' || l.verb == 'r' || l.verb == 'c' {
		s := printed(r, v)
		if l.verb == 'r' {
			s = repr(r, v)
		}
		if l.verb == 'c' {
			l.precision = -1
		}
		if i, isInt := index(v); l.verb == 'c' && isInt {
			s = layout{fill: ' ', precision: -1, verb: 'c'}.integer(r, i)
		} else if _, isText := withoutMarkup(v).(str); l.verb == 'c' && (!isText || len(s) != 1) {
			fail("the format %%c of a %s: want one character, or its number", describe(v))
		}
		// Texts are aligned to the right, and never filled with zeros.
		if l.align == 0 || l.align == '0' {
			l.align = '>'
		}
		return l.text(r, s)
	}
	if l.align == '0' {
		l.fill = '0'
	}
	i, f, isInt, ok := number(v)
	decimal := strings.ContainsRune("diu", l.verb)
	if ok && !isInt && decimal && math.Abs(f) < 1<<62 {
		i, isInt = int(f), true // %d of a float cuts the fraction off
	}
	switch {
	case isInt && (decimal || strings.ContainsRune("oxX", l.verb)):
		return l.percentInteger(r, i, decimal)
	case ok && strings.ContainsRune("eEfFgG", l.verb):
		return l.float(r, f)
	}
	fail("the format %%%c of a %s is not supported: want %%s, %%r or %%c, or %%d, %%i, %%u, %%o, %%x, %%e, %%f, %%g "+
		"of a number", l.verb, describe(v))
	return nil
}

// percentInteger formats an integer by the operator %. The precision is the minimum number of digits.
func (l layout) percentInteger(r *run, i int, decimal bool) str {
	if l.precision > 0 {
		inner := layout{fill: '0', align: '0', width: l.precision, precision: -1, verb: l.verb}
		sign := l.signOf(i < 0)
		if l.alternate && !decimal {
			sign += "0" + string(l.verb)
		}
		return l.pad(r, sign, inner.integer(r, max(i, -i)))
	}
	if decimal {
		l.verb = 'd' // %i and %u mean %d
	}
	return l.integer(r, i)
}

// braces implements Python's str.format.
func braces(r *run, s str, a args) value { f := formatter{r: r, args: a}; return f.replaced(s, 2) }

// formatter is the state of a call of str.format.
type formatter struct {
	r             *run
	args          args
	next          int  // the number of the next argument for {}
	byTurn, byNum bool // whether there were fields without a number, {}, and with one, {0}
}

// replaced replaces the fields in braces by their values. depth is the number of levels of braces that are allowed: the
// format of a field may have fields itself.
func (f *formatter) replaced(s str, depth int) str {
	w := writer{r: f.r}
	at := func(i int) rune {
		if i < len(s) {
			return unmarked(s[i])
		}
		return 0
	}
	for i := 0; i < len(s); i++ {
		c := at(i)
		if c != '{' && c != '}' {
			w.add(s[i : i+1])
			continue
		}
		if at(i+1) == c { // a doubled brace stands for one
			w.add(s[i : i+1])
			i++
			continue
		}
		if c == '}' {
			fail("a } of the format has no {: want }} for the character")
		}
		if depth == 0 {
			fail("the format nests its braces too deep: want two levels at most")
		}
		n, level := i+1, 1 // n becomes the position of the closing brace
		for ; n < len(s); n++ {
			if at(n) == '{' {
				level++
			} else if at(n) == '}' {
				level--
				if level == 0 {
					break
				}
			}
		}
		if n == len(s) {
			fail("a { of the format has no }")
		}
		w.add(f.field(s[i+1:n], depth))
		i = n
	}
	return w.out
}

// field formats a replacement field, name!conversion:layout, given without its braces.
func (f *formatter) field(s str, depth int) str {
	name, conversion, how := s, rune(0), str{}
	end := slices.IndexFunc(s, func(c rune) bool { return unmarked(c) == '!' || unmarked(c) == ':' })
	if end >= 0 {
		name, s = s[:end], s[end:]
	}
	v := f.value(name) // evaluated before the fields in the layout, as automatic numbering requires
	if end >= 0 {
		if unmarked(s[0]) == '!' {
			if len(s) < 2 || len(s) > 2 && unmarked(s[2]) != ':' {
				fail("the format's conversion %q: want !s or !r", s.String())
			}
			conversion, s = unmarked(s[1]), s[2:]
		}
		if len(s) > 0 {
			how = f.replaced(s[1:], depth-1)
		}
	}
	switch conversion {
	case 0:
	case 's':
		v = printed(f.r, v)
	case 'r':
		v = repr(f.r, v)
	default:
		fail("the format's conversion !%c: want !s or !r", conversion)
	}
	return parseLayout(how).formatted(f.r, v)
}

// value returns the value of a field's name: an argument, followed by attributes or items of it.
func (f *formatter) value(name str) value {
	end := slices.IndexFunc(name, func(c rune) bool { return unmarked(c) == '.' || unmarked(c) == '[' })
	if end < 0 {
		end = len(name)
	}
	key, rest := name[:end].String(), name[end:]
	at, err := strconv.Atoi(key)
	// A field without a name takes the next argument.
	if key == "" {
		at, err = f.next, nil
		f.next++
		f.byTurn = true
	} else if err == nil {
		f.byNum = true
	}
	if f.byTurn && f.byNum {
		fail("the format has {} and {0}: want numbers in all, or in none")
	}
	if err != nil {
		at = -1
	}
	v := f.args.need(at, key) // by position, or by name if at is -1
	for len(rest) > 0 {
		n := 1
		for n < len(rest) && !strings.ContainsRune(".[]", unmarked(rest[n])) {
			n++
		}
		part := rest[1:n]
		switch {
		case unmarked(rest[0]) == '.':
			v = attribute{constant{v}, part.String()}.eval(f.r, nil)
		case n == len(rest) || unmarked(rest[n]) != ']':
			fail("a [ of the format has no ]")
		default:
			n++
			var key value = part
			if i, err := strconv.Atoi(part.String()); err == nil {
				key = i
			}
			v = item{constant{v}, constant{key}}.eval(f.r, nil)
		}
		rest = rest[n:]
		if len(rest) > 0 && unmarked(rest[0]) != '.' && unmarked(rest[0]) != '[' {
			fail("the format names %q: want name.attribute or name[item]", name.String())
		}
	}
	return v
}
