package ir

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ReadError is an error at a position of a text IR or graph.json file.
type ReadError struct {
	File      string // as given to the reader; may be empty
	Line, Col int    // from 1; Col counts characters
	Path      string // of the value in graph.json, such as nodes[3].attrs.shape[0]
	Err       error  // what was found, and what was expected
}

// Error returns "file:line:col: path: message".
func (e *ReadError) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File + ":")
	}
	fmt.Fprintf(&b, "%d:%d: ", e.Line, e.Col)
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Err.Error())
	return b.String()
}

// Unwrap returns the error without the position.
func (e *ReadError) Unwrap() error { return e.Err }

// ReadErrors lists the errors of a file, in the order of the file. If there are more than a reader reports, the last
// error says how many.
type ReadErrors []*ReadError

// Error returns a line for each error.
func (e ReadErrors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the errors.
func (e ReadErrors) Unwrap() []error {
	list := make([]error, len(e))
	for i, one := range e {
		list[i] = one
	}
	return list
}

// lineCol returns the line and column, from 1, of a byte offset.
func lineCol(text string, pos int) (line, col int) {
	before := text[:min(pos, len(text))]
	start := strings.LastIndexByte(before, '\n') + 1
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[start:]) + 1
}

// tokenKind is the kind of a token of text IR.
type tokenKind uint8

const (
	tokEOF    tokenKind = iota
	tokBad              // cannot start a token
	tokWord             // keyword, op, dtype, number or dim: 4*T+1, floor(T/2)
	tokRef              // %x
	tokString           // "x"
	tokPunct            // { } [ ] ( ) = , : <=
)

// token is a lexical token. text is the name of a reference or the value of a string, and otherwise the token as it is
// written. pos is its offset in the source, in bytes.
type token struct {
	kind tokenKind
	text string
	pos  int
}

// String describes the token for an error.
func (t token) String() string {
	switch t.kind {
	case tokEOF:
		return "the end of the text"
	case tokRef:
		return strconv.Quote("%" + clip(t.text))
	case tokString:
		return "the string " + strconv.Quote(clip(t.text))
	}
	return strconv.Quote(clip(t.text))
}

// lexer splits text IR into tokens.
type lexer struct {
	text string
	pos  int
}

// next reads the next token.
func (l *lexer) next() token {
	l.skipSpace()
	start := l.pos
	if start == len(l.text) {
		return token{tokEOF, "", start}
	}
	switch c := l.text[start]; {
	case c == '"':
		return l.str()
	case c == '%':
		l.pos++
		l.run(isRefByte)
		if l.pos > start+1 { // a % without a name after it is a bad token
			return token{tokRef, l.text[start+1 : l.pos], start}
		}
	case isWordByte(c):
		l.word()
		return token{tokWord, l.text[start:l.pos], start}
	case strings.HasPrefix(l.text[start:], "<="):
		l.pos += 2
		return token{tokPunct, "<=", start}
	case strings.IndexByte("{}[]()=,:", c) >= 0:
		l.pos++
		return token{tokPunct, l.text[start:l.pos], start}
	}
	_, size := utf8.DecodeRuneInString(l.text[start:])
	l.pos = start + size
	return token{tokBad, l.text[start:l.pos], start}
}

// word skips a word. In a dim, parentheses belong to the word: 2*(S+T), floor((T+1)/2).
func (l *lexer) word() {
	start := l.pos
	l.run(isWordByte)
	word := l.text[start:l.pos]
	inDim := strings.HasSuffix(word, "floor") || strings.HasSuffix(word, "*")
	if inDim && strings.HasPrefix(l.text[l.pos:], "(") {
		l.extent()
	}
}

// extent skips a dim, or the rest of one from a parenthesis on.
func (l *lexer) extent() {
	for depth := 0; l.pos < len(l.text); l.pos++ {
		switch c := l.text[l.pos]; {
		case c == '(':
			depth++
		case c == ')':
			depth--
		// A slash belongs to a dim only inside of parentheses, as in floor(T/2).
		case !isWordByte(c) && (c != '/' || depth == 0):
			return
		}
		if depth < 0 {
			return
		}
	}
}

// skipSpace skips white space and comments.
func (l *lexer) skipSpace() {
	for l.pos < len(l.text) {
		switch l.text[l.pos] {
		case ' ', '\t', '\r', '\n':
			l.pos++
		case ';':
			l.run(func(c byte) bool { return c != '\n' })
		default:
			return
		}
	}
}

// run skips bytes as long as in accepts them.
func (l *lexer) run(in func(byte) bool) {
	for l.pos < len(l.text) && in(l.text[l.pos]) {
		l.pos++
	}
}

// str reads a string as strconv.Quote writes it.
func (l *lexer) str() token {
	start := l.pos
	l.pos++
	for l.pos < len(l.text) && l.text[l.pos] != '"' && l.text[l.pos] != '\n' {
		if l.text[l.pos] == '\\' {
			l.pos++
		}
		l.pos++
	}
	l.pos = min(l.pos+1, len(l.text))
	s, err := strconv.Unquote(l.text[start:l.pos])
	if err != nil {
		return token{tokBad, l.text[start:l.pos], start}
	}
	return token{tokString, s, start}
}

func isRefByte(c byte) bool {
	return c == '_' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func isWordByte(c byte) bool { return isRefByte(c) || c == '+' || c == '-' || c == '*' }
