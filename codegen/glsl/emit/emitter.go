// Package emit has the [Emitter], which writes one shader as a tree of statements. It declares variables, opens loops
// and branches, evaluates values and indices of a kernel, and loads from and stores to buffers. The packages of kernel
// families, such as maps and matmul, use it.
//
// Two verbs recur in the comments of the generator. A method that writes a loop adds the loop's statements to the
// shader. A method that returns a value, such as the query of a row, returns the GLSL expression that computes this
// value.
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

// Emitter writes one shader. It consists of layers, and each layer uses only the ones below: a [Job], [Requirements],
// [Types] and [Storage]. [Code] has the statements and uses no layer. The Emitter itself evaluates the kernel's values
// and indices. Job keeps the first error, which glsl.Emit returns.
type Emitter struct {
	Storage
	Code
	// symbolNames has the GLSL variables of symbols, by symbol.
	symbolNames map[string]string
	usedSyms    map[string]bool
	uses        useCount

	Shared []Shared
	Arrays map[string]expr.Expr // shared arrays that several folds use one after another, by type
	// SharedTables has the names of codebooks in shared memory, by binding.
	SharedTables map[int]string

	// Decode adds the function that decodes one element of a block buffer, or width neighbours, and returns its name.
	// It is blocks.Decoder, which this package cannot call, because package blocks imports it.
	Decode func(e *Emitter, b *Buffer, width int) string

	Grid         kernel.Grid
	SubgroupSize int
}

