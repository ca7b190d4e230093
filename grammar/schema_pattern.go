package grammar

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// pattern is a regular expression of ECMA-262 with flag u, as JSON Schema uses. It also accepts two unambiguous forms
// of older patterns: needless escapes, and brackets that stand for themselves.
type pattern struct {
	op       patternOp
	set      []span
	list     []*pattern
	min, max int // max is unbounded if negative
}

type patternOp uint8

const (
	patternSet    patternOp = iota // a character in set
	patternSeq                     // the elements of list in sequence
	patternAlt                     // one element of list
	patternRepeat                  // list[0], min to max times
	patternBegin                   // ^
	patternEnd                     // $
	patternAhead                   // what follows matches list[0]
	patternNot                     // what follows does not match list[0]
)

// patternReader parses a pattern.
type patternReader struct {
	source string
	at     int
	depth  int
	spend  func(int) bool
	err    error
}

// parsePattern parses a pattern. It calls spend with the work that its character sets cost.
func parsePattern(source string, spend func(int) bool) (*pattern, error) {
	r := &patternReader{source: source, spend: spend}
	p := r.alternatives()
	if r.err == nil && r.at < len(source) {
		r.fail("%q closes nothing", ")")
	}
	return p, r.err
}

// fail records an error at the current byte, unless there is one already, and skips the rest of the pattern.
func (r *patternReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("at byte %d: %s", r.at, fmt.Sprintf(format, args...))
	}
	r.at = len(r.source)
}

func (r *patternReader) rest() string { return r.source[r.at:] }

// skip skips a word. It returns false if the rest of the pattern does not begin with it.
func (r *patternReader) skip(word string) bool {
	if !strings.HasPrefix(r.rest(), word) {
		return false
	}
	r.at += len(word)
	return true
}

// alternatives reads patterns separated by |.
func (r *patternReader) alternatives() *pattern {
	var list []*pattern
	for {
		list = append(list, r.sequence())
		if !r.skip("|") {
			break
		}
	}
	if len(list) == 1 {
		return list[0]
	}
	return &pattern{op: patternAlt, list: list}
}

// sequence reads up to | or ).
func (r *patternReader) sequence() *pattern {
	p := &pattern{op: patternSeq}
	for r.at < len(r.source) && !strings.HasPrefix(r.rest(), "|") && !strings.HasPrefix(r.rest(), ")") {
		from := r.at
		x := r.term()
		low, high, ok := r.times()
		if ok && x.op >= patternBegin {
			r.at = from
			r.fail("%q may not be repeated", r.rest()[:1])
		}
		if ok {
			x = &pattern{op: patternRepeat, list: []*pattern{x}, min: low, max: high}
		}
		p.list = append(p.list, x)
	}
	return p
}

// times parses a repetition: * + ? {m} {m,} or {m,n}. high is -1 without a limit, and ok is false if there is no
// repetition. A following ? is ignored, because it affects the order of tries but not the set of matches.
func (r *patternReader) times() (low, high int, ok bool) {
	switch {
	case r.skip("*"):
		low, high = 0, -1
	case r.skip("+"):
		low, high = 1, -1
	case r.skip("?"):
		low, high = 0, 1
	default:
		body, _, closed := strings.Cut(r.rest(), "}")
		least, most, two := strings.Cut(strings.TrimPrefix(body, "{"), ",")
		if !closed || !strings.HasPrefix(body, "{") || !isDigits(least) || two && most != "" && !isDigits(most) {
			return 0, 0, false // { stands for itself
		}
		low, high = r.number(least), -1
		if !two {
			high = low
		} else if most != "" {
			high = r.number(most)
		}
		if high >= 0 && high < low {
			r.fail("%s}: want the smaller number first", body)
			return 0, 0, false
		}
		r.at = min(r.at+len(body)+1, len(r.source))
	}
	r.skip("?")
	return low, high, true
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// number reads the count of a repetition.
func (r *patternReader) number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n > maxNodes {
		r.fail("a repetition is %.20s: want 0 to %d", s, maxNodes)
	}
	return n
}

