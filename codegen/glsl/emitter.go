package glsl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// emitter writes one shader. Its methods record the first error and continue, so that code which emits reads like the
// shader; Emit returns the error.
type emitter struct {
	k       *kernel.Kernel
	sched   kernel.Schedule
	caps    device.Caps
	symbols []string
	// symbolNames are the variables that hold the symbols' values.
	symbolNames map[string]string

	root  *scope // the body of main
	scope *scope // the innermost open one
	uses  useCount

	buffers  []*buffer
	needs    map[string]bool
	helpers  map[string]bool      // keys of lib entries
	decoders []*syntax.Definition // functions that read block formats, by binding
	custom   []*syntax.Definition // functions of custom ops
	shared   []sharedArray
	arrays   map[string]text // shared memory that folds use in turn, by type
	usedSyms map[string]bool
	tables   map[string]bool // of decoders that were added
	// sharedTables are the copies of codebooks in shared memory, by binding.
	sharedTables map[int]string
	globals      map[string]bool // names that all functions see

	// decode adds the function that decodes one element of a block buffer, or several neighbours, and returns its name.
	decode func(e *emitter, b *buffer, width int) string

	grid         kernel.Grid
	subgroupSize int
	err          error
}

// scope is a block of a function. If head is nil, it is a part of the enclosing block that binds axes of its own.
type scope struct {
	parent *scope
	head   syntax.Stmt // the loop or branch that owns the block
	other  bool        // it is the branch's else block
	body   []syntax.Stmt
	names  map[string]bool

	axes    map[int]text
	run     run            // of the neighbours that the block computes one by one
	later   map[int]string // names of axes' coordinates that become variables at their first use
	accs    map[int]text
	values  map[*kernel.Expr]text
	indices map[string]text       // by canonical text of an index or factor
	vectors map[*kernel.Expr]text // vector variables that hold a load for every lane

	// guard says that the block may not run: values that only the block needs are computed inside it.
	guard bool
}

func newScope(parent *scope, head syntax.Stmt) *scope {
	return &scope{parent: parent, head: head, names: map[string]bool{}, axes: map[int]text{}, later: map[int]string{},
		accs:   map[int]text{},
		values: map[*kernel.Expr]text{}, indices: map[string]text{}, vectors: map[*kernel.Expr]text{}}
}

// block returns the scope with the braces around s.
func (s *scope) block() *scope {
	for s.head == nil && s.parent != nil {
		s = s.parent
	}
	return s
}

func newEmitter(k *kernel.Kernel, sched kernel.Schedule, caps device.Caps, symbols []string) *emitter {
	root := newScope(nil, nil)
	e := &emitter{k: k, sched: sched, caps: caps, symbols: symbols, symbolNames: map[string]string{},
		root: root, scope: root,
		needs: map[string]bool{}, helpers: map[string]bool{}, usedSyms: map[string]bool{}, tables: map[string]bool{}, arrays: map[string]text{}}
	for _, s := range symbols {
		root.names[s] = true
	}
	for _, s := range symbols {
		e.symbolNames[s] = s
		if !ir.IsIdent(s) { // a sum or quotient of symbols
			e.symbolNames[s] = e.fresh(root, s)
		}
	}
	for i, b := range k.Bindings {
		e.buffers = append(e.buffers, e.newBuffer(i, b))
	}
	e.nameWordAccess()
	e.globals = maps.Clone(root.names)
	return e
}

// fail records the first error.
func (e *emitter) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf("kernel %s (%s): "+format, append([]any{e.k.Name, e.sched}, args...)...)
	}
}

// need records a device feature.
func (e *emitter) need(names ...string) {
	for _, n := range names {
		e.needs[n] = true
	}
}

// line writes statements into the open scope. Trees among args stand for themselves. An empty format is a blank line.
func (e *emitter) line(format string, args ...any) {
	if format == "" {
		e.scope.write(&syntax.Blank{})
		return
	}
	e.lineIn(e.scope, format, args...)
}

