package emit

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// laneName is the name of the variable of the loop over the neighbours that an invocation computes. No other variable
// has this name. In this package a lane is an element of a vector. The kernel families also call the invocations that
// share a row its lanes.
const laneName = "lane"

// Lane returns that variable.
var Lane = syntax.Ident(laneName)

// Run is the consecutive neighbours along an axis that an invocation computes together.
type Run struct {
	Axis, Width int
	Base        expr.Expr // the coordinate of the first neighbour
	unit        expr.Expr // Base/Width if there is an expression for it, else nil
	Name        string    // the name for a coordinate in the run, if it needs one
}

// RunOf returns run number unit along an axis: the neighbours unit*width to unit*width + width-1.
func RunOf(axis, width int, unit expr.Expr, name string) Run {
	if width == 1 {
		return Run{axis, 1, unit, unit, name}
	}
	return Run{axis, width, expr.Binary("*", unit, expr.Uint(width)), unit, name}
}

// RunLanes writes the loop over the neighbours of a run, with body and then stores in it. body, which may be nil,
// computes roots. Their loads of adjacent elements become vector loads before the loop, and stores to adjacent elements
// become vector stores after it.
func (e *Emitter) RunLanes(r Run, roots []*kernel.Expr, stores []kernel.Store, body func()) {
	e.OpenScope()
	defer e.Close()
	if r.Width == 1 {
		e.BindAxis(r.Axis, r.Base)
		if body != nil {
			body()
		}
		e.StoreAll(stores)
		return
	}
	vectors := e.loadVectors(r, roots)
	var scalarStores, vectorStores []kernel.Store
	var results []expr.Expr // the vectors that vectorStores store
	for _, s := range stores {
		if e.inPairs(e.Buffers[s.Bind]) || !e.K.StoresVector(s, r.Axis, r.Width) {
			scalarStores = append(scalarStores, s)
			continue
		}
		b := e.Buffers[s.Bind]
		vectorStores = append(vectorStores, s)
		results = append(results, e.Unset(fmt.Sprint(e.Scalar(b.DType).vec, r.Width), fmt.Sprint(b.Name, r.Width)))
	}
	e.OpenLanes(r.Width)
	if at := expr.Binary("+", r.Base, Lane); r.Name != "" {
		e.BindAxisLater(r.Axis, r.Name, at)
	} else {
		e.BindAxis(r.Axis, at)
	}
	e.Scope.run, e.Scope.vectors = r, vectors
	if body != nil {
		body()
	}
	e.fillVectors(vectorStores, results, scalarStores)
	e.Close()
	e.storeVectors(r, vectorStores, results)
}

// inRun returns a quotient or remainder of the coordinate along the axis of an open run, base + lane, if the divisor n
// divides the run's width. It writes the quotient as base/n + lane/n, and the remainder as lane%n. Lanes with the same
// quotient then have the same expression in the unrolled loop, so the compiler computes it once. ok is false for other
// factors.
func (c *Code) inRun(f *kernel.Factor) (t expr.Expr, ok bool) {
	for s := c.Scope; s != nil; s = s.parent {
		r := s.run
		if _, bound := s.Axes[r.Axis]; r.Width < 2 || !bound {
			continue
		}
		stride, linear := f.X.Stride(r.Axis)
		rest := f.X.DropAxis(r.Axis)
		// whether f.X is the coordinate plus a constant
		isCoordinate := linear && stride.Equal(kernel.Const(1)) && rest.IsConst() && rest.Offset() >= 0
		divides := f.D.IsConst() && int64(r.Width)%f.D.Offset() == 0
		if r.unit == nil || !isCoordinate || !divides {
			return t, false
		}
		at, by := expr.Plus(Lane, expr.Uint(rest.Offset())), expr.Uint(f.D.Offset())
		if f.Kind == kernel.FactorMod {
			return expr.Binary("%", at, by), true
		}
		return expr.Flat(r.unit, r.Width/int(f.D.Offset()), expr.Binary("/", at, by)), true
	}
	return t, false
}

