package syntax

import (
	"fmt"
	"strings"
)

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenName
	tokenNumber
	tokenOperator
	tokenComment
	tokenTree
)

// token is a name, number, operator or comment of a source, or a tree inserted in it.
type token struct {
	kind     tokenKind
	text     string
	from, to int // its position
	lines    int // number of line ends between the previous token and this one
}

// treeMark is the character in a source that stands for the next tree.
const treeMark = '\x00'

// lexer reads the tokens of a source.
type lexer struct {
	src string
	at  int
}

// operators has the operators of more than one character, longest first.
var operators = []string{"<<=", ">>=", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "^^", "+=", "-=", "*=", "/=",
	"%=", "&=", "|=", "^=", "++", "--"}

// next returns the next token.
func (l *lexer) next() token {
	t := token{}
	for ; l.at < len(l.src); l.at++ {
		if c := l.src[l.at]; c == '\n' {
			t.lines++
		} else if strings.IndexByte(" \t\r\v\f", c) < 0 {
			break
		}
	}
	t.from = l.at
	if l.at == len(l.src) {
		t.to = l.at
		return t
	}
	rest := l.src[l.at:]
	c, n := rest[0], 1
	switch {
	case c == treeMark:
		t.kind = tokenTree
	case isLetter(c):
		t.kind = tokenName
		for n < len(rest) && isWord(rest[n]) {
			n++
		}
	case isDigit(c) || c == '.' && len(rest) > 1 && isDigit(rest[1]):
		t.kind, n = tokenNumber, numberLen(rest)
	case strings.HasPrefix(rest, "//"):
		t.kind = tokenComment
		if n = strings.IndexByte(rest, '\n'); n < 0 {
			n = len(rest)
		}
		n = len(strings.TrimRight(rest[:n], " \t"))
	default:
		t.kind, n = tokenOperator, operatorLen(rest)
	}
	l.at += n
	t.text, t.to = rest[:n], l.at
	return t
}

// operatorLen is the length of the operator at the start of s.
func operatorLen(s string) int {
	// A quick test: only these characters begin and go on in an operator of several characters.
	if len(s) > 1 && strings.IndexByte("<>=!&|^+-*/%", s[0]) >= 0 && strings.IndexByte("<>=&|^+-", s[1]) >= 0 {
		for _, op := range operators {
			if strings.HasPrefix(s, op) {
				return len(op)
			}
		}
	}
	return 1
}

// numberLen is the length of the number at the start of s.
func numberLen(s string) int {
	n := 0
	hex := strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X")
	// A sign is part of a number after an exponent's e, such as in 1e-3. In a hexadecimal number, e is a digit.
	isSign := func(c, before byte) bool { return !hex && (c == '+' || c == '-') && (before == 'e' || before == 'E') }
	for n < len(s) && (isWord(s[n]) || s[n] == '.' || n > 0 && isSign(s[n], s[n-1])) {
		n++
	}
	return n
}

// Weight returns the length of a GLSL source without blanks and comments. It calls call with the name of each function
// that the source calls.
func Weight(src string, call func(name string)) int {
	l := lexer{src: src}
	size := 0
	for t := l.next(); t.kind != tokenEnd; t = l.next() {
		if t.kind == tokenComment {
			continue
		}
		size += len(t.text)
		if t.kind == tokenName && l.at < len(src) && src[l.at] == '(' {
			call(t.text)
		}
	}
	return size
}

// expand returns a format with its arguments inserted, as fmt.Sprintf does. For a tree that is more than a name it
// inserts treeMark; trees has these trees in the order of their marks.
func expand(format string, args []any) (src string, trees []*Expr, err error) {
	if strings.IndexByte(format, '%') < 0 {
		return format, nil, nil
	}
	var b strings.Builder
	next := 0 // the number of the argument that the next verb inserts
	for rest := format; rest != ""; {
		text, verb, found := strings.Cut(rest, "%")
		b.WriteString(text)
		if !found {
			break
		}
		if after, isPercent := strings.CutPrefix(verb, "%"); isPercent {
			b.WriteByte('%')
			rest = after
			continue
		}
		// An explicit argument index from 1 to 9, such as %[2]s.
		if len(verb) > 2 && verb[0] == '[' && verb[2] == ']' {
			next = int(verb[1] - '1')
			verb = verb[3:]
		}
		end := len(verb) - len(strings.TrimLeft(verb, "#0123456789.")) + 1 // flags, width, precision and a letter
		if next < 0 || next >= len(args) || end > len(verb) {
			return "", nil, fmt.Errorf("GLSL %q has %d arguments", format, len(args))
		}
		verb, rest = verb[:end], verb[end:]
		switch a := args[next].(type) {
		case *Expr:
			switch {
			case a == nil:
				return "", nil, fmt.Errorf("GLSL %q: argument %d is missing", format, next+1)
			case a.Op == Name: // its text is enough
				b.WriteString(a.Text)
			default:
				b.WriteByte(treeMark)
				trees = append(trees, a)
			}
		case string:
			b.WriteString(a)
		default:
			fmt.Fprintf(&b, "%"+verb, a)
		}
		next++
	}
	return b.String(), trees, nil
}