func (e *emitter) lineIn(s *scope, format string, args ...any) {
	list, err := syntax.Format(format, args...)
	if err != nil {
		e.fail("%v", err)
	}
	s.write(list...)
}

func (s *scope) write(list ...syntax.Stmt) { s.body = append(s.body, list...) }

// comment writes a comment line, with a blank line before it unless it opens its block.
func (e *emitter) comment(format string, args ...any) {
	if b := e.scope; len(b.body) > 0 || b.head == nil && b.parent != nil {
		e.line("")
	}
	e.scope.write(&syntax.Comment{Text: fmt.Sprintf("// "+format, args...)})
}

// open begins a block: open("for (…)").
func (e *emitter) open(format string, args ...any) {
	head, err := syntax.Head(format, args...)
	if err != nil {
		e.fail("%v", err)
	}
	e.openHead(head)
}

// openHead begins the body of a loop or branch.
func (e *emitter) openHead(head syntax.Stmt) { e.scope = newScope(e.scope, head) }

// openElse begins the else block of the branch before it.
func (e *emitter) openElse() {
	last := len(e.scope.body) - 1
	head := e.scope.body[last]
	e.scope.body = e.scope.body[:last]
	e.scope = newScope(e.scope, head)
	e.scope.other = true
}

// openGuard begins a block that may not run. Values that only the block needs are computed inside it.
func (e *emitter) openGuard(format string, args ...any) {
	e.open(format, args...)
	e.scope.guard = true
}

// openScope begins a scope without braces, to bind axes for a few lines.
func (e *emitter) openScope() { e.scope = newScope(e.scope, nil) }

// close ends the innermost scope.
func (e *emitter) close() {
	s := e.scope
	e.scope = s.parent
	switch {
	case s.head == nil:
		e.scope.write(s.body...)
	case s.other:
		branch := *s.head.(*syntax.If)
		branch.Else = syntax.Prune(s.body)
		e.scope.write(&branch)
	default:
		e.scope.write(syntax.WithBody(s.head, syntax.Prune(s.body)))
	}
}

// bindAxis names an axis in the open scope. Call it before the scope evaluates anything.
func (e *emitter) bindAxis(axis int, t text) { e.scope.axes[axis] = t }

// bindAxisLater is bindAxis for a coordinate that becomes a variable of that name at its first use. A number needs no
// name.
func (e *emitter) bindAxisLater(axis int, name string, t text) {
	e.bindAxis(axis, t)
	if _, number := literalOf(t); !number {
		e.scope.later[axis] = name
	}
}

// bindAcc names the variable of the open scope that holds the result of phase or matmul i.
func (e *emitter) bindAcc(i int, t text) { e.scope.accs[i] = t }

// bindValue gives the open scope an expression for a value that is already computed.
func (e *emitter) bindValue(v *kernel.Expr, t text) { e.scope.values[v] = t }

// declare introduces a variable in scope s.
func (e *emitter) declare(s *scope, typ, base string, value text) text {
	name := e.fresh(s, base)
	s.write(&syntax.Declare{Type: typ, Vars: []syntax.Var{{Name: name, Init: value}}})
	return syntax.Ident(name)
}

// variable declares a variable in the open scope.
func (e *emitter) variable(typ, base string, value text) text {
	return e.declare(e.scope, typ, base, value)
}

// choose selects between a value and a constant. The value must be safe to compute in any case, so choose names it
// first: GLSL compilers turn other choices into a branch, and spirv-opt keeps branches around loads and
// multiplications.
func (e *emitter) choose(typ, base string, cond, value, otherwise text) text {
	if !isNumber(value) {
		value = e.variable(typ, base, value)
	}
	return ternary(cond, value, otherwise)
}

