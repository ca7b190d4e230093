package gomlx

import (
	"context"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
	"github.com/vkc-go/vkc/ir"
)

// callee returns the function that an operation of f, of the given kind, calls with arguments of these shapes. It
// returns an error if f cannot call the function: it belongs to another builder, has no results yet, is a closure of a
// function that does not contain f, or has other parameters.
func (f *Function) callee(kind compute.OpType, called compute.Function, args ...shapes.Shape) (*Function, error) {
	g, ok := called.(*Function)
	switch {
	case !ok || g == nil || g.builder != f.builder:
		return nil, errors.Errorf("%s: a %T is not a function of this computation", kind, called)
	case g.results == nil:
		return nil, errors.Errorf("%s: function %q returns nothing yet", kind, g.name)
	case g.parent != nil && !f.within(g.parent):
		return nil, errors.Errorf("%s: the closure is one of function %q, which is not around this one", kind,
			g.parent.name)
	case len(g.parameters) != len(args):
		return nil, errors.Errorf("%s: function %q takes %d values, want %d", kind, g.name, len(g.parameters),
			len(args))
	}
	for i, p := range g.parameters {
		if !p.shape.Equal(args[i]) {
			return nil, errors.Errorf("%s: parameter %d of function %q is %s, want %s", kind, i, g.name, p.shape,
				args[i])
		}
	}
	return g, nil
}

// shapesOf returns the shapes of values.
func shapesOf(values []*value) []shapes.Shape {
	of := make([]shapes.Shape, len(values))
	for i, v := range values {
		of[i] = v.shape
	}
	return of
}

// hasFlow reports whether the host must run a loop or branch, between programs, to compute results of the functions. A
// result from an enclosing function counts as computed. A value from there that a function only captures does not.
func hasFlow(of ...*Function) bool {
	seen := map[*operation]bool{}
	var walk func(v *value) bool
	walk = func(v *value) bool {
		if seen[v.op] { // searched already, without success
			return false
		}
		seen[v.op] = true
		return v.op.flow != nil || slices.ContainsFunc(v.op.args, walk)
	}
	return slices.ContainsFunc(of, func(f *Function) bool {
		return slices.ContainsFunc(f.results, func(v *value) bool { return v.op.function.within(f) && walk(v) })
	})
}

// Call implements compute.Function: it calls a function of the same computation. The graph inlines it, unless the host
// must run a part of it.
func (f *Function) Call(called compute.Function, inputs ...compute.Value) ([]compute.Value, error) {
	kind := compute.OpTypeCall
	args, err := f.values(kind, inputs...)
	if err != nil {
		return nil, err
	}
	g, err := f.callee(kind, called, shapesOf(args)...)
	if err != nil {
		return nil, err
	}
	captured := captures(g)
	op := &operation{kind: kind, args: slices.Concat(args, captured)}
	if hasFlow(g) {
		op.flow = &branch{branches: []*Function{g}, captured: [][]*value{captured}} // a branch without a choice
	} else {
		op.build = func(l *lowering, in []tensor) []tensor { return l.call(g, captured, in, false) }
	}
	return valuesOf(f.keep(op, shapesOf(g.results)...)), nil
}

// While implements compute.Function: it runs the body as long as the condition is true, and returns the last values.
// Both functions take the values, which are `initial` at first. The body returns the next values, and the condition a
// bool. The condition is asked before each round.
func (f *Function) While(condition, body compute.Function, initial ...compute.Value) ([]compute.Value, error) {
	kind := compute.OpTypeWhile
	args, err := f.values(kind, initial...)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		return nil, errors.Errorf("%s: want a value at least that passes from one round to the next", kind)
	}
	c, err := f.callee(kind, condition, shapesOf(args)...)
	if err != nil {
		return nil, err
	}
	b, err := f.callee(kind, body, shapesOf(args)...)
	if err != nil {
		return nil, err
	}
	if len(c.results) != 1 || !isCondition(c.results[0]) {
		return nil, errors.Errorf("%s: the condition returns %v, want a bool", kind, shapesOf(c.results))
	}
	if !slices.EqualFunc(b.results, args, func(r, a *value) bool { return r.shape.Equal(a.shape) }) {
		return nil, errors.Errorf("%s: the body returns %v, want %v", kind, shapesOf(b.results), shapesOf(args))
	}
	w := f.newWhile(c, b)
	op := &operation{kind: kind, args: slices.Concat(args, w.captured[0], w.captured[1]), flow: w}
	return valuesOf(f.keep(op, shapesOf(args)...)), nil
}

func isCondition(v *value) bool { return v.shape.Rank() == 0 && v.shape.DType == dtypes.Bool }

