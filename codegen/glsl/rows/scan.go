package rows

import (
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// scanWriter writes a kernel that scans rows: at each element it stores the fold of the elements up to it. The order of
// the folds never depends on timing, so that every run returns the same bits.
type scanWriter struct {
	*Writer
	phase fold
	runs  ir.Dim // number of runs of width neighbours in a row
}

// scanTile is the state of writing a tile: a part of a row with one run of neighbours for every lane.
type scanTile struct {
	run   emit.Run
	cond  expr.Expr // the condition that the lane's run exists, or nil
	loop  bool      // the row has several tiles
	total expr.Expr // the fold of the lane's own run
	parts expr.Expr // by element of the lane's run, if it has several: the fold before it, or up to it
}

// EmitScan writes a scan: with one invocation per row, or with LanesPerRow.
func EmitScan(e *emit.Emitter) {
	s, group := e.Sched.(kernel.Lanes), e.Launch.Variant == kernel.VarScanGroup
	w := &scanWriter{Writer: New(e, max(s.LanesPerRow, 1), group), phase: fold{Phase: e.K.Phases[0]}}
	w.phase.typ = w.ComputeType(kernel.AccType(w.phase.Phase.Value.DType))
	w.NeedType(w.phase.typ)
	w.runs, _ = e.K.Fold.Quo(int64(w.width))
	along := w.scanByOneLane
	if group {
		along = w.scanByLanes
	}
	e.OverSpace(w.Place, along)
}

// empty returns the fold of no elements.
func (w *scanWriter) empty() expr.Expr { return w.identity(w.phase.Phase) }

// inLimit returns the condition that the run's first element is below the row's limit, or nil if there is no limit.
func (w *scanWriter) inLimit(r emit.Run) expr.Expr {
	if w.K.Limit == nil {
		return nil
	}
	w.OpenScope() // the axis is bound to the first element only for the condition
	defer w.Close()
	w.BindAxis(r.Axis, r.Base)
	return expr.Binary("<", w.Coordinate(w.K.Limit.At), w.Dim(w.K.Limit.Below))
}

// guarded writes body in a block that runs if all conditions hold; nil always holds.
func (w *scanWriter) guarded(body func(), conds ...expr.Expr) {
	w.OpenIf(expr.And(conds...))
	body()
	w.Close()
}

// value returns the current element.
func (w *scanWriter) value() expr.Expr {
	return w.Coerce(w.ComputeType(w.phase.Value.DType), w.phase.typ, w.Eval(w.phase.Value))
}

// scanByOneLane writes the scan of a row by one invocation.
func (w *scanWriter) scanByOneLane() {
	w.Comment("%s: the %s %s each element.", w.phase.Name, combineWords[w.phase.Combine], w.reach())
	sum := w.Variable(w.phase.typ, w.phase.Name, w.empty())
	j := expr.Of("0u")
	if w.runs.Is(1) {
		w.OpenScope()
	} else {
		j = w.OpenFor("", w.runName(), j, w.Dim(w.runs), expr.Uint(1))
	}
	r := emit.RunOf(w.K.FoldAxis(), w.width, j, "j")
	w.guarded(func() {
		w.RunLanes(r, w.K.Roots(), w.K.Stores, func() {
			v, result := w.value(), sum
			if w.phase.Exclusive {
				result = w.Variable(w.phase.typ, w.phase.Name+"_before", sum)
			}
			w.foldInto(w.phase, sum, v)
			w.BindAcc(0, result)
		})
	}, w.inLimit(r))
	w.Close()
}

// reach says in words which elements a result covers: those before the element, or up to it.
func (w *scanWriter) reach() string {
	if w.phase.Exclusive {
		return "before"
	}
	return "up to"
}

// scanByLanes writes the scan of a row by several lanes. In each tile, every lane folds its own run. Then it adds the
// folds of the earlier lanes and of the earlier tiles.
func (w *scanWriter) scanByLanes() {
	w.Comment("%s: the %s %s each element.", w.phase.Name, combineWords[w.phase.Combine], w.reach())
	t := &scanTile{loop: !w.runs.IsStatic() || w.runs.Add > int64(w.Lanes)}
	j := w.Thread
	var sum expr.Expr
	if t.loop {
		sum = w.Variable(w.phase.typ, w.phase.Name, w.empty())
		first := w.OpenFor("", "tile", expr.Of("0u"), w.Dim(w.runs), expr.Uint(w.Lanes))
		j = w.Variable("uint", w.runName(), expr.Binary("+", first, w.Thread))
	}
	t.run = emit.RunOf(w.K.FoldAxis(), w.width, j, "j")
	w.setCondition(t, j)
	w.foldOwnRun(t)
	before, all := w.acrossLanes(t)
	w.storeRun(t, sum, before)
	if t.loop {
		w.foldInto(w.phase, sum, all)
		if len(w.Shared) > 0 {
			w.Barrier("before shared memory is used for the next tile")
		}
		w.Close()
	}
	w.LeaveShared()
}

// setCondition sets t.cond to the condition that the lane has a run in the tile. It stays nil if every lane has one.
func (w *scanWriter) setCondition(t *scanTile, j expr.Expr) {
	if _, whole := w.runs.Quo(int64(w.Lanes)); !whole || !w.runs.IsStatic() {
		t.cond = expr.Binary("<", j, w.Dim(w.runs))
	}
	if t.cond = expr.And(t.cond, w.inLimit(t.run)); t.cond != nil {
		t.cond = w.Variable("bool", "in_row", t.cond)
	}
}

// foldOwnRun folds the elements of the lane's run.
func (w *scanWriter) foldOwnRun(t *scanTile) {
	t.total = w.Variable(w.phase.typ, "own", w.empty())
	// Results inside a run differ, so keep one per element.
	if w.width > 1 {
		t.parts = w.Unset(w.phase.typ, "within", w.width)
	}
	w.guarded(func() {
		w.RunLanes(t.run, []*kernel.Expr{w.phase.Value}, nil, func() {
			v := w.value()
			if t.parts != nil && w.phase.Exclusive {
				w.Assign(expr.At(t.parts, emit.Lane), t.total)
			}
			w.foldInto(w.phase, t.total, v)
			if t.parts != nil && !w.phase.Exclusive {
				w.Assign(expr.At(t.parts, emit.Lane), t.total)
			}
		})
	}, t.cond)
}

// storeRun stores the results of the lane's elements. base is the fold of earlier lanes, and sum of earlier tiles, or
// nil.
func (w *scanWriter) storeRun(t *scanTile, sum, base expr.Expr) {
	if sum != nil {
		base = w.foldOf(w.phase, sum, base)
	}
	w.guarded(func() {
		// Compute base once for all elements of the run.
		if w.width > 1 && !expr.IsPlain(base) {
			base = w.Variable(w.phase.typ, "base", base)
		}
		w.RunLanes(t.run, emit.ValuesOf(w.K.Stores), w.K.Stores, func() {
			result := base
			switch {
			case t.parts != nil:
				result = w.foldOf(w.phase, base, expr.At(t.parts, emit.Lane))
			case !w.phase.Exclusive:
				result = w.foldOf(w.phase, base, t.total)
			}
			w.BindAcc(0, w.Variable(w.phase.typ, "up_to_here", result))
		})
	}, t.cond, w.Valid)
}

// acrossLanes returns a variable with the fold of the row's earlier lanes. If there are several tiles, it also returns
// a variable with the fold of all lanes.
func (w *scanWriter) acrossLanes(t *scanTile) (before, all expr.Expr) {
	w.Comment("What the lanes before have.")
	if !w.bySubgroup() {
		return w.acrossShared(t)
	}
	w.Need(emit.NeedSubgroupBasic, emit.NeedSubgroupShuffle)
	if w.phase.typ == "int64_t" {
		w.Need(emit.NeedSubgroupTypes)
	}
	lanes := min(w.Lanes, w.Launch.Subgroup) // the row's lanes in one subgroup
	lane := expr.Of("gl_SubgroupInvocationID")
	place := lane                    // the lane's number among these
	if w.Lanes < w.Launch.Subgroup { // the subgroup has several rows
		place = w.Thread
	}
	upTo := w.Variable(w.phase.typ, "up_to", t.total)
	// Hillis and Steele's steps, as in acrossShared.
	distance := w.OpenShifts(emit.Unroll, "distance", expr.Uint(1), "<", expr.Uint(lanes))
	other := w.Variable(w.phase.typ, "other", w.shuffled(upTo, expr.Binary("-", lane, distance)))
	w.When(expr.Binary(">=", place, distance), w.foldStatement(w.phase, upTo, other))
	w.Close()
	// The fold up to the previous lane. The row's first lane has no previous lane.
	before = w.Variable(w.phase.typ, "before", w.shuffled(upTo, expr.Binary("-", lane, expr.Uint(1))))
	w.When(expr.Binary("==", place, expr.Uint(0)), emit.Set(before, w.empty()))
	if w.Lanes > lanes {
		return before, w.acrossSubgroups(t, upTo, before)
	}
	if t.loop {
		// The row's last lane has the fold of all: the low bits of its number are 1.
		last := expr.Binary("|", lane, expr.Uint(lanes-1))
		all = w.Variable(w.phase.typ, "tile_"+string(w.phase.Combine), expr.Call("subgroupShuffle", upTo, last))
	}
	return before, all
}

// shuffled returns the value of x in another invocation of the subgroup. A negative number wraps around, because a
// shuffle must name an existing invocation.
func (w *scanWriter) shuffled(x, lane expr.Expr) expr.Expr {
	return expr.Call("subgroupShuffle", x, expr.Binary("&", lane, expr.Uint(w.Launch.Subgroup-1)))
}

// acrossSubgroups folds the results of the row's earlier subgroups into before, and returns the fold of all subgroups
// if there are several tiles. upTo is the fold of this subgroup's lanes up to this one.
func (w *scanWriter) acrossSubgroups(t *scanTile, upTo, before expr.Expr) (all expr.Expr) {
	size := w.Launch.Subgroup
	parts := w.Share(w.phase.typ, "parts", w.Launch.Workgroup/size)
	// The last lane of each subgroup has the fold of all its lanes.
	w.When(expr.Binary("==", expr.Of("gl_SubgroupInvocationID"), expr.Uint(size-1)),
		emit.Set(expr.At(parts, expr.Of("gl_SubgroupID")), upTo))
	w.Barrier()
	// The row's first subgroup, and the number of this subgroup in the row.
	first, own := expr.Of("0u"), expr.Of("gl_SubgroupID")
	if w.Rows > 1 {
		own = w.Variable("uint", "subgroup", expr.Binary("/", w.Thread, expr.Uint(size)))
		first = w.Variable("uint", "first_part", expr.Binary("-", expr.Of("gl_SubgroupID"), own))
	}
	ahead := w.Variable(w.phase.typ, "ahead", w.empty()) // the fold of the row's earlier subgroups
	if t.loop {
		all = w.Variable(w.phase.typ, "tile_"+string(w.phase.Combine), w.empty())
	}
	n := w.OpenFor(emit.Unroll, "n", expr.Of("0u"), expr.Uint(w.Lanes/size), expr.Uint(1))
	at := n
	if w.Rows > 1 {
		at = expr.Binary("+", first, at)
	}
	part := w.Variable(w.phase.typ, "part", expr.At(parts, at))
	w.When(expr.Binary("<", n, own), w.foldStatement(w.phase, ahead, part))
	if t.loop {
		w.foldInto(w.phase, all, part)
	}
	w.Close()
	w.Assign(before, w.foldOf(w.phase, ahead, before))
	return all
}

// acrossShared does the same as acrossLanes in shared memory, by Hillis and Steele's algorithm (1986): in step s, lane
// i adds the sum of lane i - 2^s. In the end, its sum is the sum of lanes 0 to i.
func (w *scanWriter) acrossShared(t *scanTile) (before, all expr.Expr) {
	sums := w.Share(w.phase.typ, string(w.phase.Combine)+"s", w.Launch.Workgroup)
	upTo := w.Variable(w.phase.typ, "up_to", t.total)
	w.Assign(expr.At(sums, w.Local), upTo)
	w.Barrier()
	distance := w.OpenShifts("", "distance", expr.Uint(1), "<", expr.Uint(w.Lanes))
	other := w.Variable(w.phase.typ, "other", w.empty())
	w.When(expr.Binary(">=", w.Thread, distance), emit.Set(other, expr.At(sums, expr.Binary("-", w.Local, distance))))
	// Every lane must read before any overwrites.
	w.Barrier()
	w.foldInto(w.phase, upTo, other)
	w.Assign(expr.At(sums, w.Local), upTo)
	w.Barrier()
	w.Close()
	before = w.Variable(w.phase.typ, "before", w.empty())
	w.When(expr.Binary(">", w.Thread, expr.Uint(0)),
		emit.Set(before, expr.At(sums, expr.Binary("-", w.Local, expr.Uint(1)))))
	if t.loop {
		end := expr.Uint(w.Lanes - 1)
		if w.Rows > 1 {
			end = expr.Binary("+", expr.Binary("-", w.Local, w.Thread), end)
		}
		all = w.Variable(w.phase.typ, "tile_"+string(w.phase.Combine), expr.At(sums, end))
	}
	return before, all
}
