package fast

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// expression is a parsed formula: GLSL code of an op in package ir's table. For example, "{0} * exp({scale})" is
// function * of argument 0 and of function exp of attribute scale. An expression is a function with operands, an
// attribute or a number, if that field is set. Otherwise it is an argument.
type expression struct {
	function  string // a name, or an operator's sign; ?: is an operator, and unary minus has the name "neg"
	operands  []*expression
	attribute string
	number    *float64
	argument  int
}

// parse parses a formula, which has the grammar of a GLSL expression.
func parse(text string) (*expression, error) {
	p := &parser{tokens: tokens(text)}
	e := p.choice()
	if p.err == nil && p.next() != "" {
		p.fail()
	}
	if p.err != nil {
		return nil, fmt.Errorf("%q: %w", text, p.err)
	}
	return e, nil
}

// tokens splits a formula into names, numbers, attributes or arguments in braces, and signs of one or two characters.
func tokens(text string) []string {
	var list []string
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		n := 1
		switch c := rune(text[0]); {
		case c == '{':
			n = strings.IndexByte(text, '}') + 1
			if n == 0 { // without an end: the rest is one token
				n = len(text)
			}
		case unicode.IsLetter(c) || unicode.IsDigit(c):
			for n < len(text) && (unicode.IsLetter(rune(text[n])) || unicode.IsDigit(rune(text[n])) ||
				strings.ContainsRune("_.", rune(text[n]))) {
				n++
			}
		// Two characters: a comparison such as <=, or a doubled & or |.
		case len(text) > 1 && (text[1] == '=' || strings.ContainsRune("&|", c) && text[1] == text[0]):
			n = 2
		}
		list, text = append(list, text[:n]), text[n:]
	}
	return list
}

// parser parses a list of tokens. After an error it reads no further tokens.
type parser struct {
	tokens []string
	err    error
}

// next returns the next token without reading it, or "" at the end.
func (p *parser) next() string {
	if p.err != nil || len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0]
}

// take reads the next token and returns true, if that token is t.
func (p *parser) take(t string) bool {
	if p.next() != t || t == "" {
		return false
	}
	p.tokens = p.tokens[1:]
	return true
}

// want reads the next token. If it is not t, that is an error.
func (p *parser) want(t string) {
	if !p.take(t) {
		p.fail()
	}
}

// fail records that the next token is unexpected.
func (p *parser) fail() {
	if p.err == nil {
		p.err = fmt.Errorf("%q is unexpected", strings.Join(p.tokens, " "))
	}
}

// choice parses an expression with operator ?: or without.
func (p *parser) choice() *expression {
	e := p.binary(0)
	if !p.take("?") {
		return e
	}
	yes := p.choice()
	p.want(":")
	return &expression{function: "?:", operands: []*expression{e, yes, p.choice()}}
}

// precedence lists the binary operators by level. Operators of the first level bind most weakly.
var precedence = [][]string{{"||"}, {"&&"}, {"|"}, {"^"}, {"&"}, {"==", "!="},
	{"<", "<=", ">", ">="}, {"+", "-"}, {"*", "/"}}

// binary parses an expression with the binary operators of a level of precedence and of the levels that bind more
// tightly.
func (p *parser) binary(level int) *expression {
	if level == len(precedence) {
		return p.unary()
	}
	e := p.binary(level + 1)
	for {
		found := ""
		for _, sign := range precedence[level] {
			if found == "" && p.take(sign) {
				found = sign
			}
		}
		if found == "" {
			return e
		}
		e = &expression{function: found, operands: []*expression{e, p.binary(level + 1)}}
	}
}

// unary parses an operand of a binary operator: an operand after a unary operator, an expression in parentheses, an
// argument, an attribute, a number or a function call.
func (p *parser) unary() *expression {
	for sign, function := range map[string]string{"-": "neg", "!": "!", "~": "~"} {
		if p.take(sign) {
			return &expression{function: function, operands: []*expression{p.unary()}}
		}
	}
	if p.take("(") {
		e := p.choice()
		p.want(")")
		return e
	}
	t := p.next()
	if t == "" {
		p.fail()
		return &expression{}
	}
	p.tokens = p.tokens[1:]
	if inner, ok := strings.CutPrefix(t, "{"); ok {
		inner = strings.TrimSuffix(inner, "}")
		if i, err := strconv.Atoi(inner); err == nil && i >= 0 {
			return &expression{argument: i}
		}
		return &expression{attribute: inner}
	}
	if x, err := strconv.ParseFloat(t, 64); err == nil {
		return &expression{number: &x}
	}
	if !unicode.IsLetter(rune(t[0])) {
		p.tokens = append([]string{t}, p.tokens...) // fail names the next token
		p.fail()
		return &expression{}
	}
	e := &expression{function: t}
	for sep := "("; p.take(sep); sep = "," {
		e.operands = append(e.operands, p.choice())
	}
	p.want(")")
	return e
}
