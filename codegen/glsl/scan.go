package glsl

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// scanWriter writes a kernel that scans rows: it stores the fold of the elements so far at each element. The order of
// the folds never depends on timing, so that every run returns the same bits.
type scanWriter struct {
	*rowWriter
	phase fold
	runs  ir.Dim // runs of width neighbours in a row
}

// scanTile is a part of a row with one run for every lane, while it is being written.
type scanTile struct {
	run   run
	cond  text // the condition for a run of the lane, or nil
	loop  bool // the row has several tiles
	total text // the fold of the lane's own run
	parts text // the folds before, or up to, each element of the lane's run, if it has several
}

// emitScan writes a scan: an invocation per row, or LanesPerRow of them.
func emitScan(e *emitter) {
	group := e.sched.Variant == kernel.VarScanGroup
	w := &scanWriter{rowWriter: newRowWriter(e, lanesOf(e, group), group), phase: fold{Phase: e.k.Phases[0]}}
	w.phase.typ = w.computeType(accType(w.phase.Phase))
	w.needType(w.phase.typ)
	w.runs, _ = e.k.Fold.Quo(int64(w.width))
	along := w.alone
	if group {
		along = w.together
	}
	e.overSpace(w.place, along)
}

// nothing is the fold of no elements.
func (w *scanWriter) nothing() text { return w.identity(w.phase.Phase) }

// inLimit prints the condition that a run lies in the row. It is "" if all runs do.
func (w *scanWriter) inLimit(r run) text {
	if w.k.Limit == nil {
		return nil
	}
	w.openScope()
	defer w.close()
	w.bindAxis(r.axis, r.base)
	return binary("<", w.coordinate(w.k.Limit.At), w.dim(w.k.Limit.Below))
}

// guarded writes body under the conditions, if there are any.
func (w *scanWriter) guarded(body func(), conds ...text) {
	w.openIf(and(conds...))
	body()
	w.close()
}

// value computes the current element.
func (w *scanWriter) value() text {
	return w.coerce(w.computeType(w.phase.Value.DType), w.phase.typ, w.eval(w.phase.Value)[0])
}

// alone gives each invocation its own row.
func (w *scanWriter) alone() {
	w.comment("%s: the %s %s each element.", w.phase.Name, combineWords[w.phase.Combine], w.reach())
	sum := w.variable(w.phase.typ, w.phase.Name, w.nothing())
	j := primary("0u")
	if w.runs.Is(1) {
		w.openScope()
	} else {
		j = w.openFor("", w.runName(), j, w.dim(w.runs), uintLit(1))
	}
	r := runOf(w.k.FoldAxis(), w.width, j, "j")
	w.guarded(func() {
		w.runLanes(r, w.k.Roots(), w.k.Stores, func() {
			v, result := w.value(), sum
			if w.phase.Exclusive {
				result = w.variable(w.phase.typ, w.phase.Name+"_before", sum)
			}
			w.combine(w.phase, sum, v)
			w.bindAcc(0, result)
		})
	}, w.inLimit(r))
	w.close()
}

func (w *scanWriter) reach() string {
	if w.phase.Exclusive {
		return "before"
	}
	return "up to"
}

func (w *scanWriter) runName() string {
	if w.width > 1 {
		return fmt.Sprintf("j%d", w.width)
	}
	return "j"
}

// together divides a row among lanes. In each tile, every lane folds its own run. Then it folds in the results of the
// lanes before it and of the tiles before.
func (w *scanWriter) together() {
	w.comment("%s: the %s %s each element.", w.phase.Name, combineWords[w.phase.Combine], w.reach())
	t := &scanTile{loop: !w.runs.IsStatic() || w.runs.Add > int64(w.lanes)}
	j := w.thread
	var sum text
	if t.loop {
		sum = w.variable(w.phase.typ, w.phase.Name, w.nothing())
		first := w.openFor("", "tile", primary("0u"), w.dim(w.runs), uintLit(w.lanes))
		j = w.variable("uint", w.runName(), binary("+", first, w.thread))
	}
	t.run = runOf(w.k.FoldAxis(), w.width, j, "j")
	w.inTile(t, j)
	w.ownRun(t)
	before, all := w.acrossLanes(t)
	w.storeRun(t, sum, before)
	if t.loop {
		w.combine(w.phase, sum, all)
		if len(w.shared) > 0 {
			w.line("barrier(); // before shared memory is used for the next tile")
		}
		w.close()
	}
	w.leaveShared()
}

// inTile finds the condition for a run of the lane in the tile.
func (w *scanWriter) inTile(t *scanTile, j text) {
	if _, whole := w.runs.Quo(int64(w.lanes)); !whole || !w.runs.IsStatic() {
		t.cond = binary("<", j, w.dim(w.runs))
	}
	if t.cond = and(t.cond, w.inLimit(t.run)); t.cond != nil {
		t.cond = w.variable("bool", "in_row", t.cond)
	}
}

// ownRun folds the lane's own elements.
func (w *scanWriter) ownRun(t *scanTile) {
	t.total = w.variable(w.phase.typ, "own", w.nothing())
	if w.width > 1 {
		t.parts = w.unset(w.phase.typ, "within", w.width)
	}
	w.guarded(func() {
		w.runLanes(t.run, []*kernel.Expr{w.phase.Value}, nil, func() {
			v := w.value()
			if t.parts != nil && w.phase.Exclusive {
				w.assign(elementAt(t.parts, lane), t.total)
			}
			w.combine(w.phase, t.total, v)
			if t.parts != nil && !w.phase.Exclusive {
				w.assign(elementAt(t.parts, lane), t.total)
			}
		})
	}, t.cond)
}

