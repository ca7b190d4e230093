package maps

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// tileWriter writes a map that reads transposed operands: they are contiguous along another axis (Other) than the
// results (Inner). A workgroup computes a tile of both axes. It loads the transposed operands to shared memory along
// Other. Then it computes the points along Inner.
type tileWriter struct {
	*emit.Emitter
	schedule.Transposition
	local  expr.Expr   // the invocation's number in its workgroup
	inner  side        // the axis along which the results are contiguous
	other  side        // the axis along which the loads are contiguous
	pitch  int         // distance between lines of a tile in shared memory
	arrays []expr.Expr // the shared array of each load
}

// side is one of the two axes of a tile.
type side struct {
	axis  int
	size  int       // extent of the tile
	tile  expr.Expr // the workgroup's tile number
	whole bool      // whether tiles divide the axis
}

// EmitTile writes a map that reads a transposed operand. A workgroup loads a tile along the operand's contiguous axis
// into shared memory, and reads it from there along the other axis.
func EmitTile(e *emit.Emitter) {
	tr, ok := schedule.TranspositionOf(e.K)
	if !ok {
		e.Fail("nothing to read through tiles")
		return
	}
	s := e.Sched.(kernel.MapTile)
	t := &tileWriter{Emitter: e, Transposition: tr, pitch: schedule.TransposePitch(s.TileM)}
	t.inner, t.other = t.newSide(tr.Inner, s.TileN), t.newSide(tr.Other, s.TileM)
	t.local = e.Variable("uint", "local", expr.Of("gl_LocalInvocationID.x"))
	outside := e.Scope
	e.OuterLoop(2, t.outerAxes())
	t.tileLoop(1, &t.other)
	t.tileLoop(0, &t.inner)
	t.nameOuter()
	t.fetch()
	e.Barrier()
	t.compute()
	if e.Scope != outside {
		e.Barrier("before shared memory is used for another tile")
	}
	e.CloseTo(outside)
}

// nameOuter declares variables for quotients and remainders that are the same for a whole tile. If shaders repeated
// them for every element, drivers would not notice that, and stores would take twice as long (M-conv).
func (t *tileWriter) nameOuter() {
	name := func(x kernel.Index) {
		x.Walk(func(f *kernel.Factor) {
			uses := func(axis int) bool { return f.X.Uses(axis) || f.D.Uses(axis) }
			// Inner and Other are the tile's axes. A factor that uses one, or a loaded value, varies within the tile.
			if f.Kind != kernel.FactorDiv && f.Kind != kernel.FactorMod || uses(t.Inner) || uses(t.Other) ||
				len(f.X.Values()) > 0 {
				return
			}
			t.NameFactor(f)
		})
	}
	t.Plan(nil, nil)
	kernel.Walk(t.K.Roots(), func(v *kernel.Expr) { name(v.Index) })
	for _, s := range t.K.Stores {
		name(s.Index)
	}
}

func (t *tileWriter) newSide(axis, size int) side {
	_, whole := t.K.Parallel[axis].Quo(int64(size))
	return side{axis: axis, size: size, whole: whole}
}

// outerAxes returns the span of all axes except the tile's two.
func (t *tileWriter) outerAxes() emit.Span {
	g := emit.Span{Points: []ir.Dim{ir.D(1)}}
	// From the innermost axis on.
	for a := len(t.K.Parallel) - 1; a >= 0; a-- {
		if a == t.Inner || a == t.Other {
			continue
		}
		// An extent that cannot be multiplied with the others stays a factor of its own.
		if n, err := t.K.Parallel[a].Mul2(g.Points[0]); err == nil {
			g.Points[0] = n
		} else {
			g.Points = append([]ir.Dim{t.K.Parallel[a]}, g.Points...)
		}
		g.Axes = append([]int{a}, g.Axes...)
	}
	if g.Max() > emit.MaxPoints {
		t.Fail("%s points in one dimension are more than 2^31", ir.Shape(g.Points))
	}
	return g
}

// tileLoop sets the workgroup's tile number along one side. If the grid is too small, it opens a loop over tiles.
func (t *tileWriter) tileLoop(dim int, s *side) {
	extent, id := t.K.Parallel[s.axis], "gl_WorkGroupID."+emit.GridAxis[dim]
	s.tile = expr.Of(id)
	if !t.SetGrid(dim, []ir.Dim{extent}, int64(s.size)) {
		return
	}
	name := t.Free(t.ParaName(s.axis) + "_tile")
	s.tile = syntax.Ident(name)
	t.Open(&syntax.For{Init: &syntax.Declare{Type: "uint", Vars: []syntax.Var{{Name: name, Init: expr.Of(id)}}},
		Cond: expr.Binary("<", expr.Times(s.tile, s.size), t.Dim(extent)),
		Post: &syntax.Assign{To: s.tile, Op: "+=", Value: expr.Of("gl_NumWorkGroups." + emit.GridAxis[dim])}})
	t.Scope.Names[name] = true
}

