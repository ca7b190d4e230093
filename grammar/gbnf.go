package grammar

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ParseGBNF reads a grammar in llama.cpp's format: rules NAME ::= ALTERNATIVES of literals "text", characters [a-z] or
// [^"\\], any character (.), names, groups (…) and repetitions * + ? {m} {m,} {m,n}. The start rule is root. A # begins
// a comment.
func ParseGBNF(source string) (*Grammar, error) {
	p := &gbnf{source: source, ids: map[string]int{}}
	if len(source) > maxSource {
		return nil, fmt.Errorf("grammar: %d bytes: want at most %d", len(source), maxSource)
	}
	if !utf8.ValidString(source) {
		return nil, fmt.Errorf("grammar: the source is not valid UTF-8")
	}
	p.ruleID("root") // the start rule is rule 0
	p.space()
	for p.err == nil && p.at < len(source) {
		p.definition()
		p.space()
	}
	if p.err != nil {
		return nil, p.err
	}
	for _, r := range p.rules {
		if r.body == nil {
			return nil, fmt.Errorf("grammar: there is no rule %q: want %[1]s ::= …", r.name)
		}
	}
	return build(p.rules)
}

// gbnf is a parser of GBNF source. It keeps the first error.
type gbnf struct {
	source string
	at     int
	depth  int
	rules  []definition
	ids    map[string]int
	err    error
}

// fail notes the first error, and ends the reading.
func (p *gbnf) fail(format string, args ...any) {
	if p.err == nil {
		line := 1 + strings.Count(p.source[:min(p.at, len(p.source))], "\n")
		p.err = fmt.Errorf("grammar: line %d: %s", line, fmt.Sprintf(format, args...))
	}
	p.at = len(p.source)
}

func (p *gbnf) rest() string { return p.source[p.at:] }

// space skips white space and comments.
func (p *gbnf) space() {
	for p.at < len(p.source) {
		switch p.source[p.at] {
		case ' ', '\t', '\r', '\n':
			p.at++
		case '#':
			n := strings.IndexByte(p.rest(), '\n')
			if n < 0 {
				n = len(p.rest())
			}
			p.at += n
		default:
			return
		}
	}
}

// skip consumes a word if it comes next.
func (p *gbnf) skip(word string) bool {
	if !strings.HasPrefix(p.rest(), word) {
		return false
	}
	p.at += len(word)
	return true
}

