package chat

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// token is a token of a template.
type token struct {
	kind tokenKind
	text string
	line int
}

type tokenKind uint8

const (
	data tokenKind = iota // text to be printed
	varBegin
	varEnd
	blockBegin
	blockEnd
	name
	literal // a string, without its quotes
	integer
	float
	op
	end
)

// lexer cuts a source into tokens.
type lexer struct {
	src    string
	pos    int
	line   int
	tokens []token
	fresh  bool // at the beginning of a line
}

// lex splits a template into tokens. It follows Jinja with the settings of Hugging Face's transformers: a block tag
// removes the white space before it on its line and the newline after it (lstrip_blocks and trim_blocks), and the
// template's last newline is ignored.
func lex(src string) []token {
	src = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(src)
	l := &lexer{src: strings.TrimSuffix(src, "\n"), line: 1, fresh: true}
	for l.pos < len(l.src) {
		l.next()
	}
	l.add(end, "")
	return l.tokens
}

// add appends a token.
func (l *lexer) add(kind tokenKind, text string) {
	l.tokens = append(l.tokens, token{kind, text, l.line})
}

// skip advances by n bytes, and counts lines.
func (l *lexer) skip(n int) {
	l.line += strings.Count(l.src[l.pos:l.pos+n], "\n")
	l.pos += n
}

// tagBegin matches the beginning of a tag.
var tagBegin = regexp.MustCompile(`\{[{%#]`)

// next reads the text before the next tag, and the tag.
func (l *lexer) next() {
	rest := l.src[l.pos:]
	n := len(rest) // where the tag begins
	if at := tagBegin.FindStringIndex(rest); at != nil {
		n = at[0]
	}
	printed := rest[:n]
	if n == len(rest) {
		l.add(data, printed)
		l.skip(n)
		return
	}
	kind := rest[n+1] // the character after the tag's first brace: {, % or #
	sign := byte(0)   // after kind: - or +, or 0 for neither
	if n+2 < len(rest) && (rest[n+2] == '-' || rest[n+2] == '+') {
		sign = rest[n+2]
	}
	switch {
	case sign == '-':
		printed = strings.TrimRightFunc(printed, unicode.IsSpace)
	case sign == 0 && kind != '{': // a tag alone in its line removes the white space before it
		at := strings.LastIndexByte(printed, '\n') + 1
		if (at > 0 || l.fresh) && strings.TrimFunc(printed[at:], unicode.IsSpace) == "" {
			printed = printed[:at]
		}
	}
	if printed != "" {
		l.add(data, printed)
	}
	l.skip(n + 2)
	if sign != 0 {
		l.skip(1)
	}
	l.fresh = false
	switch kind {
	case '#':
		l.comment()
	case '{':
		l.add(varBegin, "")
		l.inside('}', varEnd)
	default:
		if !l.raw() {
			l.add(blockBegin, "")
			l.inside('%', blockEnd)
		}
	}
}

// closing reads the end of a tag, the byte c and a brace, optionally after a sign. It also skips the white space that
// the end of the tag removes. It returns false if there is no such end.
func (l *lexer) closing(c byte) bool {
	rest := l.src[l.pos:]
	sign := byte(0) // - removes all white space after the tag, and + none
	if rest != "" && (rest[0] == '-' || rest[0] == '+' && c != '}') {
		sign, rest = rest[0], rest[1:]
	}
	if !strings.HasPrefix(rest, string([]byte{c, '}'})) {
		return false
	}
	rest = rest[2:]
	before := len(l.src) - len(rest)
	switch {
	case sign == '-':
		rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
	case sign == 0 && c != '}':
		rest = strings.TrimPrefix(rest, "\n")
	}
	at := len(l.src) - len(rest)
	l.fresh = at > before && l.src[at-1] == '\n' // the next text begins a line
	l.skip(at - l.pos)
	return true
}

// comment skips a comment, to its end #}.
func (l *lexer) comment() {
	line := l.line
	for ; l.pos < len(l.src); l.skip(1) {
		if l.closing('#') {
			return
		}
	}
	fail("the comment that begins in line %d has no end: want #}", line)
}