// VectorIndex returns x/width, the index of a vector. x is the position of the run's first element.
func (e *Emitter) VectorIndex(r Run, x kernel.Index) expr.Expr {
	e.OpenScope()
	defer e.Close()
	if r.unit == nil || !x.Adjacent(r.Axis, r.Width) {
		e.BindAxis(r.Axis, r.Base)
		return expr.Binary("/", e.IndexExpr(x), expr.Uint(r.Width))
	}
	// Drop the axis, divide the rest, and add the axis with unit as its coordinate.
	e.BindAxis(r.Axis, r.unit)
	rest, _ := x.DropAxis(r.Axis).DivMod(ir.D(r.Width))
	return e.IndexExpr(rest.Plus(kernel.Axis(r.Axis, ir.D(2)))) // any extent except 1 keeps the axis
}

// loadVectors loads r.Width neighbouring elements as a vector, for each load below the roots that allows it. It also
// makes vectors of random words. It returns the vector of each value.
func (e *Emitter) loadVectors(r Run, roots []*kernel.Expr) map[*kernel.Expr]expr.Expr {
	vectors := map[*kernel.Expr]expr.Expr{}
	e.Plan(nil, nil)
	known := func(v *kernel.Expr) bool { _, ok := e.KnownValue(v); return ok }
	kernel.WalkUnknown(roots, known, func(v *kernel.Expr) {
		if v.Kind == kernel.ExprRandom && r.Width == 4 && sharesRandomBlock(v, r.Axis) {
			vectors[v] = e.loadWords(r, v, vectors)
		}
		if v.Kind != kernel.ExprLoad || e.inPairs(e.Buffers[v.Bind]) || !e.K.LoadsVector(v, r.Axis, r.Width) {
			return
		}
		b := e.Buffers[v.Bind]
		var typ string
		var value expr.Expr
		if b.DType.IsBlock() {
			e.OpenScope()
			e.BindAxis(r.Axis, r.Base)
			typ, value = e.loadVector(b, r.Width, e.IndexExpr(v.Index))
			e.Close()
		} else {
			typ, value = e.VectorAt(b, r.Width, e.VectorIndex(r, v.Index))
		}
		vectors[v] = e.Variable(typ, fmt.Sprintf("%s%d", b.Base, r.Width), value)
	})
	return vectors
}

// fillVectors writes, inside the loop over lanes, the elements of vector stores and the scalar stores.
func (e *Emitter) fillVectors(vectorStores []kernel.Store, results []expr.Expr, scalarStores []kernel.Store) {
	e.Plan(ValuesOf(slices.Concat(vectorStores, scalarStores)), indicesOf(scalarStores))
	for i, s := range vectorStores {
		e.Assign(expr.At(results[i], Lane), e.toCarrier(s.Value.DType, e.K.Bindings[s.Bind].DType, e.Value(s.Value)))
	}
	for _, s := range scalarStores {
		e.Scope.Write(e.store(s))
	}
}

// storeVectors writes the vector stores after the loop over lanes.
func (e *Emitter) storeVectors(r Run, stores []kernel.Store, results []expr.Expr) {
	e.Plan(nil, indicesOf(stores))
	for i, s := range stores {
		b, at := e.Buffers[s.Bind], e.VectorIndex(r, s.Index)
		value := results[i]
		if e.InWords(b) { // the buffer has 32-bit words, with several elements in each
			e.Scope.Write(e.StoreToWords(b, r.Width, at, value))
			continue
		}
		if t := e.Scalar(b.DType); t.vec != t.storageVec || t.Storage != t.Carrier { // computed and stored types differ
			value = expr.Call(fmt.Sprintf("%s%d", t.storageVec, r.Width), value)
		}
		e.Assign(e.Element(b, r.Width, at), value)
	}
}
