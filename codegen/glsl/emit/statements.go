package emit

import (
	"fmt"
	"strconv"

	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
)

// This file has the statements that every kernel family emits: declarations, assignments, loops, conditions, shared
// memory. A method named Open… opens a block or loop, which the caller closes by Close.

// Array declares an array of count elements.
func (c *Code) Array(typ, name string, count int) expr.Array {
	if count == 1 {
		return expr.Array{Name: c.Unset(typ, name), Len: 1}
	}
	return expr.Array{Name: c.Unset(typ, name, count), Len: count}
}

// Filled declares an array and sets each element i to value(i). index is the name of the loop variable i.
func (c *Code) Filled(typ, name string, count int, index string, value func(i expr.Expr) expr.Expr) expr.Array {
	a := c.Array(typ, name, count)
	c.Repeat(index, count, func(i expr.Expr) { c.Assign(a.At(i), value(i)) })
	return a
}

// SumLanes adds up a variable over groups of 2*half adjacent invocations of a subgroup. half is a power of two, or 0
// for no group. All invocations of a group get the sum.
func (c *Code) SumLanes(x expr.Expr, half int) {
	for mask := half; mask > 0; mask /= 2 {
		c.Update(x, "+=", Shuffled(x, mask))
	}
}

// Unset declares a variable or array without a value.
func (c *Code) Unset(typ, name string, dims ...int) expr.Expr {
	v := syntax.Var{Name: c.Fresh(c.Scope, name)}
	for _, n := range dims {
		v.Dims = append(v.Dims, expr.Number(strconv.Itoa(n)))
	}
	c.Scope.Write(&syntax.Declare{Type: typ, Vars: []syntax.Var{v}})
	return syntax.Ident(v.Name)
}

// Assign writes the statement that sets a variable or element.
func (c *Code) Assign(to, value expr.Expr) { c.Update(to, "=", value) }

// Update writes an assignment with an operator such as "+=".
func (c *Code) Update(to expr.Expr, op string, value expr.Expr) {
	c.Scope.Write(&syntax.Assign{To: to, Op: op, Value: value})
}

// Do writes a call as a statement.
func (c *Code) Do(function string, args ...expr.Expr) {
	c.Scope.Write(&syntax.Do{X: expr.Call(function, args...)})
}

// Return writes a return of x, or of nothing.
func (c *Code) Return(x expr.Expr) { c.Scope.Write(&syntax.Return{X: x}) }

// Increment writes ++x.
func (c *Code) Increment(x expr.Expr) { c.Update(x, "++", nil) }

// When writes a statement that runs under a condition, on one line.
func (c *Code) When(cond expr.Expr, then syntax.Stmt) {
	c.Scope.Write(&syntax.If{Cond: cond, Then: []syntax.Stmt{then}, Inline: true})
}

// Set is the statement that [Emitter.Assign] writes.
func Set(to, value expr.Expr) syntax.Stmt { return &syntax.Assign{To: to, Op: "=", Value: value} }

// Exactly declares a variable with exactly that name, in any scope.
func (c *Code) Exactly(typ, name string, value expr.Expr) {
	c.Variables(typ, syntax.Var{Name: name, Init: value})
}

// Variables declares variables of a type in one statement, with exactly these names.
func (c *Code) Variables(typ string, vars ...syntax.Var) {
	c.Scope.Write(&syntax.Declare{Type: typ, Vars: vars})
}

// Note writes a comment after the last statement.
func (c *Code) Note(comment string) {
	c.Scope.Write(&syntax.Comment{Text: "// " + comment, Trailing: true})
}

// Barrier writes a barrier: an invocation waits for the others of its workgroup, and for their writes to shared memory.
// A comment may say why.
func (c *Code) Barrier(why ...string) {
	c.Do("barrier")
	for _, comment := range why {
		c.Note(comment)
	}
}

// Named declares a variable for an expression, unless it is a plain name or number already.
func (c *Code) Named(name string, t expr.Expr) expr.Expr {
	if expr.IsPlain(t) {
		return t
	}
	return c.declareIndex(c.Scope, name, t)
}

// OpenIf opens a block that runs if cond holds, or always if cond is nil. Values that only the block needs are computed
// inside it.
func (c *Code) OpenIf(cond expr.Expr) {
	if cond == nil {
		c.OpenScope()
		return
	}
	c.Open(&syntax.If{Cond: cond})
	c.Scope.guard = true
}

// OpenBelow opens a block that runs if x < end. If mayReach is false, x is always below end, and there is no test.
func (c *Code) OpenBelow(mayReach bool, x, end expr.Expr) {
	var cond expr.Expr
	if mayReach {
		cond = expr.Binary("<", x, end)
	}
	c.OpenIf(cond)
}

// OpenResults opens a block that computes one result per invocation, or a loop if there are more results than
// invocations. It returns the number of the result. self is the number of the invocation in its workgroup.
func (e *Emitter) OpenResults(self expr.Expr, results int) expr.Expr {
	if results > e.Launch.Workgroup {
		return e.OpenLoop("id", self, expr.Uint(results), e.Launch.Workgroup)
	}
	e.OpenBelow(results < e.Launch.Workgroup, self, expr.Uint(results))
	return self
}

