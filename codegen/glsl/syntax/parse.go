package syntax

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// parser parses the GLSL that the generator writes. After the first error it skips to the end of the source.
type parser struct {
	lexer
	tok   token // the next token
	trees []*Expr
	err   error
}

// parse parses a whole source by a rule. trees are the expressions that the source has marks for.
func parse[T any](src string, trees []*Expr, rule func(*parser) T) (T, error) {
	p := &parser{lexer: lexer{src: src}, trees: trees}
	p.next()
	t := rule(p)
	if p.err == nil && p.tok.kind != tokenEnd {
		p.fail("unexpected %q", p.tok.text)
	}
	return t, p.err
}

// next returns the next token and advances to the one after it.
func (p *parser) next() token {
	t := p.tok
	if p.err != nil {
		p.tok = token{}
	} else {
		p.tok = p.lexer.next()
	}
	return t
}

// fail records an error, unless one was recorded before, and skips to the end.
func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		src := strings.ReplaceAll(p.src, string(treeMark), "…")
		p.err = fmt.Errorf("GLSL %q: "+format, append([]any{src}, args...)...)
	}
	p.tok = token{}
}

// at reports whether the next token is the given operator or word.
func (p *parser) at(text string) bool {
	return p.tok.text == text && (p.tok.kind == tokenOperator || p.tok.kind == tokenName)
}

// take advances over the next token if it is text, and reports whether it was.
func (p *parser) take(text string) bool {
	if !p.at(text) {
		return false
	}
	p.next()
	return true
}

// expect advances over the next token, which must be text.
func (p *parser) expect(text string) {
	if !p.take(text) {
		p.fail("%q where %q should be", p.tok.text, text)
	}
}

// parens parses an expression in parentheses.
func (p *parser) parens() *Expr {
	p.expect("(")
	x := p.expr()
	p.expect(")")
	return x
}

// until parses an optional part by a rule, and the token end after it. It returns a zero value if the part is missing.
func until[T any](p *parser, end string, rule func() T) (t T) {
	if !p.at(end) {
		t = rule()
	}
	p.expect(end)
	return t
}

// name parses a name.
func (p *parser) name() string {
	if p.tok.kind != tokenName {
		p.fail("%q where a name should be", p.tok.text)
		return ""
	}
	return p.next().text
}

// Expression parses an expression.
func Expression(src string) (*Expr, error) { return parse(src, nil, (*parser).expr) }

// Statements parses statements.
func Statements(src string) ([]Stmt, error) { return parse(src, nil, (*parser).all) }

// FormatExpression parses an expression that is written as a format of package fmt. Expressions among args become parts
// of the tree.
func FormatExpression(format string, args ...any) (*Expr, error) {
	src, trees, err := expand(format, args)
	x, wrong := parse(src, trees, (*parser).expr)
	return x, cmp.Or(err, wrong)
}

// Format parses statements that are written as a format of package fmt. Expressions among args become parts of the
// tree.
func Format(format string, args ...any) ([]Stmt, error) {
	src, trees, err := expand(format, args)
	list, wrong := parse(src, trees, (*parser).all)
	return list, cmp.Or(err, wrong)
}

// WithBody returns a copy of head, a loop or branch, with the given body. For other statements it returns a block.
func WithBody(head Stmt, body []Stmt) Stmt {
	switch s := head.(type) {
	case *If:
		return &If{Cond: s.Cond, Then: body}
	case *For:
		f := *s
		f.Body = body
		return &f
	}
	return &Block{body}
}

// ParseDefinition parses a function, constant or macro, and the comments before it.
func ParseDefinition(src string) (*Definition, error) { return parse(src, nil, (*parser).definition) }

// definition parses a function, constant or macro, with the comments before it.
func (p *parser) definition() *Definition {
	d := &Definition{}
	for p.tok.kind == tokenComment {
		d.Note += p.next().text + "\n"
	}
	if p.take("#") {
		p.expect("define")
		d.Type = "#define"
		d.Name = p.name()
		// Parameters of a macro follow its name without a blank.
		if p.at("(") && p.tok.lines == 0 && p.src[p.tok.from-1] != ' ' {
			p.params(d, func() Param { return Param{Name: p.name()} })
		}
		d.Value = p.expr()
		return d
	}
	if p.take("const") {
		d.Type = "const "
	}
	d.Type += p.typeName()
	d.Name = p.name()
	if strings.HasPrefix(d.Type, "const ") {
		d.Dims = p.dims()
		p.expect("=")
		d.Value = p.expr()
		p.expect(";")
		return d
	}
	p.params(d, p.param)
	p.expect("{")
	d.Inline = p.tok.lines == 0 && p.tok.kind != tokenComment
	d.Body = p.stmts("}")
	return d
}

// params parses the parameters of d in parentheses. one parses a single parameter.
func (p *parser) params(d *Definition, one func() Param) {
	p.expect("(")
	d.Params = []Param{}
	for p.err == nil && !p.take(")") {
		if len(d.Params) > 0 {
			p.expect(",")
		}
		broken := p.tok.lines > 0
		param := one()
		param.Break = broken
		d.Params = append(d.Params, param)
	}
}

