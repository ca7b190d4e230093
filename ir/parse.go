package ir

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Parse parses text IR, as printed by Graph.String:
//
//	graph "NAME" {
//	  symbol S <= BOUND
//	  %ID = OP %ARG, %ARG {attr=value, attr=value} : TYPE
//	  update %STATE = %VALUE
//	  output "NAME" %ID
//	}
//
// An attribute that is a graph has the same form.
//
// A node's id is any run of letters, digits, dots and underscores. Nodes and symbols must be declared before use. A
// comment runs from ";" to the end of the line. The type after ":" may be omitted; if present it is checked.
// Parse(g.String()) prints the same text again, and has the same hash. Errors are of type *ReadError.
func Parse(text string) (*Graph, error) {
	p := &parser{lex: lexer{text: text}, g: NewGraph(""), nodes: map[string]*Node{}, splatLeft: maxSplatBytes}
	p.next()
	p.graph()
	if p.tok.kind != tokEOF {
		p.expected("the end of the text")
	}
	if p.err != nil {
		return nil, p.err
	}
	return p.g, nil
}

// parser is a recursive-descent parser of text IR. After the first error every token is tokEOF, so that all loops end
// and only the result needs checking.
type parser struct {
	lex       lexer
	tok       token // the next token
	err       error
	g         *Graph
	nodes     map[string]*Node // by id as written
	depth     int              // nesting depth of the current body
	splatLeft int64            // bytes still available for repeated values
}

// next returns the current token, and reads the one after it unless there was an error.
func (p *parser) next() token {
	t := p.tok
	if p.err == nil {
		p.tok = p.lex.next()
	}
	return t
}

// fail records the first error, at a byte offset.
func (p *parser) fail(pos int, err error) {
	if p.err == nil {
		line, col := lineCol(p.lex.text, pos)
		p.err = &ReadError{Line: line, Col: col, Err: err}
		p.tok = token{kind: tokEOF, pos: pos}
	}
}

// check records err, if it is not nil.
func (p *parser) check(pos int, err error) {
	if err != nil {
		p.fail(pos, err)
	}
}

func (p *parser) expected(what string) {
	p.fail(p.tok.pos, fmt.Errorf("found %s, expected %s", p.tok, what))
}

// take reads the next token, which must have that kind, and returns its text.
func (p *parser) take(kind tokenKind, what string) string {
	if p.tok.kind != kind {
		p.expected(what)
		return ""
	}
	return p.next().text
}

func (p *parser) at(punct string) bool { return p.tok.kind == tokPunct && p.tok.text == punct }

// accept skips the next token if it is that punctuation, and reports whether it was.
func (p *parser) accept(punct string) bool {
	ok := p.at(punct)
	if ok {
		p.next()
	}
	return ok
}

func (p *parser) expect(punct string) {
	if !p.accept(punct) {
		p.expected(strconv.Quote(punct))
	}
}

// list reads items separated by commas up to the closing bracket.
func (p *parser) list(closing string, item func()) {
	for !p.at(closing) && p.err == nil {
		item()
		if !p.accept(",") {
			break
		}
	}
	if !p.accept(closing) {
		p.expected(fmt.Sprintf(`"," or %q`, closing))
	}
}

// graph reads a graph, from its name to the closing brace.
func (p *parser) graph() {
	if p.tok.kind != tokWord || p.tok.text != "graph" {
		p.expected(`"graph"`)
	}
	p.next()
	p.g.Name = p.name("the graph's name in quotes")
	p.expect("{")
	for !p.at("}") && p.err == nil {
		p.statement()
	}
	p.expect("}")
}

// body reads the graph that is an attribute's value.
func (p *parser) body() *Graph {
	if p.depth == MaxBodyDepth {
		p.fail(p.tok.pos, fmt.Errorf("bodies are nested more than %d deep", MaxBodyDepth))
		return nil
	}
	g, nodes, pos := p.g, p.nodes, p.tok.pos
	p.g, p.nodes = NewBody(""), map[string]*Node{}
	p.depth++
	p.graph()
	p.depth--
	body := p.g
	p.g, p.nodes = g, nodes
	if p.err == nil {
		p.check(pos, body.Verify())
	}
	return body
}

// name reads a string that must be UTF-8.
func (p *parser) name(what string) string {
	pos := p.tok.pos
	s := p.take(tokString, what)
	if !utf8.ValidString(s) {
		p.fail(pos, fmt.Errorf("%q is not UTF-8", clip(s)))
	}
	return s
}

// statement reads a node, a symbol, an update or an output.
func (p *parser) statement() {
	pos := p.tok.pos
	switch {
	case p.tok.kind == tokRef:
		p.node()
	case p.tok.kind == tokWord && p.tok.text == "symbol":
		p.next()
		name := p.take(tokWord, "the symbol's name")
		p.expect("<=")
		p.check(pos, p.g.DeclareSymbol(name, p.int()))
	case p.tok.kind == tokWord && p.tok.text == "update":
		p.next()
		state := p.ref()
		p.expect("=")
		if value := p.ref(); p.err == nil {
			p.check(pos, p.g.Update(state, value))
		}
	case p.tok.kind == tokWord && p.tok.text == "output":
		p.next()
		name := p.name("the output's name in quotes")
		if n := p.ref(); p.err == nil {
			p.check(pos, p.g.Output(name, n))
		}
	default:
		p.expected(`a node (%id = …), "symbol", "update", "output" or "}"`)
	}
}

