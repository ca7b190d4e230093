package glsl

import (
	"fmt"
	"strconv"

	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
)

// The statements and expressions that every kernel family emits: loops, conditions, arrays and shared memory.

// array declares a variable of count elements, or a plain variable for one element.
func (e *emitter) array(typ, name string, count int) text {
	if count == 1 {
		return e.unset(typ, name)
	}
	return e.unset(typ, name, count)
}

// unset declares a variable or array without a value.
func (e *emitter) unset(typ, name string, dims ...int) text {
	v := syntax.Var{Name: e.fresh(e.scope, name)}
	for _, n := range dims {
		v.Dims = append(v.Dims, numberLit(strconv.Itoa(n)))
	}
	e.scope.write(&syntax.Declare{Type: typ, Vars: []syntax.Var{v}})
	return syntax.Ident(v.Name)
}

// assign writes the statement that sets a variable or element.
func (e *emitter) assign(to, value text) { e.update(to, "=", value) }

// update writes an assignment by an operator such as "+=".
func (e *emitter) update(to text, op string, value text) {
	e.scope.write(&syntax.Assign{To: to, Op: op, Value: value})
}

// do writes a call.
func (e *emitter) do(function string, args ...text) {
	e.scope.write(&syntax.Do{X: call(function, args...)})
}

// barrier waits for the other invocations of the workgroup, and for their writes to shared memory.
func (e *emitter) barrier() { e.do("barrier") }

// named gives an expression a name unless it is as short as one.
func (e *emitter) named(name string, t text) text {
	if isPlain(t) {
		return t
	}
	return e.declareIndex(e.scope, name, t)
}

// openIf opens a block that runs under a condition. No condition is always true. Values that only the block needs are
// computed inside it.
func (e *emitter) openIf(cond text) {
	if cond == nil {
		e.openScope()
		return
	}
	e.openHead(&syntax.If{Cond: cond})
	e.scope.guard = true
}

// openBelow opens a block that needs x < end. It writes the test only if some says that x may reach end.
func (e *emitter) openBelow(some bool, x, end text) {
	var cond text
	if some {
		cond = binary("<", x, end)
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
	at := syntax.Ident(i)
	next := &syntax.Assign{To: at, Op: "+=", Value: step}
	if step.Is("1u") {
		next = &syntax.Assign{To: at, Op: "++"}
	}
	e.openHead(&syntax.For{Hint: hint, Post: next, Cond: &syntax.Expr{Op: syntax.Binary, Text: "<",
		Args: []text{at, end}},
		Init: &syntax.Declare{Type: "uint", Vars: []syntax.Var{{Name: i, Init: first}}}})
	e.scope.names[i] = true
	return at
}

// openLanes opens the loop over the neighbours that an invocation computes together.
func (e *emitter) openLanes(count int) {
	e.open("[[unroll]] for (uint %s = 0u; %[1]s < %du; ++%[1]s)", component, count)
}

// share declares an array of shared memory.
func (e *emitter) share(typ, name string, dims ...int) text {
	name = e.fresh(e.root, name)
	size := ""
	for _, n := range dims {
		size += fmt.Sprintf("[%d]", n)
	}
	e.shared = append(e.shared, sharedArray{typ, name, size})
	return syntax.Ident(name)
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

// arraySize prints the brackets of an array, none for a single element.
func arraySize(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf("[%d]", n)
}
