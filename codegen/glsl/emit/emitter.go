// Package emit has the [Emitter], which writes one shader as a tree of statements. It declares variables, opens loops
// and branches, evaluates values and indices of a kernel, and loads from and stores to buffers. The packages of kernel
// families, such as maps and matmul, use it.
package emit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// Emitter writes one shader. Its methods record the first error in Err and continue, so that code which uses it reads
// like the shader. glsl.Emit returns the error.
type Emitter struct {
	K       *kernel.Kernel
	Sched   kernel.Schedule
	Launch  kernel.Launch // of Sched
	Caps    device.Caps
	Symbols []string
	// symbolNames has the GLSL variables of symbols, by symbol.
	symbolNames map[string]string

	Root  *scope // the body of main, or of the function being defined
	Scope *scope // the innermost open scope
	Uses  useCount

	Buffers  []*Buffer
	Needs    map[string]bool
	Helpers  map[string]bool      // keys of lib entries
	Decoders []*syntax.Definition // functions that read block formats, and others that families define
	custom   []*syntax.Definition // functions of custom ops
	Shared   []Shared
	Arrays   map[string]expr.Expr // shared arrays that several folds use one after another, by type
	usedSyms map[string]bool
	Tables   map[string]bool // heads of the decoders that were added
	// SharedTables has the names of codebooks in shared memory, by binding.
	SharedTables map[int]string
	globals      map[string]bool // names that are visible in all functions

	// Decode adds the function that decodes one element of a block buffer, or width neighbours, and returns its name.
	Decode func(e *Emitter, b *Buffer, width int) string

	Grid         kernel.Grid
	SubgroupSize int
	Err          error
}

// scope is a block of a function, with the names and values known in it. If head is nil, it has no braces: it is a part
// of the enclosing block, and binds some axes there.
type scope struct {
	parent *scope
	head   syntax.Stmt // the loop or branch that the block belongs to
	other  bool        // the block is the branch's else block
	body   []syntax.Stmt
	Names  map[string]bool

	Axes    map[int]expr.Expr
	run     Run            // the neighbours that the block's loop computes one by one
	later   map[int]string // names for coordinates that become variables at their first use, by axis
	accs    map[int]expr.Expr
	Values  map[*kernel.Expr]expr.Expr
	indices map[string]expr.Expr       // printed indices and factors, by their canonical text
	vectors map[*kernel.Expr]expr.Expr // vectors with the values of a load for every lane

	// guard says that the block may not run. Values that only this block needs are computed inside it.
	guard bool
}

func newScope(parent *scope, head syntax.Stmt) *scope {
	return &scope{parent: parent, head: head, Names: map[string]bool{}, Axes: map[int]expr.Expr{},
		later:  map[int]string{},
		accs:   map[int]expr.Expr{},
		Values: map[*kernel.Expr]expr.Expr{}, indices: map[string]expr.Expr{}, vectors: map[*kernel.Expr]expr.Expr{}}
}

// block returns the innermost scope with braces that contains s, or s itself.
func (s *scope) block() *scope {
	for s.head == nil && s.parent != nil {
		s = s.parent
	}
	return s
}

// New returns an Emitter for a kernel.
func New(k *kernel.Kernel, sched kernel.Schedule, caps device.Caps, symbols []string) *Emitter {
	root := newScope(nil, nil)
	e := &Emitter{K: k, Sched: sched, Caps: caps, Symbols: symbols, symbolNames: map[string]string{},
		Root: root, Scope: root,
		Needs: map[string]bool{}, Helpers: map[string]bool{}, usedSyms: map[string]bool{}, Tables: map[string]bool{}, Arrays: map[string]expr.Expr{}}
	for _, s := range symbols {
		root.Names[s] = true
	}
	for _, s := range symbols {
		e.symbolNames[s] = s
		if !ir.IsIdent(s) { // a symbol that stands for an expression over other symbols
			e.symbolNames[s] = e.Fresh(root, s)
		}
	}
	for i, b := range k.Bindings {
		e.Buffers = append(e.Buffers, e.newBuffer(i, b))
	}
	e.nameWordAccess()
	e.globals = maps.Clone(root.Names)
	return e
}

// Fail records an error, unless one was recorded before.
func (e *Emitter) Fail(format string, args ...any) {
	if e.Err == nil {
		e.Err = fmt.Errorf("kernel %s (%s): "+format, append([]any{e.K.Name, e.Sched}, args...)...)
	}
}