// EachSlot divides total slots, such as elements of a shared array, among the invocations. It calls body with each slot
// of the invocation self, and with i, the number of the slot among those of the invocation. Neighbouring invocations
// take neighbouring slots.
func (c *Code) EachSlot(self expr.Expr, total, invocations int, body func(i, slot expr.Expr)) {
	c.Repeat("i", ceil.Div(total, invocations), func(i expr.Expr) {
		slot := c.Named("slot", expr.Plus(self, expr.Times(i, invocations)))
		c.OpenBelow(total%invocations != 0, slot, expr.Uint(total))
		body(i, slot)
		c.Close()
	})
}

// Repeat writes body in a loop of count iterations that compilers unroll, or without a loop if count is 1.
func (c *Code) Repeat(name string, count int, body func(i expr.Expr)) {
	i := expr.Of("0u")
	if count == 1 {
		c.OpenScope()
	} else {
		i = c.OpenFor(Unroll, name, i, expr.Uint(count), expr.Uint(1))
	}
	body(i)
	c.Close()
}

// OpenLoop is OpenFor with a constant step and without a hint. If the loop would provably run exactly once, it opens a
// plain scope instead and returns first.
func (c *Code) OpenLoop(name string, first, end expr.Expr, step int) expr.Expr {
	return c.openLoop("", name, first, end, step)
}

// OpenRolled opens a loop that compilers must not unroll; name, first, end and step are as for OpenLoop. In a program
// of many kernels, code that runs only a few times is fetched from memory each time. That takes longer than the loop's
// jumps (M-code-size).
func (c *Code) OpenRolled(name string, first, end expr.Expr, step int) expr.Expr {
	return c.openLoop(DontUnroll, name, first, end, step)
}

// openLoop is OpenLoop with a hint.
func (c *Code) openLoop(hint, name string, first, end expr.Expr, step int) expr.Expr {
	from, fromKnown := expr.LiteralOf(first)
	to, toKnown := expr.LiteralOf(end)
	if fromKnown && toKnown && from.V < to.V && from.V+int64(step) >= to.V {
		c.OpenScope()
		return first
	}
	return c.OpenFor(hint, name, first, end, expr.Uint(step))
}

// OpenFor opens a loop that steps a variable from first up to end, exclusive, and returns the variable. hint is Unroll,
// DontUnroll or "".
func (c *Code) OpenFor(hint, name string, first, end, step expr.Expr) expr.Expr {
	op := "+="
	if step.Is("1u") {
		op, step = "++", nil
	}
	return c.openCounter(hint, c.Free(name), first, "<", end, op, step)
}

// OpenShifts opens a loop that shifts a variable by a bit per step, from first while test holds: "<" or "<=" to the
// left, ">" to the right. It returns the variable, which has exactly that name.
func (c *Code) OpenShifts(hint, name string, first expr.Expr, test string, end expr.Expr) expr.Expr {
	shift := "<<="
	if test == ">" {
		shift = ">>="
	}
	return c.openCounter(hint, name, first, test, end, shift, expr.Uint(1))
}

// openCounter opens the loop for (uint name = first; name test end; name op step), with an unroll hint.
func (c *Code) openCounter(hint, name string, first expr.Expr, test string, end expr.Expr, op string,
	step expr.Expr) expr.Expr {
	at := syntax.Ident(name)
	c.Open(&syntax.For{Hint: hint, Post: &syntax.Assign{To: at, Op: op, Value: step},
		Cond: &syntax.Expr{Op: syntax.Binary, Text: test, Args: []expr.Expr{at, end}},
		Init: &syntax.Declare{Type: "uint", Vars: []syntax.Var{{Name: name, Init: first}}}})
	c.Scope.Names[name] = true
	return at
}

// OpenLanes opens the loop over count neighbours that an invocation computes together.
func (c *Code) OpenLanes(count int) {
	c.openCounter(Unroll, laneName, expr.Uint(0), "<", expr.Uint(count), "++", nil)
}

// Share declares an array in shared memory.
func (e *Emitter) Share(typ, name string, dims ...int) expr.Expr {
	return e.ShareAs(typ, e.Fresh(e.Root, name), dims...)
}

// ShareAs declares a shared array with an exact name, for library functions that use it by this name. typ and dims are
// as for Share.
func (e *Emitter) ShareAs(typ, name string, dims ...int) expr.Expr {
	size := ""
	for _, n := range dims {
		size += fmt.Sprintf("[%d]", n)
	}
	e.Shared = append(e.Shared, Shared{typ, name, size})
	return syntax.Ident(name)
}

// AllOf returns the conjunction of bool values, or nil if there are none.
func (e *Emitter) AllOf(values []*kernel.Expr) expr.Expr {
	return expr.And(e.EvalAll(values...)...)
}

// Shared is the declaration of an array in shared memory.
type Shared struct {
	Type, Name string
	Size       string // with its brackets: "[32][4]"
}

// String returns the declaration.
func (s Shared) String() string { return "shared " + s.Type + " " + s.Name + s.Size + ";" }