// term reads an atom, or ^ or $.
func (r *patternReader) term() *pattern {
	switch {
	case r.skip("^"):
		return &pattern{op: patternBegin}
	case r.skip("$"):
		return &pattern{op: patternEnd}
	case r.skip("("):
		return r.group()
	case r.skip("["):
		return &pattern{set: r.class()}
	case r.skip("."):
		return &pattern{set: invert(lineEnds)}
	}
	from := r.at
	if _, _, ok := r.times(); ok {
		r.at = from
		r.fail("%.1q has nothing before it to repeat: want an item before it", r.rest())
		return &pattern{}
	}
	return &pattern{set: r.char(false)}
}

// group reads a pattern in parentheses.
func (r *patternReader) group() *pattern {
	r.depth++
	if r.depth > maxNesting {
		r.fail("groups nest deeper than %d", maxNesting)
	}
	for _, mark := range []string{"?<=", "?<!"} {
		if strings.HasPrefix(r.rest(), mark) {
			r.fail("look-behind, (%s, is not supported: want classes, alternatives and repetitions", mark)
		}
	}
	ahead := patternSeq
	if r.skip("?=") {
		ahead = patternAhead
	} else if r.skip("?!") {
		ahead = patternNot
	} else if r.skip("?<") {
		name, _, closed := strings.Cut(r.rest(), ">")
		if !closed || name == "" {
			r.fail("(?<%.20s: want a name and >", name)
		}
		r.at = min(r.at+len(name)+1, len(r.source))
	} else if !r.skip("?:") && strings.HasPrefix(r.rest(), "?") {
		r.fail("(%.3s is not supported: want (, (?: or (?<NAME>", r.rest())
	}
	p := r.alternatives()
	if r.err == nil && !r.skip(")") {
		r.fail("a group does not end: want )")
	}
	r.depth--
	if ahead != patternSeq {
		return &pattern{op: ahead, list: []*pattern{p}}
	}
	return p
}

// class parses a class of characters after its [.
func (r *patternReader) class() []span {
	not := r.skip("^")
	var set []span
	for !r.skip("]") {
		if r.at == len(r.source) {
			r.fail("a class does not end: want ]")
			return nil
		}
		from := r.at
		low := r.char(true)
		if rest := r.rest(); len(rest) < 2 || rest[0] != '-' || rest[1] == ']' {
			set = append(set, low...)
			continue
		}
		r.at++
		high := r.char(true)
		single := func(list []span) bool { return len(list) == 1 && list[0].low == list[0].high }
		switch {
		case r.err != nil:
		case !single(low) || !single(high): // the - is not a range
			set = append(append(append(set, low...), high...), span{'-', '-'})
		case low[0].low > high[0].low:
			r.fail("the range %s is empty", r.source[from:r.at])
		default:
			set = append(set, span{low[0].low, high[0].low})
		}
	}
	set = invert(set)
	if !not {
		set = invert(set) // inverting twice joins overlapping ranges
	}
	r.spend(len(set))
	return set
}

