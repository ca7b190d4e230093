package tokenizer

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vkc-go/vkc/internal/bailout"
)

// node is a part of a parsed regular expression.
type node struct {
	kind nodeKind
	subs []*node
	set  *charSet

	least, most      int // of nodeRepeat; most is negative for no limit
	lazy, possessive bool
	negative, behind bool // of nodeLook
	assert           func(text string, at int) bool
}

type nodeKind uint8

const (
	nodeSequence nodeKind = iota
	nodeChoice
	nodeSet
	nodeRepeat
	nodeLook
	nodeAssert
)

// patternParser parses a pattern.
type patternParser struct {
	rest    string
	fold    bool // (?i)
	all     bool // (?m): a dot matches line ends
	nesting int
}

// parsePattern parses a pattern. Whatever this package does not know is an error that names it.
func parsePattern(source string) (n *node, err error) {
	defer bailout.Caught(&err)
	p := &patternParser{rest: source}
	n = p.choice()
	bailout.Unless(p.rest == "", "there is a ) too much before %q", p.rest)
	return n, nil
}

// next takes a character.
func (p *patternParser) next() rune {
	bailout.Unless(p.rest != "", "it ends too early")
	r, n := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[n:]
	return r
}

// take takes a text, if it is next.
func (p *patternParser) take(s string) bool {
	rest, ok := strings.CutPrefix(p.rest, s)
	p.rest = rest
	return ok
}

// choice parses alternatives, up to a closing parenthesis or the end.
func (p *patternParser) choice() *node {
	p.nesting++
	bailout.Unless(p.nesting <= maxNesting, "its groups are nested deeper than %d", maxNesting)
	fold, all := p.fold, p.all // options such as (?i) end with the group
	n := &node{kind: nodeChoice, subs: []*node{p.sequence()}}
	for p.take("|") {
		n.subs = append(n.subs, p.sequence())
	}
	p.fold, p.all = fold, all
	p.nesting--
	if len(n.subs) == 1 {
		return n.subs[0]
	}
	return n
}

// sequence parses repeated parts, one after the other.
func (p *patternParser) sequence() *node {
	n := &node{kind: nodeSequence}
	for p.rest != "" && p.rest[0] != '|' && p.rest[0] != ')' {
		if sub := p.part(); sub != nil {
			n.subs = append(n.subs, p.repeated(sub))
		}
	}
	if len(n.subs) == 1 {
		return n.subs[0]
	}
	return n
}

// repeated parses the repetitions after a part, such as * or {2,3}?, and returns the part with them.
func (p *patternParser) repeated(sub *node) *node {
	for {
		n := &node{kind: nodeRepeat, subs: []*node{sub}}
		counted := false
		switch {
		case p.take("*"):
			n.most = -1
		case p.take("+"):
			n.least, n.most = 1, -1
		case p.take("?"):
			n.most = 1
		case p.count(n):
			counted = true
		default:
			return sub
		}
		switch {
		case p.take("?"):
			n.lazy = true
		case !counted && p.take("+"): // {1,2}+ is a repeated repetition
			bailout.Unless(sub.kind == nodeSet, "possessive repetition is supported after one character or set alone")
			n.possessive = true
		}
		sub = n
	}
}

// count parses {n}, {n,}, {n,m} or {,m} into n, and reports whether the rest begins with one.
func (p *patternParser) count(n *node) bool {
	body, after, ok := strings.Cut(p.rest, "}")
	body, begins := strings.CutPrefix(body, "{")
	if !ok || !begins {
		return false
	}
	low, high, pair := strings.Cut(body, ",")
	parse := func(s string, missing int) (int, bool) {
		if s == "" {
			return missing, true
		}
		v, err := strconv.ParseUint(s, 10, 31)
		return int(v), err == nil
	}
	least, ok1 := parse(low, 0)
	most, ok2 := parse(high, -1)
	if !ok1 || !ok2 || low == "" && high == "" {
		return false // the braces stand for themselves
	}
	if !pair {
		most = least
	}
	bailout.Unless(least <= maxRepeat && most <= maxRepeat && (most < 0 || most >= least),
		"the count {%s} is not supported: want at most %d", body, maxRepeat)
	n.least, n.most, p.rest = least, most, after
	return true
}

