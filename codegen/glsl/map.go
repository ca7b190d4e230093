package glsl

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// emitMap writes a kernel that computes its stores once per point of the parallel axes. An invocation takes Vec
// neighbours along the innermost axis.
func (e *emitter) emitMap() {
	if len(e.k.Parallel) == 0 {
		e.emitSingle()
		return
	}
	var shared []*kernel.Expr
	if e.sched.Coarsen > 1 {
		shared = e.coarsen()
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
			e.runCoarsened(r, shared)
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
func (e *emitter) emitSingle() {
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

// openPoint opens a block for a point that the kernel may skip.
func (e *emitter) openPoint() {
	cond := e.k.Guard.Point
	e.plan([]*kernel.Expr{cond}, nil)
	e.openIf(e.value(cond))
}

// emptySpace reports whether the space never has a point, and sets an empty grid if so.
func (e *emitter) emptySpace(s space) bool {
	if !s.isEmpty() {
		return false
	}
	for dim := range e.grid {
		e.grid[dim] = []kernel.GridFactor{{Extent: ir.D(0), Tile: 1}}
	}
	return true
}

// invocations gives every invocation its position among n, in a loop if the grid is too small. bind gets the position.
// It returns the number of blocks that it opened.
func (e *emitter) invocations(n ir.Dim, name string, bind func(id text)) (opened int) {
	wg := e.sched.Workgroup
	if e.setGrid(0, []ir.Dim{n}, int64(wg)) {
		bind(e.openFor("", name, primary("gl_GlobalInvocationID.x"), e.dim(n),
			times(primary("gl_NumWorkGroups.x"), wg)))
		return 1
	}
	id := e.variable("uint", name, primary("gl_GlobalInvocationID.x"))
	if _, whole := n.Quo(int64(wg)); !whole {
		e.line("if (%s >= %s) return;", id, e.dim(n))
	}
	bind(id)
	return 0
}
