package glsl

import (
	"strings"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// maxLine is the longest expression without a name for one of its parts.
const maxLine = 72

// useCount counts the uses of each expression, index and index factor in the code about to be written.
type useCount struct {
	values  map[*kernel.Expr]int
	indices map[string]int
}

// eval prints the values of expressions in the open scope. The caller uses each once. Values that several of them share
// are declared.
func (e *emitter) eval(roots ...*kernel.Expr) []text {
	e.plan(roots, nil)
	out := make([]text, len(roots))
	for i, r := range roots {
		out[i] = e.value(r)
	}
	return out
}

// plan counts the uses of the parts of roots and indices. It does not look into values that the open scopes already
// know.
func (e *emitter) plan(roots []*kernel.Expr, indices []kernel.Index) {
	e.uses = useCount{values: map[*kernel.Expr]int{}, indices: map[string]int{}}
	for _, r := range roots {
		e.countValue(r, 1)
	}
	for _, x := range indices {
		e.countIndex(x)
	}
}

func (e *emitter) countValue(v *kernel.Expr, times int) {
	e.uses.values[v] += times
	if e.uses.values[v] > times {
		return
	}
	if _, ok := e.knownValue(v); ok {
		return
	}
	switch v.Kind {
	case kernel.ExprLoad:
		if e.vector(v) == nil {
			e.countIndex(v.Index)
		}
	case kernel.ExprIndex:
		e.countIndex(v.Index)
	case kernel.ExprRandom:
		if e.vector(v) == nil {
			e.countIndex(v.Index)
			for _, a := range v.Args {
				e.countValue(a, 1)
			}
		}
	case kernel.ExprApply:
		times := e.argUses(v)
		for i, a := range v.Args {
			if times[i] > 0 {
				e.countValue(a, times[i])
			}
		}
	}
}

func (e *emitter) countIndex(x kernel.Index) {
	key := x.String()
	e.uses.indices[key]++
	if _, known := e.knownIndex(key); known || e.uses.indices[key] > 1 {
		return
	}
	for _, t := range x.Terms() {
		for _, f := range t.Factors {
			switch f.Kind {
			case kernel.FactorValue:
				e.countValue(f.Value, 1)
			case kernel.FactorDiv, kernel.FactorMod, kernel.FactorClamp:
				e.countFactor(f)
			}
		}
	}
}

func (e *emitter) countFactor(f *kernel.Factor) {
	key := factorKey(f)
	e.uses.indices[key]++
	if e.uses.indices[key] > 1 {
		return
	}
	// The factor's parts are printed inside it. The sums X and D never get a name.
	for _, x := range []kernel.Index{f.X, f.D} {
		for _, t := range x.Terms() {
			for _, g := range t.Factors {
				switch g.Kind {
				case kernel.FactorValue:
					e.countValue(g.Value, 1)
				case kernel.FactorDiv, kernel.FactorMod, kernel.FactorClamp:
					e.countFactor(g)
				}
			}
		}
	}
}

func (e *emitter) knownValue(v *kernel.Expr) (text, bool) {
	for s := e.scope; s != nil; s = s.parent {
		if t, ok := s.values[v]; ok {
			return t, true
		}
	}
	return nil, false
}

// value prints an expression in the open scope. It declares a variable if the expression is used again, belongs outside
// a loop, or is long.
func (e *emitter) value(v *kernel.Expr) text {
	return e.valueFor(v, nil)
}

// valueFor is value for an operand of another expression. consumer is that expression's home, or nil if there is none.
func (e *emitter) valueFor(v *kernel.Expr, consumer *scope) text {
	if t, ok := e.knownValue(v); ok {
		return t
	}
	switch v.Kind {
	case kernel.ExprConst:
		return e.literal(v.DType, v.Value, v.Int)
	case kernel.ExprAcc:
		return e.acc(v.Acc)
	case kernel.ExprIndex:
		return e.signedIndex(v.Index)
	}
	home := e.home(v.Uses, v.UsesAcc)
	t := e.compute(v, home)
	if !e.wantsName(v, t, home, consumer) {
		return t
	}
	e.needType(e.computeType(v.DType))
	name := e.declare(home, e.computeType(v.DType), e.valueName(v), t)
	home.values[v] = name
	return name
}

// wantsName decides whether a value becomes a variable.
func (e *emitter) wantsName(v *kernel.Expr, t text, home, consumer *scope) bool {
	switch {
	case isPlain(t):
		return false
	case e.uses.values[v] > 1 &&
		!(v.Kind == kernel.ExprLoad && e.vector(v) != nil && !strings.Contains(t.String(), "(")):
		return true
	case consumer == nil && home.block() != e.scope.block() || consumer != nil && home.block() != consumer.block():
		if !v.IsIndexCast() {
			return true
		}
	case v.Kind == kernel.ExprLoad && e.k.Bindings[v.Bind].Write && e.vector(v) == nil:
		return true // read before anything is written
	}
	return consumer != nil && len(t.String()) > maxLine
}

func (e *emitter) compute(v *kernel.Expr, home *scope) text {
	switch v.Kind {
	case kernel.ExprLoad:
		return e.load(v)
	case kernel.ExprApply:
		return e.apply(v, home)
	case kernel.ExprRandom:
		return e.random(v, home)
	}
	e.fail("unknown kind of expression %d", v.Kind)
	return primary("0")
}

// valueName is the name of a value's variable: for a load its buffer and the innermost coordinate that it depends on,
// and otherwise its hint or op.
func (e *emitter) valueName(v *kernel.Expr) string {
	where := "value"
	for a := len(e.k.Parallel); a >= 0; a-- {
		if v.Uses(a) {
			where = e.axisName(a)
			break
		}
	}
	if v.Kind == kernel.ExprLoad {
		return e.buffers[v.Bind].base + "_" + where
	}
	base := identifier(hintOf(v))
	if unusable(base) {
		base += "_" + where
	}
	return base
}

// axisName is the word for an axis in names: its variable, if that is one word.
func (e *emitter) axisName(axis int) string {
	t := ""
	for s := e.scope; s != nil && t == ""; s = s.parent {
		if t = s.later[axis]; t == "" {
			t = s.axes[axis].String()
		}
	}
	for i := 0; i < len(t); i++ {
		if !isNameByte(t[i]) {
			t = t[:i]
			break
		}
	}
	if t == "" || !isLetter(t[0]) {
		return "value"
	}
	return t
}

// vector returns the vector variable that holds a load, lane by lane, or nil.
func (e *emitter) vector(v *kernel.Expr) text {
	for s := e.scope; s != nil; s = s.parent {
		if t, ok := s.vectors[v]; ok {
			return t
		}
	}
	return nil
}
