package glsl

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// tileWriter writes a map that reads some tensors along another axis than it stores along. A workgroup takes a tile of
// both axes. It loads the transposed operands to shared memory along their own lines. Then it computes the points along
// the lines of the result.
type tileWriter struct {
	*emitter
	schedule.Transposition
	local  text
	inner  side
	other  side
	pitch  int
	arrays []text // shared memory of each load
}

// side is one axis of a tile.
type side struct {
	axis  int
	size  int // of the tile
	tile  text
	whole bool // whether tiles divide the axis
}

// emitMapTile writes a map through tiles in shared memory.
func emitMapTile(e *emitter) {
	tr, ok := schedule.TranspositionOf(e.k)
	if !ok {
		e.fail("nothing to read through tiles")
		return
	}
	t := &tileWriter{emitter: e, Transposition: tr, pitch: schedule.TransposePitch(e.sched.TileM)}
	t.inner, t.other = t.newSide(tr.Inner, e.sched.TileN), t.newSide(tr.Other, e.sched.TileM)
	t.local = e.variable("uint", "local", primary("gl_LocalInvocationID.x"))
	opened := e.outerLoop(2, t.rest())
	opened += t.tileLoop(1, &t.other)
	opened += t.tileLoop(0, &t.inner)
	t.nameOuter()
	t.fetch()
	e.barrier()
	t.compute()
	if opened > 0 {
		e.line("barrier(); // before shared memory is used for another tile")
	}
	for range opened {
		e.close()
	}
}

// nameOuter names quotients and remainders that are the same for a whole tile. If shaders repeated them for every
// element, drivers would not notice, and stores would take twice as long (M-conv).
func (t *tileWriter) nameOuter() {
	name := func(x kernel.Index) {
		x.Walk(func(f *kernel.Factor) {
			uses := func(axis int) bool { return f.X.Uses(axis) || f.D.Uses(axis) }
			if f.Kind != kernel.FactorDiv && f.Kind != kernel.FactorMod || uses(t.Inner) || uses(t.Other) ||
				indexHasLoad(f.X) {
				return
			}
			t.uses.indices[factorKey(f)] = 2
			t.factor(f)
		})
	}
	t.plan(nil, nil)
	kernel.Walk(t.k.Roots(), func(v *kernel.Expr) { name(v.Index) })
	for _, s := range t.k.Stores {
		name(s.Index)
	}
}

// indexHasLoad reports whether a part of an index is a loaded value.
func indexHasLoad(x kernel.Index) bool {
	has := false
	x.Walk(func(f *kernel.Factor) { has = has || f.Kind == kernel.FactorValue })
	return has
}

func (t *tileWriter) newSide(axis, size int) side {
	_, whole := t.k.Parallel[axis].Quo(int64(size))
	return side{axis: axis, size: size, whole: whole}
}

// rest is all axes but the tile's two.
func (t *tileWriter) rest() span {
	g := span{points: []ir.Dim{ir.D(1)}}
	for a := len(t.k.Parallel) - 1; a >= 0; a-- {
		if a == t.Inner || a == t.Other {
			continue
		}
		if n, err := t.k.Parallel[a].Mul2(g.points[0]); err == nil {
			g.points[0] = n
		} else {
			g.points = append([]ir.Dim{t.k.Parallel[a]}, g.points...)
		}
		g.axes = append([]int{a}, g.axes...)
	}
	if g.max() > maxPoints {
		t.fail("%s points in one dimension are more than 2^31", ir.Shape(g.points))
	}
	return g
}

// tileLoop numbers the tiles along one side by a dimension of the grid, in a loop if the grid is too small.
func (t *tileWriter) tileLoop(dim int, s *side) (opened int) {
	extent, id := t.k.Parallel[s.axis], "gl_WorkGroupID."+gridAxis[dim]
	s.tile = primary(id)
	if !t.setGrid(dim, []ir.Dim{extent}, int64(s.size)) {
		return 0
	}
	s.tile = primary(t.free(t.paraName(s.axis) + "_tile"))
	t.open("for (uint %s = %s; %s < %s; %[1]s += gl_NumWorkGroups.%[5]s)", s.tile, id, times(s.tile, s.size),
		t.dim(extent), gridAxis[dim])
	t.scope.names[s.tile.String()] = true
	return 1
}

