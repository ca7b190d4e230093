package emit

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/kernel"
)

// Indices are computed as uint. Partial sums may wrap around below 0, which is harmless because the whole sum is an
// index, and so not negative. Inside a clamp the whole sum may be negative too, so there everything is an int. A sum
// that may need more than 32 bits is an int64_t. But coordinates are 32-bit, and so are quotients and clamped values
// that fit.

// IndexValue returns an index in the open scope. If the last Plan counted more than one use, it declares a variable for
// it.
func (e *Emitter) IndexValue(x kernel.Index) expr.Expr {
	key := x.String()
	if t, ok := e.knownIndex(key); ok {
		return t
	}
	t := e.IndexExpr(x)
	if e.uses.indices[key] < 2 || expr.IsPlain(t) {
		return t
	}
	s := e.outermost(x.Uses, func(acc int) bool { return indexUsesAcc(x, acc) })
	t = e.declareIndex(s, "at", t)
	s.indices[key] = t
	return t
}

// indexUsesAcc reports whether an index contains a value that depends on the result of phase or matmul acc.
func indexUsesAcc(x kernel.Index, acc int) bool {
	return slices.ContainsFunc(x.Values(), func(v *kernel.Expr) bool { return v.UsesAcc(acc) })
}

// IndexExpr returns the polynomial of an index: first the terms that are added, then the terms that are subtracted.
func (e *Emitter) IndexExpr(x kernel.Index) expr.Expr {
	if x.Largest() <= float64(e.Caps.Position32()) {
		return e.Coordinate(x)
	}
	e.Need(NeedInt64)
	t := e.sum(x, expr.Int64, func(f *kernel.Factor) expr.Expr {
		t := e.factor(f)
		if !expr.IsWide(t) {
			t = expr.Call("int64_t", t)
		}
		return t
	})
	return expr.OfType(expr.Wide, t)
}

// Coordinate returns an index that fits in 32 bits on every device, as [kernel.Kernel.CheckRange] has checked.
func (e *Emitter) Coordinate(x kernel.Index) expr.Expr {
	return e.sum(x, expr.Uint, func(f *kernel.Factor) expr.Expr { return expr.Narrow(e.factor(f)) })
}

// sum returns the polynomial x in a type: lit returns a number, and factor a factor, as an expression of this type.
func (e *Emitter) sum(x kernel.Index, lit func(int64) expr.Expr, factor func(*kernel.Factor) expr.Expr) expr.Expr {
	var out expr.Expr
	for _, t := range x.Terms() {
		if t.Coef > 0 {
			out = expr.Join("+", out, e.term(t, t.Coef, lit, factor))
		}
	}
	if c := x.Offset(); c > 0 || out == nil {
		// If no term is positive, the sum begins with the constant, or with 0.
		out = expr.Join("+", out, lit(max(c, 0)))
	}
	for _, t := range x.Terms() {
		if t.Coef < 0 {
			out = expr.Join("-", out, e.term(t, -t.Coef, lit, factor))
		}
	}
	if c := x.Offset(); c < 0 {
		out = expr.Join("-", out, lit(-c))
	}
	return out
}

// term returns a term: coordinates first, then symbols, then the coefficient, as in row * T * 64.
func (e *Emitter) term(t kernel.Term, coef int64, lit func(int64) expr.Expr,
	factor func(*kernel.Factor) expr.Expr) expr.Expr {
	var out expr.Expr
	for _, f := range t.Factors {
		if f.Kind != kernel.FactorSym {
			out = expr.Join("*", out, factor(f))
		}
	}
	for _, f := range t.Factors {
		if f.Kind != kernel.FactorSym {
			continue
		}
		parts := kernel.SymbolFactors(f.Sym) // several if the symbol stands for a product
		if len(parts) == 1 {
			out = expr.Join("*", out, factor(f))
			continue
		}
		for _, d := range parts {
			out = expr.Join("*", out, e.sum(kernel.DimIndex(d), lit, factor))
		}
	}
	if coef != 1 {
		out = expr.Join("*", out, lit(coef))
	}
	return out
}

// factor returns one factor of an index, as a uint or, if it is wide, as an int64_t.
func (e *Emitter) factor(f *kernel.Factor) expr.Expr {
	switch f.Kind {
	case kernel.FactorAxis:
		return e.Axis(f.Axis)
	case kernel.FactorSym:
		e.usedSyms[f.Sym] = true
		return expr.Of(e.symbolNames[f.Sym])
	case kernel.FactorValue:
		return e.Coerce(e.ComputeType(f.Value.DType), "uint", e.Value(f.Value))
	}
	key := factorKey(f)
	if t, ok := e.knownIndex(key); ok {
		return t
	}
	t := e.composite(f)
	if e.uses.indices[key] < 2 { // used once
		return t
	}
	usesAxis := func(axis int) bool { return f.X.Uses(axis) || f.D.Uses(axis) }
	s := e.outermost(usesAxis, func(acc int) bool { return indexUsesAcc(f.X, acc) || indexUsesAcc(f.D, acc) })
	t = e.declareIndex(s, e.factorName(f), t)
	s.indices[key] = t
	return t
}

