package chat

import (
	"slices"
	"strconv"
	"strings"
)

// expr is an expression.
type expr interface {
	eval(r *run, s *scope) value
}

// stmt is a part of a template that prints or does something.
type stmt interface {
	exec(r *run, s *scope)
}

// Kinds of expressions.
type (
	constant struct{ v value }
	variable struct{ name string }
	unary    struct {
		op string
		x  expr
	}
	binary struct {
		op   string
		x, y expr
	}
	comparison struct { // a < b < c
		x    expr
		ops  []string
		list []expr
	}
	conditional struct{ cond, then, otherwise expr }
	listExpr    struct {
		items []expr
		kind  listKind
	}
	dictExpr  struct{ keys, values []expr }
	attribute struct { // x.name
		x    expr
		name string
	}
	item  struct{ x, key expr } // x[key]
	slice struct{ x, from, to, step expr }
	call  struct {
		f    expr
		args argExprs
	}
	filter struct {
		x    expr
		name string
		args argExprs
	}
	test struct {
		x    expr
		name string
		args argExprs
		not  bool
	}
	argExprs struct {
		list        []expr
		names       []string
		named       []expr
		rest, namer expr // *rest, **namer
	}
)

// Kinds of statements.
type (
	block    []stmt
	printing struct { // text, or an expression
		text str
		x    expr
		line int
	}
	condition struct {
		line            int
		cond            expr
		then, otherwise block
	}
	forLoop struct {
		line            int
		targets         []string
		many            bool // the targets are a tuple
		over, where     expr
		body, otherwise block
		recursive       bool
	}
	assignment struct {
		line    int
		targets []string
		many    bool
		attr    string // of the namespace that is the only target
		x       expr
	}
	blockAssignment struct {
		line    int
		target  string
		attr    string
		filters []filter
		body    block
	}
	macro struct {
		line     int
		name     string
		params   []string
		defaults []expr // of the last ones
		body     block
	}
	callBlock struct {
		line   int
		caller macro
		call   expr
	}
	filterBlock struct {
		line    int
		filters []filter
		body    block
	}
	with struct {
		line   int
		names  []string
		values []expr
		body   block
	}
	jump struct{ isBreak bool }
)

// maxDepth bounds how deep expressions, blocks and calls nest.
const maxDepth = 250

type parser struct {
	tokens []token
	pos    int
	depth  int
}

func parse(src string) block {
	p := &parser{tokens: lex(src)}
	b := p.block()
	if t := p.peek(); t.kind != end {
		fail("line %d: a block ends here that nothing began", t.line)
	}
	return b
}

func (p *parser) peek() token { return p.tokens[p.pos] }

func (p *parser) take() token {
	t := p.tokens[p.pos]
	if t.kind != end {
		p.pos++
	}
	return t
}

func (t token) is(kind tokenKind, text string) bool { return t.kind == kind && t.text == text }

// accept takes a token if it is that one.
func (p *parser) accept(kind tokenKind, text string) bool {
	if p.peek().is(kind, text) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) op(text string) bool   { return p.accept(op, text) }
func (p *parser) word(text string) bool { return p.accept(name, text) }

func (p *parser) want(kind tokenKind, text string) {
	if !p.accept(kind, text) {
		what := map[tokenKind]string{blockEnd: "%}", varEnd: "}}"}[kind]
		fail("line %d: %s: want %s%s", p.peek().line, p.peek(), text, what)
	}
}

func (p *parser) name() string {
	t := p.take()
	if t.kind != name {
		fail("line %d: %s: want a name", t.line, t)
	}
	return t.text
}

func (t token) String() string {
	switch t.kind {
	case end:
		return "the end of the template"
	case data:
		return "text"
	case varBegin, varEnd, blockBegin, blockEnd:
		return "the begin or end of a tag"
	}
	return strconv.Quote(t.text)
}

// deeper bounds what nests.
func (p *parser) deeper() func() {
	if p.depth++; p.depth > maxDepth {
		fail("line %d: this nests more than %d deep", p.peek().line, maxDepth)
	}
	return func() { p.depth-- }
}