// If implements compute.Function: it runs the function yes if the condition, a bool, is true, and otherwise no. It
// returns the results of that function. Neither has parameters.
func (f *Function) If(condition compute.Value, yes, no compute.Function) ([]compute.Value, error) {
	kind := compute.OpTypeIf
	args, err := f.values(kind, condition)
	if err != nil {
		return nil, err
	}
	if !isCondition(args[0]) {
		return nil, errors.Errorf("%s: the condition is %s, want a bool", kind, args[0].shape)
	}
	ifTrue, err := f.callee(kind, yes)
	if err != nil {
		return nil, err
	}
	ifFalse, err := f.callee(kind, no)
	if err != nil {
		return nil, err
	}
	if !slices.EqualFunc(ifTrue.results, ifFalse.results, func(a, b *value) bool { return a.shape.Equal(b.shape) }) {
		return nil, errors.Errorf("%s: the branches return %v and %v: want the same", kind, shapesOf(ifTrue.results),
			shapesOf(ifFalse.results))
	}
	ofTrue, ofFalse := captures(ifTrue), captures(ifFalse) // values of enclosing functions that a branch uses
	op := &operation{kind: kind, args: slices.Concat(args, ofFalse, ofTrue)}
	if hasFlow(ifFalse, ifTrue) { // a program cannot run it, so the host chooses the branch, by index 0 or 1
		op.flow = &branch{branches: []*Function{ifFalse, ifTrue}, captured: [][]*value{ofFalse, ofTrue}}
	} else {
		op.build = func(l *lowering, in []tensor) []tensor {
			forFalse, forTrue := in[1:1+len(ofFalse)], in[1+len(ofFalse):]
			return l.b.If(in[0],
				func() []tensor { return l.call(ifTrue, ofTrue, forTrue, false) },
				func() []tensor { return l.call(ifFalse, ofFalse, forFalse, false) })
		}
	}
	return valuesOf(f.keep(op, shapesOf(ifTrue.results)...)), nil
}

// compileAll compiles functions with their captured values.
func compileAll(functions []*Function, captured [][]*value, of axes) ([]*routine, error) {
	all := make([]*routine, len(functions))
	for i, f := range functions {
		r, err := compile(f, captured[i], of, nil)
		if err != nil {
			return nil, err
		}
		all[i] = r
	}
	return all, nil
}

// holds reads a bool.
func holds(s *storage) (bool, error) {
	var b [1]byte
	err := s.read(b[:])
	return b[0] != 0, err
}

// tripsInRun is the maximum number of loop trips in one run. Loops of vkc have a known trip count and GoMLX's do not,
// so the host checks between runs whether to continue.
const tripsInRun = 64

// while is a loop. It runs a function, the round, repeatedly until the round reports the end of the loop. A round makes
// up to tripsInRun trips in one run of a program. If vkc cannot do that, a round is one trip, and the host checks the
// condition before it. The arguments are the initial state, and the captures of condition and round.
type while struct {
	functions []*Function // the round, and the condition if it must run first
	captured  [2][]*value
	compiled  []*routine
}

// newWhile makes a loop with its round. The round is a closure that takes the state of the loop, and returns the state
// after some trips and whether another round follows.
func (f *Function) newWhile(condition, body *Function) *while {
	round := f.builder.function("", f)
	of := shapesOf(body.results)
	var state []*value
	for _, s := range of {
		state = append(state, round.keep(&operation{kind: compute.OpTypeParameter}, s)...)
	}
	round.parameters = state
	w := &while{functions: []*Function{round}}
	ofCondition, ofBody := captures(condition), captures(body) // values of enclosing functions that each uses
	var next []*value                                          // the state after the round
	// A program cannot run such a loop: a round makes one trip, and the host runs the condition before the first one.
	if hasFlow(condition, body) {
		w.functions = append(w.functions, condition)
		w.captured[1] = ofCondition
		next = round.keepCall(body, ofBody, state)
	} else {
		op := &operation{kind: compute.OpTypeWhile, args: slices.Concat(state, ofCondition, ofBody)}
		op.build = func(l *lowering, in []tensor) []tensor {
			first, captured := in[:len(state)], in[len(state):]
			forCondition, forBody := captured[:len(ofCondition)], captured[len(ofCondition):]
			return l.b.While(tripsInRun, first,
				func(s []tensor) tensor {
					return l.call(condition, ofCondition, slices.Concat(s, forCondition), false)[0]
				},
				func(s []tensor) []tensor { return l.call(body, ofBody, slices.Concat(s, forBody), false) })
		}
		next = round.keep(op, of...)
	}
	round.results = slices.Concat(next, round.keepCall(condition, ofCondition, next))
	w.captured[0] = captures(round)
	return w
}