// part parses a group, a set, a character or an assertion. It returns nil for options alone, such as (?i).
func (p *patternParser) part() *node {
	switch r := p.next(); r {
	case '(':
		return p.group()
	case '[':
		return p.setNode(p.class())
	case '.':
		all := p.all
		return p.setNode(func(r rune) bool { return all || r != '\n' })
	case '^':
		return &node{kind: nodeAssert, assert: func(t string, at int) bool { return at == 0 || t[at-1] == '\n' }}
	case '$':
		return &node{kind: nodeAssert, assert: func(t string, at int) bool { return at == len(t) || t[at] == '\n' }}
	case '\\':
		return p.escape()
	case '*', '+', '?':
		bailout.Unless(false, "nothing is before %c%s", r, p.rest)
		return nil
	default:
		return p.setNode(func(c rune) bool { return c == r })
	}
}

// setNode returns the node of one character of a set.
func (p *patternParser) setNode(in func(r rune) bool) *node {
	if p.fold {
		in = folded(in)
	}
	return &node{kind: nodeSet, set: newCharSet(in)}
}

// folded returns the set of all characters that are in a set in any case, upper or lower.
func folded(in func(r rune) bool) func(r rune) bool {
	return func(r rune) bool {
		if in(r) {
			return true
		}
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			if in(f) {
				return true
			}
		}
		return false
	}
}

// group parses a group after its opening parenthesis.
func (p *patternParser) group() *node {
	n := &node{kind: nodeSequence}
	switch {
	case p.take("?:"):
	case p.take("?="):
		n.kind = nodeLook
	case p.take("?!"):
		n.kind, n.negative = nodeLook, true
	case p.take("?<="):
		n.kind, n.behind = nodeLook, true
	case p.take("?<!"):
		n.kind, n.behind, n.negative = nodeLook, true, true
	case p.take("?#"):
		_, after, ok := strings.Cut(p.rest, ")")
		bailout.Unless(ok, "a comment has no end")
		p.rest = after
		return nil
	case strings.HasPrefix(p.rest, "?<"): // a name, which changes nothing
		_, after, ok := strings.Cut(p.rest, ">")
		bailout.Unless(ok, "the name of a group has no end: %q", p.rest)
		p.rest = after
	case p.take("?"):
		return p.options()
	}
	sub := p.choice()
	bailout.Unless(p.take(")"), "a group has no end")
	bailout.Unless(!n.behind || sub.kind == nodeSet, "looking behind is supported for one character or set alone")
	n.subs = []*node{sub}
	if n.kind == nodeSequence {
		return sub
	}
	return n
}

// options parses (?i:...) or (?i), after the question mark.
func (p *patternParser) options() *node {
	fold, all, on := p.fold, p.all, true
	for {
		switch r := p.next(); r {
		case 'i':
			p.fold = on
		case 'm', 's': // a dot matches line ends: m in Oniguruma's syntax, s in others
			p.all = on
		case 'u': // Unicode's classes, which are used anyway
		case '-':
			on = false
		case ')': // the options of the rest of the group
			return nil
		case ':':
			sub := p.choice()
			bailout.Unless(p.take(")"), "a group has no end")
			p.fold, p.all = fold, all
			return sub
		default:
			bailout.Unless(false, "the group (?%c%s is not supported", r, p.rest)
		}
	}
}

// escape parses an escape outside of a set, after its backslash.
func (p *patternParser) escape() *node {
	// word reports whether word characters are before and after a position.
	word := func(text string, at int) (before, after bool) {
		if r, n := utf8.DecodeLastRuneInString(text[:at]); n > 0 {
			before = isPatternWord(r)
		}
		if r, n := utf8.DecodeRuneInString(text[at:]); n > 0 {
			after = isPatternWord(r)
		}
		return before, after
	}
	assert := func(f func(text string, at int) bool) *node { return &node{kind: nodeAssert, assert: f} }
	switch {
	case p.take("b"):
		return assert(func(t string, at int) bool { before, after := word(t, at); return before != after })
	case p.take("B"):
		return assert(func(t string, at int) bool { before, after := word(t, at); return before == after })
	case p.take("A"):
		return assert(func(_ string, at int) bool { return at == 0 })
	case p.take("z"):
		return assert(func(t string, at int) bool { return at == len(t) })
	case p.take("Z"):
		return assert(func(t string, at int) bool { return t[at:] == "" || t[at:] == "\n" })
	case p.take("R"):
		one := func(s ...rune) *node {
			return p.setNode(func(r rune) bool { return strings.ContainsRune(string(s), r) })
		}
		return &node{kind: nodeChoice, subs: []*node{{kind: nodeSequence, subs: []*node{one('\r'), one('\n')}},
			// The last three are the next line, the line separator and the paragraph separator.
			one('\n', '\v', '\f', '\r', 0x85, 0x2028, 0x2029)}}
	}
	return p.setNode(p.escapedSet())
}