// block takes statements up to a tag that is none.
func (p *parser) block() (b block) {
	defer p.deeper()()
	for {
		t := p.peek()
		switch t.kind {
		case data:
			p.pos++
			b = append(b, printing{text: text(t.text)})
		case varBegin:
			p.pos++
			b = append(b, printing{x: p.tuple(true), line: t.line})
			p.want(varEnd, "")
		case blockBegin:
			p.pos++
			s, ok := p.statement()
			if !ok {
				p.pos--
				return b
			}
			if s != nil {
				b = append(b, s)
			}
		default:
			return b
		}
	}
}

// statement takes a statement, if what is in the tag begins one.
func (p *parser) statement() (stmt, bool) {
	t := p.peek()
	if t.kind != name {
		fail("line %d: %s: want the name of a statement", t.line, t)
	}
	p.pos++
	switch t.text {
	case "if":
		return p.condition(t.line), true
	case "for":
		return p.loop(t.line), true
	case "set":
		return p.set(t.line), true
	case "macro":
		m := macro{line: t.line, name: p.name()}
		p.params(&m)
		m.body = p.body("endmacro")
		return m, true
	case "call":
		c := callBlock{line: t.line}
		if p.peek().is(op, "(") {
			p.params(&c.caller)
		}
		c.call = p.expr()
		c.caller.body = p.body("endcall")
		return c, true
	case "filter":
		f := filterBlock{line: t.line, filters: p.filters(true)}
		f.body = p.body("endfilter")
		return f, true
	case "with":
		w := with{line: t.line}
		for !p.peek().is(blockEnd, "") {
			if len(w.names) > 0 {
				p.want(op, ",")
			}
			w.names = append(w.names, p.name())
			p.want(op, "=")
			w.values = append(w.values, p.expr())
		}
		w.body = p.body("endwith")
		return w, true
	case "generation": // which marks what a model says, for training
		return p.body("endgeneration"), true
	case "break", "continue":
		p.want(blockEnd, "")
		return jump{t.text == "break"}, true
	case "elif", "else", "endif", "endfor", "endset", "endmacro", "endcall", "endfilter", "endwith", "endgeneration":
		p.pos--
		return nil, false
	}
	fail("line %d: the statement %q is not supported: want one of if, for, set, macro, call, filter, with, "+
		"break, continue, generation, raw", t.line, t.text)
	return nil, false
}

// body takes the rest of a tag, statements, and the tag that ends them.
func (p *parser) body(ended string) block {
	p.want(blockEnd, "")
	b := p.block()
	p.endTag(ended)
	return b
}

func (p *parser) endTag(ended string) {
	if t := p.peek(); t.kind == end {
		fail("the template ends before {%% %s %%}", ended)
	}
	p.want(blockBegin, "")
	p.want(name, ended)
	if ended == "endmacro" && p.peek().kind == name {
		p.pos++ // which may be said again
	}
	p.want(blockEnd, "")
}

func (p *parser) condition(line int) stmt {
	defer p.deeper()()
	c := condition{line: line, cond: p.tuple(false)}
	p.want(blockEnd, "")
	c.then = p.block()
	next := p.tokens[min(p.pos+1, len(p.tokens)-1)]
	switch {
	case next.is(name, "elif"):
		p.pos += 2
		c.otherwise = block{p.condition(next.line)}
		return c
	case next.is(name, "else"):
		p.pos += 2
		c.otherwise = p.body("endif")
		return c
	}
	p.endTag("endif")
	return c
}

// targets takes the names that values are given to.
func (p *parser) targets() (names []string, many bool) {
	open := p.op("(")
	for {
		names = append(names, p.name())
		if !p.op(",") {
			break
		}
		many = true
		if p.peek().kind != name || p.peek().text == "in" {
			break
		}
	}
	if open {
		p.want(op, ")")
	}
	return names, many
}

func (p *parser) loop(line int) stmt {
	l := forLoop{line: line}
	l.targets, l.many = p.targets()
	p.want(name, "in")
	l.over = p.tuple(false)
	if p.word("if") {
		l.where = p.expr()
	}
	l.recursive = p.word("recursive")
	p.want(blockEnd, "")
	l.body = p.block()
	if next := p.tokens[min(p.pos+1, len(p.tokens)-1)]; next.is(name, "else") {
		p.pos += 2
		l.otherwise = p.body("endfor")
		return l
	}
	p.endTag("endfor")
	return l
}

