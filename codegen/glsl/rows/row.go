// Package rows writes kernels that fold or scan rows: reductions, norms, softmax, scans and overlapping windows.
package rows

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// Writer writes a kernel that folds rows in stages. A phase is one reduction of the row, such as the maximum of a
// softmax. A stage is one pass over the row's elements. It folds phases that do not depend on each other (see
// kernel.RowPasses). The last stage stores a result per element.
type Writer struct {
	*emit.Emitter
	Group bool // several invocations share a row
	Lanes int  // number of invocations that share a row
	Rows  int  // rows per workgroup
	// Across says that consecutive invocations have consecutive rows, instead of being lanes of the same row. It is for
	// rows that are interleaved in memory: the workgroup then reads runs of Rows adjacent elements.
	Across bool

	Local  expr.Expr // the invocation's number in the workgroup
	Thread expr.Expr // the invocation's number in its row
	part   expr.Expr // the value of firstPart, once declared
	column expr.Expr // the number of its row in the workgroup, if Across
	Valid  expr.Expr // the condition that its row exists, or nil
	width  int       // number of neighbouring elements that are computed together
	slots  int       // number of runs (of width elements) of a lane, if it keeps values of all runs; else 0
	slot   expr.Expr // number of the current run among those of the lane, if slots > 0

	stages [][]int // phases of each stage
	// The stores of the last stage, and the stores after it.
	perElement, perRow []kernel.Store
	cached             map[*kernel.Expr]expr.Expr // the register arrays of kept values
	first              map[*kernel.Expr]int       // the first stage that needs each kept value
}

// New returns a Writer. If group is set, `lanes` invocations share each row. Otherwise lanes is 1, and each invocation
// has its own row.
func New(e *emit.Emitter, lanes int, group bool) *Writer {
	return &Writer{Emitter: e, Group: group, Lanes: lanes, Rows: e.Launch.Workgroup / lanes, width: e.Launch.Vec}
}

// Emit writes a row kernel: with one invocation per row, or with LanesPerRow.
func Emit(e *emit.Emitter) {
	s := e.Sched.(kernel.Row)
	r := New(e, max(s.LanesPerRow, 1), s.Variant == kernel.VarRowGroup)
	r.Across = r.Group && schedule.LanesAcross(e.K, s)
	r.stages, r.cached = e.K.RowPasses(), map[*kernel.Expr]expr.Expr{}
	if s.Cache > 0 {
		r.slots, r.first = s.Cache/r.width, e.K.Kept()
	}
	r.perElement, r.perRow = e.SplitStores()
	e.OverSpace(r.Place, r.run)
}

// Place assigns a row to each group of lanes, or to each invocation. It may open blocks; see [emit.Emitter.OverSpace].
func (r *Writer) Place(s emit.Space) {
	if r.Group {
		r.divideAmongRows(s)
	} else {
		r.ownRow(s)
	}
}

// LeaveShared writes a barrier if shared memory will be used again for other rows.
func (r *Writer) LeaveShared() {
	if len(r.Shared) > 0 && r.Scope != r.Root {
		r.Barrier("before shared memory is used for other rows")
	}
}

// ownRow assigns a row to each invocation.
func (r *Writer) ownRow(s emit.Space) {
	r.Thread = expr.Of("0u")
	r.Split(s[0], 1, r.Invocations(s[0].Points[0], r.SpanName(s[0], "id")))
}

