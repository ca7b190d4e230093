// Package markup parses a small template language and renders it: text with
// {{ expressions }}, conditions and loops over lists.
package markup

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type kind int

const (
	kindText kind = iota
	kindOpen
	kindClose
	kindName
	kindNumber
	kindString
	kindOperator
	kindEnd
)

type token struct {
	kind kind
	text string
	line int
}

func (t token) String() string {
	if t.kind == kindEnd {
		return "end of template"
	}
	return strconv.Quote(t.text)
}

// lexer splits a template into tokens. Outside of braces everything is text.
type lexer struct {
	input  string
	pos    int
	line   int
	inside bool
	tokens []token
}

func lex(input string) ([]token, error) {
	l := &lexer{input: input, line: 1}
	for l.pos < len(l.input) {
		var err error
		if l.inside {
			err = l.lexInside()
		} else {
			l.lexText()
		}
		if err != nil {
			return nil, err
		}
	}
	if l.inside {
		return nil, fmt.Errorf("line %d: unclosed action", l.line)
	}
	l.emit(kindEnd, "")
	return l.tokens, nil
}

func (l *lexer) emit(k kind, text string) {
	l.tokens = append(l.tokens, token{k, text, l.line})
	l.line += strings.Count(text, "\n")
	l.pos += len(text)
}

func (l *lexer) lexText() {
	rest := l.input[l.pos:]
	i := strings.Index(rest, "{{")
	if i < 0 {
		l.emit(kindText, rest)
		return
	}
	if i > 0 {
		l.emit(kindText, rest[:i])
	}
	l.emit(kindOpen, "{{")
	l.inside = true
}

func (l *lexer) lexInside() error {
	rest := l.input[l.pos:]
	r, size := utf8.DecodeRuneInString(rest)
	switch {
	case strings.HasPrefix(rest, "}}"):
		l.emit(kindClose, "}}")
		l.inside = false
	case r == '\n':
		l.line++
		l.pos++
	case unicode.IsSpace(r):
		l.pos += size
	case unicode.IsLetter(r) || r == '_':
		l.emit(kindName, prefixOf(rest, func(r rune) bool {
			return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_'
		}))
	case unicode.IsDigit(r):
		l.emit(kindNumber, prefixOf(rest, func(r rune) bool {
			return unicode.IsDigit(r) || r == '.'
		}))
	case r == '"':
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return fmt.Errorf("line %d: unterminated string", l.line)
		}
		l.emit(kindString, quoted)
	case strings.HasPrefix(rest, "==") || strings.HasPrefix(rest, "!="):
		l.emit(kindOperator, rest[:2])
	case strings.ContainsRune("+-*/.()<>|", r):
		l.emit(kindOperator, rest[:1])
	default:
		return fmt.Errorf("line %d: unexpected character %q", l.line, r)
	}
	return nil
}

func prefixOf(s string, ok func(rune) bool) string {
	for i, r := range s {
		if !ok(r) {
			return s[:i]
		}
	}
	return s
}

// node is a part of a template that can be rendered.
type node interface {
	render(w io.Writer, scope *scope) error
}

type textNode string

func (n textNode) render(w io.Writer, _ *scope) error {
	_, err := io.WriteString(w, string(n))
	return err
}

type valueNode struct {
	expr expr
	raw  bool
}

func (n *valueNode) render(w io.Writer, s *scope) error {
	v, err := n.expr.eval(s)
	if err != nil {
		return err
	}
	text := fmt.Sprint(v)
	if !n.raw {
		text = html.EscapeString(text)
	}
	_, err = io.WriteString(w, text)
	return err
}

type loopNode struct {
	name string
	list expr
	body []node
}

func (n *loopNode) render(w io.Writer, s *scope) error {
	v, err := n.list.eval(s)
	if err != nil {
		return err
	}
	list := reflect.ValueOf(v)
	if list.Kind() != reflect.Slice && list.Kind() != reflect.Array {
		return fmt.Errorf("cannot loop over %T", v)
	}
	for i := 0; i < list.Len(); i++ {
		inner := &scope{parent: s, values: map[string]any{n.name: list.Index(i).Interface(), "index": i}}
		for _, child := range n.body {
			if err := child.render(w, inner); err != nil {
				return err
			}
		}
	}
	return nil
}

// scope holds the names that an expression can use.
type scope struct {
	parent *scope
	values map[string]any
}

var errUnknownName = errors.New("unknown name")

func (s *scope) lookup(name string) (any, error) {
	for ; s != nil; s = s.parent {
		if v, ok := s.values[name]; ok {
			return v, nil
		}
	}
	return nil, fmt.Errorf("%w %q", errUnknownName, name)
}

type expr interface {
	eval(s *scope) (any, error)
}

type nameExpr string

func (e nameExpr) eval(s *scope) (any, error) { return s.lookup(string(e)) }

type literalExpr struct{ value any }

func (e literalExpr) eval(*scope) (any, error) { return e.value, nil }

type binaryExpr struct {
	op   string
	x, y expr
}

func (e *binaryExpr) eval(s *scope) (any, error) {
	x, err := e.x.eval(s)
	if err != nil {
		return nil, err
	}
	y, err := e.y.eval(s)
	if err != nil {
		return nil, err
	}
	switch e.op {
	case "==":
		return reflect.DeepEqual(x, y), nil
	case "!=":
		return !reflect.DeepEqual(x, y), nil
	}
	a, okA := toFloat(x)
	b, okB := toFloat(y)
	if !okA || !okB {
		return nil, fmt.Errorf("operator %s needs numbers, not %T and %T", e.op, x, y)
	}
	switch e.op {
	case "+":
		return a + b, nil
	case "-":
		return a - b, nil
	case "*":
		return a * b, nil
	case "/":
		if b == 0 {
			return nil, errors.New("division by zero")
		}
		return a / b, nil
	case "<":
		return a < b, nil
	case ">":
		return a > b, nil
	}
	return nil, fmt.Errorf("unknown operator %s", e.op)
}

func toFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// Template is a parsed template.
type Template struct {
	name  string
	nodes []node
}

// Execute renders the template with the values given.
func (t *Template) Execute(w io.Writer, values map[string]any) error {
	s := &scope{values: values}
	for _, n := range t.nodes {
		if err := n.render(w, s); err != nil {
			return fmt.Errorf("template %s: %w", t.name, err)
		}
	}
	return nil
}

// ServeHTTP renders the template with the form values of the request. An error
// becomes a page with status 500, since nothing is sent before all is rendered.
func (t *Template) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return
	}
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	values := make(map[string]any, len(r.Form))
	for name, list := range r.Form {
		if len(list) > 0 {
			values[name] = list[0]
		}
	}
	var buf bytes.Buffer
	if err := t.Execute(&buf, values); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(buf.Len()))
	if _, err := buf.WriteTo(w); err != nil {
		return // the client went away
	}
}