// Need records that the shader needs device features.
func (e *Emitter) Need(names ...string) {
	for _, n := range names {
		e.Needs[n] = true
	}
}

// Blank writes an empty line.
func (e *Emitter) Blank() { e.Scope.Write(&syntax.Blank{}) }

func (s *scope) Write(list ...syntax.Stmt) { s.body = append(s.body, list...) }

// Comment writes a comment line, after a blank line unless it is the first line of its block.
func (e *Emitter) Comment(format string, args ...any) {
	if b := e.Scope; len(b.body) > 0 || b.head == nil && b.parent != nil {
		e.Blank()
	}
	e.Scope.Write(&syntax.Comment{Text: fmt.Sprintf("// "+format, args...)})
}

// Open begins the body of a loop or branch.
func (e *Emitter) Open(head syntax.Stmt) { e.Scope = newScope(e.Scope, head) }

// OpenElse begins the else block of the branch that was closed last.
func (e *Emitter) OpenElse() {
	last := len(e.Scope.body) - 1
	head := e.Scope.body[last]
	e.Scope.body = e.Scope.body[:last]
	e.Scope = newScope(e.Scope, head)
	e.Scope.other = true
}

// OpenScope begins a scope without braces. Axes can be bound in it for a few statements.
func (e *Emitter) OpenScope() { e.Scope = newScope(e.Scope, nil) }

// Close ends the innermost scope.
func (e *Emitter) Close() {
	s := e.Scope
	e.Scope = s.parent
	switch {
	case s.head == nil:
		e.Scope.Write(s.body...)
	case s.other:
		branch := *s.head.(*syntax.If)
		branch.Else = syntax.Prune(s.body)
		e.Scope.Write(&branch)
	default:
		e.Scope.Write(syntax.WithBody(s.head, syntax.Prune(s.body)))
	}
}

// BindAxis binds the coordinate along an axis in the open scope. Call it before the scope evaluates anything.
func (e *Emitter) BindAxis(axis int, t expr.Expr) { e.Scope.Axes[axis] = t }

// BindAxisLater is BindAxis for a coordinate that becomes a variable with that name at its first use. A number does not
// become a variable.
func (e *Emitter) BindAxisLater(axis int, name string, t expr.Expr) {
	e.BindAxis(axis, t)
	if _, number := expr.LiteralOf(t); !number {
		e.Scope.later[axis] = name
	}
}

// BindAcc binds the result of phase or matmul i to a variable, in the open scope.
func (e *Emitter) BindAcc(i int, t expr.Expr) { e.Scope.accs[i] = t }

// BindValue tells the open scope that t is the value of v, which is computed already.
func (e *Emitter) BindValue(v *kernel.Expr, t expr.Expr) { e.Scope.Values[v] = t }

// declare introduces a variable in scope s.
func (e *Emitter) declare(s *scope, typ, base string, value expr.Expr) expr.Expr {
	name := e.Fresh(s, base)
	s.Write(&syntax.Declare{Type: typ, Vars: []syntax.Var{{Name: name, Init: value}}})
	return syntax.Ident(name)
}

// Variable declares a variable in the open scope.
func (e *Emitter) Variable(typ, base string, value expr.Expr) expr.Expr {
	return e.declare(e.Scope, typ, base, value)
}

// Choose prints value if cond holds, and the constant otherwise if not. The value must be safe to compute in any case.
// Choose gives it a name first, because GLSL compilers turn other choices into a branch, and spirv-opt keeps branches
// around loads and multiplications.
func (e *Emitter) Choose(typ, base string, cond, value, otherwise expr.Expr) expr.Expr {
	if !expr.IsNumber(value) {
		value = e.Variable(typ, base, value)
	}
	return expr.Choose(cond, value, otherwise)
}

// Axis prints the coordinate along an axis.
func (e *Emitter) Axis(axis int) expr.Expr {
	for s := e.Scope; s != nil; s = s.parent {
		t, ok := s.Axes[axis]
		if !ok {
			continue
		}
		if name, ok := s.later[axis]; ok {
			delete(s.later, axis)
			t = e.declare(s, "uint", name, t)
			s.Axes[axis] = t
		}
		return t
	}
	e.Fail("axis %d has no loop", axis)
	return expr.Of("0u")
}

