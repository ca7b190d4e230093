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

// Emit writes a kernel that computes its stores once per point of the parallel axes. An invocation computes Vec
// neighbours along the innermost axis.
func Emit(e *emit.Emitter) {
	if len(e.K.Parallel) == 0 {
		emitSingle(e)
		return
	}
	var shared []*kernel.Expr
	if pointsEach(e) > 1 {
		shared = coarsen(e)
	}
	inner, width := len(e.K.Parallel)-1, e.Launch.Vec
	unit := expr.Of("0u")
	e.OverSpace(func(s emit.Space) {
		g := s[0]
		n, _ := g.Points[0].Quo(int64(width))
		name := e.SpanName(g, "id")
		if width > 1 && len(g.Axes) == 1 { // such as i4, which counts runs of four neighbours
			name = fmt.Sprintf("%s%d", name, width)
		}
		unit = e.Split(g, width, e.Invocations(n, name))
	}, func() {
		r := emit.RunOf(inner, width, unit, e.ParaName(inner))
		switch {
		case pointsEach(e) > 1:
			runCoarsened(e, r, shared)
		case e.K.Guard != nil:
			e.OpenScope()
			if r.Width == 1 {
				e.BindAxis(r.Axis, r.Base)
			}
			e.OpenPoint()
			e.RunLanes(r, e.K.Roots(), e.K.Stores, nil)
			e.Close()
			e.Close()
		default:
			e.RunLanes(r, e.K.Roots(), e.K.Stores, nil)
		}
	})
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
