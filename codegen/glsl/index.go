package glsl

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// Indices are computed as uint. Their partial sums may wrap around below 0, which does no harm because the final sum is
// an index. Inside a clamp the final sum may be negative too, so there everything is int. A sum that may need more than
// 32 bits is computed as int64_t. Its coordinates still have 32 bits, and so do quotients and clamped values that fit.

// isWide reports whether an index may have more than 32 bits.
func (e *emitter) isWide(x kernel.Index) bool { return x.Largest() > float64(e.caps.Position32()) }

// indexValue prints an index in the open scope. An index that is used more than once, as the last plan counted, becomes
// a variable.
func (e *emitter) indexValue(x kernel.Index) text {
	key := x.String()
	if t, ok := e.knownIndex(key); ok {
		return t
	}
	t := e.indexText(x)
	if e.uses.indices[key] < 2 || isPlain(t) {
		return t
	}
	s := e.home(x.Uses, func(acc int) bool { return indexUsesAcc(x, acc) })
	t = e.declareIndex(s, "at", t)
	s.indices[key] = t
	return t
}

// declareIndex declares a variable for an index in scope s.
func (e *emitter) declareIndex(s *scope, name string, t text) text {
	if isWide(t) {
		return ofType(wide, e.declare(s, wide, name, t))
	}
	return e.declare(s, "uint", name, t)
}

func (e *emitter) knownIndex(key string) (text, bool) {
	for s := e.scope; s != nil; s = s.parent {
		if t, ok := s.indices[key]; ok {
			return t, true
		}
	}
	return nil, false
}

func indexUsesAcc(x kernel.Index, acc int) bool {
	used := false
	x.Walk(func(f *kernel.Factor) {
		used = used || f.Kind == kernel.FactorValue && f.Value.UsesAcc(acc)
	})
	return used
}

// indexText prints the polynomial: first the terms that add, then the terms that subtract.
func (e *emitter) indexText(x kernel.Index) text {
	if !e.isWide(x) {
		return e.coordinate(x)
	}
	e.need(NeedInt64)
	t := e.sum(x, int64Lit, func(f *kernel.Factor) text {
		t := e.factor(f)
		if !isWide(t) {
			t = call("int64_t", t)
		}
		return t
	})
	return ofType(wide, t)
}

// coordinate prints an index that fits in 32 bits on every device, by [kernel.Kernel.CheckRange].
func (e *emitter) coordinate(x kernel.Index) text { return e.sum(x, uintLit, e.narrowFactor) }

func (e *emitter) narrowFactor(f *kernel.Factor) text { return narrow(e.factor(f)) }

// sum prints a polynomial in the number type of lit and factor.
func (e *emitter) sum(x kernel.Index, lit func(int64) text, factor func(*kernel.Factor) text) text {
	var out text
	for _, t := range x.Terms() {
		if t.Coef > 0 {
			out = joined("+", out, e.term(t, t.Coef, lit, factor))
		}
	}
	if c := x.Offset(); c > 0 || out == nil {
		// A sum without positive terms begins with its constant, 0 if need be.
		out = joined("+", out, lit(max(c, 0)))
	}
	for _, t := range x.Terms() {
		if t.Coef < 0 {
			out = joined("-", out, e.term(t, -t.Coef, lit, factor))
		}
	}
	if c := x.Offset(); c < 0 {
		out = joined("-", out, lit(-c))
	}
	return out
}

// term prints coordinates first, then symbols, then the number, as in row * T * 64.
func (e *emitter) term(t kernel.Term, coef int64, lit func(int64) text, factor func(*kernel.Factor) text) text {
	var out text
	for _, symbols := range []bool{false, true} {
		for _, f := range t.Factors {
			switch parts := kernel.SymbolFactors(f.Sym); {
			case (f.Kind == kernel.FactorSym) != symbols:
			case !symbols || len(parts) == 1:
				out = joined("*", out, factor(f))
			default:
				for _, d := range parts {
					out = joined("*", out, e.sum(kernel.DimIndex(d), lit, factor))
				}
			}
		}
	}
	if coef != 1 {
		out = joined("*", out, lit(coef))
	}
	return out
}

// factor prints one factor, as a uint unless it is wide.
func (e *emitter) factor(f *kernel.Factor) text {
	switch f.Kind {
	case kernel.FactorAxis:
		return e.axis(f.Axis)
	case kernel.FactorSym:
		return e.symbol(f.Sym)
	case kernel.FactorValue:
		return e.coerce(e.computeType(f.Value.DType), "uint", e.value(f.Value))
	}
	key := factorKey(f)
	if t, ok := e.knownIndex(key); ok {
		return t
	}
	t := e.composite(f)
	if e.uses.indices[key] < 2 {
		return t
	}
	one := func(axis int) bool { return f.X.Uses(axis) || f.D.Uses(axis) }
	s := e.home(one, func(acc int) bool { return indexUsesAcc(f.X, acc) || indexUsesAcc(f.D, acc) })
	t = e.declareIndex(s, e.factorName(f), t)
	s.indices[key] = t
	return t
}

