package frontend

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// If returns the results of one of two functions, selected by cond, a bool scalar. A run computes only that branch.
// Both return tensors of the same types, at least one.
//
// The functions given to If, Loop, While and Scan may use tensors of the enclosing graph. Weights, inputs and states
// that they declare belong to the whole graph. Tensors made in such a function can only be used there.
func (b *Builder) If(cond Tensor, then, otherwise func() []Tensor) []Tensor {
	const op = "if"
	b = b.current()
	b.checkOpen(op)
	defer b.endBody()
	var bodies [2]*Builder
	for i, f := range []func() []Tensor{then, otherwise} {
		body := b.beginBody([]string{"then", "else"}[i])
		if i > 0 { // both bodies capture the same values in the same order
			for _, t := range bodies[0].captures {
				body.capture(t)
			}
		}
		results := body.define(op, f)
		for j, t := range results {
			if err := body.graph.Output(fmt.Sprint(j), body.ownTensor(op, j, t, results).node); err != nil {
				fail(op, err, results...)
			}
		}
		b.activeBody, bodies[i] = nil, body
	}
	for _, t := range bodies[1].captures[len(bodies[0].captures):] {
		bodies[0].capture(t)
	}
	for _, body := range bodies {
		body.done = true
	}
	return b.control(ir.OpIf, len(bodies[0].graph.Outputs()), append([]Tensor{cond}, bodies[1].captures...),
		attr("then", bodies[0].graph), attr("else", bodies[1].graph))
}

// Loop runs body trips times, and returns the results of the last trip. The first trip gets first as carried, and each
// later one the previous trip's results, which have the same types. i is the number of the trip, an i32 scalar that
// counts from 0.
func (b *Builder) Loop(trips Dim, first []Tensor, body func(i Tensor, carried []Tensor) []Tensor) []Tensor {
	if body == nil {
		fail("loop", errors.New("the function is nil"), first...)
	}
	l := b.loop("loop")
	defer l.outer.endBody()
	i := l.counter()
	l.carry(first, func(carried []Tensor) []Tensor { return body(i, carried) })
	return l.end(trips, false)[1:]
}

// While runs body as long as cond(carried) is true, but at most trips times. It returns the last values of carried, or
// first if the body never ran. cond returns a bool scalar. See Loop for the other rules.
func (b *Builder) While(trips Dim, first []Tensor, cond func(carried []Tensor) Tensor,
	body func(carried []Tensor) []Tensor) []Tensor {
	if cond == nil || body == nil {
		fail("while", errors.New("the function is nil"), first...)
	}
	b.checkOpen("while")
	// The condition is a state of the loop: its first value is computed here, outside of the body, and each trip
	// computes the value for the next one.
	goesFirst := cond(first)
	l := b.loop("while")
	defer l.outer.endBody()
	goes := l.state(goesFirst)
	var next []Tensor
	l.carry(first, func(carried []Tensor) []Tensor {
		next = body(carried)
		return next
	})
	l.returned("the condition", goes, cond(next))
	return l.end(trips, true)[1:] // without the condition
}

// Scan runs body for each coordinate of the outermost axis of xs, which all have the same extent there. The body gets
// the slices of xs at that coordinate, without the axis, and the carried values as in Loop. Scan stacks the body's outs
// along a new outermost axis. It returns the last carried values, and the stacks.
func (b *Builder) Scan(first, xs []Tensor,
	body func(carried, x []Tensor) (next, outs []Tensor)) (last, stacks []Tensor) {
	return b.scan(first, xs, false, body)
}

// ScanBack runs body for each coordinate of the outermost axis of xs, as Scan does, but from the last to the first. The
// stacks have the order of xs.
func (b *Builder) ScanBack(first, xs []Tensor,
	body func(carried, x []Tensor) (next, outs []Tensor)) (last, stacks []Tensor) {
	return b.scan(first, xs, true, body)
}