// isPatternWord reports whether \w of a pattern matches a character. Oniguruma counts all numbers, such as ².
func isPatternWord(r rune) bool { return isWord(r) || unicode.Is(unicode.No, r) }

// isWord reports whether a character is part of a word where no pattern says so, as in Rust's \w.
func isWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic)
}

// escapedSet parses an escape in a set or outside, after its backslash: a character or a class of characters.
func (p *patternParser) escapedSet() func(r rune) bool {
	not := func(in func(r rune) bool) func(r rune) bool { return func(r rune) bool { return !in(r) } }
	isDigit := func(r rune) bool { return unicode.Is(unicode.Nd, r) }
	isHex := func(r rune) bool { return strings.ContainsRune("0123456789abcdefABCDEF", r) }
	switch r := p.next(); r {
	case 's':
		return unicode.IsSpace
	case 'S':
		return not(unicode.IsSpace)
	case 'd':
		return isDigit
	case 'D':
		return not(isDigit)
	case 'w':
		return isPatternWord
	case 'W':
		return not(isPatternWord)
	case 'h':
		return isHex
	case 'H':
		return not(isHex)
	case 'p', 'P':
		in := p.property()
		if r == 'P' {
			return not(in)
		}
		return in
	default:
		c := p.escapedRune(r)
		return func(r rune) bool { return r == c }
	}
}

// escapedRune returns the character of an escape that begins with r.
func (p *patternParser) escapedRune(r rune) rune {
	hex := func(digits string) rune {
		v, err := strconv.ParseUint(digits, 16, 32)
		bailout.Unless(err == nil && v <= unicode.MaxRune, "the character %q is not supported", digits)
		return rune(v)
	}
	digits := func(n int) rune {
		bailout.Unless(len(p.rest) >= n, "it ends inside a character's number")
		text := p.rest[:n]
		p.rest = p.rest[n:]
		return hex(text)
	}
	const controls = "tnrfvae0" // in the order of the characters in the next string
	if i := strings.IndexRune(controls, r); i >= 0 {
		return rune("\t\n\r\f\v\a\x1b\x00"[i])
	}
	switch {
	case (r == 'x' || r == 'u') && p.take("{"):
		text, after, ok := strings.Cut(p.rest, "}")
		bailout.Unless(ok, "a character's number has no end")
		p.rest = after
		return hex(text)
	case r == 'x':
		return digits(2)
	case r == 'u':
		return digits(4)
	}
	bailout.Unless(r >= utf8.RuneSelf || !unicode.In(r, unicode.L, unicode.N), `\%c is not supported`, r)
	return r
}

// property parses the name of a property after \p, such as {L}, {^L} (its complement), {Script=Han} or L, and returns
// its set.
func (p *patternParser) property() func(r rune) bool {
	name := ""
	if p.take("{") {
		var ok bool
		name, p.rest, ok = strings.Cut(p.rest, "}")
		bailout.Unless(ok, "a property has no end")
	} else {
		name = string(p.next())
	}
	name, negative := strings.CutPrefix(name, "^")
	if _, value, ok := strings.Cut(name, "="); ok {
		name = value
	}
	in := propertyOf(name)
	bailout.Unless(in != nil, `the property \p{%s} is not supported`, name)
	return func(r rune) bool { return in(r) != negative }
}

// longNames has the abbreviations of Unicode's general categories, by their long names in lower case.
var longNames = map[string]string{"letter": "L", "mark": "M", "number": "N", "punctuation": "P", "symbol": "S",
	"separator": "Z", "other": "C", "uppercaseletter": "Lu", "lowercaseletter": "Ll", "titlecaseletter": "Lt",
	"modifierletter": "Lm", "otherletter": "Lo", "nonspacingmark": "Mn", "spacingmark": "Mc", "decimalnumber": "Nd",
	"letternumber": "Nl", "othernumber": "No", "digit": "Nd", "punct": "P", "control": "Cc", "cntrl": "Cc"}