// fetch loads the tile of every load to shared memory, along the load's own axis.
func (t *tileWriter) fetch() {
	for _, v := range t.Loads {
		b := t.Buffers[v.Bind]
		array := t.Share(t.Scalar(b.DType).Carrier, b.Base+"_tile", t.inner.size*t.pitch)
		t.arrays = append(t.arrays, array)
		t.Comment("Lines of %s.", b.Name)
		// Vectors of up to 4 elements, if the load's positions are adjacent.
		width := t.K.VectorWidth(t.Other, t.K.Parallel[t.Other], 4, []*kernel.Expr{v}, nil)
		mover := t.mover(t.other, t.inner, width)
		mover.Load = func(_, _, line, unit expr.Expr, keep func(value expr.Expr)) {
			t.ifInside(t.other, t.inner, width, line, unit, func(r emit.Run) { keep(t.loadRun(v, r)) })
		}
		mover.Store = func(_, line, unit, value expr.Expr) {
			first := expr.Flat(line, t.pitch, expr.Times(unit, width))
			if width == 1 {
				t.Assign(expr.At(array, first), value)
				return
			}
			t.OpenLanes(width)
			t.Assign(expr.At(array, expr.Plus(first, emit.Lane)), expr.At(value, emit.Lane))
			t.Close()
		}
		mover.Move(expr.Of("0u"))
	}
}

// loadRun loads v at the elements of a run. It returns a carrier (an element that is not yet decoded) if the run has
// one element, else a vector of carriers.
func (t *tileWriter) loadRun(v *kernel.Expr, r emit.Run) expr.Expr {
	b := t.Buffers[v.Bind]
	t.Plan(nil, []kernel.Index{v.Index})
	if r.Width == 1 {
		t.BindAxis(r.Axis, r.Base)
		return t.CarrierAt(b, t.IndexValue(v.Index))
	}
	typ, value := t.VectorAt(b, r.Width, t.VectorIndex(r, v.Index))
	return t.Variable(typ, fmt.Sprintf("%s%d", b.Base, r.Width), value)
}

// compute writes the points of the tile, along the innermost axis.
func (t *tileWriter) compute() {
	t.Comment("Points of the tile.")
	roots, width := t.K.Roots(), t.Launch.Vec
	t.mover(t.inner, t.other, width).Each(func(_, line, unit expr.Expr) {
		t.ifInside(t.inner, t.other, width, line, unit, func(r emit.Run) {
			for i, v := range t.Loads {
				// A point's place in shared memory: the array has a line per coordinate of the inner axis.
				at := expr.Times(unit, width)
				if width > 1 {
					at = expr.Plus(at, emit.Lane)
				}
				at = expr.Flat(at, t.pitch, line)
				t.BindValue(v, t.FromCarrier(v.DType, expr.At(t.arrays[i], at)))
			}
			t.RunLanes(r, roots, t.K.Stores, nil)
		})
	})
}

// mover returns a mover of the tile, which visits the tile unit by unit. A unit is a run of width neighbours along the
// side `along`. A line is all units at one coordinate of the side `lines`.
func (t *tileWriter) mover(along, lines side, width int) *emit.Mover {
	return &emit.Mover{E: t.Emitter, Self: t.local, Lines: lines.size, PerLine: along.size / width, Line: "line",
		Unit: "at"}
}

// ifInside calls body for a unit of a line of the tile (see mover). body's code is in a block that executes only if the
// unit is inside the map.
func (t *tileWriter) ifInside(along, lines side, width int, line, unit expr.Expr, body func(r emit.Run)) {
	name := t.ParaName(along.axis)
	if width > 1 {
		name = fmt.Sprint(name, width)
	}
	mapUnit := t.Variable("uint", name, expr.Flat(along.tile, along.size/width, unit))
	mapLine := t.Variable("uint", t.ParaName(lines.axis), expr.Flat(lines.tile, lines.size, line))
	t.OpenIf(t.inside(along, lines, width, mapLine, mapUnit))
	t.BindAxis(lines.axis, mapLine)
	body(emit.RunOf(along.axis, width, mapUnit, t.ParaName(along.axis)))
	t.Close()
}

// inside returns the condition that a unit of a line is inside the map, or nil if it always is. Both numbers count from
// the beginning of the map.
func (t *tileWriter) inside(along, lines side, width int, line, unit expr.Expr) expr.Expr {
	var unitInside, lineInside expr.Expr
	// A run never crosses the end of the map, because width divides the extent.
	if !along.whole {
		units, _ := t.K.Parallel[along.axis].Quo(int64(width))
		unitInside = expr.Binary("<", unit, t.Dim(units))
	}
	if !lines.whole {
		lineInside = expr.Binary("<", line, t.Dim(t.K.Parallel[lines.axis]))
	}
	return expr.And(unitInside, lineInside)
}