// NameFactor declares a variable for a quotient or remainder, which later indices use.
func (e *Emitter) NameFactor(f *kernel.Factor) {
	e.uses.indices[factorKey(f)] = 2 // more than one use gives it a name
	e.factor(f)
}

// composite returns a quotient, remainder or clamp.
func (e *Emitter) composite(f *kernel.Factor) expr.Expr {
	if f.Kind != kernel.FactorClamp {
		if t, ok := e.inRun(f); ok { // see Code.inRun
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
	e.Fail("unknown kind of index factor %d", f.Kind)
	return expr.Of("0u")
}

// divided returns a quotient or remainder, as a uint if it fits.
func (e *Emitter) divided(op string, f *kernel.Factor) expr.Expr {
	t := expr.Binary(op, e.IndexExpr(f.X), e.IndexExpr(f.D))
	if f.Largest() > float64(e.Caps.Position32()) {
		return t
	}
	return expr.Narrow(t)
}

// factorName returns a name for the variable of a quotient, remainder or clamp.
func (e *Emitter) factorName(f *kernel.Factor) string {
	base := map[kernel.FactorKind]string{kernel.FactorDiv: "quotient", kernel.FactorMod: "remainder",
		kernel.FactorClamp: "clamped"}[f.Kind]
	if v, ok := loneValue(f.X); ok {
		return e.ValueName(v) + "_index"
	}
	if ts := f.X.Terms(); len(ts) == 1 && len(ts[0].Factors) == 1 && ts[0].Factors[0].Kind == kernel.FactorAxis {
		return e.axisName(ts[0].Factors[0].Axis) + "_" + base
	}
	return base
}

// factorKey is the key of a factor in scope.indices.
func factorKey(f *kernel.Factor) string { return fmt.Sprintf("%d(%s, %s)", f.Kind, f.X, f.D) }

// loneFactor returns the factor that x consists of, or nil if x has an offset, a coefficient or several factors.
func loneFactor(x kernel.Index) *kernel.Factor {
	ts := x.Terms()
	if len(ts) != 1 || x.Offset() != 0 || ts[0].Coef != 1 || len(ts[0].Factors) != 1 {
		return nil
	}
	return ts[0].Factors[0]
}

// loneValue returns the loaded value that x consists of, and false if x is anything else.
func loneValue(x kernel.Index) (*kernel.Expr, bool) {
	f := loneFactor(x)
	if f == nil || f.Kind != kernel.FactorValue {
		return nil, false
	}
	return f.Value, true
}

// clamped returns f.X limited to 0..f.D. It computes in uint if neither of them can be negative, and otherwise in
// int. (f.D is T-1 for an extent T, so it is -1 if T is 0.) Loaded 64-bit indices are already limited to the range
// of an int.
func (e *Emitter) clamped(f *kernel.Factor) expr.Expr {
	unsigned := f.D.NonNegative()
	if v, ok := loneValue(f.X); ok && unsigned && e.ComputeType(v.DType) == "uint" {
		return expr.Call("min", e.Value(v), e.Coordinate(f.D))
	}
	if unsigned && onlyAdds(f.X) {
		return expr.Call("min", e.Coordinate(f.X), e.Coordinate(f.D))
	}
	return expr.Call("uint", e.clampCall(f))
}

// clampCall returns f.X limited to 0..f.D, as an int. If f.D is -1 (T-1 for an extent T of 0), the result is 0,
// which is safe to access, because every buffer has an element 0.
func (e *Emitter) clampCall(f *kernel.Factor) expr.Expr {
	factor := func(f *kernel.Factor) expr.Expr {
		if f.Kind == kernel.FactorValue {
			return e.Coerce(e.ComputeType(f.Value.DType), "int", e.Value(f.Value))
		}
		return expr.Call("int", e.factor(f))
	}
	x, last := e.sum(f.X, expr.Int, factor), e.sum(f.D, expr.Int, factor)
	if f.D.IsConst() {
		return expr.Call("clamp", x, expr.Int(0), last)
	}
	return expr.Call("max", expr.Call("min", x, last), expr.Int(0))
}

// onlyAdds reports whether x cannot be negative: it subtracts nothing and has no loaded values.
func onlyAdds(x kernel.Index) bool {
	for _, t := range x.Terms() {
		if t.Coef < 0 {
			return false
		}
	}
	return x.Offset() >= 0 && !x.HasValue()
}

// signedIndex returns an index as an int. A clamp that is used once is computed in int, instead of in uint and
// converted, unless it is simpler in uint (see clamped).
func (e *Emitter) signedIndex(x kernel.Index) expr.Expr {
	f := loneFactor(x)
	if f == nil || f.Kind != kernel.FactorClamp {
		return expr.Call("int", e.IndexValue(x))
	}
	// A clamp that is known, or used again, is a uint variable. Its conversion costs nothing more.
	_, known := e.knownIndex(factorKey(f))
	usedOnce := !known && e.uses.indices[factorKey(f)] < 2
	v, lone := loneValue(f.X)
	simplerInUint := onlyAdds(f.X) || lone && e.ComputeType(v.DType) == "uint"
	if usedOnce && !simplerInUint {
		return e.clampCall(f)
	}
	return expr.Call("int", e.IndexValue(x))
}
