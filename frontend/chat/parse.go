package chat

import "strconv"

// maxDepth is how deep expressions, blocks and calls may nest.
const maxDepth = 250

// parser is a recursive-descent parser of templates.
type parser struct {
	tokens []token
	pos    int
	depth  int
}

// parse parses a template.
func parse(src string) block {
	p := &parser{tokens: lex(src)}
	b := p.block()
	if t := p.peek(); t.kind != end {
		fail("line %d: this ends a block that was not begun", t.line)
	}
	return b
}

// peek returns the next token.
func (p *parser) peek() token { return p.tokens[p.pos] }

// take returns the next token and skips it, unless it is the end.
func (p *parser) take() token {
	t := p.tokens[p.pos]
	if t.kind != end {
		p.pos++
	}
	return t
}

func (t token) is(kind tokenKind, text string) bool { return t.kind == kind && t.text == text }

// accept skips the next token if it matches, and reports whether it did.
func (p *parser) accept(kind tokenKind, text string) bool {
	if p.peek().is(kind, text) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) op(text string) bool   { return p.accept(op, text) }
func (p *parser) word(text string) bool { return p.accept(name, text) }

// want skips the next token, which must match.
func (p *parser) want(kind tokenKind, text string) {
	if !p.accept(kind, text) {
		what := map[tokenKind]string{blockEnd: "%}", varEnd: "}}"}[kind]
		fail("line %d: %s: want %s%s", p.peek().line, p.peek(), text, what)
	}
}

// name skips the next token, which must be a name, and returns its text.
func (p *parser) name() string {
	t := p.take()
	if t.kind != name {
		fail("line %d: %s: want a name", t.line, t)
	}
	return t.text
}

// String describes the token for an error.
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

// nest counts a level of nesting, and fails at the limit. The function that it returns ends the level: callers write
// defer p.nest()().
func (p *parser) nest() func() {
	p.depth++
	if p.depth > maxDepth {
		fail("line %d: this nests more than %d deep", p.peek().line, maxDepth)
	}
	return func() { p.depth-- }
}

// block parses statements, up to the end or to a tag that does not begin a statement, such as else.
func (p *parser) block() (b block) {
	defer p.nest()()
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
				p.pos-- // the tag belongs to the caller
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

// statement parses a statement. It returns false if the tag does not begin one.
func (p *parser) statement() (s stmt, ok bool) {
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
	case "generation": // marks the model's answer, for training
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

// body parses the rest of a tag, the statements after it, and the end tag, such as endfor.
func (p *parser) body(ended string) block {
	p.want(blockEnd, "")
	b := p.block()
	p.endTag(ended)
	return b
}

// endTag parses the tag that ends a block, such as endfor.
func (p *parser) endTag(ended string) {
	if t := p.peek(); t.kind == end {
		fail("the template ends before {%% %s %%}", ended)
	}
	p.want(blockBegin, "")
	p.want(name, ended)
	if ended == "endmacro" && p.peek().kind == name {
		p.pos++ // the name may be repeated
	}
	p.want(blockEnd, "")
}

// condition parses an if or elif statement after that word, up to endif.
func (p *parser) condition(line int) stmt {
	defer p.nest()()
	c := condition{line: line, cond: p.tuple(false)}
	p.want(blockEnd, "")
	c.then = p.block()
	next := p.tokens[min(p.pos+1, len(p.tokens)-1)] // the word after the tag's beginning
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

// targets parses the names that a set or for assigns to. unpack means that they are a tuple, even if it has one name,
// and take the elements of a sequence.
func (p *parser) targets() (names []string, unpack bool) {
	open := p.op("(")
	for {
		names = append(names, p.name())
		if !p.op(",") {
			break
		}
		unpack = true
		if p.peek().kind != name || p.peek().text == "in" {
			break
		}
	}
	if open {
		p.want(op, ")")
	}
	return names, unpack
}

// loop parses a for statement.
func (p *parser) loop(line int) stmt {
	l := forLoop{line: line}
	l.targets, l.unpack = p.targets()
	p.want(name, "in")
	l.over = p.tuple(false) // an if after it belongs to the loop
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

// set parses a set statement, in either form: with an expression, or with a block of text.
func (p *parser) set(line int) stmt {
	names, unpack := p.targets()
	attr := ""
	if len(names) == 1 && !unpack && p.op(".") {
		attr = p.name()
	}
	if p.op("=") {
		a := assignment{line: line, targets: names, unpack: unpack, attr: attr, x: p.tuple(true)}
		p.want(blockEnd, "")
		return a
	}
	if unpack {
		fail("line %d: several names for one block of text: want one", line)
	}
	b := blockAssignment{line: line, target: names[0], attr: attr, filters: p.filters(false)}
	b.body = p.body("endset")
	return b
}

// params parses the parameters of a macro.
func (p *parser) params(m *macro) {
	p.want(op, "(")
	p.elements(")", func() {
		m.params = append(m.params, p.name())
		if p.op("=") {
			m.defaults = append(m.defaults, p.expr())
		} else if len(m.defaults) > 0 {
			fail("line %d: a parameter without a default follows one with a default", p.peek().line)
		}
	})
}

// filters parses the filters of a set or filter block. With bare, the first filter has no | before it.
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