// keepCall adds a call of g with args to f, and returns its results. captured lists the values of enclosing functions
// that g uses.
func (f *Function) keepCall(g *Function, captured, args []*value) []*value {
	op := &operation{kind: compute.OpTypeCall, args: slices.Concat(args, captured)}
	if hasFlow(g) {
		op.flow = &branch{branches: []*Function{g}, captured: [][]*value{captured}}
	} else {
		op.build = func(l *lowering, in []tensor) []tensor { return l.call(g, captured, in, false) }
	}
	return f.keep(op, shapesOf(g.results)...)
}

func (w *while) compile(of axes) (flow, error) {
	compiled, err := compileAll(w.functions, w.captured[:], of)
	return &while{functions: w.functions, captured: w.captured, compiled: compiled}, err
}

// run runs the loop on the host, by a program for the round. in has the initial state, and then the captured values of
// the round and of the condition. The result is the first state for which the condition is false.
func (w *while) run(ctx context.Context, b *Backend, in []*storage, symbols map[string]int64) ([]*storage, error) {
	n := len(w.functions[0].parameters)
	end := n + len(w.captured[0])
	forRound, forCondition := in[n:end], in[end:]
	state := make([]*storage, n)
	for i, s := range in[:n] {
		// The caller keeps its own reference.
		state[i] = s.share()
	}
	// A round ends with the condition, so that only the first check needs a program of its own.
	if len(w.compiled) > 1 {
		asked, err := w.compiled[1].run(ctx, b, slices.Concat(state, forCondition), symbols)
		more := false
		if err == nil {
			more, err = holds(asked[0])
			closeAll(asked)
		}
		if err != nil {
			closeAll(state)
			return nil, err
		}
		if !more {
			return state, nil
		}
	}
	for {
		next, err := w.compiled[0].run(ctx, b, slices.Concat(state, forRound), symbols)
		closeAll(state)
		if err != nil {
			return nil, err
		}
		more, err := holds(next[n]) // the last result is the condition
		closeAll(next[n:])
		state = next[:n]
		if err != nil {
			closeAll(state)
			return nil, err
		}
		if !more {
			return state, nil
		}
	}
}

func (w *while) routines() []*routine { return w.compiled }

// branch runs one of its functions. With two functions it is an if: its arguments are the condition, which selects the
// second function if true, and the captures. With one function it is a call: its arguments are the parameters and the
// captures.
type branch struct {
	branches []*Function
	captured [][]*value
	compiled []*routine
}

func (w *branch) compile(of axes) (flow, error) {
	compiled, err := compileAll(w.branches, w.captured, of)
	return &branch{branches: w.branches, captured: w.captured, compiled: compiled}, err
}

// run runs one of the branches on the host. in has the condition, then the captured values of the branch for false, and
// then those of the branch for true. A branch of one function stands for a call, which has no condition.
func (w *branch) run(ctx context.Context, b *Backend, in []*storage, symbols map[string]int64) ([]*storage, error) {
	if len(w.branches) == 1 {
		return w.compiled[0].run(ctx, b, in, symbols)
	}
	yes, err := holds(in[0])
	if err != nil {
		return nil, err
	}
	first := len(w.captured[0])
	if yes {
		return w.compiled[1].run(ctx, b, in[1+first:], symbols)
	}
	return w.compiled[0].run(ctx, b, in[1:1+first], symbols)
}

func (w *branch) routines() []*routine { return w.compiled }

// maxCompared limits the number of elements sorted by a custom comparator, because each is compared with each.
const maxCompared = 4096