// storeRun stores the results of the lane's elements.
func (w *scanWriter) storeRun(t *scanTile, sum, base text) {
	if sum != nil {
		base = w.combined(w.phase, sum, base)
	}
	w.guarded(func() {
		if w.width > 1 && !isPlain(base) {
			base = w.variable(w.phase.typ, "base", base)
		}
		w.runLanes(t.run, valuesOf(w.k.Stores), w.k.Stores, func() {
			result := base
			switch {
			case t.parts != nil:
				result = w.combined(w.phase, base, elementAt(t.parts, lane))
			case !w.phase.Exclusive:
				result = w.combined(w.phase, base, t.total)
			}
			w.bindAcc(0, w.variable(w.phase.typ, "up_to_here", result))
		})
	}, t.cond, w.valid)
}

// acrossLanes returns a variable with the fold of the row's earlier lanes, and if there are several tiles, a variable
// with the fold of all lanes.
func (w *scanWriter) acrossLanes(t *scanTile) (before, all text) {
	w.comment("What the lanes before have.")
	if !w.bySubgroup() {
		return w.acrossShared(t)
	}
	w.need(NeedSubgroupBasic, NeedSubgroupShuffle)
	if w.phase.typ == "int64_t" {
		w.need(NeedSubgroupTypes)
	}
	within := min(w.lanes, w.sched.Subgroup)
	lane := primary("gl_SubgroupInvocationID")
	place := lane
	if w.lanes < w.sched.Subgroup {
		place = w.thread
	}
	upTo := w.variable(w.phase.typ, "up_to", t.total)
	w.open("[[unroll]] for (uint distance = 1u; distance < %du; distance <<= 1u)", within)
	other := w.variable(w.phase.typ, "other", w.shuffled(upTo, binary("-", lane, primary("distance"))))
	w.when(binary(">=", place, primary("distance")), w.combining(w.phase, upTo, other))
	w.close()
	before = w.variable(w.phase.typ, "before", w.shuffled(upTo, binary("-", lane, uintLit(1))))
	w.when(binary("==", place, uintLit(0)), &syntax.Assign{To: before, Op: "=", Value: w.nothing()})
	if w.lanes > within {
		return before, w.acrossSubgroups(t, upTo, before)
	}
	if t.loop {
		last := binary("|", lane, uintLit(within-1))
		all = w.variable(w.phase.typ, "tile_"+string(w.phase.Combine), call("subgroupShuffle", upTo, last))
	}
	return before, all
}

// shuffled is the value of another invocation. Numbers below 0 wrap around, because a shuffle must name an existing
// invocation.
func (w *scanWriter) shuffled(x, lane text) text {
	return call("subgroupShuffle", x, binary("&", lane, uintLit(w.sched.Subgroup-1)))
}

// when writes an inline statement under a condition.
func (w *scanWriter) when(cond text, then syntax.Stmt) {
	w.scope.write(&syntax.If{Cond: cond, Then: []syntax.Stmt{then}, Inline: true})
}

// acrossSubgroups folds in the results of the row's earlier subgroups, and returns the fold of all subgroups.
func (w *scanWriter) acrossSubgroups(t *scanTile, upTo, before text) (all text) {
	size := w.sched.Subgroup
	parts := w.share(w.phase.typ, "parts", w.sched.Workgroup/size)
	w.line("if (gl_SubgroupInvocationID == %du) %s[gl_SubgroupID] = %s;", size-1, parts, upTo)
	w.barrier()
	first, own := primary("0u"), primary("gl_SubgroupID")
	if w.rows > 1 {
		own = w.variable("uint", "subgroup", binary("/", w.thread, uintLit(size)))
		first = w.variable("uint", "first_part", binary("-", primary("gl_SubgroupID"), own))
	}
	ahead := w.variable(w.phase.typ, "ahead", w.nothing())
	if t.loop {
		all = w.variable(w.phase.typ, "tile_"+string(w.phase.Combine), w.nothing())
	}
	n := w.openFor(unroll, "n", primary("0u"), uintLit(w.lanes/size), uintLit(1))
	at := n
	if w.rows > 1 {
		at = binary("+", first, at)
	}
	part := w.variable(w.phase.typ, "part", elementAt(parts, at))
	w.when(binary("<", n, own), w.combining(w.phase, ahead, part))
	if t.loop {
		w.combine(w.phase, all, part)
	}
	w.close()
	w.assign(before, w.combined(w.phase, ahead, before))
	return all
}

// acrossShared is acrossLanes in shared memory (Hillis and Steele 1986).
func (w *scanWriter) acrossShared(t *scanTile) (before, all text) {
	sums := w.share(w.phase.typ, string(w.phase.Combine)+"s", w.sched.Workgroup)
	upTo := w.variable(w.phase.typ, "up_to", t.total)
	w.assign(elementAt(sums, w.local), upTo)
	w.barrier()
	w.open("for (uint distance = 1u; distance < %du; distance <<= 1u)", w.lanes)
	other := w.variable(w.phase.typ, "other", w.nothing())
	w.line("if (%s >= distance) %s = %s[%s - distance];", w.thread, other, sums, w.local)
	w.barrier()
	w.combine(w.phase, upTo, other)
	w.assign(elementAt(sums, w.local), upTo)
	w.barrier()
	w.close()
	before = w.variable(w.phase.typ, "before", w.nothing())
	w.line("if (%s > 0u) %s = %s[%s - 1u];", w.thread, before, sums, w.local)
	if t.loop {
		end := uintLit(w.lanes - 1)
		if w.rows > 1 {
			end = binary("+", binary("-", w.local, w.thread), end)
		}
		all = w.variable(w.phase.typ, "tile_"+string(w.phase.Combine), elementAt(sums, end))
	}
	return before, all
}
