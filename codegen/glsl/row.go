package glsl

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// rowWriter writes a kernel that folds rows in stages. Each stage is one pass over the row's elements. It folds every
// phase that does not wait for another phase of the stage. The last stage stores a result per element.
type rowWriter struct {
	*emitter
	group bool // several invocations share a row
	lanes int  // the number of lanes that share a row
	rows  int  // rows per workgroup

	local  text // the invocation's number in the workgroup
	thread text // its number in the row
	part   text // the start of its row's parts in shared memory, once declared
	valid  text // the condition that its row exists, or ""
	width  int  // neighbouring elements at once
	slots  int  // the turns of each lane if it keeps the values of all turns; else 0
	slot   text // the number of the turn, in such a pass

	stages [][]int // phases
	final  stage
	cached map[*kernel.Expr]text // the arrays that keep values after their first stage
	first  map[*kernel.Expr]int  // the first stage of each kept value
}

// stage is the stores of the last pass.
type stage struct {
	perElement, perRow []kernel.Store
}

// newRowWriter divides a workgroup into rows of some lanes each. group says that the lanes of a row share it; otherwise
// each invocation has a row of its own.
func newRowWriter(e *emitter, lanes int, group bool) *rowWriter {
	return &rowWriter{emitter: e, group: group, lanes: lanes, rows: e.sched.Workgroup / lanes, width: e.sched.Vec}
}

// lanesOf is the number of invocations that share a row.
func lanesOf(e *emitter, group bool) int {
	if group {
		return e.sched.LanesPerRow
	}
	return 1
}

// emitRow writes a row kernel: an invocation per row, or LanesPerRow of them.
func emitRow(e *emitter) {
	group := e.sched.Variant == kernel.VarRowGroup
	r := newRowWriter(e, lanesOf(e, group), group)
	r.stages, r.cached = e.k.RowPasses(), map[*kernel.Expr]text{}
	if e.sched.Cache > 0 {
		r.slots, r.first = e.sched.Cache/r.width, e.k.Kept()
	}
	for _, s := range e.k.Stores {
		if s.PerElement {
			r.final.perElement = append(r.final.perElement, s)
		} else {
			r.final.perRow = append(r.final.perRow, s)
		}
	}
	e.overSpace(r.place, r.run)
}

// place assigns rows to groups of lanes, or to single invocations.
func (r *rowWriter) place(s space) (opened int) {
	if r.group {
		return r.sharedRows(s)
	}
	return r.ownRow(s)
}

// leaveShared writes a barrier if shared memory is used again for other rows.
func (r *rowWriter) leaveShared() {
	if len(r.shared) > 0 && r.scope != r.root {
		r.line("barrier(); // before shared memory is used for other rows")
	}
}

// ownRow gives each invocation its own row.
func (r *rowWriter) ownRow(s space) (opened int) {
	r.thread = primary("0u")
	return r.invocations(s[0].points[0], r.spanName(s[0], "id"), func(id text) {
		if len(s[0].axes) > 0 {
			r.split(s[0], 1, id)
		}
	})
}

// sharedRows divides the workgroup into rows. Spare rows of the last workgroup repeat the last real row, because every
// invocation must reach every barrier, and store nothing.
func (r *rowWriter) sharedRows(s space) (opened int) {
	n := s[0].points[0]
	goAround := r.setGrid(0, s[0].points, int64(r.rows))
	r.numberLocal()
	r.thread = r.local
	first := binary("*", primary("gl_WorkGroupID.x"), uintLit(r.rows))
	if goAround {
		first = r.openFor("", "first_row", first, r.dim(n),
			primary(fmt.Sprintf("gl_NumWorkGroups.x * %du", r.rows)))
		opened++
	} else if r.rows == 1 {
		first = primary("gl_WorkGroupID.x")
	}
	id := first
	if r.rows > 1 {
		if r.lanes > 1 {
			r.thread = r.variable("uint", "thread", binary("%", r.local, uintLit(r.lanes)))
			id = binary("+", first, binary("/", r.local, uintLit(r.lanes)))
		} else {
			r.thread = primary("0u")
			id = binary("+", first, r.local)
		}
	}
	if len(s[0].axes) == 0 {
		return opened
	}
	name := r.spanName(s[0], "row_id")
	if _, whole := n.Quo(int64(r.rows)); !whole {
		raw := r.variable("uint", name+"_unlimited", id)
		r.valid = r.variable("bool", "in_range", binary("<", raw, r.dim(n)))
		id = call("min", raw, r.coordinate(kernel.DimIndex(n).Minus(kernel.Const(1))))
	}
	r.split(s[0], 1, r.variable("uint", name, id))
	return opened
}