// acc prints the result of phase or matmul i.
func (e *Emitter) acc(i int) expr.Expr {
	for s := e.Scope; s != nil; s = s.parent {
		if t, ok := s.accs[i]; ok {
			return t
		}
	}
	e.Fail("the result of fold %d is needed before it is there", i)
	return expr.Of("0.0")
}

// symbol prints the value of a symbol.
func (e *Emitter) symbol(name string) expr.Expr {
	e.usedSyms[name] = true
	return expr.Of(e.symbolNames[name])
}

// Dim prints an extent as a uint.
func (e *Emitter) Dim(d ir.Dim) expr.Expr { return e.Coordinate(kernel.DimIndex(d)) }

// home returns the outermost scope that can compute a value, given the axes and phases or matmuls that the value
// depends on. That is the innermost scope that binds one of them, but not outside of an open guard.
func (e *Emitter) home(usesAxis, usesAcc func(int) bool) *scope {
	for s := e.Scope; ; s = s.parent {
		if s.parent == nil || s.guard {
			return s
		}
		for a := range s.Axes {
			if usesAxis(a) {
				return s
			}
		}
		for a := range s.accs {
			if usesAcc(a) {
				return s
			}
		}
	}
}

// Define adds a function in addition to main. head is its signature, and body writes its statements.
func (e *Emitter) Define(head string, body func()) {
	root, scope, used := e.Root, e.Scope, e.usedSyms
	e.Root = newScope(nil, nil)
	e.Root.Names = maps.Clone(e.globals)
	e.Scope, e.usedSyms = e.Root, map[string]bool{}
	body()
	f := e.Definition(head + " {\n}\n")
	f.Body = syntax.Prune(append(e.symbolLines(), e.Root.body...))
	e.Decoders = append(e.Decoders, f)
	e.Root, e.Scope, e.usedSyms = root, scope, used
}

// Add parses a definition and adds it to the shader. Later functions may use it.
func (e *Emitter) Add(source string) { e.Decoders = append(e.Decoders, e.Definition(source)) }

// AddFunction adds a function with a head such as "float half(float x)" and the given body.
func (e *Emitter) AddFunction(head, lines string) { e.Add(head + " {\n" + lines + "}\n") }

// Definition parses a definition.
func (e *Emitter) Definition(source string) *syntax.Definition {
	d, err := syntax.ParseDefinition(source)
	if err != nil {
		e.Fail("%v", err)
	}
	return d
}

// DefineOver defines a function with the given parameters. Variables of main become further parameters. Inside, the
// first axes are bound as in main.
func (e *Emitter) DefineOver(typ, name string, params, variables []string, axes int, body func()) {
	bound := map[int]expr.Expr{}
	for axis := range axes {
		if t, ok := e.Root.Axes[axis]; ok {
			bound[axis] = t
		}
	}
	for _, v := range variables {
		params = append(params, "const in uint "+v)
	}
	e.Define(fmt.Sprintf("%s %s(%s)", typ, name, strings.Join(params, ", ")), func() {
		for _, p := range params {
			e.Scope.Names[p[strings.LastIndex(p, " ")+1:]] = true
		}
		for axis, t := range bound {
			e.BindAxis(axis, t)
		}
		body()
	})
}

// symbolLines declares the symbols that the shader uses.
func (e *Emitter) symbolLines() []syntax.Stmt {
	s := newScope(nil, nil)
	for i, name := range e.Symbols {
		if !e.usedSyms[name] {
			continue
		}
		p := slices.IndexFunc(e.Buffers, func(b *Buffer) bool { return b.Params })
		if p < 0 {
			e.Fail("it needs symbol %s but binds no params", name)
			return nil
		}
		s.Write(&syntax.Declare{Qualifiers: "const", Type: "uint", Vars: []syntax.Var{{Name: e.symbolNames[name],
			Init: expr.Format("%s[%d]", e.View(e.Buffers[p], 1), i)}}})
	}
	return s.body
}

// SortedNeeds lists the device features that the shader needs.
func (e *Emitter) SortedNeeds() []string { return slices.Sorted(maps.Keys(e.Needs)) }

// Unroll hints for the GLSL compiler.
const (
	Unroll     = "unroll"
	DontUnroll = "dont_unroll"
)
