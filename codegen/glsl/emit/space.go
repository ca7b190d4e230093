package emit

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// MaxPoints bounds the number of points of one dimension of the grid, so that positions, and the strides added to them,
// fit in 32 bits.
const MaxPoints = 1 << 31

// Span is a group of consecutive parallel axes that one dimension of the grid covers.
type Span struct {
	Axes []int // outermost first
	// The product of Points is the number of points. Only z has several factors, because it takes all axes that remain,
	// and an ir.Dim cannot express every product.
	Points []ir.Dim
}

// Space maps the parallel axes to the dimensions x, y and z of the grid. x takes the innermost axes, as many as
// MaxPoints allows; y and z take the outer axes.
type Space []Span

// newSpace assigns the parallel axes to x, y and z, beginning with the innermost axis.
func (j *Job) newSpace() Space {
	s := Space{{Points: []ir.Dim{ir.D(1)}}}
	for a := len(j.K.Parallel) - 1; a >= 0; a-- {
		last := &s[len(s)-1]
		// err is set if no dim can express the product of the extents. The span then has several factors.
		n, err := j.K.Parallel[a].Mul2(last.Points[0])
		wider := Span{Points: append([]ir.Dim{j.K.Parallel[a]}, last.Points...)}
		fits := wider.Max() <= MaxPoints
		switch {
		case err == nil && fits:
			last.Points[0] = n
		// Another dimension of the grid is free. The innermost axes stay in x.
		case len(s) < 3:
			s = append(s, Span{Axes: []int{a}, Points: []ir.Dim{j.K.Parallel[a]}})
			continue
		default:
			last.Points = append([]ir.Dim{j.K.Parallel[a]}, last.Points...)
		}
		last.Axes = append([]int{a}, last.Axes...)
	}
	for _, g := range s {
		if g.Max() > MaxPoints {
			j.Fail("%s points in one dimension are more than 2^31", ir.Shape(g.Points))
		}
	}
	return s
}

// Max is the largest number of points of the span, or MaxPoints+1 if there are more than MaxPoints.
func (g Span) Max() int64 {
	n := int64(1)
	for _, d := range g.Points {
		m := max(d.Max(), 0)
		if m > 0 && n > MaxPoints/m {
			return MaxPoints + 1
		}
		n *= m
	}
	return n
}

// count returns the number of points.
func (e *Emitter) count(g Span) expr.Expr {
	out := e.Dim(g.Points[0])
	for _, d := range g.Points[1:] {
		out = expr.Binary("*", out, e.Dim(d))
	}
	return out
}

// gridLimit is the largest number of workgroups along a dimension of a dispatch. Vulkan guarantees 65535.
func (j *Job) gridLimit(dim int) int64 {
	if n := j.Caps.MaxWorkgroupCount[dim]; n > 0 {
		return min(int64(n), 1<<31-1)
	}
	return 65535
}

// SetGrid covers one dimension of the grid with workgroups. A workgroup has a tile of points along the innermost
// factor. goAround reports whether workgroups must loop over several tiles, because the device allows fewer workgroups
// than there are tiles.
func (e *Emitter) SetGrid(dim int, points []ir.Dim, tile int64) (goAround bool) {
	factors := make([]kernel.GridFactor, len(points))
	limit := e.gridLimit(dim) // on the product of the workgroups of this factor and of the factors before it
	for i := len(points) - 1; i >= 0; i-- {
		tiles := max(1, ceil.Div(points[i].Max(), tile))
		rounds := ceil.Div(tiles, limit)
		factors[i] = kernel.GridFactor{Extent: points[i], Tile: tile * rounds}
		limit = max(1, limit/ceil.Div(tiles, rounds))
		goAround = goAround || rounds > 1
		tile = 1 // outer factors have one point per workgroup
	}
	e.Grid[dim] = factors
	return goAround
}

// GridAxis has the components of a workgroup's id, by dimension.
var GridAxis = [3]string{"x", "y", "z"}

