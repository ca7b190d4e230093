package glsl

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// The statements and expressions that every kernel family emits: loops, conditions, arrays and shared memory.

// elementOf prints element i of an array of count elements. An array of one element is a plain variable.
func elementOf(array string, count int, i text) text {
	if count == 1 {
		return primary(array)
	}
	return elementAt(array, i)
}

// array declares a variable of count elements and returns its name.
func (e *emitter) array(typ, name string, count int) string {
	name = e.fresh(e.scope, name)
	e.line("%s %s%s;", typ, name, arraySize(count))
	return name
}

// named gives an expression a name unless it is as short as one.
func (e *emitter) named(name string, t text) text {
	if isPlain(t) {
		return t
	}
	return e.declareIndex(e.scope, name, t)
}

// openIf opens a block that runs under a condition. An empty condition is always true.
func (e *emitter) openIf(cond string) {
	if cond == "" {
		e.openScope()
	} else {
		e.openGuard("if (%s)", cond)
	}
}

// openBelow opens a block that needs x < end. It writes the test only if some says that x may reach end.
func (e *emitter) openBelow(some bool, x, end text) {
	cond := ""
	if some {
		cond = binary("<", x, end).String()
	}
	e.openIf(cond)
}

// eachResult opens a block with one result per invocation, or a loop if there are more results than invocations. It
// returns the result's number.
func (e *emitter) eachResult(self text, results int) text {
	if results > e.sched.Workgroup {
		return e.loop("id", self, uintLit(results), e.sched.Workgroup)
	}
	e.openBelow(results < e.sched.Workgroup, self, uintLit(results))
	return self
}

// eachSlot writes body for the slots that an invocation takes. Neighbouring invocations take neighbouring slots.
func (e *emitter) eachSlot(self text, total, invocations int, body func(i, slot text)) {
	e.repeat("i", (total+invocations-1)/invocations, func(i text) {
		slot := e.named("slot", plus(self, times(i, invocations)))
		e.openBelow(total%invocations != 0, slot, uintLit(total))
		body(i, slot)
		e.close()
	})
}

// repeat writes body in a loop that compilers unroll, or without a loop if count is 1.
func (e *emitter) repeat(name string, count int, body func(i text)) {
	i := primary("0u")
	if count == 1 {
		e.openScope()
	} else {
		i = e.openFor(unroll, name, i, uintLit(count), uintLit(1))
	}
	body(i)
	e.close()
}

// free returns a name like base that hides no other name, for a block about to be opened.
func (e *emitter) free(base string) string {
	name := base
	for n := 2; unusable(name) || e.taken(name); n++ {
		name = fmt.Sprintf("%s_%d", base, n)
	}
	return name
}

// loop opens a loop that steps a variable from first up to an end, and returns the variable. A single step needs no
// loop.
func (e *emitter) loop(name string, first text, end text, step int) text {
	return e.hinted("", name, first, end, step)
}

// rolled is a loop that compilers must not unroll. In a program of many kernels, code that runs only a few times is
// fetched from memory each time. That takes longer than the loop's jumps (M-code-size).
func (e *emitter) rolled(name string, first text, end text, step int) text {
	return e.hinted(dontUnroll, name, first, end, step)
}

func (e *emitter) hinted(hint, name string, first text, end text, step int) text {
	from, fromKnown := literalOf(first)
	to, toKnown := literalOf(end)
	if fromKnown && toKnown && from.v < to.v && from.v+int64(step) >= to.v {
		e.openScope()
		return first
	}
	return e.openFor(hint, name, first, end, uintLit(step))
}

// openFor opens a loop that steps a variable from first up to an end, and returns the variable. hint is unroll,
// dontUnroll or empty.
func (e *emitter) openFor(hint, name string, first, end, step text) text {
	i := e.free(name)
	next := i + " += " + step.String()
	if step.Is("1u") {
		next = "++" + i
	}
	e.open("%sfor (uint %s = %s; %s < %s; %s)", hint, i, first, i, end, next)
	e.scope.names[i] = true
	return primary(i)
}

// openLanes opens the loop over the neighbours that an invocation computes together.
func (e *emitter) openLanes(count int) {
	e.open("%sfor (uint %s = 0u; %s < %du; ++%s)", unroll, component, component, count, component)
}

func plus(a, b text) text { return binary("+", a, b) }

func times(a text, n int) text { return binary("*", a, uintLit(n)) }

// share declares an array of shared memory.
func (e *emitter) share(typ, name string, size int) string {
	name = e.fresh(e.root, name)
	e.shared = append(e.shared, sharedArray{typ, name, fmt.Sprintf("[%d]", size)})
	return name
}

// allOf prints the conjunction of values.
func (e *emitter) allOf(values []*kernel.Expr) text {
	e.plan(values, nil)
	var all text
	for _, v := range values {
		all = and(all, e.value(v))
	}
	return all
}

// quotient and remainder print x/n and x%n. x is less than limit.
func quotient(x text, n, limit int) text {
	switch {
	case n == 1:
		return x
	case n >= limit:
		return primary("0u")
	}
	return binary("/", x, uintLit(n))
}
