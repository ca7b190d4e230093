package rows

import (
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
)

// windowWriter writes a kernel that reduces overlapping windows (see schedule.Windows). An invocation reduces a block
// of several windows, which are rows of the original kernel. Where windows overlap they need the same values. The
// invocation computes each of these shared values once for each position in the block, and keeps it in registers.
type windowWriter struct {
	*Writer
	windows    schedule.Windows
	rows       int            // number of rows of a block
	shared     []*kernel.Expr // the shared values, as expressions of row and tap
	atPosition []*kernel.Expr // the same values, as expressions of the position
}

// EmitWindows writes a kernel that reduces overlapping windows.
func EmitWindows(e *emit.Emitter) {
	w, ok := schedule.WindowsOf(e.K)
	if !ok {
		e.Fail("the rows are not windows that overlap")
		return
	}
	rows := e.Sched.(kernel.Points).Coarsen
	// From here on, a row of the kernel is a block of several windows.
	e.K = w.Blocked(e.K, rows)
	shared := w.Shared(e.K)
	b := windowWriter{Writer: New(e, 1, false), windows: w, rows: rows, shared: shared,
		atPosition: w.AtPosition(e.K, rows, shared)}
	e.OverSpace(b.ownRow, b.run)
}

// each opens a loop over n coordinates of an axis of windows (schedule.WindowRow, for example), binds the axis to the
// loop variable and returns that. If n is 1, it opens a scope without a loop and returns 0.
func (b *windowWriter) each(axis int, hint, name string, n int) expr.Expr {
	if n == 1 {
		b.OpenScope()
		b.BindAxis(b.K.FoldAxis()+axis, expr.Of("0u"))
		return expr.Of("0u")
	}
	i := b.OpenFor(hint, name, expr.Of("0u"), expr.Uint(n), expr.Uint(1))
	b.BindAxis(b.K.FoldAxis()+axis, i)
	return i
}

// run writes the fold of a block of rows whose windows overlap. It loads the elements that several rows read once, and
// reuses them for each row.
func (b *windowWriter) run() {
	phase := b.K.Phases[0]
	b.Comment("%s, of %d rows that overlap.", describe(phase), b.rows)
	f := fold{Phase: phase, typ: b.ComputeType(kernel.AccType(phase.Value.DType))}
	b.NeedType(f.typ)
	f.value = b.beginRows(f, phase.Name)
	// One loop over the elements at each tap; the loop over taps is inside it.
	b.each(schedule.WindowElem, "", "rest", b.windows.PerTap)
	kept, part := b.keepShared(), f
	inParts := phase.Combine == kernel.CombineSum && b.K.Fold.Max() > maxPlainSum
	if inParts { // shorter sums, which are then added, lose less precision than one long sum
		part.value = b.beginRows(f, phase.Name+"_part")
	}
	tap := b.each(schedule.WindowTap, emit.Unroll, "tap", b.windows.Taps)
	row := b.eachRow() // a loop inside the loop over taps
	position := expr.Flat(row, b.windows.RowStep, expr.Times(tap, b.windows.TapStep))
	for i, v := range b.shared {
		b.BindValue(v, expr.At(kept[i], position))
	}
	b.accumulate(part, b.Eval(phase.Value))
	b.Close() // rows
	b.Close() // taps
	if inParts {
		b.eachRow()
		b.accumulate(f, part.value)
		b.Close()
	}
	b.Close() // elements

	b.Blank()
	b.eachRow()
	b.BindAcc(0, f.value)
	b.StoreAll(b.K.Stores)
	b.Close()
}

// eachRow opens a loop over the rows of a block. The loop variable has the same name in each of these loops.
func (b *windowWriter) eachRow() expr.Expr {
	return b.each(schedule.WindowRow, emit.Unroll, "row_of_block", b.rows)
}

// beginRows declares an array with a value per row of the block, and sets all to the fold of no elements. It returns
// the array's element at the loop variable of eachRow, for later loops by eachRow.
func (b *windowWriter) beginRows(f fold, name string) (value expr.Expr) {
	values := b.Unset(f.typ, name, b.rows)
	row := b.eachRow() // opens the loop that Close closes below
	value = expr.At(values, row)
	b.Assign(value, b.identity(f.Phase))
	b.Close()
	return value
}

// keepShared computes the shared values of every position, and returns the arrays with them.
func (b *windowWriter) keepShared() (names []expr.Expr) {
	positions := b.windows.Positions(b.rows)
	for _, v := range b.atPosition {
		typ := b.ComputeType(v.DType)
		b.NeedType(typ)
		names = append(names, b.Unset(typ, "kept_"+b.ValueName(v), positions))
	}
	position := b.each(schedule.WindowPosition, emit.Unroll, "place", positions)
	for i, value := range b.EvalAll(b.atPosition...) {
		b.Assign(expr.At(names[i], position), value)
	}
	b.Close()
	return names
}