// OverSpace writes body once, inside the loops that bind all parallel axes. The caller's function inner binds the axes
// of grid dimension x, and may open blocks, which OverSpace closes. If the space never has a point, OverSpace sets an
// empty grid and writes nothing.
func (e *Emitter) OverSpace(inner func(s Space), body func()) {
	s := e.newSpace()
	if e.Err != nil {
		return
	}
	if slices.ContainsFunc(s, func(g Span) bool { return g.Max() == 0 }) {
		e.SetUniformGrid(0)
		return
	}
	outside := e.Scope
	e.SetUniformGrid(1)
	for dim := len(s) - 1; dim > 0; dim-- { // y and z: one point per workgroup
		e.OuterLoop(dim, s[dim])
	}
	inner(s)
	body()
	e.CloseTo(outside)
}

// SetUniformGrid sets the grid to n workgroups along each dimension.
func (e *Emitter) SetUniformGrid(n int) {
	for dim := range e.Grid {
		e.Grid[dim] = []kernel.GridFactor{{Extent: ir.D(n), Tile: 1}}
	}
}

// OuterLoop binds the axes of grid dimension dim, so that each workgroup has one point along them. If the device allows
// fewer workgroups than there are points, it opens a loop over several points.
func (e *Emitter) OuterLoop(dim int, g Span) {
	id := expr.Of("gl_WorkGroupID." + GridAxis[dim])
	base := e.SpanName(g, "outer")
	if e.SetGrid(dim, g.Points, 1) {
		id = e.OpenFor("", base, id, e.count(g), expr.Of("gl_NumWorkGroups."+GridAxis[dim]))
	} else if slices.ContainsFunc(g.Axes, e.UsesAxis) {
		id = e.Variable("uint", base, id)
	}
	e.Split(g, 1, id)
}

// SpanName is the name for the position in a span: the name of the axis if there is one axis, and several otherwise.
func (j *Job) SpanName(g Span, several string) string {
	if len(g.Axes) == 1 {
		return j.ParaName(g.Axes[0])
	}
	return several
}

// Split binds the axes of a span to their coordinates, given the row-major position id in the span. id counts units of
// width elements of the innermost axis. Split returns the coordinate of the innermost axis in these units, and binds
// this axis only if width is 1.
func (e *Emitter) Split(g Span, width int, id expr.Expr) (unit expr.Expr) {
	below := kernel.Const(1) // number of positions per step of the axis
	unit = expr.Of("0u")
	for i := len(g.Axes) - 1; i >= 0; i-- {
		axis, extent := g.Axes[i], e.K.Parallel[g.Axes[i]]
		name := e.ParaName(axis)
		inner := i == len(g.Axes)-1
		if inner && width > 1 {
			extent, _ = extent.Quo(int64(width))
			name = fmt.Sprintf("%s%d", name, width)
		}
		step := below
		below = below.Mul(kernel.DimIndex(extent))
		if !e.UsesAxis(axis) {
			continue
		}
		x := id
		if !step.Equal(kernel.Const(1)) {
			x = expr.Binary("/", x, e.Coordinate(step))
		}
		if i > 0 {
			x = expr.Binary("%", x, e.Dim(extent))
		}
		x = e.Named(name, x)
		if inner {
			unit = x
		}
		if !inner || width == 1 {
			e.BindAxis(axis, x)
		}
	}
	return unit
}

// OpenPoint opens a block that runs only at points that the kernel's guard does not skip.
func (e *Emitter) OpenPoint() { e.OpenIf(e.Eval(e.K.Guard.Point)) }

// Invocations distributes n positions over the invocations of the dispatch, and returns the variable, called name, with
// an invocation's position. If a dispatch of n invocations exceeds the device's limits, it opens a loop over several
// positions per invocation; otherwise the other invocations return.
func (e *Emitter) Invocations(n ir.Dim, name string) expr.Expr {
	wg := e.Launch.Workgroup
	if e.SetGrid(0, []ir.Dim{n}, int64(wg)) {
		return e.OpenFor("", name, expr.Of("gl_GlobalInvocationID.x"), e.Dim(n),
			expr.Times(expr.Of("gl_NumWorkGroups.x"), wg))
	}
	id := e.Variable("uint", name, expr.Of("gl_GlobalInvocationID.x"))
	if _, whole := n.Quo(int64(wg)); !whole {
		e.When(expr.Binary(">=", id, e.Dim(n)), &syntax.Return{})
	}
	return id
}