// scan builds the loop of Scan or, if back is set, of ScanBack.
func (b *Builder) scan(first, xs []Tensor, back bool,
	body func(carried, x []Tensor) (next, outs []Tensor)) (last, stacks []Tensor) {
	const op = "scan"
	switch {
	case body == nil:
		fail(op, errors.New("the function is nil"), xs...)
	case len(xs) == 0:
		fail(op, errors.New("no tensors to iterate over: use Loop"))
	}
	for i, x := range xs {
		b.checkArg(op, i, x, xs)
		if x.Rank() == 0 || x.Dim(0) != xs[0].Dim(0) {
			fail(op, fmt.Errorf("operand %d has shape %s: want one extent of all outermost axes", i, x.Shape()),
				xs...)
		}
	}
	steps := xs[0].Dim(0)
	if steps.Is(0) { // the body never runs, but its index_select needs an element
		xs = slices.Clone(xs)
		for i, x := range xs {
			high := make([]int, x.Rank())
			high[0] = 1
			xs[i] = x.Pad(make([]int, x.Rank()), high, 0)
		}
	}
	l := b.loop(op)
	defer l.outer.endBody()
	at := l.counter() // the index in xs
	if back {         // steps-1, steps-2 and so on
		at = l.body.add(ir.OpSub, []Tensor{l.body.DimValue(steps), at.AddScalar(1)})
	}
	var outs []Tensor
	l.carry(first, func(carried []Tensor) []Tensor {
		parts := make([]Tensor, len(xs))
		for i, x := range xs {
			parts[i] = x.IndexSelect(0, at.Reshape(1)).Squeeze(0) // x has an element at each step
		}
		var next []Tensor
		next, outs = body(carried, parts)
		return next
	})
	l.stack(steps, at, outs)
	all := l.end(steps, false)[1:] // without the counter
	return all[:len(first)], all[len(first):]
}

// Scanned is the result of ScanWhile.
type Scanned struct {
	Last   []Tensor // the last carried values
	Stacks []Tensor // the outs of all trips, along a new outermost axis; zeros beyond the last trip
	Count  Tensor   // number of trips, an i32 scalar
	Goes   Tensor   // the last value of the condition; the zero Tensor if the loop has none
}

// ScanWhile adds a loop that carries tensors from trip to trip, as Loop does, and stacks the body's outs of all trips,
// as Scan does. If goes is not the zero Tensor, the loop has a condition, a bool scalar, and ends as soon as it is
// false: goes is the condition of the first trip, and the body's first result is the condition of the next trip.
func (b *Builder) ScanWhile(trips Dim, goes Tensor, first []Tensor,
	body func(i Tensor, carried []Tensor) (goes Tensor, next, outs []Tensor)) Scanned {
	const op = "scan"
	if body == nil {
		fail(op, errors.New("the function is nil"), first...)
	}
	l := b.loop(op)
	defer l.outer.endBody()
	var going []Tensor
	if !goes.IsZero() {
		going = []Tensor{l.state(goes)}
	}
	i := l.counter()
	var goesOn Tensor
	var outs []Tensor
	l.carry(first, func(carried []Tensor) (next []Tensor) {
		goesOn, next, outs = body(i, carried)
		return next
	})
	for _, state := range going {
		l.returned("the condition", state, goesOn)
	}
	l.stack(trips, i, outs) // adds the states of the count and of each stack
	all := l.end(trips, len(going) > 0)
	// The states are in the order of their declaration: the condition, the counter, the carried tensors, the stacks.
	var s Scanned
	if len(going) > 0 {
		s.Goes, all = all[0], all[1:]
	}
	s.Count, s.Last, s.Stacks = all[0], all[1:1+len(first)], all[1+len(first):]
	return s
}

// stack declares a state for each of the body's outs, with a new outermost axis of extent steps. Each trip writes its
// outs at index `at` of that axis.
func (l *loopBuilder) stack(steps Dim, at Tensor, outs []Tensor) {
	for i, y := range outs {
		y = l.body.ownTensor(l.op, i, y, outs)
		stack := l.stateOf(Tensor{}, y.DType(), append(mustShape(ir.OpLoop, []Dim{steps}), y.Shape()...))
		l.update(stack, stack.ScatterNDDistinct(at.Reshape(1, 1), y.Unsqueeze(0)))
	}
}