// numberLocal numbers the invocations of a workgroup so that the lanes of a row are neighbours in a subgroup. Vulkan
// does not promise this for gl_LocalInvocationID.
func (r *rowWriter) numberLocal() {
	if !r.bySubgroup() {
		r.local = r.variable("uint", "local", primary("gl_LocalInvocationID.x"))
		return
	}
	r.subgroupSize = r.sched.Subgroup
	r.need(NeedSubgroupBasic)
	if r.sched.Workgroup == r.sched.Subgroup {
		r.local = r.variable("uint", "local", primary("gl_SubgroupInvocationID"))
		return
	}
	r.local = r.variable("uint", "local",
		binary("+", binary("*", primary("gl_SubgroupID"), uintLit(r.sched.Subgroup)),
			primary("gl_SubgroupInvocationID")))
}

// run writes the stages.
func (r *rowWriter) run() {
	r.declareCaches()
	for i, phases := range r.stages {
		r.foldStage(i, phases)
	}
	if len(r.final.perElement) > 0 {
		r.comment("Store each element of the row.")
		r.openIf(r.valid)
		r.eachElement(len(r.stages), valuesOf(r.final.perElement), r.final.perElement, nil)
		r.close()
	}
	r.storeRow()
	r.leaveShared()
}

// storeRow writes the stores that happen once per row.
func (r *rowWriter) storeRow() {
	if len(r.final.perRow) == 0 {
		return
	}
	var first text
	if r.lanes > 1 {
		first = binary("==", r.thread, primary("0u"))
	}
	r.openIf(and(first, r.valid))
	r.storeAll(r.final.perRow)
	r.close()
}

// eachElement loops over a lane's elements of the row, or over runs of elements. It writes body for each element, and
// then the stores. Later stages read kept values from their registers.
func (r *rowWriter) eachElement(number int, roots []*kernel.Expr, stores []kernel.Store, body func()) {
	if r.k.Fold.Is(0) {
		return
	}
	runs, _ := r.k.Fold.Quo(int64(r.width))
	lanes := int64(r.lanes)
	name := "j"
	if r.width > 1 {
		name = fmt.Sprintf("j%d", r.width)
	}
	opened := 1
	var j text
	switch {
	case r.slots > 0:
		j, opened = r.keepingLoop(name, runs)
	case runs.IsStatic() && runs.Add == lanes:
		r.openScope() // every lane has exactly one turn
		j = r.thread
	default:
		j = r.openFor("", name, r.thread, r.dim(runs), uintLit(lanes))
	}
	r.takeCached(number)
	r.runLanes(runOf(r.k.FoldAxis(), r.width, j, "j"), roots, stores, body)
	for range opened {
		r.close()
	}
}

// keepingLoop opens a loop of constant length, so that the arrays it indexes stay in registers.
func (r *rowWriter) keepingLoop(name string, runs ir.Dim) (j text, opened int) {
	j, r.slot = r.thread, primary("0u")
	if r.slots > 1 {
		r.slot = r.openFor(unroll, "n", primary("0u"), uintLit(r.slots), uintLit(1))
		opened++
		if r.lanes > 1 {
			j = binary("+", binary("*", r.slot, uintLit(r.lanes)), r.thread)
		} else {
			j = r.slot
		}
	}
	if runs.Add != int64(r.slots*r.lanes) {
		j = r.named(name, j)
		r.open("if (%s < %s)", j, r.dim(runs))
		return j, opened + 1
	}
	if opened == 0 {
		r.openScope()
		return j, 1
	}
	j = r.named(name, j)
	return j, opened
}

// accType is the dtype of a phase's accumulator.
func accType(p kernel.Phase) ir.DType {
	t := p.Value.DType
	switch {
	case t == ir.F64 || t == ir.I64 || t == ir.U32:
		return t
	case t.IsFloat():
		return ir.F32
	case t.Kind() == ir.KindUint:
		return ir.U32
	}
	return ir.I32
}

func isArg(c kernel.Combine) bool {
	return c == kernel.CombineArgmax || c == kernel.CombineArgmin
}

// combineWords name the results of folds.
var combineWords = map[kernel.Combine]string{kernel.CombineSum: "sum", kernel.CombineProd: "product",
	kernel.CombineMax: "maximum", kernel.CombineMin: "minimum", kernel.CombineArgmax: "place of the maximum",
	kernel.CombineArgmin: "place of the minimum"}

// describe is the comment for a phase.
func describe(p kernel.Phase) string {
	return fmt.Sprintf("%s: %s over the row", p.Name, combineWords[p.Combine])
}