// divideAmongRows divides the workgroup into r.Rows rows of r.Lanes invocations each. If the last workgroup has more
// rows than the tensor, the additional ones repeat the last row and store nothing, because every invocation must reach
// every barrier. If the grid cannot have all workgroups, it opens a loop that goes on to their rows.
func (r *Writer) divideAmongRows(s emit.Space) {
	n := s[0].Points[0]
	goAround := r.SetGrid(0, s[0].Points, int64(r.Rows))
	r.numberLocal()
	first := expr.Binary("*", expr.Of("gl_WorkGroupID.x"), expr.Uint(r.Rows))
	// The device limits the number of workgroups.
	if goAround {
		first = r.OpenFor("", "first_row", first, r.Dim(n), expr.Of(fmt.Sprintf("gl_NumWorkGroups.x * %du", r.Rows)))
	} else if r.Rows == 1 {
		first = expr.Of("gl_WorkGroupID.x")
	}
	id := r.placeInRow(first)
	if len(s[0].Axes) == 0 { // there is only one row
		return
	}
	name := r.SpanName(s[0], "row_id")
	if _, whole := n.Quo(int64(r.Rows)); !whole {
		raw := r.Variable("uint", name+"_unlimited", id)
		r.Valid = r.Variable("bool", "in_range", expr.Binary("<", raw, r.Dim(n)))
		// The last row, for the additional ones.
		id = expr.Call("min", raw, r.Coordinate(kernel.DimIndex(n).Minus(kernel.Const(1))))
	}
	r.Split(s[0], 1, r.Variable("uint", name, id))
}

// placeInRow sets the invocation's number in its row (Thread), and returns the number of the row. first is the number
// of the workgroup's first row.
func (r *Writer) placeInRow(first expr.Expr) expr.Expr {
	r.Thread = r.Local
	switch {
	case r.Across:
		r.Thread = r.Variable("uint", "thread", expr.Binary("/", r.Local, expr.Uint(r.Rows)))
		r.column = r.Variable("uint", "column", expr.Binary("%", r.Local, expr.Uint(r.Rows)))
		return expr.Binary("+", first, r.column)
	case r.Rows == 1:
		return first
	case r.Lanes == 1:
		r.Thread = expr.Of("0u")
		return expr.Binary("+", first, r.Local)
	}
	// Consecutive invocations have the same row.
	r.Thread = r.Variable("uint", "thread", expr.Binary("%", r.Local, expr.Uint(r.Lanes)))
	return expr.Binary("+", first, expr.Binary("/", r.Local, expr.Uint(r.Lanes)))
}

// numberLocal numbers the invocations of a workgroup so that the lanes of a row are neighbours in a subgroup. Vulkan
// does not guarantee that for gl_LocalInvocationID.
func (r *Writer) numberLocal() {
	if !r.bySubgroup() {
		r.Local = r.Variable("uint", "local", expr.Of("gl_LocalInvocationID.x"))
		return
	}
	r.SubgroupSize = r.Launch.Subgroup
	r.Need(emit.NeedSubgroupBasic)
	if r.Launch.Workgroup == r.Launch.Subgroup {
		r.Local = r.Variable("uint", "local", expr.Of("gl_SubgroupInvocationID"))
		return
	}
	r.Local = r.Variable("uint", "local",
		expr.Binary("+", expr.Binary("*", expr.Of("gl_SubgroupID"), expr.Uint(r.Launch.Subgroup)),
			expr.Of("gl_SubgroupInvocationID")))
}

// run writes the stages and the stores.
func (r *Writer) run() {
	r.declareCaches()
	for i, phases := range r.stages {
		r.foldStage(i, phases)
	}
	if len(r.perElement) > 0 {
		r.Comment("Store each element of the row.")
		r.OpenIf(r.Valid)
		r.eachElement(len(r.stages), emit.ValuesOf(r.perElement), r.perElement, nil)
		r.Close()
	}
	r.storeRow()
	r.LeaveShared()
}

// storeRow writes the stores that happen once per row.
func (r *Writer) storeRow() {
	if len(r.perRow) == 0 {
		return
	}
	var first expr.Expr
	if r.Lanes > 1 {
		first = expr.Binary("==", r.Thread, expr.Of("0u"))
	}
	r.OpenIf(expr.And(first, r.Valid))
	r.StoreAll(r.perRow)
	r.Close()
}