// axis prints a coordinate.
func (e *emitter) axis(axis int) text {
	for s := e.scope; s != nil; s = s.parent {
		t, ok := s.axes[axis]
		if !ok {
			continue
		}
		if name, ok := s.later[axis]; ok {
			delete(s.later, axis)
			t = e.declare(s, "uint", name, t)
			s.axes[axis] = t
		}
		return t
	}
	e.fail("axis %d has no loop", axis)
	return primary("0u")
}

// acc returns the variable of a fold's result.
func (e *emitter) acc(i int) text {
	for s := e.scope; s != nil; s = s.parent {
		if t, ok := s.accs[i]; ok {
			return t
		}
	}
	e.fail("the result of fold %d is needed before it is there", i)
	return primary("0.0")
}

// symbol returns the variable of a run-time extent.
func (e *emitter) symbol(name string) text {
	e.usedSyms[name] = true
	return primary(e.symbolNames[name])
}

// dim prints an extent as a uint.
func (e *emitter) dim(d ir.Dim) text { return e.coordinate(kernel.DimIndex(d)) }

// home returns the outermost scope that can compute a value, given the axes and folds that it depends on. That is the
// innermost scope that binds one of them, but inside every open guard.
func (e *emitter) home(usesAxis, usesAcc func(int) bool) *scope {
	for s := e.scope; ; s = s.parent {
		if s.parent == nil || s.guard {
			return s
		}
		for a := range s.axes {
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

// define writes a function besides main. body writes its statements.
func (e *emitter) define(head string, body func()) {
	root, scope, used := e.root, e.scope, e.usedSyms
	e.root = newScope(nil, nil)
	e.root.names = maps.Clone(e.globals)
	e.scope, e.usedSyms = e.root, map[string]bool{}
	body()
	f := e.definition(head + " {\n}\n")
	f.Body = syntax.Prune(append(e.symbolLines(), e.root.body...))
	e.decoders = append(e.decoders, f)
	e.root, e.scope, e.usedSyms = root, scope, used
}

// add parses a definition and adds it; later functions may use it.
func (e *emitter) add(source string) { e.decoders = append(e.decoders, e.definition(source)) }

// addFunction adds a function with a head such as "float half(float x)" and the given body.
func (e *emitter) addFunction(head, lines string) { e.add(head + " {\n" + lines + "}\n") }

// definition parses a definition.
func (e *emitter) definition(source string) *syntax.Definition {
	d, err := syntax.ParseDefinition(source)
	if err != nil {
		e.fail("%v", err)
	}
	return d
}

// defineOver defines a function with parameters, and with variables of main as further parameters. The function binds
// the first axes as main does.
func (e *emitter) defineOver(typ, name string, params, variables []string, axes int, body func()) {
	bound := map[int]text{}
	for axis := range axes {
		if t, ok := e.root.axes[axis]; ok {
			bound[axis] = t
		}
	}
	for _, v := range variables {
		params = append(params, "const in uint "+v)
	}
	e.define(fmt.Sprintf("%s %s(%s)", typ, name, strings.Join(params, ", ")), func() {
		for _, p := range params {
			e.scope.names[p[strings.LastIndex(p, " ")+1:]] = true
		}
		for axis, t := range bound {
			e.bindAxis(axis, t)
		}
		body()
	})
}

// symbolLines declares the symbols that the shader uses.
func (e *emitter) symbolLines() []syntax.Stmt {
	s := newScope(nil, nil)
	for i, name := range e.symbols {
		if !e.usedSyms[name] {
			continue
		}
		p := slices.IndexFunc(e.buffers, func(b *buffer) bool { return b.Params })
		if p < 0 {
			e.fail("it needs symbol %s but binds no params", name)
			return nil
		}
		e.lineIn(s, "const uint %s = %s[%d];", e.symbolNames[name], e.view(e.buffers[p], 1), i)
	}
	return s.body
}

func (e *emitter) sortedNeeds() []string { return slices.Sorted(maps.Keys(e.needs)) }

const (
	unroll     = "unroll"
	dontUnroll = "dont_unroll"
)