// New returns an Emitter for a kernel.
func New(k *kernel.Kernel, sched kernel.Schedule, caps device.Caps, symbols []string) *Emitter {
	root := newScope(nil, nil)
	e := &Emitter{Code: Code{Root: root, Scope: root}, symbolNames: map[string]string{}, usedSyms: map[string]bool{},
		Arrays: map[string]expr.Expr{}}
	e.Job = Job{K: k, Sched: sched, Caps: caps, Symbols: symbols}
	e.Needs, e.Helpers, e.once = map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, s := range symbols { // first all symbols, so that Fresh below returns none of them
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

// Axis returns the coordinate along an axis.
func (e *Emitter) Axis(axis int) expr.Expr {
	for s := e.Scope; s != nil; s = s.parent {
		t, ok := s.Axes[axis]
		if !ok {
			continue
		}
		if name, ok := s.later[axis]; ok { // see BindAxisLater
			delete(s.later, axis)
			t = e.declare(s, "uint", name, t)
			s.Axes[axis] = t
		}
		return t
	}
	e.Fail("axis %d has no loop", axis)
	return expr.Of("0u")
}

// acc returns the result of phase or matmul i.
func (e *Emitter) acc(i int) expr.Expr {
	t, ok := lookUp(&e.Code, i, func(s *scope) map[int]expr.Expr { return s.accs })
	if !ok {
		e.Fail("the result of fold %d is needed before it is there", i)
		return expr.Of("0.0")
	}
	return t
}

// Dim returns an extent as a uint.
func (e *Emitter) Dim(d ir.Dim) expr.Expr { return e.Coordinate(kernel.DimIndex(d)) }

// Define adds a function in addition to main. head is its signature, and body writes its statements.
func (e *Emitter) Define(head string, body func()) {
	root, scope, used := e.Root, e.Scope, e.usedSyms
	e.Root = newScope(nil, nil)
	e.Root.Names = maps.Clone(e.globals)
	e.Scope, e.usedSyms = e.Root, map[string]bool{}
	body()
	f := e.Definition(head + " {\n}\n")
	f.Body = syntax.Prune(append(e.symbolLines(), e.Root.body...))
	e.Definitions = append(e.Definitions, f)
	e.Root, e.Scope, e.usedSyms = root, scope, used
}

// Captured returns the given values and main's coordinates along axes 0 to axes-1, without literals. A function that
// DefineOver defines takes these as further arguments, because it does not see the variables of main.
func (e *Emitter) Captured(axes int, values ...expr.Expr) (list []expr.Expr) {
	for axis := range axes {
		values = append(values, e.Root.Axes[axis])
	}
	for _, v := range values {
		if v != nil && !expr.IsNumber(v) {
			list = append(list, v)
		}
	}
	return list
}

// DefineOver defines a function with the given parameters, and with one more parameter of the same name for each
// variable of main in captured. In the function, the coordinates along axes 0 to axes-1 have the same names as in
// main.
func (e *Emitter) DefineOver(typ, name string, params []string, axes int, captured []expr.Expr, body func()) {
	bound := map[int]expr.Expr{}
	for axis := range axes {
		if t, ok := e.Root.Axes[axis]; ok {
			bound[axis] = t
		}
	}
	for _, v := range captured {
		params = append(params, "const in uint "+v.Text)
	}
	e.Define(fmt.Sprintf("%s %s(%s)", typ, name, strings.Join(params, ", ")), func() {
		for _, p := range params {
			// The last word of a parameter is its name, which no variable may hide.
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

// Unroll hints for the GLSL compiler.
const (
	Unroll     = "unroll"
	DontUnroll = "dont_unroll"
)

// Job describes the shader to write: its kernel, its schedule and the device. It keeps the first error. So the
// functions that write the shader need not return errors.
type Job struct {
	K       *kernel.Kernel
	Sched   kernel.Schedule
	Launch  kernel.Launch // of Sched
	Caps    device.Caps
	Symbols []string // the program's symbols, in the order of their values in the params buffer
	Err     error    // the first error
}

// Fail records an error, unless one was recorded before.
func (j *Job) Fail(format string, args ...any) {
	if j.Err == nil {
		j.Err = fmt.Errorf("kernel %s (%s): "+format, append([]any{j.K.Name, j.Sched}, args...)...)
	}
}

// pairs reports whether i64 values are pairs of 32-bit words, because the device has no 64-bit integers. A custom
// kernel has its own shader and declares its own needs.
func (j *Job) pairs() bool { return !j.Caps.Features.Int64 && j.K.Custom == nil }

// inPairs reports whether the elements of a buffer are i64 values as pairs of words.
func (j *Job) inPairs(b *Buffer) bool { return b.DType == ir.I64 && j.pairs() }

// UsesAxis reports whether a value or an index of the kernel depends on an axis.
func (j *Job) UsesAxis(axis int) bool {
	for _, r := range j.K.Roots() {
		if r.Uses(axis) {
			return true
		}
	}
	return slices.ContainsFunc(j.K.Stores, func(s kernel.Store) bool { return s.Index.Uses(axis) })
}

// SplitStores returns the kernel's stores that happen once per element, and those that happen once per row (see
// [kernel.Store]).
func (j *Job) SplitStores() (perElement, perRow []kernel.Store) {
	for _, s := range j.K.Stores {
		if s.PerElement {
			perElement = append(perElement, s)
		} else {
			perRow = append(perRow, s)
		}
	}
	return perElement, perRow
}

// ParaName returns the GLSL name of a parallel axis, by the kernel's family. Axes before the last few have numbers.
func (j *Job) ParaName(axis int) string {
	var names []string // of the last axes
	switch j.K.Family {
	case kernel.FamilyAttention:
		if axis == j.K.AttentionAxes().Split {
			return "chunk"
		}
		names = []string{"batch", "group", "head", "query", "col"}
	case kernel.FamilyRecurrence:
		names = []string{"batch", "head", "row"}
	case kernel.FamilyRow, kernel.FamilyScan, kernel.FamilySort:
		names = []string{"batch", "row"}
	default:
		if len(j.K.Parallel) == 1 {
			return "i"
		}
		names = []string{"batch", "row", "col"}
	}
	if i := axis - len(j.K.Parallel) + len(names); i >= 0 {
		return names[i]
	}
	return fmt.Sprintf("axis%d", axis)
}