// eachElement writes the loop over a lane's elements of the row. The loop computes roots by body, and then executes
// stores. number is the number of the stage: its expressions use the values that earlier stages kept.
func (r *Writer) eachElement(number int, roots []*kernel.Expr, stores []kernel.Store, body func()) {
	// There are no elements.
	if r.K.Fold.Is(0) {
		return
	}
	runs, _ := r.K.Fold.Quo(int64(r.width))
	outside := r.Scope
	var j expr.Expr
	switch {
	case r.slots > 0:
		j = r.loopOverSlots(runs)
	case runs.IsStatic() && runs.Add == int64(r.Lanes):
		r.OpenScope() // every lane has exactly one run
		j = r.Thread
	default:
		j = r.OpenFor("", r.runName(), r.Thread, r.Dim(runs), expr.Uint(r.Lanes))
	}
	r.bindKept(number)
	r.RunLanes(emit.RunOf(r.K.FoldAxis(), r.width, j, "j"), roots, stores, body)
	r.CloseTo(outside)
}

// runName names the variable with the number of a run: j, or j4 if runs have four elements.
func (r *Writer) runName() string {
	if r.width > 1 {
		return fmt.Sprintf("j%d", r.width)
	}
	return "j"
}

// loopOverSlots opens the loop over a lane's runs if the lane keeps values of all of them. The loop has constant
// length, so that compilers keep the arrays of these values in registers. It returns the number of the run in the row.
func (r *Writer) loopOverSlots(runs ir.Dim) (j expr.Expr) {
	j, r.slot = r.Thread, expr.Of("0u")
	if r.slots > 1 {
		r.slot = r.OpenFor(emit.Unroll, "n", expr.Of("0u"), expr.Uint(r.slots), expr.Uint(1))
		j = expr.Flat(r.slot, r.Lanes, r.Thread)
	}
	allRuns := runs.Add == int64(r.slots*r.Lanes) // every slot of every lane has a run
	switch {
	case !allRuns:
		j = r.Named(r.runName(), j)
		r.Open(&syntax.If{Cond: expr.Binary("<", j, r.Dim(runs))})
	case r.slots > 1:
		j = r.Named(r.runName(), j)
	default:
		r.OpenScope()
	}
	return j
}

// combineWords names the results of folds, for comments in the shader.
var combineWords = map[kernel.Combine]string{kernel.CombineSum: "sum", kernel.CombineProd: "product",
	kernel.CombineMax: "maximum", kernel.CombineMin: "minimum", kernel.CombineArgmax: "place of the maximum",
	kernel.CombineArgmin: "place of the minimum"}

// describe returns the comment about a phase.
func describe(p kernel.Phase) string {
	return fmt.Sprintf("%s: %s over the row", p.Name, combineWords[p.Combine])
}

// declareCaches declares the register arrays of the values that are kept between stages.
func (r *Writer) declareCaches() {
	for _, v := range r.kept() {
		name := emit.HintOf(v)
		// The buffer's name says more than a hint.
		if v.Kind == kernel.ExprLoad {
			name = r.Buffers[v.Bind].Base
		}
		r.cached[v] = r.Unset(r.ComputeType(v.DType), "kept_"+name, r.slots*r.width)
	}
}

// kept lists the kept values, in the order in which the kernel computes them.
func (r *Writer) kept() (list []*kernel.Expr) {
	kernel.Walk(r.K.Roots(), func(v *kernel.Expr) {
		if _, ok := r.first[v]; ok {
			list = append(list, v)
		}
	})
	return list
}

// bindKept makes the expressions of a stage use the registers with the values that earlier stages kept. number is the
// number of the stage.
func (r *Writer) bindKept(number int) {
	if r.slots == 0 {
		return
	}
	for v, name := range r.cached {
		if r.first[v] < number {
			r.BindValue(v, expr.At(name, r.slotIndex()))
		}
	}
}

// slotIndex returns the index of the current element in the arrays of kept values. An array has slots vectors of width
// elements.
func (r *Writer) slotIndex() expr.Expr {
	switch {
	case r.width == 1: // the slot alone identifies the element
		return r.slot
	case r.slots == 1: // the lane alone does
		return emit.Lane
	}
	return expr.Flat(r.slot, r.width, emit.Lane)
}
