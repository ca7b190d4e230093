package syntax

import "strings"

// Stmt is a statement, or a comment or blank line between statements.
type Stmt interface{ write(p *printer) }

type (
	// Declare declares variables.
	Declare struct {
		Qualifiers string // such as "const" or "precise"
		Type       string
		Vars       []Var
	}
	// Assign changes a variable or an element by an operator such as "=" or "+=". For "++" and "--", Value is nil.
	Assign struct {
		To    *Expr
		Op    string
		Value *Expr
	}
	// Do evaluates an expression for its effect, such as a barrier.
	Do struct{ X *Expr }
	// Return leaves a function, with a value if X is not nil.
	Return struct{ X *Expr }
	// Jump is "break", "continue" or "discard".
	Jump struct{ Word string }
	// If executes Then or Else. Inline says that each is a single statement without braces.
	If struct {
		Cond       *Expr
		Then, Else []Stmt
		Inline     bool
	}
	// For is a loop. While says that it is a while loop, which has only a Cond.
	For struct {
		Hint   string // for compilers, such as "unroll"
		While  bool
		Init   Stmt // nil for none; Cond and Post likewise
		Cond   *Expr
		Post   Stmt
		Body   []Stmt
		Inline bool
	}
	// Block is a block of statements in braces.
	Block struct{ Body []Stmt }
	// Comment is a comment, with its slashes. It is on its own line or, if Trailing, after the previous statement or
	// after the brace that opens its block.
	Comment struct {
		Text     string
		Trailing bool
	}
	// Blank is an empty line.
	Blank struct{}
	// Verbatim is lines of a custom op's GLSL, with their indentation.
	Verbatim struct{ Text string }
)

// Var is a variable in a declaration.
type Var struct {
	Name string
	Dims []*Expr // extents of an array; a nil extent follows from Init
	Init *Expr   // nil for none
}

// blocks returns the lists of statements inside a statement.
func blocks(s Stmt) (first, second []Stmt) {
	switch s := s.(type) {
	case *If:
		return s.Then, s.Else
	case *For:
		return s.Body, nil
	case *Block:
		return s.Body, nil
	}
	return nil, nil
}

// visitExprs calls visit for each expression of a statement, but not for expressions of the statements inside it.
func visitExprs(s Stmt, visit func(*Expr)) {
	each := func(x *Expr) {
		if x != nil {
			visit(x)
		}
	}
	switch s := s.(type) {
	case *Declare:
		for _, v := range s.Vars {
			for _, d := range v.Dims {
				each(d)
			}
			each(v.Init)
		}
	case *Assign:
		each(s.To)
		each(s.Value)
	case *Do:
		each(s.X)
	case *Return:
		each(s.X)
	case *If:
		each(s.Cond)
	case *For:
		if s.Init != nil {
			visitExprs(s.Init, visit)
		}
		each(s.Cond)
		if s.Post != nil {
			visitExprs(s.Post, visit)
		}
	}
}

// Visit calls visit for each statement of a list, and of the blocks inside.
func Visit(list []Stmt, visit func(Stmt)) {
	for _, s := range list {
		visit(s)
		first, second := blocks(s)
		Visit(first, visit)
		Visit(second, visit)
	}
}

// Walk calls visit for all expressions in a list of statements, and for their parts.
func Walk(list []Stmt, visit func(*Expr)) {
	Visit(list, func(s Stmt) { visitExprs(s, func(x *Expr) { x.Walk(visit) }) })
}

// Names calls visit for every name in statements, except where a declaration introduces it.
func Names(list []Stmt, visit func(string)) {
	Visit(list, func(s Stmt) { visitStmtNames(s, visit) })
}

// visitStmtNames calls visit for every name in s, except where a declaration introduces it. It does not visit the
// statements of blocks inside s.
func visitStmtNames(s Stmt, visit func(string)) {
	switch s := s.(type) {
	case *Verbatim:
		EachName(s.Text, visit)
	case *Declare:
		EachName(s.Type, visit)
	case *For:
		if d, ok := s.Init.(*Declare); ok {
			EachName(d.Type, visit)
		}
	}
	visitExprs(s, func(x *Expr) { x.visitNames(visit) })
}

// Map returns statements with change applied to all parts of their expressions, as [Expr.Map] does.
func Map(list []Stmt, change func(*Expr) *Expr) []Stmt {
	return rebuilt(list, change, func(s string) string { return s })
}

// Renamed returns statements with names replaced.
func Renamed(list []Stmt, names map[string]string) []Stmt {
	if len(names) == 0 {
		return list
	}
	return rebuilt(list, renaming(names), func(s string) string { return renamed(s, names) })
}

