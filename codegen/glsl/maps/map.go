// Package maps writes kernels that compute each point independently: directly, or through tiles that transpose
// operands.
package maps

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
)

// mapWriter writes a kernel that computes its stores once per point of the parallel axes. An invocation computes Vec
// neighbours along the innermost axis.
type mapWriter struct {
	*emit.Emitter
	unit   expr.Expr      // the number of the invocation's run of neighbours along the innermost axis
	shared []*kernel.Expr // the values that the points of an invocation share, if it computes several (see coarsen)
}

// Emit writes a kernel that computes its stores once per point.
func Emit(e *emit.Emitter) {
	if len(e.K.Parallel) == 0 {
		emitSingle(e)
		return
	}
	w := &mapWriter{Emitter: e}
	if pointsEach(e) > 1 {
		w.shared = coarsen(e)
	}
	e.OverSpace(w.place, w.run)
}

// place assigns a run of neighbours to each invocation.
func (w *mapWriter) place(s emit.Space) {
	g, width := s[0], w.Launch.Vec
	n, _ := g.Points[0].Quo(int64(width))
	name := w.SpanName(g, "id")
	if width > 1 && len(g.Axes) == 1 { // such as i4, which counts runs of four neighbours
		name = fmt.Sprintf("%s%d", name, width)
	}
	w.unit = w.Split(g, width, w.Invocations(n, name))
}

// run writes the code of an invocation.
func (w *mapWriter) run() {
	inner := len(w.K.Parallel) - 1
	r := emit.RunOf(inner, w.Launch.Vec, w.unit, w.ParaName(inner))
	switch {
	case pointsEach(w.Emitter) > 1:
		runCoarsened(w.Emitter, r, w.shared)
	case w.K.Guard != nil:
		w.OpenScope()
		if r.Width == 1 {
			w.BindAxis(r.Axis, r.Base) // the guard may depend on it
		}
		w.OpenPoint()
		w.RunLanes(r, w.K.Roots(), w.K.Stores, nil)
		w.Close()
		w.Close()
	default:
		w.RunLanes(r, w.K.Roots(), w.K.Stores, nil)
	}
}

// emitSingle writes a kernel that has a single point.
func emitSingle(e *emit.Emitter) {
	e.SetUniformGrid(1)
	// Only one invocation is needed.
	if e.Launch.Workgroup > 1 {
		e.When(expr.Format("gl_LocalInvocationID.x > 0u"), &syntax.Return{})
	}
	if e.K.Guard == nil {
		e.StoreAll(e.K.Stores)
		return
	}
	e.OpenPoint()
	e.StoreAll(e.K.Stores)
	e.Close()
}
