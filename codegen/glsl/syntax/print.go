package syntax

import (
	"slices"
	"strings"
)

// printer writes GLSL to b.
type printer struct {
	b     strings.Builder
	depth int // number of blocks around the current position
	tags  []tag
}

// tag is the From of an expression, and the position in the output at which the expression begins.
type tag struct {
	at   int
	from string
}

func (p *printer) text(s string) { p.b.WriteString(s) }

// put writes strings and expressions.
func (p *printer) put(parts ...any) {
	for _, part := range parts {
		switch part := part.(type) {
		case string:
			p.text(part)
		case *Expr:
			p.expr(part, 0)
		}
	}
}

func (p *printer) newline() { p.b.WriteByte('\n') }

func (p *printer) indent() {
	for range p.depth {
		p.text("    ")
	}
}

// broken begins a new line within an expression.
func (p *printer) broken() {
	p.newline()
	p.indent()
	p.text("    ")
}

// String returns the expression as GLSL, or "" for nil.
func (x *Expr) String() string {
	if x == nil {
		return ""
	}
	if len(x.Args) == 0 && (x.Op == Name || x.Op == Number) {
		return x.Text
	}
	var p printer
	p.expr(x, 0)
	return p.b.String()
}

// Len is the length of String's result.
func (x *Expr) Len() int { return len(x.String()) }

// expr writes an expression, in parentheses if its precedence is below need.
func (p *printer) expr(x *Expr, need int) {
	if x == nil {
		return
	}
	if x.From != "" {
		p.tags = append(p.tags, tag{p.b.Len(), x.From})
	}
	prec := x.Prec()
	if prec < need {
		p.text("(")
		p.expr(x, 0)
		p.text(")")
		return
	}
	if x.Precise { // written as a call of a library function with a precise result
		p.text(x.Callee() + "(")
		p.list(x.Args)
		p.text(")")
		return
	}
	p.operation(x, prec)
}

// operation writes an expression of precedence prec without parentheses around it.
func (p *printer) operation(x *Expr, prec int) {
	switch x.Op {
	case Name, Number:
		p.text(x.Text)
	case Hole:
		p.text("{" + x.Text + "}")
	case Unary:
		p.text(x.Text)
		need := PrecUnary
		if a := x.Args[0]; a.Prec() == PrecUnary && strings.HasPrefix(a.Text, x.Text[:1]) { // or -(-x) would read --x
			need = PrecPrimary
		}
		p.expr(x.Args[0], need)
	case Postfix:
		p.expr(x.Args[0], PrecPrimary)
		p.text(x.Text)
	case Binary:
		p.expr(x.Args[0], prec)
		p.text(" " + x.Text)
		if x.Break {
			p.broken()
		} else {
			p.text(" ")
		}
		// Operators of equal precedence group from the left.
		p.expr(x.Args[1], prec+1)
	case Ternary:
		p.expr(x.Args[0], PrecOrOr)
		p.text(" ? ")
		p.expr(x.Args[1], PrecOrOr)
		p.text(" : ")
		p.expr(x.Args[2], PrecTernary)
	case Call:
		p.text(x.Text + "(")
		p.list(x.Args)
		p.text(")")
	case Method:
		p.expr(x.Args[0], PrecPrimary)
		p.text("." + x.Text + "()")
	case Index:
		p.expr(x.Args[0], PrecPrimary)
		p.put("[", x.Args[1], "]")
	case Member:
		p.expr(x.Args[0], PrecPrimary)
		p.text("." + x.Text)
	case Paren:
		p.put("(", x.Args[0], ")")
	}
}

// list writes arguments, separated by commas.
func (p *printer) list(args []*Expr) {
	for i, a := range args {
		switch {
		case i == 0:
		// A Binary's Break concerns its second operand.
		case a.Break && a.Op != Binary:
			p.text(",")
			p.broken()
		default:
			p.text(", ")
		}
		p.expr(a, 0)
	}
}

// dims prints the extents of an array.
func dims(list []*Expr) string {
	s := ""
	for _, x := range list {
		if x == nil {
			s += "[]"
		} else {
			s += "[" + x.String() + "]"
		}
	}
	return s
}

// stmts writes statements, each on its own line.
func (p *printer) stmts(list []Stmt) {
	for i, s := range list {
		switch s := s.(type) {
		case *Comment:
			if s.Trailing {
				continue // end has written it already
			}
		case *Blank, *Verbatim:
			s.write(p)
			continue
		}
		p.indent()
		s.write(p)
		p.end(list[i+1:])
	}
}

// end ends a line. next has the statements after it. If the first of these is a trailing comment, end writes the
// comment on this line.
func (p *printer) end(next []Stmt) {
	if len(next) > 0 {
		if c, ok := next[0].(*Comment); ok && c.Trailing {
			p.text(" " + c.Text)
		}
	}
	p.newline()
}

