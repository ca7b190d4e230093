package glsl

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// component is the variable that counts an invocation's neighbours. No other variable has this name.
const component = "lane"

// lane is its value.
var lane = syntax.Ident(component)

// run is the neighbours along an axis that an invocation computes together.
type run struct {
	axis, width int
	base        text   // the coordinate of the first
	unit        text   // base/width if there is an expression for it, else nil
	name        string // the name of a coordinate in the run, if it needs one
}

// runOf is the run with number unit, counted in runs.
func runOf(axis, width int, unit text, name string) run {
	if width == 1 {
		return run{axis, 1, unit, unit, name}
	}
	return run{axis, width, binary("*", unit, uintLit(width)), unit, name}
}

// lanes writes the body of a loop over width neighbours from base on. Adjacent loads become vector loads before the
// loop, and adjacent stores become vector stores after it. body, which may be nil, and the other stores run for each
// lane.
func (e *emitter) lanes(axis, width int, base text, roots []*kernel.Expr, stores []kernel.Store, body func()) {
	e.runLanes(run{axis: axis, width: width, base: base}, roots, stores, body)
}

func (e *emitter) runLanes(r run, roots []*kernel.Expr, stores []kernel.Store, body func()) {
	e.openScope()
	defer e.close()
	if r.width == 1 {
		e.bindAxis(r.axis, r.base)
		if body != nil {
			body()
		}
		e.storeAll(stores)
		return
	}
	vectors := e.loadVectors(r, roots)
	var scalarStores, vectorStores []kernel.Store
	var results []text
	for _, s := range stores {
		if e.inPairs(e.buffers[s.Bind]) || !e.k.StoresVector(s, r.axis, r.width) {
			scalarStores = append(scalarStores, s)
			continue
		}
		b := e.buffers[s.Bind]
		vectorStores = append(vectorStores, s)
		results = append(results, e.unset(fmt.Sprint(e.scalar(b.DType).vec, r.width), fmt.Sprint(b.name, r.width)))
	}
	e.openLanes(r.width)
	if at := binary("+", r.base, lane); r.name != "" {
		e.bindAxisLater(r.axis, r.name, at)
	} else {
		e.bindAxis(r.axis, at)
	}
	e.scope.run = r
	for v, name := range vectors {
		e.scope.vectors[v] = name
	}
	if body != nil {
		body()
	}
	e.fillVectors(vectorStores, results, scalarStores)
	e.close()
	e.storeVectors(r, vectorStores, results)
}

// inRun prints the quotient or remainder of a coordinate by a divisor of the run's width, along the run's axis. All
// lanes then have the same expression for values that they share. The compiler unrolls the loop and computes it once.
func (e *emitter) inRun(f *kernel.Factor) (t text, ok bool) {
	for s := e.scope; s != nil; s = s.parent {
		r := s.run
		if _, bound := s.axes[r.axis]; r.width < 2 || !bound {
			continue
		}
		stride, linear := f.X.Stride(r.axis)
		first, divisor := f.X.DropAxis(r.axis), f.D
		if r.unit == nil || !linear || !stride.Equal(kernel.Const(1)) || !first.IsConst() || first.Offset() < 0 ||
			!divisor.IsConst() || int64(r.width)%divisor.Offset() != 0 {
			return t, false
		}
		at, by := plus(lane, uintLit(first.Offset())), uintLit(divisor.Offset())
		if f.Kind == kernel.FactorMod {
			return binary("%", at, by), true
		}
		return plus(times(r.unit, r.width/int(divisor.Offset())), binary("/", at, by)), true
	}
	return t, false
}

// vectorIndex prints x/width. x is the position of a vector along the run's axis.
func (e *emitter) vectorIndex(r run, x kernel.Index) text {
	e.openScope()
	defer e.close()
	if r.unit == nil || !x.Adjacent(r.axis, r.width) {
		e.bindAxis(r.axis, r.base)
		return binary("/", e.indexText(x), uintLit(r.width))
	}
	e.bindAxis(r.axis, r.unit)
	rest, _ := x.DropAxis(r.axis).DivMod(ir.D(r.width))
	return e.indexText(rest.Plus(kernel.Axis(r.axis, ir.D(2)))) // any extent but 1 keeps the axis
}

// loadVectors loads the values that adjacent lanes can load as vectors.
func (e *emitter) loadVectors(r run, roots []*kernel.Expr) map[*kernel.Expr]text {
	vectors := map[*kernel.Expr]text{}
	e.plan(nil, nil)
	e.walkNeeded(roots, func(v *kernel.Expr) {
		if v.Kind == kernel.ExprRandom && r.width == 4 && v.Index.Adjacent(r.axis, 4) {
			vectors[v] = e.loadWords(r, v, vectors)
		}
		if v.Kind != kernel.ExprLoad || e.inPairs(e.buffers[v.Bind]) || !e.k.LoadsVector(v, r.axis, r.width) {
			return
		}
		b := e.buffers[v.Bind]
		var typ string
		var value text
		if b.DType.IsBlock() {
			e.openScope()
			e.bindAxis(r.axis, r.base)
			typ, value = e.loadVector(b, r.width, e.indexText(v.Index))
			e.close()
		} else {
			typ, value = e.vectorAt(b, r.width, e.vectorIndex(r, v.Index))
		}
		vectors[v] = e.variable(typ, fmt.Sprintf("%s%d", b.base, r.width), value)
	})
	return vectors
}

// walkNeeded visits the values that must be computed for the roots. It skips the parts of values that are already
// known.
func (e *emitter) walkNeeded(roots []*kernel.Expr, visit func(*kernel.Expr)) {
	seen := map[*kernel.Expr]bool{}
	var walk func(v *kernel.Expr)
	walk = func(v *kernel.Expr) {
		if _, known := e.knownValue(v); known || seen[v] {
			return
		}
		seen[v] = true
		v.Index.Walk(func(f *kernel.Factor) {
			if f.Kind == kernel.FactorValue {
				walk(f.Value)
			}
		})
		for _, a := range v.Args {
			walk(a)
		}
		visit(v)
	}
	for _, r := range roots {
		walk(r)
	}
}

// fillVectors computes the lanes of vector stores, and writes scalar stores.
func (e *emitter) fillVectors(vectorStores []kernel.Store, results []text, scalarStores []kernel.Store) {
	var indices []kernel.Index
	for _, s := range scalarStores {
		indices = append(indices, s.Index)
	}
	e.plan(valuesOf(slices.Concat(vectorStores, scalarStores)), indices)
	for i, s := range vectorStores {
		e.assign(elementAt(results[i], lane), e.toCarrier(s.Value.DType, e.k.Bindings[s.Bind].DType, e.value(s.Value)))
	}
	for _, s := range scalarStores {
		e.scope.write(e.store(s))
	}
}

func (e *emitter) storeVectors(r run, stores []kernel.Store, results []text) {
	var indices []kernel.Index
	for _, s := range stores {
		indices = append(indices, s.Index)
	}
	e.plan(nil, indices)
	for i, s := range stores {
		b := e.buffers[s.Bind]
		value := results[i]
		if e.inWords(b) {
			e.scope.write(e.storeToWords(b, r.width, e.vectorIndex(r, s.Index), value))
			continue
		}
		if t := e.scalar(b.DType); t.vec != t.storageVec || t.storage != t.carrier {
			value = call(fmt.Sprintf("%s%d", t.storageVec, r.width), value)
		}
		e.assign(e.element(b, r.width, e.vectorIndex(r, s.Index)), value)
	}
}