// ref reads the id of a node that has been declared.
func (p *parser) ref() *Node {
	pos := p.tok.pos
	id := p.take(tokRef, "a node (%id)")
	n := p.nodes[id]
	if n == nil {
		p.fail(pos, fmt.Errorf("no node %%%s is declared above", clip(id)))
	}
	return n
}

// node reads %id = op args {attrs} : type.
func (p *parser) node() {
	idPos := p.tok.pos
	id := p.next().text
	if p.nodes[id] != nil {
		p.fail(idPos, fmt.Errorf("node %%%s is declared twice", clip(id)))
	}
	p.expect("=")
	opPos := p.tok.pos
	op, err := ParseOp(p.take(tokWord, "an op"))
	p.check(opPos, err)
	args := p.args()
	attrs := p.attrs(op.Info())
	if p.err != nil {
		return
	}
	n, err := p.g.Add(op, args, attrs, "")
	if err != nil {
		p.fail(opPos, err)
		return
	}
	p.nodes[id] = n
	if p.accept(":") {
		pos := p.tok.pos
		if given := (Type{p.dtype(), p.shape()}); !given.Equal(n.typ) {
			p.fail(pos, fmt.Errorf("the graph says type %s, but %s makes %s", given, op, n.typ))
		}
	}
}

// args reads the arguments of a node.
func (p *parser) args() []*Node {
	var args []*Node
	if p.tok.kind != tokRef {
		return nil
	}
	for {
		args = append(args, p.ref())
		if !p.accept(",") {
			return args
		}
	}
}

// attrs reads the attributes of a node in braces, if there are any.
func (p *parser) attrs(info *OpInfo) []Attr {
	var attrs []Attr
	if !p.accept("{") {
		return nil
	}
	p.list("}", func() {
		pos := p.tok.pos
		name := p.take(tokWord, "an attribute's name")
		spec, err := info.attr(name)
		p.check(pos, err)
		p.expect("=")
		attrs = append(attrs, Attr{name, p.attrValue(spec.Kind)})
	})
	return attrs
}

// attrValue reads a value as FormatAttr prints it.
func (p *parser) attrValue(kind AttrKind) any {
	switch kind {
	case AttrInt:
		return p.int()
	case AttrInts:
		ints := []int64{}
		p.expect("[")
		p.list("]", func() { ints = append(ints, p.int()) })
		return ints
	case AttrFloat:
		pos := p.tok.pos
		v, err := parseFloat(p.take(tokWord, "a number"))
		p.check(pos, err)
		return v
	case AttrBool:
		pos := p.tok.pos
		word := p.take(tokWord, "true or false")
		if word != "true" && word != "false" {
			p.fail(pos, fmt.Errorf("found %q, expected true or false", clip(word)))
		}
		return word == "true"
	case AttrString:
		return p.name("a string in quotes")
	case AttrDType:
		return p.dtype()
	case AttrShape:
		return p.shape()
	case AttrGraph:
		return p.body()
	}
	return p.data()
}

// int reads an integer.
func (p *parser) int() int64 {
	pos := p.tok.pos
	word := p.take(tokWord, "an integer")
	v, err := strconv.ParseInt(word, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		p.fail(pos, fmt.Errorf("%s is too large", clip(word)))
	} else if err != nil {
		p.fail(pos, fmt.Errorf("found %q, expected an integer", clip(word)))
	}
	return v
}

// dtype parses the name of a dtype.
func (p *parser) dtype() DType {
	pos := p.tok.pos
	t, err := ParseDType(p.take(tokWord, "a dtype"))
	p.check(pos, err)
	return t
}

// shape reads a shape in brackets.
func (p *parser) shape() Shape {
	shape := Shape{}
	p.expect("[")
	p.list("]", func() {
		pos := p.tok.pos
		if p.at("(") && p.err == nil { // a dim, too
			p.lex.pos = pos
			p.lex.extent()
			p.tok = token{tokWord, p.lex.text[pos:p.lex.pos], pos}
		}
		d, err := ParseDim(p.take(tokWord, "a dim"), p.g.symbols)
		p.check(pos, err)
		shape = append(shape, d)
	})
	return shape
}

// data reads a constant as formatData prints it.
func (p *parser) data() *Data {
	pos := p.tok.pos
	r, err := newDataReader(p.dtype(), p.shape())
	p.check(pos, err)
	if p.err != nil {
		return nil
	}
	p.expect("(")
	// One value for all elements, or bytes in base64, or a list of values.
	switch word := p.tok; {
	case word.kind == tokWord && word.text == "all":
		p.next()
		elemPos := p.tok.pos
		if elem := p.elem(); p.err == nil {
			p.check(elemPos, r.splat(elem, &p.splatLeft))
		}
		p.expect(")")
	case word.kind == tokWord && word.text == "base64":
		p.next()
		textPos := p.tok.pos
		if text := p.take(tokString, "base64 in quotes"); p.err == nil {
			p.check(textPos, r.base64(text))
		}
		p.expect(")")
	default:
		p.list(")", func() {
			elemPos := p.tok.pos
			if elem := p.elem(); p.err == nil {
				p.check(elemPos, r.add(elem))
			}
		})
		p.check(pos, r.done())
	}
	return r.data
}

// elem returns one element of a constant as written: a word, or nan:HEX.
func (p *parser) elem() string {
	text := p.take(tokWord, "a value")
	if text == "nan" && p.accept(":") {
		return "nan:" + p.take(tokWord, "the bits of the NaN in hex digits")
	}
	return text
}