// loopBuilder builds a loop op: the body, and the states of the loop with their first values.
type loopBuilder struct {
	op    string
	outer *Builder
	body  *Builder
	first []Tensor  // by state: the first value; the zero Tensor for zeros
	types []ir.Type // by state
}

// loop begins a loop, with a body in which new nodes are made.
func (b *Builder) loop(op string) *loopBuilder {
	b = b.current()
	return &loopBuilder{op: op, outer: b, body: b.beginBody(op)}
}

// state declares a state of the loop with a first value, and returns it as a tensor of the body.
func (l *loopBuilder) state(first Tensor) Tensor {
	l.outer.checkArg(l.op, len(l.first), first, []Tensor{first})
	return l.stateOf(first, first.DType(), first.Shape())
}

// stateOf declares a state of dtype t and shape s. If first is the zero Tensor, the first value is zeros.
func (l *loopBuilder) stateOf(first Tensor, t ir.DType, s ir.Shape) Tensor {
	name := l.body.unusedName(first, "s", len(l.first))
	l.first, l.types = append(l.first, first), append(l.types, ir.Type{DType: t, Shape: s})
	return l.body.addHere(ir.OpState, nil, attr("name", name), attr("dtype", t), attr("shape", s))
}

// update sets the value that a state has in the next trip.
func (l *loopBuilder) update(state, next Tensor) {
	next = l.body.ownTensor(l.op, 0, next, []Tensor{next})
	if err := l.body.graph.Update(state.node, next.node); err != nil {
		fail(l.op, err, state, next)
	}
}

// returned updates a state with next, a value that the caller's function has returned. next must have the state's type.
// what names the value in errors.
func (l *loopBuilder) returned(what string, state, next Tensor) {
	next = l.body.ownTensor(l.op, 0, next, []Tensor{next})
	if have, want := next.node.Type(), state.node.Type(); !have.Equal(want) {
		fail(l.op, fmt.Errorf("%s is %s at first, and %s after a trip: want the same type", what, want, have), state,
			next)
	}
	l.update(state, next)
}

// counter declares a state that counts the trips, from 0.
func (l *loopBuilder) counter() Tensor {
	i := l.stateOf(Tensor{}, ir.I32, ir.Shape{})
	l.update(i, i.AddScalar(1))
	return i
}

// carry declares a state for each tensor of first. f gets the states, and returns their values in the next trip.
func (l *loopBuilder) carry(first []Tensor, f func(carried []Tensor) []Tensor) {
	carried := make([]Tensor, len(first))
	for i, t := range first {
		carried[i] = l.state(t)
	}
	next := f(carried)
	if len(next) != len(first) {
		fail(l.op, fmt.Errorf("the function returns %d tensors, and the loop carries %d: want as many", len(next),
			len(first)), first...)
	}
	for i, t := range next {
		l.returned(fmt.Sprintf("carried[%d]", i), carried[i], t)
	}
}

// end ends the body, makes the loop op, and returns the final values of the states. while says that the first state is
// the condition to continue; trips is then the largest number of trips.
func (l *loopBuilder) end(trips Dim, while bool) []Tensor {
	l.outer.activeBody, l.body.done = nil, true
	args := make([]Tensor, len(l.first))
	for i, t := range l.first {
		args[i] = t
		if t.IsZero() { // a state without a first value, such as a stack, begins with zeros
			args[i] = l.outer.zeros(l.types[i])
		}
	}
	args = append(args, l.body.captures...)
	return l.outer.control(ir.OpLoop, len(l.first), args, attr("trips", ir.Shape{mustDim(ir.OpLoop, trips, args...)}),
		attr("while", while), attr("body", l.body.graph))
}