// block writes statements in braces.
func (p *printer) block(list []Stmt) {
	p.text("{")
	p.end(list)
	p.depth++
	p.stmts(list)
	p.depth--
	p.indent()
	p.text("}")
}

// body writes the body of a loop or branch.
func (p *printer) body(list []Stmt, inline bool) {
	if inline {
		list[0].write(p)
	} else {
		p.block(list)
	}
}

// simple writes a statement without the final semicolon.
func (p *printer) simple(s Stmt) {
	switch s := s.(type) {
	case *Declare:
		if s.Qualifiers != "" {
			p.text(s.Qualifiers + " ")
		}
		p.text(s.Type + " ")
		for i, v := range s.Vars {
			if i > 0 {
				p.text(", ")
			}
			p.text(v.Name + dims(v.Dims))
			if v.Init != nil {
				p.put(" = ", v.Init)
			}
		}
	case *Assign:
		if s.Value == nil {
			p.put(s.Op, s.To)
		} else {
			p.put(s.To, " "+s.Op+" ", s.Value)
		}
	case *Do:
		p.expr(s.X, 0)
	}
}

func (s *Declare) write(p *printer) { p.simple(s); p.text(";") }
func (s *Assign) write(p *printer)  { p.simple(s); p.text(";") }
func (s *Do) write(p *printer)      { p.simple(s); p.text(";") }

func (s *Return) write(p *printer) {
	p.text("return")
	if s.X != nil {
		p.put(" ", s.X)
	}
	p.text(";")
}

func (s *Jump) write(p *printer) { p.text(s.Word + ";") }

// write implements [Stmt]. It writes an else branch that is one if statement as "else if".
func (s *If) write(p *printer) {
	p.put("if (", s.Cond, ") ")
	p.body(s.Then, s.Inline)
	if len(s.Else) == 0 {
		return
	}
	p.text(" else ")
	if _, chain := s.Else[0].(*If); chain && len(s.Else) == 1 {
		s.Else[0].write(p)
		return
	}
	p.body(s.Else, s.Inline)
}

// write implements [Stmt]: it writes a for loop, whose three parts may be missing, or a while loop.
func (s *For) write(p *printer) {
	if s.Hint != "" {
		p.text("[[" + s.Hint + "]] ")
	}
	if s.While {
		p.put("while (", s.Cond, ") ")
		p.body(s.Body, s.Inline)
		return
	}
	p.text("for (")
	if s.Init != nil {
		p.simple(s.Init)
	}
	p.text(";")
	if s.Cond != nil {
		p.put(" ", s.Cond)
	}
	p.text(";")
	if s.Post != nil {
		p.text(" ")
		p.simple(s.Post)
	}
	p.text(") ")
	p.body(s.Body, s.Inline)
}

func (s *Block) write(p *printer)    { p.block(s.Body) }
func (s *Comment) write(p *printer)  { p.text(s.Text) }
func (s *Blank) write(p *printer)    { p.newline() }
func (s *Verbatim) write(p *printer) { p.text(s.Text) }

// String returns the definition as GLSL.
func (d *Definition) String() string {
	p := d.print()
	return p.b.String()
}

// Origins returns, for each line of the definition's GLSL, the From of the expressions that begin on it, each once.
func (d *Definition) Origins() [][]string {
	p := d.print()
	lines := strings.SplitAfter(p.b.String(), "\n")
	origins := make([][]string, len(lines)-1) // the last line ends with a newline
	line, end := 0, len(lines[0])
	for _, t := range p.tags {
		// Tags are in the order of their positions.
		for t.at >= end {
			line++
			end += len(lines[line])
		}
		if !slices.Contains(origins[line], t.from) {
			origins[line] = append(origins[line], t.from)
		}
	}
	return origins
}

// print returns a printer with the GLSL of a function, a macro (its Type is #define) or a constant.
func (d *Definition) print() *printer {
	p := &printer{}
	p.text(d.Note)
	head := d.Type + " " + d.Name
	p.text(head)
	// A macro has Params only if it has parentheses.
	if d.Params != nil || d.IsFunction() {
		p.params(d.Params, len(head)+1)
	}
	p.text(dims(d.Dims))
	switch {
	case d.IsFunction() && d.Inline:
		p.text(" { ")
		for _, s := range d.Body {
			s.write(p)
			p.text(" ")
		}
		p.text("}")
	case d.IsFunction():
		p.text(" ")
		p.block(d.Body)
	case d.Type == "#define":
		p.put(" ", d.Value)
	default:
		p.put(" = ", d.Value, ";")
	}
	p.newline()
	return p
}

// params writes parameters in parentheses. A parameter with Break begins a line, at the given column.
func (p *printer) params(list []Param, column int) {
	p.text("(")
	for i, q := range list {
		if i > 0 && q.Break {
			p.text(",")
			p.newline()
			p.text(strings.Repeat(" ", column))
		} else if i > 0 {
			p.text(", ")
		}
		p.text(strings.TrimSpace(q.Type+" "+q.Name) + dims(q.Dims))
	}
	p.text(")")
}