func (p *parser) set(line int) stmt {
	names, many := p.targets()
	attr := ""
	if len(names) == 1 && !many && p.op(".") {
		attr = p.name()
	}
	if p.op("=") {
		a := assignment{line: line, targets: names, many: many, attr: attr, x: p.tuple(true)}
		p.want(blockEnd, "")
		return a
	}
	if many {
		fail("line %d: several names for one block of text: want one", line)
	}
	b := blockAssignment{line: line, target: names[0], attr: attr, filters: p.filters(false)}
	b.body = p.body("endset")
	return b
}

// params takes the parameters of a macro.
func (p *parser) params(m *macro) {
	p.want(op, "(")
	for !p.op(")") {
		if len(m.params) > 0 {
			p.want(op, ",")
			if p.op(")") {
				return
			}
		}
		m.params = append(m.params, p.name())
		if p.op("=") {
			m.defaults = append(m.defaults, p.expr())
		} else if len(m.defaults) > 0 {
			fail("line %d: a parameter without a default behind one that has it", p.peek().line)
		}
	}
}

// filters takes filters that apply to text; the first has no | before it if bare is
// set.
func (p *parser) filters(bare bool) (list []filter) {
	for bare || p.op("|") {
		bare = false
		f := filter{name: p.dotted()}
		if p.op("(") {
			f.args = p.arguments()
		}
		list = append(list, f)
	}
	return list
}

func (p *parser) dotted() string {
	n := p.name()
	for p.op(".") {
		n += "." + p.name()
	}
	return n
}

// tuple takes expressions with commas between, or one. A conditional is not taken
// where an if may follow for another reason.
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

func (p *parser) expr() expr {
	defer p.deeper()()
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

func (p *parser) or() expr {
	x := p.and()
	for p.word("or") {
		x = binary{"or", x, p.and()}
	}
	return x
}

func (p *parser) and() expr {
	x := p.not()
	for p.word("and") {
		x = binary{"and", x, p.not()}
	}
	return x
}

func (p *parser) not() expr {
	defer p.deeper()()
	if p.word("not") {
		return unary{"not", p.not()}
	}
	return p.comparison()
}

var comparisons = []string{"==", "!=", "<", "<=", ">", ">="}

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

// levels are the operators of arithmetic, those that bind least first.
var levels = [][]string{{"+", "-"}, {"~"}, {"*", "/", "//", "%"}, {"**"}}

func (p *parser) sum() expr { return p.level(0) }

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

func (p *parser) unary(filters bool) expr {
	defer p.deeper()()
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

func (p *parser) primary() expr {
	defer p.deeper()()
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
		for p.peek().kind == literal {
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
		for !p.op("]") {
			if len(l.items) > 0 {
				p.want(op, ",")
				if p.op("]") {
					break
				}
			}
			l.items = append(l.items, p.expr())
		}
		return l
	case t.is(op, "{"):
		d := dictExpr{}
		for !p.op("}") {
			if len(d.keys) > 0 {
				p.want(op, ",")
				if p.op("}") {
					break
				}
			}
			d.keys = append(d.keys, p.expr())
			p.want(op, ":")
			d.values = append(d.values, p.expr())
		}
		return d
	}
	fail("line %d: %s: want an expression", t.line, t)
	return nil
}

// postfix takes what follows a value: attributes, items and calls.
func (p *parser) postfix(x expr) expr {
	for {
		switch {
		case p.op("."):
			if t := p.peek(); t.kind == integer {
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

func (p *parser) subscript(x expr) expr {
	var parts [3]expr
	colons := 0
	for !p.op("]") {
		switch {
		case p.op(":"):
			if colons++; colons > 2 {
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

// arguments takes those of a call, behind the bracket that opens them.
func (p *parser) arguments() (a argExprs) {
	for first := true; !p.op(")"); first = false {
		if !first {
			p.want(op, ",")
			if p.op(")") {
				break
			}
		}
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
			fail("line %d: an argument without a name behind one that has it", p.peek().line)
		default:
			a.list = append(a.list, p.expr())
		}
	}
	return a
}

// filtered takes the filters, tests and calls that follow a value.
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
