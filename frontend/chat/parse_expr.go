package chat

import (
	"slices"
	"strconv"
	"strings"
)

// dotted parses a name that may contain dots.
func (p *parser) dotted() string {
	n := p.name()
	for p.op(".") {
		n += "." + p.name()
	}
	return n
}

// tuple parses an expression, or several with commas between as a tuple. If conditionals is false, it stops before an
// `if`, which then belongs to the caller.
func (p *parser) tuple(conditionals bool) expr {
	one := p.expr
	if !conditionals {
		one = p.or
	}
	x := one()
	if !p.peek().is(op, ",") {
		return x
	}
	l := listExpr{items: []expr{x}, kind: tuple}
	for p.op(",") {
		if t := p.peek(); t.kind == varEnd || t.kind == blockEnd || t.is(op, ")") {
			break
		}
		l.items = append(l.items, one())
	}
	return l
}

// expr parses an expression, including a conditional x if y else z.
func (p *parser) expr() expr {
	defer p.nest()()
	x := p.or()
	for p.word("if") {
		c := conditional{cond: p.or(), then: x}
		if p.word("else") {
			c.otherwise = p.expr()
		}
		x = c
	}
	return x
}

// or parses operands of and, joined by "or". The precedence rises from or to and, not and comparisons.
func (p *parser) or() expr {
	x := p.and()
	for p.word("or") {
		x = binary{"or", x, p.and()}
	}
	return x
}

// and parses operands of not, joined by "and".
func (p *parser) and() expr {
	x := p.not()
	for p.word("and") {
		x = binary{"and", x, p.not()}
	}
	return x
}

// not parses a comparison, after any number of "not".
func (p *parser) not() expr {
	defer p.nest()()
	if p.word("not") {
		return unary{"not", p.not()}
	}
	return p.comparison()
}

var comparisons = []string{"==", "!=", "<", "<=", ">", ">="}

// comparison parses operands with comparison operators between them, which may be chained as in a < b < c.
func (p *parser) comparison() expr {
	c := comparison{x: p.sum()}
	for {
		t := p.peek()
		switch {
		case t.kind == op && slices.Contains(comparisons, t.text):
			p.pos++
		case p.word("in"):
		case t.is(name, "not") && p.tokens[p.pos+1].is(name, "in"):
			p.pos += 2
			t.text = "not in"
		default:
			if len(c.ops) == 0 {
				return c.x
			}
			return c
		}
		c.ops, c.list = append(c.ops, t.text), append(c.list, p.sum())
	}
}

// levels lists the binary arithmetic operators by precedence, lowest first.
var levels = [][]string{{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}}

func (p *parser) sum() expr { return p.level(0) }

// level parses operands with operators of precedence n or higher; see levels.
func (p *parser) level(n int) expr {
	if n == len(levels) {
		return p.unary(true)
	}
	x := p.level(n + 1)
	for t := p.peek(); t.kind == op && slices.Contains(levels[n], t.text); t = p.peek() {
		p.pos++
		x = binary{t.text, x, p.level(n + 1)}
	}
	return x
}

// unary parses a value with any signs before it. Filters and tests follow only if filters is set: they apply to the
// value with all its signs.
func (p *parser) unary(filters bool) expr {
	defer p.nest()()
	var x expr
	switch {
	case p.op("-"):
		x = unary{"-", p.unary(false)}
	case p.op("+"):
		x = unary{"+", p.unary(false)}
	default:
		x = p.postfix(p.primary())
	}
	if filters {
		x = p.filtered(x)
	}
	return x
}