// zeros returns a tensor of zeros.
func (b *Builder) zeros(t ir.Type) Tensor {
	zero := b.Scalar(t.DType, 0)
	if len(t.Shape) == 0 {
		return zero
	}
	return b.add(ir.OpBroadcast, []Tensor{zero}, attr("shape", t.Shape))
}

// current returns the builder of the innermost body that is being built, or b if there is none.
func (b *Builder) current() *Builder {
	for b != nil && b.activeBody != nil {
		b = b.activeBody
	}
	return b
}

// beginBody begins a body. New nodes belong to it until endBody.
func (b *Builder) beginBody(name string) *Builder {
	b.checkOpen(name)
	body := ir.NewBody(name)
	if err := body.DeclareSymbolsOf(b.graph); err != nil {
		fail(name, err)
	}
	b.activeBody = &Builder{graph: body, outer: b, captured: map[*ir.Node]Tensor{}, opaques: b.opaques}
	return b.activeBody
}

// endBody ends the body that is being built, even if it is incomplete, so that a program that recovers from an Error
// can continue.
func (b *Builder) endBody() { b.activeBody = nil }

// Sees reports whether t can be used now: it belongs to the graph, or to a body that has not ended.
func (b *Builder) Sees(t Tensor) bool {
	for b = b.current(); b != nil; b = b.outer {
		if t.b == b {
			return true
		}
	}
	return false
}

// define calls f, the caller's function for a branch, and returns its results, at least one.
func (b *Builder) define(op string, f func() []Tensor) []Tensor {
	if f == nil {
		fail(op, fmt.Errorf("the function for %s is nil", b.graph.Name))
	}
	results := f()
	if len(results) == 0 {
		fail(op, fmt.Errorf("the function for %s returns no tensors", b.graph.Name))
	}
	return results
}

// ownTensor returns tensor a, operand number i of op, as a tensor of builder b. That is a itself if it belongs to b. If
// a belongs to an enclosing builder, it is the body's input that captures a. args has all operands, for errors.
func (b *Builder) ownTensor(op string, i int, a Tensor, args []Tensor) Tensor {
	b.checkArg(op, i, a, args)
	if a.b == b {
		return a
	}
	for around := b.outer; around != nil; around = around.outer {
		if a.b == around {
			return b.capture(a)
		}
	}
	b.failOther(op, i, a, args)
	return Tensor{}
}

// unusedName returns an unused name for a body's leaf with the value of a. It is a's own name if possible, since
// errors mention it, and otherwise prefix and a number from n on.
func (b *Builder) unusedName(a Tensor, prefix string, n int) string {
	name := ""
	if a.node != nil {
		name = a.node.Name()
	}
	for ; ; n++ {
		if _, taken := b.graph.Named(name); name != "" && !taken {
			return name
		}
		name = fmt.Sprintf("%s%d", prefix, n)
	}
}

// capture returns the body's input for a tensor of an enclosing builder, and adds one at first use. A constant is
// copied into the body instead.
func (b *Builder) capture(a Tensor) Tensor {
	if a.b != b.outer {
		a = b.outer.capture(a) // the body around this one captures it first
	}
	t, ok := b.captured[a.node]
	switch {
	case ok:
		return t
	case a.node.Op() == ir.OpConst:
		t = b.addHere(ir.OpConst, nil, a.node.Attrs()...)
	default:
		t = b.addHere(ir.OpInput, nil, attr("name", b.unusedName(a, "x", len(b.captures))), attr("dtype", a.DType()),
			attr("shape", a.Shape()))
		b.captures = append(b.captures, a)
	}
	b.captured[a.node] = t
	return t
}

// control adds a control op and returns its n results: the op's node, and nodes of op result for the others.
func (b *Builder) control(op ir.Op, n int, args []Tensor, attrs ...ir.Attr) []Tensor {
	results := make([]Tensor, n)
	for i := range results {
		if i == 0 {
			results[i] = b.add(op, args, attrs...)
			continue
		}
		results[i] = b.add(ir.OpResult, results[:1], attr("index", i))
	}
	return results
}
