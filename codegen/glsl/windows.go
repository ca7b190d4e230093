package glsl

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
)

// windowWriter writes a kernel with rows that are overlapping windows. An invocation folds a block of windows, and
// computes their shared values once per position.
type windowWriter struct {
	*rowWriter
	windows schedule.Windows
	rows    int
	shared  []*kernel.Expr // the shared values, in terms of row and tap
	atPlace []*kernel.Expr // the same values, in terms of their position
}

func emitWindows(e *emitter) {
	w, ok := schedule.WindowsOf(e.k)
	if !ok {
		e.fail("the rows are no windows that overlap")
		return
	}
	rows := e.sched.Coarsen
	e.k = w.Blocked(e.k, rows)
	shared := w.Shared(e.k)
	b := windowWriter{rowWriter: newRowWriter(e, 1, false), windows: w, rows: rows, shared: shared,
		atPlace: w.AtPlace(e.k, rows, shared)}
	e.overSpace(b.ownRow, b.run)
}

// each opens a loop over one of the axes of windows, unless it runs once.
func (b *windowWriter) each(axis int, hint, name string, n int) text {
	if n == 1 {
		b.openScope()
		b.bindAxis(b.k.FoldAxis()+axis, primary("0u"))
		return primary("0u")
	}
	i := b.openFor(hint, name, primary("0u"), uintLit(n), uintLit(1))
	b.bindAxis(b.k.FoldAxis()+axis, i)
	return i
}

func (b *windowWriter) run() {
	phase := b.k.Phases[0]
	b.comment("%s, of %d rows that overlap.", describe(phase), b.rows)
	f := fold{Phase: phase, typ: b.computeType(accType(phase))}
	b.needType(f.typ)
	f.value = b.beginRows(f, phase.Name)
	b.each(schedule.WindowRest, "", "rest", b.windows.Rest)
	kept, part := b.keepPlaces(), f
	apart := phase.Combine == kernel.CombineSum && b.k.Fold.Max() > maxPlainSum
	if apart {
		part.value = b.beginRows(f, phase.Name+"_part")
	}
	tap := b.each(schedule.WindowTap, unroll, "tap", b.windows.Taps)
	row := b.eachRow()
	place := plus(times(row, b.windows.Step), times(tap, b.windows.Apart))
	for i, v := range b.shared {
		b.bindValue(v, elementAt(kept[i], place))
	}
	b.accumulate(part, b.eval(phase.Value)[0])
	b.close()
	b.close()
	if apart {
		b.eachRow()
		b.accumulate(f, part.value)
		b.close()
	}
	b.close()

	b.line("")
	b.eachRow()
	b.bindAcc(0, f.value)
	b.storeAll(b.k.Stores)
	b.close()
}

// eachRow opens a loop over the rows of a block.
func (b *windowWriter) eachRow() text {
	return b.each(schedule.WindowRow, unroll, "row_of_block", b.rows)
}

// beginRows declares a fold's variables for all rows, set to its identity, and returns the variable of a loop's row.
func (b *windowWriter) beginRows(f fold, name string) (value text) {
	value = elementAt(b.unset(f.typ, name, b.rows), b.eachRow())
	b.assign(value, b.identity(f.Phase))
	b.close()
	return value
}

// keepPlaces computes the values that windows share, and returns the arrays that hold them.
func (b *windowWriter) keepPlaces() (names []text) {
	places := b.windows.Places(b.rows)
	for _, v := range b.atPlace {
		typ := b.computeType(v.DType)
		b.needType(typ)
		names = append(names, b.unset(typ, "kept_"+b.valueName(v), places))
	}
	place := b.each(schedule.WindowPlace, unroll, "place", places)
	for i, value := range b.eval(b.atPlace...) {
		b.assign(elementAt(names[i], place), value)
	}
	b.close()
	return names
}