// primary parses a constant, a name, or an expression in brackets.
func (p *parser) primary() expr {
	defer p.nest()()
	t := p.take()
	switch {
	case t.kind == name:
		switch t.text {
		case "true", "True":
			return constant{true}
		case "false", "False":
			return constant{false}
		case "none", "None":
			return constant{nil}
		}
		return variable{t.text}
	case t.kind == literal:
		s := t.text
		for p.peek().kind == literal { // strings one after another are one string
			s += p.take().text
		}
		return constant{text(s)}
	case t.kind == integer:
		n, err := strconv.Atoi(t.text)
		if err != nil {
			fail("line %d: the number %s is too large", t.line, t.text)
		}
		return constant{n}
	case t.kind == float:
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			fail("line %d: the number %s is too large", t.line, t.text)
		}
		return constant{f}
	case t.is(op, "("):
		if p.op(")") {
			return listExpr{kind: tuple}
		}
		x := p.tuple(true)
		p.want(op, ")")
		return x
	case t.is(op, "["):
		l := listExpr{}
		p.elements("]", func() { l.items = append(l.items, p.expr()) })
		return l
	case t.is(op, "{"):
		d := dictExpr{}
		p.elements("}", func() {
			d.keys = append(d.keys, p.expr())
			p.want(op, ":")
			d.values = append(d.values, p.expr())
		})
		return d
	}
	fail("line %d: %s: want an expression", t.line, t)
	return nil
}

// elements parses elements with commas between, up to a closing bracket. A comma may follow the last one. one parses an
// element.
func (p *parser) elements(closing string, one func()) {
	for first := true; !p.op(closing); first = false {
		if !first {
			p.want(op, ",")
			if p.op(closing) {
				return
			}
		}
		one()
	}
}

// postfix parses the attributes, items and calls after the value x.
func (p *parser) postfix(x expr) expr {
	for {
		switch {
		case p.op("."):
			if t := p.peek(); t.kind == integer { // x.0 is x[0]
				p.pos++
				n, _ := strconv.Atoi(t.text)
				x = item{x, constant{n}}
				continue
			}
			x = attribute{x, p.name()}
		case p.op("["):
			x = p.subscript(x)
		case p.op("("):
			x = call{x, p.arguments()}
		default:
			return x
		}
	}
}

// subscript parses the rest of x[key] or x[from:to:step].
func (p *parser) subscript(x expr) expr {
	var parts [3]expr
	colons := 0
	for !p.op("]") {
		switch {
		case p.op(":"):
			colons++
			if colons > 2 {
				fail("line %d: a slice has at most two colons", p.peek().line)
			}
		case parts[colons] != nil:
			p.want(op, "]")
		default:
			parts[colons] = p.expr()
		}
	}
	if colons > 0 {
		return slice{x, parts[0], parts[1], parts[2]}
	}
	if parts[0] == nil {
		fail("line %d: want a key between the brackets", p.peek().line)
	}
	return item{x, parts[0]}
}

// arguments parses the arguments of a call, after the opening bracket.
func (p *parser) arguments() (a argExprs) {
	p.elements(")", func() {
		switch next := p.tokens[min(p.pos+1, len(p.tokens)-1)]; {
		case p.op("*"):
			a.rest = p.expr()
		case p.op("**"):
			a.namer = p.expr()
		case p.peek().kind == name && next.is(op, "="):
			a.names = append(a.names, p.name())
			p.pos++
			a.named = append(a.named, p.expr())
		case len(a.names) > 0:
			fail("line %d: an argument without a name follows one with a name", p.peek().line)
		default:
			a.list = append(a.list, p.expr())
		}
	})
	return a
}

// filtered parses the filters, tests and calls after the value x.
func (p *parser) filtered(x expr) expr {
	for {
		switch {
		case p.op("|"):
			f := filter{x: x, name: p.dotted()}
			if p.op("(") {
				f.args = p.arguments()
			}
			x = f
		case p.word("is"):
			x = p.test(x)
		case p.op("("):
			x = call{x, p.arguments()}
		default:
			return x
		}
	}
}

// test parses the test after "x is". Its arguments are in brackets, or it has a single one without them.
func (p *parser) test(x expr) expr {
	t := test{x: x, not: p.word("not"), name: p.dotted()}
	next := p.peek()
	switch {
	case p.op("("):
		t.args = p.arguments()
	case next.kind == name && !slices.Contains(strings.Fields("else or and is if in not recursive"), next.text),
		next.kind == literal, next.kind == integer, next.kind == float, next.is(op, "["), next.is(op, "{"):
		t.args.list = []expr{p.postfix(p.primary())}
	}
	return t
}