// propertyOf returns the set of characters with a property: a general category, a script, or a class of POSIX. It
// returns nil for an unknown name. Case, spaces and underscores in names do not matter.
func propertyOf(name string) func(r rune) bool {
	key := strings.ToLower(strings.NewReplacer("_", "", " ", "", "-", "").Replace(name))
	if long, ok := longNames[key]; ok {
		key = strings.ToLower(long)
	}
	switch key {
	case "any":
		return func(rune) bool { return true }
	case "cn", "unassigned":
		return isUnassigned
	case "c":
		return func(r rune) bool { return unicode.Is(unicode.C, r) || isUnassigned(r) }
	case "alpha", "alphabetic":
		return func(r rune) bool { return unicode.In(r, unicode.L, unicode.Nl, unicode.Other_Alphabetic) }
	case "alnum":
		return func(r rune) bool { return unicode.In(r, unicode.L, unicode.Nl, unicode.Nd, unicode.Other_Alphabetic) }
	case "space", "whitespace":
		return unicode.IsSpace
	case "blank":
		return func(r rune) bool { return r == '\t' || unicode.Is(unicode.Zs, r) }
	case "upper", "uppercase":
		return func(r rune) bool { return unicode.In(r, unicode.Lu, unicode.Other_Uppercase) }
	case "lower", "lowercase":
		return func(r rune) bool { return unicode.In(r, unicode.Ll, unicode.Other_Lowercase) }
	case "word":
		return isPatternWord
	case "xdigit":
		return func(r rune) bool { return strings.ContainsRune("0123456789abcdefABCDEF", r) }
	}
	for _, tables := range []map[string]*unicode.RangeTable{unicode.Categories, unicode.Scripts, unicode.Properties} {
		for have, table := range tables {
			if strings.ToLower(strings.ReplaceAll(have, "_", "")) == key {
				return func(r rune) bool { return unicode.Is(table, r) }
			}
		}
	}
	return nil
}

// isUnassigned reports whether no character has the number r.
func isUnassigned(r rune) bool {
	return !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.C)
}

// class parses a set after its opening bracket. Sets may contain sets, and && makes the intersection.
func (p *patternParser) class() func(r rune) bool {
	p.nesting++
	bailout.Unless(p.nesting <= maxNesting, "its sets are nested deeper than %d", maxNesting)
	negative := p.take("^")
	var parts []func(r rune) bool // sets since the last &&
	var terms []func(r rune) bool // their unions, which are intersected
	for first := true; ; first = false {
		if p.take("&&") {
			terms, parts = append(terms, anyOf(parts)), nil
			continue
		}
		if !first && p.take("]") {
			break
		}
		parts = append(parts, p.classPart())
	}
	terms = append(terms, anyOf(parts))
	p.nesting--
	return func(r rune) bool {
		for _, in := range terms {
			if !in(r) {
				return negative
			}
		}
		return !negative
	}
}

// anyOf returns the union of sets. It keeps the slice.
func anyOf(parts []func(r rune) bool) func(r rune) bool {
	return func(r rune) bool {
		for _, in := range parts {
			if in(r) {
				return true
			}
		}
		return false
	}
}

// classPart parses a member of a set: a range, a character, a class or a set.
func (p *patternParser) classPart() func(r rune) bool {
	if p.take("[:") {
		name, after, ok := strings.Cut(p.rest, ":]")
		bailout.Unless(ok, "a class has no end")
		p.rest = after
		name, negative := strings.CutPrefix(name, "^")
		in := propertyOf(name)
		bailout.Unless(in != nil, "the class [:%s:] is not supported", name)
		if name == "punct" { // unlike \p{Punct}
			in = func(r rune) bool { return unicode.IsPunct(r) || strings.ContainsRune("$+<=>^`|~", r) }
		}
		return func(r rune) bool { return in(r) != negative }
	}
	low := p.next()
	switch {
	case low == '[':
		return p.class()
	case low == '\\':
		if p.rest != "" && strings.ContainsRune("sSdDwWhHpP", rune(p.rest[0])) {
			return p.escapedSet()
		}
		escape := p.next()
		low = '\b' // in a set, \b is a backspace
		if escape != 'b' {
			low = p.escapedRune(escape)
		}
	}
	high := low
	// A minus before ] or [ stands for itself.
	if strings.HasPrefix(p.rest, "-") && !strings.HasPrefix(p.rest, "-]") && !strings.HasPrefix(p.rest, "-[") {
		p.rest = p.rest[1:]
		high = p.next()
		if high == '\\' {
			bailout.Unless(p.rest == "" || !strings.ContainsRune("sSdDwWhHpP", rune(p.rest[0])),
				"a range of a set ends with a class")
			high = p.escapedRune(p.next())
		}
		bailout.Unless(high >= low, "the range %c-%c of a set is empty", low, high)
	}
	return func(r rune) bool { return r >= low && r <= high }
}