// Sort implements compute.Function. vkc's sort handles comparators of a single operand. For others, the position of an
// element is the number of elements before it. All sorts are stable.
func (f *Function) Sort(comparator compute.Function, axis int, _ bool, inputs ...compute.Value) (
	[]compute.Value, error) {
	kind := compute.OpTypeSort
	args, err := f.values(kind, inputs...)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		return nil, errors.Errorf("%s: want an operand at least", kind)
	}
	var parameters []shapes.Shape
	for _, a := range args {
		if !a.shape.EqualDimensions(args[0].shape) {
			return nil, errors.Errorf("%s: operands are %v: want the same extents", kind, shapesOf(args))
		}
		parameters = append(parameters, shapes.Make(a.shape.DType), shapes.Make(a.shape.DType))
	}
	less, err := f.callee(kind, comparator, parameters...)
	if err != nil {
		return nil, err
	}
	rank := args[0].shape.Rank()
	axis = positive([]int{axis}, rank)[0]
	if axis < 0 || axis >= rank {
		return nil, errors.Errorf("%s: axis %d of shape %s", kind, axis, args[0].shape)
	}
	if len(less.results) != 1 || !isCondition(less.results[0]) {
		return nil, errors.Errorf("%s: the comparator returns %v, want a bool", kind, shapesOf(less.results))
	}
	captured := captures(less)
	by, descending, known := order(less) // by is the index of the operand that a known comparator compares
	if !known && !elementwise(less) {
		return nil, errors.Wrapf(compute.ErrNotImplemented,
			"%s by a comparator that is not made of elementwise operations", kind)
	}
	n := len(args)
	results, err := f.add(kind, slices.Concat(args, captured), func(l *lowering, in []tensor) []tensor {
		if known {
			sortBy(in[by], in[:n], axis, descending)
			return in[:n]
		}
		// Find the place of each element, and write all operands' elements there.
		places := l.places(less, captured, in, n, axis)
		for i, x := range in[:n] {
			in[i] = x.ScatterDistinct(axis, places, x)
		}
		return in[:n]
	}, shapesOf(args)...)
	if err != nil {
		return nil, err
	}
	return valuesOf(results), nil
}

// sortBy replaces tensors by tensors with their elements along an axis in the order of the elements of by.
func sortBy(by tensor, tensors []tensor, axis int, descending bool) {
	sort := tensor.Argsort
	if descending {
		sort = tensor.ArgsortDescending
	}
	indices := sort(by, axis)
	for i, x := range tensors {
		tensors[i] = x.Gather(axis, indices)
	}
}

// order recognizes a comparator that compares two elements of one operand with < or >, and returns the operand's
// number. The comparator's parameters are the two elements of operand 0, then of operand 1, and so on.
func order(less *Function) (operand int, descending, ok bool) {
	op := less.results[0].op
	if len(op.args) != 2 {
		return 0, false, false
	}
	a, b := slices.Index(less.parameters, op.args[0]), slices.Index(less.parameters, op.args[1])
	switch {
	case a < 0 || b < 0 || a/2 != b/2 || a == b: // not two elements of one operand
		return 0, false, false
	case op.kind == compute.OpTypeLessThan:
		return a / 2, a > b, true // with the elements exchanged, < descends
	case op.kind == compute.OpTypeGreaterThan:
		return a / 2, a < b, true
	}
	return 0, false, false
}

// elementwise reports whether a function of scalars has only elementwise operations. It can then run on tensors instead
// of scalars.
func elementwise(f *Function) bool {
	ok := true
	seen := map[*value]bool{}
	var walk func(v *value)
	walk = func(v *value) {
		if seen[v] || !v.op.function.within(f) { // captured values may be anything
			return
		}
		seen[v] = true
		switch kind := v.op.kind; kind {
		case compute.OpTypeParameter, compute.OpTypeConstant, compute.OpTypeConvertDType, compute.OpTypeWhere,
			compute.OpTypeClamp, compute.OpTypeIsNaN, compute.OpTypeIsFinite:
		default:
			ok = ok && (unaryOps[kind] != nil || binaryOps[kind] != nil || comparisons[kind] != nil)
		}
		for _, a := range v.op.args {
			walk(a)
		}
	}
	for _, r := range f.results {
		walk(r)
	}
	return ok
}

// places returns the position of each element in sorted order along an axis: the number of elements that are less, plus
// the number of equal elements at lower indices. less is the comparator.
func (l *lowering) places(less *Function, captured []*value, in []tensor, n, axis int) tensor {
	count := extent(in[0], axis)
	if count > maxCompared {
		l.fail(errors.Errorf("%d elements are sorted by a comparator of more than one comparison: the limit is %d",
			count,
			maxCompared))
	}
	// Axis `axis` enumerates elements, and the next axis the elements to compare them with.
	ask := func(elementFirst bool) tensor {
		var both []tensor
		for _, x := range in[:n] {
			element, other := x.Unsqueeze(axis+1), x.Unsqueeze(axis)
			if elementFirst {
				both = append(both, element, other)
			} else {
				both = append(both, other, element)
			}
		}
		return l.call(less, captured, slices.Concat(both, in[n:]), true)[0]
	}
	dims := sizes(in[0])
	dims = slices.Insert(dims, axis+1, count)
	earlier := l.b.Iota(ir.I32, axis+1, dims).Lt(l.b.Iota(ir.I32, axis, dims))
	before := ask(false).Or(ask(true).Not().And(earlier))
	return before.Cast(ir.I32).Sum(axis + 1)
}