// param parses a parameter of a function: qualifiers, type, name and array length.
func (p *parser) param() Param {
	var q Param
	for p.at("const") || p.at("in") || p.at("out") || p.at("inout") {
		q.Type += p.next().text + " "
	}
	q.Type += p.typeName()
	if p.tok.kind == tokenName {
		q.Name = p.name()
	}
	q.Dims = p.dims()
	return q
}

// typeName parses a type, which may have arguments, such as coopmat<…>.
func (p *parser) typeName() string {
	t := p.tok
	if t.kind != tokenName {
		p.fail("%q where a type should be", t.text)
		return ""
	}
	p.next()
	if !p.at("<") || !slices.Contains(generic, t.text) {
		return t.text
	}
	for p.err == nil && !p.at(">") {
		p.next()
	}
	end := p.tok.to
	p.expect(">")
	return p.src[t.from:end]
}

// generic has the types that take arguments.
var generic = []string{"coopmat", "tensorLayoutNV", "tensorViewNV"}

// dims parses the extents of an array, such as [4][2].
func (p *parser) dims() (list []*Expr) {
	for p.take("[") {
		// An extent that follows from the initializer is nil.
		if p.take("]") {
			list = append(list, nil)
			continue
		}
		list = append(list, p.expr())
		p.expect("]")
	}
	return list
}

// all parses statements up to the end of the source.
func (p *parser) all() []Stmt { return p.stmts("") }

// stmts parses statements up to the token end, or up to the end of the source if end is "".
func (p *parser) stmts(end string) (list []Stmt) {
	for p.err == nil {
		// Each statement begins a line. Further line ends before it are blank lines.
		blanks := p.tok.lines - 1
		switch {
		case p.tok.kind == tokenEnd && end == "":
			return list
		case end != "" && p.take(end):
			return list
		}
		for range blanks {
			list = append(list, &Blank{})
		}
		if p.tok.kind == tokenComment {
			list = append(list, &Comment{p.tok.text, p.tok.lines == 0 && p.tok.from > 0})
			p.next()
			continue
		}
		list = append(list, p.stmt())
	}
	return list
}

// inner parses the body of a loop or branch. inline says that it is a single statement without braces.
func (p *parser) inner() (list []Stmt, inline bool) {
	if p.take("{") {
		return p.stmts("}"), false
	}
	return []Stmt{p.stmt()}, true
}

// stmt parses one statement.
func (p *parser) stmt() Stmt {
	switch {
	case p.take("{"):
		return &Block{p.stmts("}")}
	case p.at("if") || p.at("for") || p.at("while") || p.at("["):
		return p.loopOrBranch()
	case p.take("return"):
		return &Return{until(p, ";", p.expr)}
	case p.at("break") || p.at("continue") || p.at("discard"):
		s := &Jump{p.next().text}
		p.expect(";")
		return s
	}
	s := p.simple()
	p.expect(";")
	return s
}

// loopOrBranch parses a loop or branch with its body.
func (p *parser) loopOrBranch() Stmt {
	s := p.head()
	switch s := s.(type) {
	case *For:
		s.Body, s.Inline = p.inner()
	case *If:
		s.Then, s.Inline = p.inner()
		switch {
		case !p.take("else"):
		case p.at("if"): // else if
			s.Else = []Stmt{p.stmt()}
		default:
			s.Else, _ = p.inner()
		}
	}
	return s
}

// head parses a loop or branch up to its body.
func (p *parser) head() Stmt {
	hint := ""
	if p.take("[") {
		p.expect("[")
		hint = p.name()
		p.expect("]")
		p.expect("]")
	}
	switch {
	case p.take("if"):
		return &If{Cond: p.parens()}
	case p.take("while"):
		return &For{Hint: hint, While: true, Cond: p.parens()}
	}
	p.expect("for")
	p.expect("(")
	return &For{Hint: hint, Init: until(p, ";", p.simple), Cond: until(p, ";", p.expr), Post: until(p, ")", p.simple)}
}

// simple parses a declaration, an assignment or an expression, without the semicolon.
func (p *parser) simple() Stmt {
	if p.declares() {
		return p.declare()
	}
	if p.at("++") || p.at("--") {
		op := p.next().text
		return &Assign{To: p.expr(), Op: op}
	}
	x := p.expr()
	// =, += and so on, but not ==, <= and other comparisons
	if t := p.tok; t.kind == tokenOperator && t.text[len(t.text)-1] == '=' && BinaryPrec(t.text) == 0 {
		p.next()
		return &Assign{x, t.text, p.expr()}
	}
	return &Do{x}
}

// qualifiers can begin a declaration.
var qualifiers = []string{"const", "precise", "shared"}

// declares reports whether a declaration follows: a qualifier, or a type and a name.
func (p *parser) declares() bool {
	if p.tok.kind != tokenName {
		return false
	}
	if slices.Contains(qualifiers, p.tok.text) {
		return true
	}
	// Try to parse a type and a name, and go back.
	before := *p
	p.typeName()
	found := p.err == nil && p.tok.kind == tokenName
	*p = before
	return found
}

