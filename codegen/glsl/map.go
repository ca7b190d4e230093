package glsl

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// emitMap writes a kernel that computes its stores once per point of the parallel axes. An invocation takes Vec
// neighbours along the innermost axis.
func emitMap(e *emitter) {
	if len(e.k.Parallel) == 0 {
		emitSingle(e)
		return
	}
	var shared []*kernel.Expr
	if e.sched.Coarsen > 1 {
		shared = coarsen(e)
	}
	inner, width := len(e.k.Parallel)-1, e.sched.Vec
	unit := primary("0u")
	e.overSpace(func(s space) int {
		g := s[0]
		n, _ := g.points[0].Quo(int64(width))
		name := e.spanName(g, "id")
		if width > 1 && len(g.axes) == 1 {
			name = fmt.Sprintf("%s%d", name, width)
		}
		return e.invocations(n, name, func(id text) { unit = e.split(g, width, id) })
	}, func() {
		r := runOf(inner, width, unit, e.paraName(inner))
		switch {
		case e.sched.Coarsen > 1:
			runCoarsened(e, r, shared)
		case e.k.Guard != nil:
			e.openScope()
			if r.width == 1 {
				e.bindAxis(r.axis, r.base)
			}
			e.openPoint()
			e.runLanes(r, e.k.Roots(), e.k.Stores, nil)
			e.close()
			e.close()
		default:
			e.runLanes(r, e.k.Roots(), e.k.Stores, nil)
		}
	})
}

// emitSingle writes a kernel over one point.
func emitSingle(e *emitter) {
	for dim := range e.grid {
		e.grid[dim] = []kernel.GridFactor{{Extent: ir.D(1), Tile: 1}}
	}
	if e.sched.Workgroup > 1 {
		e.line("if (gl_LocalInvocationID.x > 0u) return;")
	}
	if e.k.Guard == nil {
		e.storeAll(e.k.Stores)
		return
	}
	e.openPoint()
	e.storeAll(e.k.Stores)
	e.close()
}
