package emit

import (
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/kernel"
)

// This file evaluates the values of a kernel. A value that the code uses more than once becomes a variable, so the
// emitter counts the uses (Plan) before it writes code (Value).

// maxLine is the length of the longest expression, in characters, without a variable for one of its parts.
const maxLine = 72

// useCount counts the uses of each expression, index and index factor in the code that is written next.
type useCount struct {
	values  map[*kernel.Expr]int
	indices map[string]int
}

// Eval returns a value in the open scope. The caller uses it once.
func (e *Emitter) Eval(v *kernel.Expr) expr.Expr { return e.EvalAll(v)[0] }

// EvalCoordinate returns an index of at most 32 bits in the open scope. The caller uses it once.
func (e *Emitter) EvalCoordinate(x kernel.Index) expr.Expr {
	e.Plan(nil, []kernel.Index{x})
	return e.Coordinate(x)
}

// EvalAll returns the expressions of several values, as Eval does for one. Values that several of them share are
// declared as variables.
func (e *Emitter) EvalAll(roots ...*kernel.Expr) []expr.Expr {
	e.Plan(roots, nil)
	out := make([]expr.Expr, len(roots))
	for i, r := range roots {
		out[i] = e.Value(r)
	}
	return out
}

// Plan counts how often the code that is written next uses each value and index. This code uses each of roots and
// indices once, and these use their parts. Call Plan before Value, IndexValue and IndexExpr; Eval and EvalCoordinate
// do that themselves. Plan does not look into values that are already in a variable of an open scope.
func (e *Emitter) Plan(roots []*kernel.Expr, indices []kernel.Index) {
	e.uses = useCount{values: map[*kernel.Expr]int{}, indices: map[string]int{}}
	for _, r := range roots {
		e.countValue(r, 1)
	}
	for _, x := range indices {
		e.countIndex(x)
	}
}

// countValue adds uses of a value. At the first call for the value it also counts the uses of its parts. It does not if
// an open scope has the value, or a vector with the value of each lane: then the code does not compute the parts.
func (e *Emitter) countValue(v *kernel.Expr, uses int) {
	counted := e.uses.values[v] > 0
	e.uses.values[v] += uses
	if _, known := e.KnownValue(v); counted || known || e.vector(v) != nil {
		return
	}
	switch v.Kind {
	case kernel.ExprLoad, kernel.ExprIndex:
		e.countIndex(v.Index)
	case kernel.ExprRandom:
		e.countIndex(v.Index)
		for _, a := range v.Args {
			e.countValue(a, 1)
		}
	case kernel.ExprApply:
		for i, n := range e.argUses(v) {
			if n > 0 {
				e.countValue(v.Args[i], n)
			}
		}
	}
}

// countIndex adds a use of an index. At the first use it also counts the uses of its parts.
func (e *Emitter) countIndex(x kernel.Index) {
	key := x.String()
	e.uses.indices[key]++
	if _, known := e.knownIndex(key); known || e.uses.indices[key] > 1 {
		return
	}
	e.countFactors(x)
}

// countFactors adds a use of each factor of an index. At the first use of a quotient, remainder or clamp it does the
// same for both operands. It does not count the operands themselves, because they never get a variable of their own.
func (e *Emitter) countFactors(x kernel.Index) {
	for _, t := range x.Terms() {
		for _, f := range t.Factors {
			switch f.Kind {
			case kernel.FactorValue:
				e.countValue(f.Value, 1)
			case kernel.FactorDiv, kernel.FactorMod, kernel.FactorClamp:
				key := factorKey(f)
				e.uses.indices[key]++
				if e.uses.indices[key] == 1 {
					e.countFactors(f.X)
					e.countFactors(f.D)
				}
			}
		}
	}
}

// Value returns the expression of a value in the open scope. It declares a variable for the value if the value is used
// again or can be computed outside the open loops (see wantsName).
func (e *Emitter) Value(v *kernel.Expr) expr.Expr { return e.valueFor(v, nil) }

// valueFor returns the expression of v as an operand of another expression. consumer is the scope that computes that
// other expression, or nil if there is none.
func (e *Emitter) valueFor(v *kernel.Expr, consumer *scope) expr.Expr {
	if t, ok := e.KnownValue(v); ok {
		return t
	}
	switch v.Kind {
	case kernel.ExprConst:
		return e.Literal(v.DType, v.Value, v.Int)
	case kernel.ExprAcc:
		return e.acc(v.Acc)
	case kernel.ExprIndex:
		return e.signedIndex(v.Index)
	}
	target := e.outermost(v.Uses, v.UsesAcc)
	t := e.compute(v, target)
	if !e.wantsName(v, t, target, consumer) {
		return t
	}
	e.NeedType(e.ComputeType(v.DType))
	name := e.declare(target, e.ComputeType(v.DType), e.ValueName(v), t)
	target.Values[v] = name
	return name
}

// wantsName reports whether the value v, with the expression t, becomes a variable. target is the scope that would
// declare it.
func (e *Emitter) wantsName(v *kernel.Expr, t expr.Expr, target, consumer *scope) bool {
	if expr.IsPlain(t) {
		return false
	}
	isLoad := v.Kind == kernel.ExprLoad
	inVector := isLoad && e.vector(v) != nil
	costsNothing := inVector && !strings.Contains(t.String(), "(") // an element of a vector that needs no decoding
	user := e.Scope
	if consumer != nil {
		user = consumer
	}
	switch {
	case e.uses.values[v] > 1 && !costsNothing:
		return true
	case target.block() != user.block() && !v.IsIndexCast(): // repeating a coordinate costs nothing either
		return true
	case isLoad && !inVector && e.K.Bindings[v.Bind].Write:
		return true // the kernel must read it before it writes anything
	}
	return consumer != nil && len(t.String()) > maxLine
}

// compute returns the computation of a value in scope target, without declaring a variable for it.
func (e *Emitter) compute(v *kernel.Expr, target *scope) expr.Expr {
	switch v.Kind {
	case kernel.ExprLoad:
		return e.load(v).Tagged("load")
	case kernel.ExprApply:
		return e.apply(v, target).Tagged(v.Op.String())
	case kernel.ExprRandom:
		return e.random(v, target).Tagged("random")
	}
	e.Fail("unknown kind of expression %d", v.Kind)
	return expr.Of("0")
}

// ValueName returns a name for a value's variable. For a load it is the buffer and the innermost coordinate that the
// load depends on, such as weight_row. For other values it is the hint or op.
func (e *Emitter) ValueName(v *kernel.Expr) string {
	where := "value"
	for a := len(e.K.Parallel); a >= 0; a-- { // from the fold axis outwards
		if v.Uses(a) {
			where = e.axisName(a)
			break
		}
	}
	if v.Kind == kernel.ExprLoad {
		return e.Buffers[v.Bind].Base + "_" + where
	}
	base := identifier(HintOf(v))
	if Unusable(base) {
		base += "_" + where
	}
	return base
}