// fetch loads the tile of every load to shared memory, along the load's own axis.
func (t *tileWriter) fetch() {
	for _, v := range t.Loads {
		b := t.buffers[v.Bind]
		array := t.share(t.scalar(b.DType).carrier, b.base+"_tile", t.inner.size*t.pitch)
		t.arrays = append(t.arrays, array)
		t.comment("Lines of %s.", b.name)
		width := t.k.VectorWidth(t.Other, t.k.Parallel[t.Other], 4, []*kernel.Expr{v}, nil)
		t.eachRun(t.other, t.inner, width, func(r run, along, line text) {
			first := binary("+", binary("*", line, uintLit(t.pitch)), along)
			t.fetchRun(v, r, array, first)
		})
	}
}

// fetchRun copies neighbours along the load's axis to their slots of a tile, from first on.
func (t *tileWriter) fetchRun(v *kernel.Expr, r run, array, first text) {
	b := t.buffers[v.Bind]
	t.plan(nil, []kernel.Index{v.Index})
	if r.width == 1 {
		t.bindAxis(r.axis, r.base)
		t.assign(elementAt(array, first), t.carrierAt(b, t.indexValue(v.Index)))
		return
	}
	typ, value := t.vectorAt(b, r.width, t.vectorIndex(r, v.Index))
	name := t.variable(typ, fmt.Sprintf("%s%d", b.base, r.width), value)
	t.openLanes(r.width)
	t.assign(elementAt(array, binary("+", first, lane)), elementAt(name, lane))
	t.close()
}

// compute computes the points of the tile, along the innermost axis.
func (t *tileWriter) compute() {
	t.comment("Points of the tile.")
	roots, width := t.k.Roots(), t.sched.Vec
	t.eachRun(t.inner, t.other, width, func(r run, along, line text) {
		for i, v := range t.Loads {
			at := along
			if width > 1 {
				at = binary("+", along, lane)
			}
			at = binary("+", binary("*", at, uintLit(t.pitch)), line)
			t.bindValue(v, t.fromCarrier(v.DType, elementAt(t.arrays[i], at)))
		}
		t.runLanes(r, roots, t.k.Stores, nil)
	})
}

// eachRun loops over the runs of width neighbours of a tile. Runs along one side come first, so that neighbouring
// invocations take neighbouring runs. body gets the run's position along that side, and its line.
func (t *tileWriter) eachRun(along, lines side, width int, body func(r run, at, line text)) {
	perLine := along.size / width
	rounds := perLine * lines.size / t.sched.Workgroup
	n := t.openFor(unroll, "n", primary("0u"), uintLit(rounds), uintLit(1))
	place := t.variable("uint", "place", binary("+", binary("*", n, uintLit(t.sched.Workgroup)), t.local))
	unit := t.variable("uint", "at", binary("%", place, uintLit(perLine)))
	line := t.variable("uint", "line", binary("/", place, uintLit(perLine)))
	at := unit
	if width > 1 {
		at = binary("*", unit, uintLit(width))
	}
	global := t.variable("uint", t.unitName(along.axis, width),
		binary("+", binary("*", along.tile, uintLit(perLine)), unit))
	other := t.variable("uint", t.paraName(lines.axis),
		binary("+", binary("*", lines.tile, uintLit(lines.size)), line))
	cond := t.inside(along, lines, width, global, other)
	t.openIf(cond)
	t.bindAxis(lines.axis, other)
	body(runOf(along.axis, width, global, t.paraName(along.axis)), at, line)
	t.close()
	t.close()
}

func (t *tileWriter) unitName(axis, width int) string {
	if width > 1 {
		return fmt.Sprintf("%s%d", t.paraName(axis), width)
	}
	return t.paraName(axis)
}

// inside prints the condition that a run is within the map, or nil if it always is.
func (t *tileWriter) inside(along, lines side, width int, unit, line text) text {
	var inRun, inLine text
	if !along.whole {
		units, _ := t.k.Parallel[along.axis].Quo(int64(width))
		inRun = binary("<", unit, t.dim(units))
	}
	if !lines.whole {
		inLine = binary("<", line, t.dim(t.k.Parallel[lines.axis]))
	}
	return and(inRun, inLine)
}