func (e *emitter) composite(f *kernel.Factor) text {
	if f.Kind != kernel.FactorClamp {
		if t, ok := e.inRun(f); ok {
			return t
		}
	}
	switch f.Kind {
	case kernel.FactorDiv:
		return e.divided("/", f)
	case kernel.FactorMod:
		return e.divided("%", f)
	case kernel.FactorClamp:
		return e.clamped(f)
	}
	e.fail("unknown kind of index factor %d", f.Kind)
	return primary("0u")
}

// divided prints a quotient or remainder, as a uint if it fits.
func (e *emitter) divided(op string, f *kernel.Factor) text {
	t := binary(op, e.indexText(f.X), e.indexText(f.D))
	if f.Largest() > float64(e.caps.Position32()) {
		return t
	}
	return narrow(t)
}

// factorName is the name of the variable of a quotient, remainder or looked-up index.
func (e *emitter) factorName(f *kernel.Factor) string {
	base := map[kernel.FactorKind]string{kernel.FactorDiv: "quotient", kernel.FactorMod: "remainder",
		kernel.FactorClamp: "clamped"}[f.Kind]
	if v, ok := loneValue(f.X); ok {
		return e.valueName(v) + "_index"
	}
	if ts := f.X.Terms(); len(ts) == 1 && len(ts[0].Factors) == 1 && ts[0].Factors[0].Kind == kernel.FactorAxis {
		return e.axisName(ts[0].Factors[0].Axis) + "_" + base
	}
	return base
}

func factorKey(f *kernel.Factor) string {
	return fmt.Sprintf("%d(%s, %s)", f.Kind, f.X, f.D)
}

// loneFactor returns the only factor of x, or nil if x is more than one factor. loneValue does the same for a value.
func loneFactor(x kernel.Index) *kernel.Factor {
	ts := x.Terms()
	if len(ts) != 1 || x.Offset() != 0 || ts[0].Coef != 1 || len(ts[0].Factors) != 1 {
		return nil
	}
	return ts[0].Factors[0]
}

func loneValue(x kernel.Index) (*kernel.Expr, bool) {
	f := loneFactor(x)
	if f == nil || f.Kind != kernel.FactorValue {
		return nil, false
	}
	return f.Value, true
}

// clamped prints a clamp. It uses uint if neither the value nor the limit can be negative (T-1 is -1 if T is 0), and
// int otherwise. Loaded 64-bit indices are already limited to the range of an int.
func (e *emitter) clamped(f *kernel.Factor) text {
	unsigned := f.D.NonNegative()
	if v, ok := loneValue(f.X); ok && unsigned && e.computeType(v.DType) == "uint" {
		return call("min", e.value(v), e.coordinate(f.D))
	}
	if unsigned && onlyAdds(f.X) {
		return call("min", e.coordinate(f.X), e.coordinate(f.D))
	}
	return call("uint", e.clampCall(f))
}

// clampCall limits a signed sum to 0..last. If a symbol is 0, last may be -1; the result is then 0, which every buffer
// has room for.
func (e *emitter) clampCall(f *kernel.Factor) text {
	factor := func(f *kernel.Factor) text {
		if f.Kind == kernel.FactorValue {
			return e.coerce(e.computeType(f.Value.DType), "int", e.value(f.Value))
		}
		return call("int", e.factor(f))
	}
	x, last := e.sum(f.X, intLit, factor), e.sum(f.D, intLit, factor)
	if f.D.IsConst() {
		return call("clamp", x, intLit(0), last)
	}
	return call("max", call("min", x, last), intLit(0))
}

// onlyAdds reports whether no part of x can make it negative.
func onlyAdds(x kernel.Index) bool {
	for _, t := range x.Terms() {
		if t.Coef < 0 {
			return false
		}
	}
	return x.Offset() >= 0 && !hasValue(x)
}

// hasValue reports whether an index has a term of a loaded value.
func hasValue(x kernel.Index) bool {
	return slices.ContainsFunc(x.Terms(), func(t kernel.Term) bool {
		return slices.ContainsFunc(t.Factors, func(f *kernel.Factor) bool { return f.Kind == kernel.FactorValue })
	})
}

// signedIndex prints an index as an int value.
func (e *emitter) signedIndex(x kernel.Index) text {
	if f := loneFactor(x); f != nil && f.Kind == kernel.FactorClamp {
		if _, known := e.knownIndex(factorKey(f)); !known && e.uses.indices[factorKey(f)] < 2 && !onlyAdds(f.X) {
			if v, lone := loneValue(f.X); !lone || e.computeType(v.DType) != "uint" {
				return e.clampCall(f)
			}
		}
	}
	return call("int", e.indexValue(x))
}
