package order

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
)

// groupWriter writes a kernel that groups elements by group number, such as tokens by expert. The result is a table. A
// row has a group number, and then up to Group.Rows coordinates of elements with this number.
//
// Each workgroup writes the rows of one number. It counts how often each number occurs, and so finds its first row.
// Then each invocation goes through a contiguous part of the elements, and writes every element with the workgroup's
// number to the table. Invocations count in any order, but the counts do not depend on it.
type groupWriter struct {
	*emit.Emitter
	self   expr.Expr // the invocation's number in its workgroup
	number expr.Expr // the workgroup's group number
	table  expr.Expr // the result
	counts expr.Expr // shared: how often each number occurs
	width  int64     // number of columns of the table
}

// EmitGroup writes a kernel that groups elements by number, as groupWriter describes.
func EmitGroup(e *emit.Emitter) {
	w := &groupWriter{Emitter: e, width: 1 + e.K.Group.Rows}
	numbers := e.K.Parallel[0].Add
	// one workgroup per number
	e.Grid = kernel.Grid{{{Extent: e.K.Parallel[0], Tile: 1}}, {}, {}}
	b := e.Buffers[e.K.Group.Bind]
	w.table = expr.Of(e.View(b, 1))
	w.self = e.Variable("uint", "self", expr.Of("gl_LocalInvocationIndex"))
	w.number = e.Variable("uint", "number", expr.Of("gl_WorkGroupID.x"))
	w.counts = e.Share("uint", "counts", int(numbers))
	found := e.Share("uint", "found", e.Launch.Workgroup)
	w.countNumbers(numbers)
	w.findFirst()
	w.findPlace(found)
	w.fillRows(numbers)
}

// countNumbers counts the elements of each group number in shared memory.
func (w *groupWriter) countNumbers(numbers int64) {
	w.Comment("How often does each number stand in the row?")
	w.overStride("i", "0u", expr.Uint(numbers).String(), func(i expr.Expr) {
		w.Assign(expr.At(w.counts, i), expr.Uint(0))
	})
	w.Barrier()
	w.overStride("j", "0u", w.Dim(w.K.Fold).String(), func(j expr.Expr) {
		w.Do("atomicAdd", expr.At(w.counts, w.numberOf(j)), expr.Uint(1))
	})
	w.Barrier()
}

// findFirst declares three variables: first, the workgroup's first row of the table; own, the number of its elements;
// and places, the number of elements that fit in its rows.
func (w *groupWriter) findFirst() {
	rows := w.K.Group.Rows
	w.Exactly("uint", "first", expr.Of("0u"))
	w.Note("group of this number")
	// A loop of constant length, over all numbers, would take twice as long.
	i := w.OpenFor("", "i", expr.Uint(0), w.number, expr.Uint(1))
	// The rows of a number are its count divided by the row length, rounded up.
	w.Update(expr.Of("first"), "+=", expr.Format("(%s[%s] + %du) / %du", w.counts, i, rows-1, rows))
	w.Close()
	w.Variables("uint", syntax.Var{Name: "own", Init: expr.At(w.counts, w.number)}, syntax.Var{Name: "places",
		Init: expr.Format("(own + %du) / %du * %[2]du", rows-1, rows)})
}

// findPlace declares the variable place: the number of elements with the workgroup's number in the parts of earlier
// invocations. The shared array found has the number of such elements in each invocation's part, and place is its
// exclusive prefix sum.
func (w *groupWriter) findPlace(found expr.Expr) {
	lanes := int64(w.Launch.Workgroup)
	fold := w.Dim(w.K.Fold)
	w.Comment("How many of them are in the runs before this invocation's?")
	// the length of an invocation's part, rounded up
	run := expr.Binary("/", expr.Plus(fold, expr.Uint(lanes-1)), expr.Uint(lanes))
	run = w.Named("run", run)
	begin, end := expr.Binary("*", w.self, run), expr.Binary("+", expr.Of("begin"), run)
	// The last parts may be shorter or empty.
	if !schedule.DivisibleBy(w.K.Fold, int(lanes)) {
		begin, end = expr.Call("min", begin, fold), expr.Call("min", end, fold)
	}
	w.Variables("uint", syntax.Var{Name: "begin", Init: begin}, syntax.Var{Name: "end", Init: end})
	w.Exactly("uint", "mine", expr.Of("0u"))
	w.eachOwn(w.number, func(expr.Expr) { w.Increment(expr.Of("mine")) })
	w.Assign(expr.At(found, w.self), expr.Of("mine"))
	w.Barrier()
	w.Exactly("uint", "place", expr.Of("0u"))
	i := w.OpenFor("", "i", expr.Uint(0), w.self, expr.Uint(1))
	w.Update(expr.Of("place"), "+=", expr.At(found, i))
	w.Close()
}

// fillRows writes the workgroup's rows of the table: its elements, -1 after the last one, and its number. The workgroup
// of the last number also fills the unused rows with -1.
func (w *groupWriter) fillRows(numbers int64) {
	rows := w.K.Group.Rows
	w.Comment("Place them.")
	w.eachOwn(w.number, func(j expr.Expr) {
		w.Assign(w.at("place"), expr.Call("int", j))
		w.Increment(expr.Of("place"))
	})
	w.overStride("i", "own", "places", func(i expr.Expr) { w.Assign(w.at(i.Text), expr.Int(-1)) })
	w.overStride("i", "0u", fmt.Sprintf("places / %du", rows), func(i expr.Expr) {
		w.Assign(expr.Format("%s[(first + %s) * %du]", w.table, i, w.width), expr.Call("int", w.number))
	})
	w.OpenIf(expr.Binary("==", w.number, expr.Uint(numbers-1)))
	w.Comment("The groups left over.")
	w.overStride("i", fmt.Sprintf("(first + places / %du) * %du", rows, w.width),
		expr.Uint(w.K.Group.Groups*w.width).String(), func(i expr.Expr) { w.Assign(expr.At(w.table, i), expr.Int(-1)) })
	w.Close()
}

// at returns the table's element for the place-th element of the workgroup's number. place counts from 0.
func (w *groupWriter) at(place string) expr.Expr {
	rows := w.K.Group.Rows
	// Row first + place / rows, column 1 + place % rows. Column 0 is the group number.
	return expr.At(w.table, expr.Of(fmt.Sprintf("(first + %s / %du) * %du + 1u + %[1]s %% %[2]du", place, rows,
		w.width)))
}

// overStride writes a loop that distributes the numbers from first to end-1 over the invocations of the workgroup.
func (w *groupWriter) overStride(name, first, end string, body func(i expr.Expr)) {
	from := expr.Plus(w.self, expr.Of(first))
	if first != "0u" {
		from = expr.Of(fmt.Sprintf("%s + %s", first, w.self))
	}
	body(w.OpenFor("", name, from, expr.Of(end), expr.Uint(w.Launch.Workgroup)))
	w.Close()
}

// eachOwn writes a loop over the elements of the invocation's part that have the given group number.
func (w *groupWriter) eachOwn(number expr.Expr, body func(j expr.Expr)) {
	j := w.OpenFor("", "j", expr.Of("begin"), expr.Of("end"), expr.Uint(1))
	w.OpenIf(expr.Binary("==", w.numberOf(j), number))
	body(j)
	w.Close()
	w.Close()
}

// numberOf returns the group number of element j.
func (w *groupWriter) numberOf(j expr.Expr) expr.Expr {
	w.BindAxis(w.K.FoldAxis(), j)
	return w.EvalCoordinate(w.K.Group.Of)
}