// name reads the name of a rule.
func (p *gbnf) name() string {
	n := strings.IndexFunc(p.rest(), func(r rune) bool {
		return !(r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	})
	if n < 0 {
		n = len(p.rest())
	}
	name := p.rest()[:n]
	p.at += n
	return name
}

// ruleID returns the number of the rule with a name. It adds the rule if there is none.
func (p *gbnf) ruleID(name string) int {
	id, ok := p.ids[name]
	if !ok {
		id = len(p.rules)
		p.ids[name] = id
		p.rules = append(p.rules, definition{name: name})
	}
	return id
}

// definition reads a rule, NAME ::= ALTERNATIVES.
func (p *gbnf) definition() {
	name := p.name()
	p.space()
	if name == "" || !p.skip("::=") {
		p.fail("want NAME ::= …, and not %.20q", name+p.rest())
		return
	}
	id := p.ruleID(name)
	if p.rules[id].body != nil {
		p.fail("rule %q is there twice", name)
		return
	}
	body := p.alternatives()
	p.rules[id].body = body
}

// alternatives reads sequences separated by |.
func (p *gbnf) alternatives() *expr {
	var list []*expr
	for {
		list = append(list, p.sequence())
		if !p.skip("|") {
			return alt(list...)
		}
	}
}

// sequence reads up to |, ) or the next rule.
func (p *gbnf) sequence() *expr {
	e := seq()
	for p.space(); p.err == nil && p.at < len(p.source); p.space() {
		switch c := p.source[p.at]; {
		case c == '|' || c == ')':
			return e
		case c == '"':
			e.list = append(e.list, p.literal())
		case c == '[':
			e.list = append(e.list, p.class())
		case c == '.':
			p.at++
			e.list = append(e.list, set(span{0, utf8.MaxRune}))
		case c == '(':
			e.list = append(e.list, p.group())
		case c == '*' || c == '+' || c == '?' || c == '{':
			if len(e.list) == 0 {
				p.fail("%q has nothing before it to repeat: want an item before it", c)
				return e
			}
			low, high := p.times()
			last := &e.list[len(e.list)-1]
			*last = repeat(*last, low, high)
		default:
			// A name before ::= begins the next rule.
			from := p.at
			name := p.name()
			p.space()
			if strings.HasPrefix(p.rest(), "::=") {
				p.at = from
				return e
			}
			if name == "" {
				p.fail("%.20q: want a literal, a class, a name or a group", p.rest())
				return e
			}
			e.list = append(e.list, rule(p.ruleID(name)))
		}
	}
	return e
}

// group reads alternatives in parentheses.
func (p *gbnf) group() *expr {
	p.depth++
	if p.depth > maxNesting {
		p.fail("groups nest deeper than %d", maxNesting)
		return seq()
	}
	p.at++
	e := p.alternatives()
	if p.err == nil && !p.skip(")") {
		p.fail("a group does not end: want )")
	}
	p.depth--
	return e
}

// times parses a repetition: * + ? {m} {m,} or {m,n}, with spaces inside of the braces. high is -1 if there is no upper
// bound.
func (p *gbnf) times() (low, high int) {
	c := p.source[p.at]
	p.at++
	switch c {
	case '*':
		return 0, -1
	case '+':
		return 1, -1
	case '?':
		return 0, 1
	}
	p.space()
	low = p.number()
	high = low
	p.space()
	if p.skip(",") {
		p.space()
		high = -1
		if !strings.HasPrefix(p.rest(), "}") {
			high = p.number()
		}
		p.space()
	}
	if !p.skip("}") || high >= 0 && high < low {
		p.fail("want {m}, {m,} or {m,n} with n no less than m")
		return 0, 0
	}
	return low, high
}

// number reads a bound of a repetition.
func (p *gbnf) number() int {
	from := p.at
	for p.at < len(p.source) && p.source[p.at] >= '0' && p.source[p.at] <= '9' {
		p.at++
	}
	n, err := strconv.Atoi(p.source[from:p.at])
	if err != nil || n > maxNodes {
		p.fail("a repetition is %.20q: want 0 to %d", p.source[from:p.at], maxNodes)
	}
	return n
}

// literal reads a string in double quotes.
func (p *gbnf) literal() *expr {
	p.at++
	var b strings.Builder
	for !p.skip(`"`) {
		c := p.char()
		if p.err != nil {
			break
		}
		b.WriteRune(c)
	}
	return text(b.String())
}

// class parses a set of characters, such as [a-z] or [^"\\], whose [ is next.
func (p *gbnf) class() *expr {
	p.at++
	not := p.skip("^")
	var list []span
	for !p.skip("]") {
		low := p.char()
		high := low
		if r := p.rest(); len(r) > 1 && r[0] == '-' && r[1] != ']' {
			p.at++
			high = p.char()
		}
		if high < low {
			p.fail("the range from %q to %q is empty", low, high)
		}
		if p.err != nil {
			break
		}
		list = append(list, span{low, high})
	}
	if not {
		list = invert(list)
	} else {
		list = invert(invert(list)) // joins overlapping ranges
	}
	return set(slices.Clip(list)...)
}

// char reads a character of a literal or class, possibly an escape.
func (p *gbnf) char() rune {
	c, n := utf8.DecodeRuneInString(p.rest())
	p.at += n
	switch {
	case n == 0 || c == '\n':
		p.fail("a literal or class does not end on its line")
		return 0
	case c != '\\':
		return c
	case p.at == len(p.source):
		p.fail("a literal or class does not end")
		return 0
	}
	e := p.source[p.at]
	p.at++
	switch e {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case '\\', '"', '[', ']', '-', '^':
		return rune(e)
	case 'x', 'u', 'U':
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[e]
		code, err := strconv.ParseUint(p.rest()[:min(digits, len(p.rest()))], 16, 32)
		if err != nil || len(p.rest()) < digits || !utf8.ValidRune(rune(code)) || code > utf8.MaxRune {
			p.fail("\\%c%.8s: want %d hexadecimal digits of a character", e, p.rest(), digits)
			return 0
		}
		p.at += digits
		return rune(code)
	}
	p.fail(`unknown escape \%c: want \n, \r, \t, \\, \", \[, \], \xHH, \uHHHH or \UHHHHHHHH`, e)
	return 0
}
