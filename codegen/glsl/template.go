package glsl

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// An op's scalar form, such as "{0} / (1.0 + exp(-{0}))", is parsed into a
// tree, so that it can be printed around any arguments with the parentheses
// that they need and no others.
type node struct {
	kind nodeKind
	text string // operator, function name, literal or placeholder
	kids []*node
}

type nodeKind uint8

const (
	nodeText nodeKind = iota
	nodePlaceholder
	nodeUnary
	nodeBinary
	nodeTernary
	nodeCall
)

var templateToken = regexp.MustCompile(
	`^\s*(\{\w+\}|\d+\.?\d*(?:[eE][-+]?\d+)?u?|[A-Za-z_]\w*|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>=&|^~!?:(),])`)

type templateParser struct {
	src    string
	tokens []string
}

// parseTemplate parses a scalar form.
func parseTemplate(src string) (*node, error) {
	p := templateParser{src: src}
	for rest := src; strings.TrimSpace(rest) != ""; {
		m := templateToken.FindStringSubmatch(rest)
		if m == nil {
			return nil, fmt.Errorf("GLSL form %q: cannot read %q", src, rest)
		}
		p.tokens = append(p.tokens, m[1])
		rest = rest[len(m[0]):]
	}
	n, err := p.ternary()
	if err == nil && len(p.tokens) > 0 {
		err = fmt.Errorf("GLSL form %q: unexpected %q", src, p.tokens[0])
	}
	return n, err
}

func (p *templateParser) peek() string {
	if len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0]
}

func (p *templateParser) take(want string) bool {
	if p.peek() != want {
		return false
	}
	p.tokens = p.tokens[1:]
	return true
}

func (p *templateParser) expect(want string) error {
	if !p.take(want) {
		return fmt.Errorf("GLSL form %q: %q where %q should be", p.src, p.peek(), want)
	}
	return nil
}

func (p *templateParser) ternary() (*node, error) {
	cond, err := p.binary(precOrOr)
	if err != nil || !p.take("?") {
		return cond, err
	}
	a, err := p.ternary()
	if err != nil {
		return nil, err
	}
	if err := p.expect(":"); err != nil {
		return nil, err
	}
	b, err := p.ternary()
	return &node{kind: nodeTernary, kids: []*node{cond, a, b}}, err
}

func (p *templateParser) binary(min int) (*node, error) {
	left, err := p.unary()
	for err == nil {
		op := p.peek()
		prec, ok := binaryPrec[op]
		if !ok || prec < min {
			break
		}
		p.take(op)
		var right *node
		right, err = p.binary(prec + 1)
		left = &node{kind: nodeBinary, text: op, kids: []*node{left, right}}
	}
	return left, err
}

func (p *templateParser) unary() (*node, error) {
	for _, op := range []string{"-", "~", "!"} {
		if p.take(op) {
			x, err := p.unary()
			return &node{kind: nodeUnary, text: op, kids: []*node{x}}, err
		}
	}
	return p.primary()
}

func (p *templateParser) primary() (*node, error) {
	tok := p.peek()
	if tok == "" {
		return nil, fmt.Errorf("GLSL form %q ends too early", p.src)
	}
	p.tokens = p.tokens[1:]
	switch {
	case tok == "(":
		n, err := p.ternary()
		if err != nil {
			return nil, err
		}
		return n, p.expect(")")
	case tok[0] == '{':
		return &node{kind: nodePlaceholder, text: tok[1 : len(tok)-1]}, nil
	case strings.ContainsAny(tok[:1], "0123456789"):
		return &node{text: tok}, nil
	case !isLetter(tok[0]):
		return nil, fmt.Errorf("GLSL form %q: unexpected %q", p.src, tok)
	case p.take("("):
		n := &node{kind: nodeCall, text: tok}
		for {
			arg, err := p.ternary()
			if err != nil {
				return nil, err
			}
			n.kids = append(n.kids, arg)
			if !p.take(",") {
				return n, p.expect(")")
			}
		}
	}
	return &node{text: tok}, nil
}

func isLetter(c byte) bool { return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' }

// isNameByte reports whether a name may have c after its first letter.
func isNameByte(c byte) bool { return isLetter(c) || '0' <= c && c <= '9' }

// walk visits the nodes of a form.
func (n *node) walk(visit func(*node)) {
	visit(n)
	for _, k := range n.kids {
		k.walk(visit)
	}
}

// without leaves out what attributes make do nothing, exactly: a factor of 1, and
// an added -0. Adding 0 stays, as it turns -0 into 0.
func (n *node) without(attrs ir.Attrs) *node {
	if n.kind != nodeBinary || n.text != "*" && n.text != "+" {
		return n
	}
	is := func(k *node, neutral float64) bool {
		if k.kind != nodePlaceholder {
			return false
		}
		for _, a := range attrs {
			if v, ok := a.Value.(float64); ok && a.Name == k.text {
				return v == neutral && math.Signbit(v) == math.Signbit(neutral)
			}
		}
		return false
	}
	neutral := 1.0
	if n.text == "+" {
		neutral = math.Copysign(0, -1)
	}
	left, right := n.kids[0].without(attrs), n.kids[1].without(attrs)
	switch {
	case is(right, neutral):
		return left
	case is(left, neutral):
		return right
	}
	return &node{kind: nodeBinary, text: n.text, kids: []*node{left, right}}
}

// spelling says how the parts of a form are printed.
type spelling struct {
	value    func(name string) text             // a placeholder
	function func(name string) string           // what to call for a function
	literal  func(s string) text                // a number
	operator func(op string, args ...text) text // of one or two operands
}

// plainly spells a form as GLSL does for values that it has operators for.
func plainly(value func(string) text, function func(string) string) spelling {
	return spelling{value, function, primary, operator}
}

// operator applies an operator of GLSL.
func operator(op string, args ...text) text {
	if len(args) == 1 {
		return unary(op, args[0])
	}
	return binary(op, args[0], args[1])
}

// render prints a form.
func (n *node) render(s spelling) text {
	kid := func(i int) text { return n.kids[i].render(s) }
	switch n.kind {
	case nodePlaceholder:
		return s.value(n.text)
	case nodeUnary:
		return s.operator(n.text, kid(0))
	case nodeBinary:
		return s.operator(n.text, kid(0), kid(1))
	case nodeTernary:
		return ternary(kid(0), kid(1), kid(2))
	case nodeCall:
		args := make([]text, len(n.kids))
		for i := range n.kids {
			args[i] = kid(i)
		}
		return call(s.function(n.text), args...)
	}
	return s.literal(n.text)
}