// declare parses the declaration of a variable, without the semicolon.
func (p *parser) declare() *Declare {
	d := &Declare{}
	for slices.Contains(qualifiers, p.tok.text) {
		if d.Qualifiers != "" {
			d.Qualifiers += " "
		}
		d.Qualifiers += p.next().text
	}
	d.Type = p.typeName()
	for p.err == nil {
		v := Var{Name: p.name()}
		v.Dims = p.dims()
		if p.take("=") {
			v.Init = p.expr()
		}
		d.Vars = append(d.Vars, v)
		if !p.take(",") {
			break
		}
	}
	return d
}

// expr parses an expression.
func (p *parser) expr() *Expr {
	cond := p.binary(PrecOrOr)
	if !p.take("?") {
		return cond
	}
	a := p.expr()
	p.expect(":")
	return &Expr{Op: Ternary, Args: []*Expr{cond, a, p.expr()}}
}

// binary parses an expression of binary operators with precedence `least` or higher, by precedence climbing.
func (p *parser) binary(least int) *Expr {
	left := p.unary()
	for p.err == nil && p.tok.kind == tokenOperator {
		op := p.tok.text
		prec := BinaryPrec(op)
		if prec == 0 || prec < least {
			break
		}
		p.next()
		broken := p.tok.lines > 0
		// The second operand binds tighter, because operators of equal precedence group from the left.
		left = &Expr{Op: Binary, Text: op, Break: broken, Args: []*Expr{left, p.binary(prec + 1)}}
	}
	return left
}

// unary parses an operand: a primary expression with the prefix operators before it, and the indices, members, calls
// and ++ or -- after it.
func (p *parser) unary() *Expr {
	if p.tok.kind == tokenOperator {
		switch op := p.tok.text; op {
		case "-":
			p.next()
			return Negative(p.unary())
		case "!", "~", "+", "++", "--":
			p.next()
			return &Expr{Op: Unary, Text: op, Args: []*Expr{p.unary()}}
		}
	}
	x := p.primary()
	for p.err == nil && p.tok.kind == tokenOperator {
		switch p.tok.text {
		case "[":
			x = p.index(x)
		case ".":
			x = p.member(x)
		case "(": // a constructor of a type such as float[4]
			if x.Op != Index {
				p.fail("what is called is not a function")
				return x
			}
			x = &Expr{Op: Call, Text: x.String(), Args: p.args()}
		case "++", "--":
			x = &Expr{Op: Postfix, Text: p.next().text, Args: []*Expr{x}}
		default:
			return x
		}
	}
	return x
}

// index parses [i] after x, or [](…) after a type x: a constructor of an array.
func (p *parser) index(x *Expr) *Expr {
	p.expect("[")
	if p.take("]") {
		return &Expr{Op: Call, Text: x.Text + "[]", Args: p.args()}
	}
	x = &Expr{Op: Index, Args: []*Expr{x, p.expr()}}
	p.expect("]")
	return x
}

// member parses .name after x, or .name() for a method.
func (p *parser) member(x *Expr) *Expr {
	p.expect(".")
	name := p.name()
	if !p.take("(") {
		return &Expr{Op: Member, Text: name, Args: []*Expr{x}}
	}
	p.expect(")")
	return &Expr{Op: Method, Text: name, Args: []*Expr{x}}
}

// args parses arguments in parentheses.
func (p *parser) args() (list []*Expr) {
	p.expect("(")
	for p.err == nil && !p.take(")") {
		if len(list) > 0 {
			p.expect(",")
		}
		broken := p.tok.lines > 0
		// Copy the expression, since a tree that was inserted is shared.
		x := *p.expr()
		x.Break = x.Break || broken
		list = append(list, &x)
	}
	return list
}

// primary parses an inserted tree, a literal, a name, a call, an expression in parentheses or a {placeholder}.
func (p *parser) primary() *Expr {
	switch t := p.tok; {
	case t.kind == tokenTree:
		p.next()
		x := p.trees[0]
		p.trees = p.trees[1:]
		if p.at("(") {
			if x.Op != Name {
				p.fail("what is called is not a function")
			}
			return &Expr{Op: Call, Text: x.Text, Args: p.args()}
		}
		return x
	case t.kind == tokenNumber:
		p.next()
		return &Expr{Op: Number, Text: t.text}
	case t.kind == tokenName:
		name := p.typeName()
		if p.at("(") {
			return &Expr{Op: Call, Text: name, Args: p.args()}
		}
		return &Expr{Op: Name, Text: name}
	case p.at("("):
		return &Expr{Op: Paren, Args: []*Expr{p.parens()}}
	case p.take("{"):
		x := &Expr{Op: Hole, Text: p.tok.text}
		p.next()
		p.expect("}")
		return x
	}
	if p.tok.kind == tokenEnd {
		p.fail("it ends too early")
	} else {
		p.fail("unexpected %q", p.tok.text)
	}
	return &Expr{Op: Name}
}