// char reads a character or an escape, and returns the set that it stands for. inClass says that it is in a character
// class, where other escapes are allowed.
func (r *patternReader) char(inClass bool) []span {
	c, n := utf8.DecodeRuneInString(r.rest())
	from := r.at
	r.at += n
	if c != '\\' || n == 0 {
		return only(c)
	}
	c, n = utf8.DecodeRuneInString(r.rest())
	r.at += n
	refuse := func(format string, args ...any) []span {
		r.at = from
		r.fail(format, args...)
		return nil
	}
	switch {
	case n == 0:
		return refuse(`\ is the last character: want a character after it`)
	case c == 'b' && inClass:
		return only('\b')
	case c == 'b' || c == 'B' && !inClass:
		return refuse(`the word boundary \%c is not supported: name the allowed characters instead`, c)
	case c == 'k' || c >= '1' && c <= '9':
		return refuse(`the back reference \%c is not supported: write out the allowed texts instead`, c)
	case c == '0' && (r.rest() == "" || !isDigits(r.rest()[:1])):
		return only(0)
	case c == 'c' && r.rest() != "" && isLetter(r.rest()[0]):
		r.at++
		return only(rune(r.source[r.at-1]) % 32)
	case c == 'x':
		return r.hex(from, 2)
	case c == 'u' && r.skip("{"):
		digits, _, _ := strings.Cut(r.rest(), "}")
		set := r.hex(from, len(digits))
		r.skip("}")
		return set
	case c == 'u':
		return r.hex(from, 4)
	case c == 'p' || c == 'P':
		name, _, closed := strings.Cut(strings.TrimPrefix(r.rest(), "{"), "}")
		set, ok := property(name)
		if !closed || !strings.HasPrefix(r.rest(), "{") || !ok || !r.spend(len(set)) {
			return refuse(`\%c%.40s: want a property in braces, such as {L}, {Letter}, {Script=Greek} or {White_Space}`, c,
				r.rest())
		}
		r.at += len("{}") + len(name)
		if c == 'P' {
			return invert(set)
		}
		return set
	}
	if set, ok := escapes[c]; ok {
		return set
	}
	if c >= utf8.RuneSelf || isLetter(byte(c)) || isDigits(string(c)) || c == '_' {
		return refuse(`\%c is not known to ECMA-262`, c)
	}
	return only(c)
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func only(c rune) []span { return []span{{c, c}} }

// hex reads a character's code in the given number of hexadecimal digits. A high and a low half of a surrogate pair
// (\uD83D\uDE00) are one character. from is the position of the escape, for errors.
func (r *patternReader) hex(from, digits int) []span {
	read := func(n int) (rune, bool) {
		text := r.rest()[:min(n, len(r.rest()))]
		code, err := strconv.ParseUint(text, 16, 32)
		if err != nil || len(text) < n || code > utf8.MaxRune {
			return 0, false
		}
		r.at += n
		return rune(code), true
	}
	code, ok := read(digits)
	if ok && digits == 4 && code >= 0xD800 && code < 0xDC00 && r.skip(`\u`) {
		var low rune
		if low, ok = read(4); ok && low >= 0xDC00 && low < 0xE000 {
			return only((code-0xD800)<<10 + low - 0xDC00 + 0x10000)
		}
	}
	if !ok || !utf8.ValidRune(code) {
		r.at = from
		r.fail(`%.12s: want the number of a character: \xHH, \uHHHH or \u{H…}`, r.rest())
		return nil
	}
	return only(code)
}

// Classes of ECMA-262, 22.2.2.
var (
	lineEnds   = []span{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}
	digitClass = []span{{'0', '9'}}
	wordClass  = []span{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}
	spaceClass = []span{{'\t', '\r'}, {' ', ' '}, {0xA0, 0xA0}, {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
		{0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}}
)

// escapes maps the letters of escapes to their characters.
var escapes = map[rune][]span{
	'd': digitClass, 'D': invert(digitClass), 'w': wordClass, 'W': invert(wordClass), 's': spaceClass,
	'S': invert(spaceClass), 't': only('\t'), 'n': only('\n'), 'v': only('\v'), 'f': only('\f'), 'r': only('\r'),
}

// property returns the characters of a Unicode property as \p{…} names it.
func property(name string) (set []span, ok bool) {
	key, value, isPair := strings.Cut(name, "=")
	var tables []*unicode.RangeTable
	switch {
	case isPair && (key == "Script" || key == "sc"):
		tables = append(tables, unicode.Scripts[value])
	case isPair && key != "General_Category" && key != "gc":
		return nil, false
	case isPair:
		tables = append(tables, category(value))
	case name == "Any":
		return []span{{0, utf8.MaxRune}}, true
	case name == "ASCII":
		return []span{{0, utf8.RuneSelf - 1}}, true
	case name == "Assigned":
		set, ok := property("Cn")
		return invert(set), ok
	case name == "Alphabetic":
		tables = append(tables, unicode.L, unicode.Nl, unicode.Other_Alphabetic)
	case name == "Lowercase":
		tables = append(tables, unicode.Ll, unicode.Other_Lowercase)
	case name == "Uppercase":
		tables = append(tables, unicode.Lu, unicode.Other_Uppercase)
	case strings.HasPrefix(name, "Other_"): // auxiliary, for defining other properties
		return nil, false
	case unicode.Properties[name] != nil:
		tables = append(tables, unicode.Properties[name])
	default:
		tables = append(tables, category(name))
	}
	add := func(low, high, stride rune) {
		if stride == 1 {
			set = append(set, span{low, high})
			return
		}
		for c := low; c <= high; c += stride {
			set = append(set, span{c, c})
		}
	}
	for _, t := range tables {
		if t == nil {
			return nil, false
		}
		for _, r := range t.R16 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
		for _, r := range t.R32 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
	}
	// Inverting twice joins overlapping ranges.
	return invert(invert(set)), true
}

// category returns the characters of a general category, by its short or long name.
func category(name string) *unicode.RangeTable {
	if short, ok := unicode.CategoryAliases[name]; ok {
		name = short
	}
	return unicode.Categories[name]
}

// isPlain reports whether every alternative of a pattern has ^ only at its beginning and $ only at its end, and none
// has a look-ahead. The strings of searched are then exactly the strings that the pattern matches.
func (p *pattern) isPlain() bool {
	list := []*pattern{p}
	switch {
	case p.op == patternAlt:
		return !slices.ContainsFunc(p.list, func(x *pattern) bool { return !x.isPlain() })
	case p.op == patternSeq && len(p.list) == 1:
		return p.list[0].isPlain()
	case p.op == patternSeq:
		list = p.list
	}
	for len(list) > 0 && list[0].op == patternBegin {
		list = list[1:]
	}
	for len(list) > 0 && list[len(list)-1].op == patternEnd {
		list = list[:len(list)-1]
	}
	return !slices.ContainsFunc(list, (*pattern).asserts)
}

// asserts reports whether a pattern contains ^, $ or a look-ahead.
func (p *pattern) asserts() bool {
	return p.op >= patternBegin || slices.ContainsFunc(p.list, (*pattern).asserts)
}

// searched returns the expression of the strings in which p, which is plain, has a match. With begins the match must be
// at the beginning of the string, and with ends at the end.
func (s *schemas) searched(p *pattern, where string, begins, ends bool) *expr {
	list := []*pattern{p}
	switch {
	case p.op == patternAlt:
		e := alt()
		for _, x := range p.list {
			e.list = append(e.list, s.searched(x, where, begins, ends))
		}
		return e
	case p.op == patternSeq && len(p.list) == 1:
		return s.searched(p.list[0], where, begins, ends)
	case p.op == patternSeq:
		list = p.list
	}
	for len(list) > 0 && list[0].op == patternBegin {
		begins, list = true, list[1:]
	}
	for len(list) > 0 && list[len(list)-1].op == patternEnd {
		ends, list = true, list[:len(list)-1]
	}
	e := seq()
	if !begins {
		e.list = append(e.list, repeat(s.char(), 0, -1))
	}
	for _, x := range list {
		e.list = append(e.list, s.matched(x, where))
	}
	if !ends {
		e.list = append(e.list, repeat(s.char(), 0, -1))
	}
	return e
}

// matched returns the texts that match a part of a pattern, as encoded in a JSON string.
func (s *schemas) matched(p *pattern, where string) *expr {
	var list []*expr
	for _, x := range p.list {
		list = append(list, s.matched(x, where))
	}
	switch p.op {
	case patternSet:
		return inString(p.set)
	case patternSeq:
		return seq(list...)
	case patternAlt:
		return alt(list...)
	case patternRepeat:
		return repeat(list[0], p.min, p.max)
	}
	panic("grammar: isPlain allows no other pattern")
}

// inString returns an expression for one character of a set as it is written within a JSON string: control characters,
// quotation marks and backslashes are escaped.
func inString(list []span) *expr {
	var escaped []*expr
	mustEscape := []span{{0, ' ' - 1}, {'"', '"'}, {'\\', '\\'}}
	for _, s := range list {
		for c := s.low; c <= min(s.high, '\\'); c++ {
			if c < ' ' || c == '"' || c == '\\' {
				q := quote(string(c))
				escaped = append(escaped, text(q[1:len(q)-1]))
			}
		}
	}
	plain := set(invert(append(mustEscape, invert(list)...))...) // the set without mustEscape
	if escaped == nil {
		return plain
	}
	return alt(append(escaped, plain)...)
}