var rawBegin = regexp.MustCompile(`^\s*raw\s*`)
var rawEnd = regexp.MustCompile(`\{%[-+]?\s*endraw\s*`)

// raw reads a raw block, which is printed verbatim. It returns false if the tag begins no such block.
func (l *lexer) raw() bool {
	n := len(rawBegin.FindString(l.src[l.pos:]))
	// The position to return to if this is no raw block.
	pos, line := l.pos, l.line
	if n == 0 {
		return false
	}
	l.skip(n)
	if !l.closing('%') {
		l.pos, l.line = pos, line
		return false
	}
	at := rawEnd.FindStringIndex(l.src[l.pos:])
	if at == nil {
		fail("the raw block that begins in line %d has no end: want {%% endraw %%}", line)
	}
	printed := l.src[l.pos : l.pos+at[0]]
	if l.src[l.pos+at[0]+2] == '-' {
		printed = strings.TrimRightFunc(printed, unicode.IsSpace)
	}
	l.add(data, printed)
	l.skip(at[1])
	if !l.closing('%') {
		fail("line %d: want %%} after endraw", l.line)
	}
	return true
}

var (
	numberToken = regexp.MustCompile(`^[0-9](_?[0-9])*(\.[0-9](_?[0-9])*)?([eE][+-]?[0-9](_?[0-9])*)?`)
	operators   = strings.Fields("// ** == != >= <= + - / * % ~ [ ] ( ) { } < > = . : | ,") // longer ones first
)

// inside reads the tokens of a tag up to its end, c and a brace, for which it adds a token of kind closed.
func (l *lexer) inside(c byte, closed tokenKind) {
	line, open := l.line, 0 // open counts the brackets that are not closed yet, because }} may close two of them
	for l.pos < len(l.src) {
		rest := l.src[l.pos:]
		r, size := utf8.DecodeRuneInString(rest)
		if unicode.IsSpace(r) {
			l.skip(size)
			continue
		}
		if open == 0 && l.closing(c) {
			l.add(closed, "")
			return
		}
		if r == '_' || unicode.IsLetter(r) {
			length := len(rest) - len(strings.TrimLeftFunc(rest, inName))
			l.add(name, rest[:length])
			l.skip(length)
			continue
		}
		if n := len(numberToken.FindString(rest)); n > 0 {
			kind := integer
			if strings.ContainsAny(rest[:n], ".eE") {
				kind = float
			}
			l.add(kind, strings.ReplaceAll(rest[:n], "_", ""))
			l.skip(n)
			continue
		}
		if r == '\'' || r == '"' {
			l.literal(byte(r))
			continue
		}
		i := slices.IndexFunc(operators, func(o string) bool { return strings.HasPrefix(rest, o) })
		if i < 0 {
			fail("line %d: %q cannot be part of an expression", l.line, r)
		}
		o := operators[i]
		switch o {
		case "(", "[", "{":
			open++
		case ")", "]", "}":
			open--
		}
		l.add(op, o)
		l.skip(len(o))
	}
	fail("the tag that begins in line %d has no end: want %c}", line, c)
}

func inName(r rune) bool { return r == '_' || unicode.In(r, unicode.L, unicode.Nd) }

// literal reads a string in quotes and adds it as a token. quote is the quote before it, ' or ".
func (l *lexer) literal(quote byte) {
	rest := l.src[l.pos+1:]
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case quote:
			l.add(literal, unescape(rest[:i]))
			l.skip(i + 2)
			return
		}
	}
	fail("the string that begins in line %d has no end: want %c", l.line, quote)
}

var simpleEscapes = map[byte]string{
	'n': "\n", 't': "\t", 'r': "\r", 'b': "\b", 'f': "\f", 'v': "\v", 'a': "\a",
	'\\': "\\", '\'': "'", '"': "\"", '\n': "",
}

// unescape replaces the escape sequences of a string literal, as Python does.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[i]]
		if out, ok := simpleEscapes[s[i]]; ok {
			b.WriteString(out)
		} else if v, err := strconv.ParseUint(s[i+1:min(len(s), i+1+digits)], 16, 32); digits > 0 && err == nil {
			b.WriteRune(rune(v))
			i += digits
		} else {
			b.WriteString(s[i-1 : i+1])
		}
	}
	return b.String()
}