// rebuilt returns statements with change applied to the parts of expressions, and rename to types, declared variables
// and verbatim text.
func rebuilt(list []Stmt, change func(*Expr) *Expr, rename func(string) string) []Stmt {
	if list == nil {
		return nil
	}
	out := make([]Stmt, len(list))
	for i, s := range list {
		out[i] = rebuiltStmt(s, change, rename)
	}
	return out
}

// rebuiltStmt returns one statement with the changes of rebuilt.
func rebuiltStmt(s Stmt, change func(*Expr) *Expr, rename func(string) string) Stmt {
	within := func(list []Stmt) []Stmt { return rebuilt(list, change, rename) }
	switch s := s.(type) {
	case *Declare:
		d := &Declare{s.Qualifiers, rename(s.Type), make([]Var, len(s.Vars))}
		for i, v := range s.Vars {
			d.Vars[i] = Var{rename(v.Name), make([]*Expr, len(v.Dims)), v.Init.Map(change)}
			for n, x := range v.Dims {
				d.Vars[i].Dims[n] = x.Map(change)
			}
		}
		return d
	case *Assign:
		return &Assign{s.To.Map(change), s.Op, s.Value.Map(change)}
	case *Do:
		return &Do{s.X.Map(change)}
	case *Return:
		return &Return{s.X.Map(change)}
	case *If:
		return &If{s.Cond.Map(change), within(s.Then), within(s.Else), s.Inline}
	case *For:
		f := &For{s.Hint, s.While, nil, s.Cond.Map(change), nil, within(s.Body), s.Inline}
		if s.Init != nil {
			f.Init = rebuiltStmt(s.Init, change, rename)
		}
		if s.Post != nil {
			f.Post = rebuiltStmt(s.Post, change, rename)
		}
		return f
	case *Block:
		return &Block{within(s.Body)}
	case *Verbatim:
		return &Verbatim{rename(s.Text)}
	}
	return s
}

// Definition is a definition before main: a function, constant or macro. Later definitions and main may use it.
type Definition struct {
	Note string // comment lines
	// Type is the return type of a function, "const" and the type of a constant, or "#define".
	Type   string
	Name   string
	Params []Param // of a function or macro
	Body   []Stmt  // of a function
	Inline bool    // the body is on the line of the name
	Dims   []*Expr // of a constant
	Value  *Expr   // of a constant or macro
}

// Param is a parameter. Its name is "" if the function does not use it.
type Param struct {
	Type string // with its qualifiers
	Name string
	Dims []*Expr
	// Break says that the parameter is on a new line.
	Break bool
}

// IsFunction reports whether the definition is a function, not a macro or constant.
func (d *Definition) IsFunction() bool { return d.Value == nil }

// Signature returns a text that differs between all definitions of a shader. For a function it is the name and the
// parameter types, because GLSL overloads functions by these. For others it is the name.
func (d *Definition) Signature() string {
	if !d.IsFunction() {
		return d.Name
	}
	var types []string
	for _, p := range d.Params {
		// The last word is the type; others are qualifiers.
		words := strings.Fields(p.Type)
		types = append(types, words[len(words)-1]+dims(p.Dims))
	}
	return d.Name + "(" + strings.Join(types, ", ") + ")"
}

// Names calls visit for every name in a definition, except where it or its body declares the name.
func (d *Definition) Names(visit func(string)) {
	for _, p := range d.Params {
		for _, x := range p.Dims {
			x.visitNames(visit)
		}
	}
	Names(d.Body, visit)
	if d.Value != nil {
		d.Value.visitNames(visit)
	}
}

// Mentions reports whether a definition uses a name.
func (d *Definition) Mentions(name string) bool {
	found := false
	d.Names(func(n string) { found = found || n == name })
	return found
}

// Walk calls visit for the expressions of a definition, and for their parts.
func (d *Definition) Walk(visit func(*Expr)) {
	Walk(d.Body, visit)
	d.Value.Walk(visit)
}

// Map returns the definition with change applied to all parts of its expressions, as [Expr.Map] does.
func (d *Definition) Map(change func(*Expr) *Expr) *Definition {
	e := *d
	e.Body, e.Value = Map(d.Body, change), d.Value.Map(change)
	return &e
}

// Renamed returns the definition with names replaced.
func (d *Definition) Renamed(names map[string]string) *Definition {
	if len(names) == 0 {
		return d
	}
	e := *d
	e.Name, e.Body = renamed(d.Name, names), Renamed(d.Body, names)
	e.Params = nil
	for _, p := range d.Params {
		p.Name = renamed(p.Name, names)
		e.Params = append(e.Params, p)
	}
	e.Value = d.Value.Map(renaming(names))
	return &e
}
