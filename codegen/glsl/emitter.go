package glsl

import (
	"fmt"
	"maps"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// emitter writes one shader. Its methods record the first error and go on, so
// that the writing reads like the text it writes; Emit returns the error.
type emitter struct {
	k       *kernel.Kernel
	sched   kernel.Schedule
	caps    device.Caps
	symbols []string
	// symbolNames are the variables that hold their values.
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
	arrays   map[string]string // shared memory that folds take turns with, by type
	usedSyms map[string]bool
	tables   map[string]bool // of decoders already written
	// sharedTables are the copies of codebooks in shared memory, by binding.
	sharedTables map[int]string
	globals      map[string]bool // names that every function sees

	grid         kernel.Grid
	subgroupSize int
	err          error
}

// scope is one block of a function, or, where head is nil, a stretch of the
// enclosing block in which axes have meanings of their own.
type scope struct {
	parent *scope
	head   syntax.Stmt // the loop or branch that the block belongs to
	other  bool        // it is what the branch does otherwise
	body   []syntax.Stmt
	names  map[string]bool

	axes    map[int]text
	run     run            // of the neighbours that the block is written for one by one
	later   map[int]string // names for coordinates of axes that become variables once used
	accs    map[int]text
	values  map[*kernel.Expr]text
	indices map[string]text         // by canonical text of an index or factor
	vectors map[*kernel.Expr]string // vector variables that hold a load of each lane

	// guard says that the block may not run: what only it needs stays inside.
	guard bool
}

func newScope(parent *scope, head syntax.Stmt) *scope {
	return &scope{parent: parent, head: head, names: map[string]bool{}, axes: map[int]text{}, later: map[int]string{},
		accs:   map[int]text{},
		values: map[*kernel.Expr]text{}, indices: map[string]text{}, vectors: map[*kernel.Expr]string{}}
}

// block returns the scope whose braces s stands in.
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
		needs: map[string]bool{}, helpers: map[string]bool{}, usedSyms: map[string]bool{}, tables: map[string]bool{}, arrays: map[string]string{}}
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

// line writes statements into the open scope: a format, in which trees stand for themselves. Nothing is an empty line.
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

// comment writes a line for the reader, with a blank line before it unless it
// opens its block.
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
	e.scope = newScope(e.scope, head)
}

// openElse begins a block that runs where the branch before it does not.
func (e *emitter) openElse() {
	last := len(e.scope.body) - 1
	head := e.scope.body[last]
	e.scope.body = e.scope.body[:last]
	e.scope = newScope(e.scope, head)
	e.scope.other = true
}

// openGuard begins a block that may not run, so that values which only it
// needs are computed inside it.
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

// bindAxis says what an axis is called in the open scope; do it before
// anything is evaluated there.
func (e *emitter) bindAxis(axis int, t text) { e.scope.axes[axis] = t }

// bindAxisLater is bindAxis for a coordinate that becomes a variable of that
// name at its first use, if there is one. A number needs no name.
func (e *emitter) bindAxisLater(axis int, name string, t text) {
	e.bindAxis(axis, t)
	if _, number := literalOf(t); !number {
		e.scope.later[axis] = name
	}
}

// bindAcc says what variable of the open scope holds the result of a phase or
// product.
func (e *emitter) bindAcc(i int, name string) { e.scope.accs[i] = primary(name) }

// bindValue says that the open scope has a value at hand already.
func (e *emitter) bindValue(v *kernel.Expr, t text) { e.scope.values[v] = t }

// declare introduces a variable in scope s and returns its name.
func (e *emitter) declare(s *scope, typ, base string, value text) string {
	name := e.fresh(s, base)
	e.lineIn(s, "%s %s = %s;", typ, name, value)
	return name
}

// variable declares a variable in the open scope.
func (e *emitter) variable(typ, base string, value text) string {
	return e.declare(e.scope, typ, base, value)
}

// choose selects a value, which can be worked out in any case, or a constant. It
// gives the value a name: of a choice between anything else GLSL compilers make
// a branch, and spirv-opt keeps the branches around loads and products.
func (e *emitter) choose(typ, base string, cond, value, otherwise text) text {
	if !isNumber(value) {
		value = primary(e.variable(typ, base, value))
	}
	return ternary(cond, value, otherwise)
}

// axis returns the text of a coordinate.
func (e *emitter) axis(axis int) text {
	for s := e.scope; s != nil; s = s.parent {
		t, ok := s.axes[axis]
		if !ok {
			continue
		}
		if name, ok := s.later[axis]; ok {
			delete(s.later, axis)
			t = primary(e.declare(s, "uint", name, t))
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

// home returns the outermost scope in which something can be computed, given
// which axes and folds it depends on: the innermost one that binds any of
// them, but inside every guard that is open.
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

// define writes a function beside main: body writes what is in its braces.
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

// add reads a definition, for what follows to use.
func (e *emitter) add(source string) { e.decoders = append(e.decoders, e.definition(source)) }

// addFunction adds a function of this head, such as "float half(float x)", and these lines.
func (e *emitter) addFunction(head, lines string) { e.add(head + " {\n" + lines + "}\n") }

// definition reads a definition.
func (e *emitter) definition(source string) *syntax.Definition {
	d, err := syntax.ParseDefinition(source)
	if err != nil {
		e.fail("%v", err)
	}
	return d
}

// defineOver defines a function of parameters, and of variables of main, that knows the
// coordinates of the first so many axes as main does.
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
