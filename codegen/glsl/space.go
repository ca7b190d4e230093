package glsl

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// maxPoints bounds the points of one dimension of the grid, so that positions, and the strides added to them, stay
// within 32 bits.
const maxPoints = 1 << 31

// span is a run of parallel axes that one dimension of the grid covers.
type span struct {
	axes []int // outermost first
	// points is the number of points, as factors. Only z has several factors, because it takes all axes that are left.
	points []ir.Dim
}

// space maps the parallel axes to x, y and z of the grid. x takes as many of the innermost axes as fit in maxPoints; y
// and z take the outer ones.
type space []span

// newSpace assigns the parallel axes, from the innermost outwards, to x, y and z. z takes the rest.
func (e *emitter) newSpace() space {
	s := space{{points: []ir.Dim{ir.D(1)}}}
	for a := len(e.k.Parallel) - 1; a >= 0; a-- {
		last := &s[len(s)-1]
		n, err := e.k.Parallel[a].Mul2(last.points[0])
		wider := span{points: append([]ir.Dim{e.k.Parallel[a]}, last.points...)}
		fits := wider.max() <= maxPoints
		switch {
		case err == nil && fits:
			last.points[0] = n
		case len(s) < 3:
			s = append(s, span{axes: []int{a}, points: []ir.Dim{e.k.Parallel[a]}})
			continue
		default:
			last.points = append([]ir.Dim{e.k.Parallel[a]}, last.points...)
		}
		last.axes = append([]int{a}, last.axes...)
	}
	for _, g := range s {
		if g.max() > maxPoints {
			e.fail("%s points in one dimension are more than 2^31", ir.Shape(g.points))
		}
	}
	return s
}

// max is the largest number of points, or a number above maxPoints.
func (g span) max() int64 {
	n := int64(1)
	for _, d := range g.points {
		m := max(d.Max(), 0)
		if m > 0 && n > maxPoints/m {
			return maxPoints + 1
		}
		n *= m
	}
	return n
}

// isEmpty reports whether the space never has a point.
func (s space) isEmpty() bool {
	return slices.ContainsFunc(s, func(g span) bool { return g.max() == 0 })
}

// count prints the number of points.
func (e *emitter) count(g span) text {
	out := e.dim(g.points[0])
	for _, d := range g.points[1:] {
		out = binary("*", out, e.dim(d))
	}
	return out
}

// gridLimit is the largest number of workgroups along a dimension of a dispatch. Vulkan promises 65535.
func (e *emitter) gridLimit(dim int) int64 {
	if n := e.caps.MaxWorkgroupCount[dim]; n > 0 {
		return min(int64(n), 1<<31-1)
	}
	return 65535
}

// setGrid covers one dimension of the grid with workgroups of tile points each. It reports whether workgroups must loop
// because the device allows fewer.
func (e *emitter) setGrid(dim int, points []ir.Dim, tile int64) (goAround bool) {
	factors := make([]kernel.GridFactor, len(points))
	room := e.gridLimit(dim)
	for i := len(points) - 1; i >= 0; i-- {
		chunks := max(1, (points[i].Max()+tile-1)/tile)
		rounds := (chunks + room - 1) / room
		factors[i] = kernel.GridFactor{Extent: points[i], Tile: tile * rounds}
		room = max(1, room/((chunks+rounds-1)/rounds))
		goAround = goAround || rounds > 1
		tile = 1
	}
	e.grid[dim] = factors
	return goAround
}

var gridAxis = [3]string{"x", "y", "z"}

// overSpace writes body at the points of the parallel axes. inner binds the axes of x and returns the number of blocks
// that it opened.
func (e *emitter) overSpace(inner func(s space) (opened int), body func()) {
	s := e.newSpace()
	if e.err != nil || e.emptySpace(s) {
		return
	}
	for range e.outerLoops(s) + inner(s) {
		defer e.close()
	}
	body()
}

// outerLoops binds the axes of y and z, one point per workgroup. It returns the number of blocks that it opened.
func (e *emitter) outerLoops(s space) (opened int) {
	for dim := range e.grid {
		e.grid[dim] = []kernel.GridFactor{{Extent: ir.D(1), Tile: 1}}
	}
	for dim := len(s) - 1; dim > 0; dim-- {
		opened += e.outerLoop(dim, s[dim])
	}
	return opened
}

// outerLoop binds the axes of one dimension of the grid, in a loop if the grid is too small. It returns the number of
// blocks that it opened.
func (e *emitter) outerLoop(dim int, g span) (opened int) {
	id := primary("gl_WorkGroupID." + gridAxis[dim])
	base := e.spanName(g, "outer")
	if e.setGrid(dim, g.points, 1) {
		id = e.openFor("", base, id, e.count(g), primary("gl_NumWorkGroups."+gridAxis[dim]))
		opened++
	} else if slices.ContainsFunc(g.axes, e.usesAxis) {
		id = e.variable("uint", base, id)
	}
	e.split(g, 1, id)
	return opened
}

// spanName is the name of the position in a span: the axis's name if the span has one axis.
func (e *emitter) spanName(g span, several string) string {
	if len(g.axes) == 1 {
		return e.paraName(g.axes[0])
	}
	return several
}

// split binds the axes of a span to their coordinates, given the row-major position id. The unit of id is width
// elements of the innermost axis. If width is not 1, split does not bind the innermost axis, but returns its coordinate
// in those units.
func (e *emitter) split(g span, width int, id text) (unit text) {
	below := kernel.Const(1) // positions per step of the axis
	unit = primary("0u")
	for i := len(g.axes) - 1; i >= 0; i-- {
		axis, extent := g.axes[i], e.k.Parallel[g.axes[i]]
		name := e.paraName(axis)
		inner := i == len(g.axes)-1
		if inner && width > 1 {
			extent, _ = extent.Quo(int64(width))
			name = fmt.Sprintf("%s%d", name, width)
		}
		step := below
		below = below.Mul(kernel.DimIndex(extent))
		if !e.usesAxis(axis) {
			continue
		}
		x := id
		if !step.Equal(kernel.Const(1)) {
			x = binary("/", x, e.coordinate(step))
		}
		if i > 0 {
			x = binary("%", x, e.dim(extent))
		}
		x = e.named(name, x)
		if inner {
			unit = x
		}
		if !inner || width == 1 {
			e.bindAxis(axis, x)
		}
	}
	return unit
}

// usesAxis reports whether any value or index of the kernel depends on an axis.
func (e *emitter) usesAxis(axis int) bool {
	for _, r := range e.k.Roots() {
		if r.Uses(axis) {
			return true
		}
	}
	return slices.ContainsFunc(e.k.Stores, func(s kernel.Store) bool { return s.Index.Uses(axis) })
}

// paraName names a parallel axis: the last ones are batch, row and col, and earlier ones have numbers. A map over one
// axis calls it i. A fold replaces col.
func (e *emitter) paraName(axis int) string {
	names := []string{"batch", "row", "col"}
	if e.k.Family == kernel.FamilyAttention {
		if axis == e.k.AttentionAxes().Split {
			return "chunk"
		}
		names = []string{"batch", "group", "head", "query", "col"}
	}
	if e.k.Family == kernel.FamilyRow || e.k.Family == kernel.FamilyScan || e.k.Family == kernel.FamilySort {
		names = names[:2]
	} else if len(e.k.Parallel) == 1 {
		return "i"
	}
	if i := axis - len(e.k.Parallel) + len(names); i >= 0 {
		return names[i]
	}
	return fmt.Sprintf("axis%d", axis)
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
