package glsl

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
)

// groupWriter writes a kernel that groups elements by number. A workgroup owns one number. It counts every number in
// the whole row, and so finds the start of its own groups. Then each invocation walks a run of elements and places the
// elements of the workgroup's number. Only the counting happens in no fixed order, and the counts do not depend on it.
type groupWriter struct {
	*emitter
	self, table, counts text
	width               int64 // the width of a row of the table
}

func emitGroup(e *emitter) {
	w := &groupWriter{emitter: e, width: 1 + e.k.Group.Rows}
	numbers, lanes := e.k.Parallel[0].Add, int64(e.sched.Workgroup)
	e.grid = kernel.Grid{{{Extent: e.k.Parallel[0], Tile: 1}}, {}, {}}
	b := e.buffers[e.k.Group.Bind]
	w.table = primary(e.view(b, 1))
	w.self = e.variable("uint", "self", primary("gl_LocalInvocationIndex"))
	number := e.variable("uint", "number", primary("gl_WorkGroupID.x"))
	w.counts = e.share("uint", "counts", int(numbers))
	found := e.share("uint", "found", int(lanes))

	w.comment("How often does each number stand in the row?")
	w.stride("i", "0u", uintLit(numbers).String(), func(i text) { w.line("%s[%s] = 0u;", w.counts, i) })
	w.barrier()
	fold := w.dim(w.k.Fold)
	w.stride("j", "0u", fold.String(), func(j text) { w.line("atomicAdd(%s[%s], 1u);", w.counts, w.numberOf(j)) })
	w.barrier()
	w.line("uint first = 0u; // group of this number")
	// Loops over all numbers that mask the others take twice as long.
	w.open("for (uint i = 0u; i < %s; ++i)", number)
	w.line("first += (%s[i] + %du) / %du;", w.counts, w.k.Group.Rows-1, w.k.Group.Rows)
	w.close()
	w.line("uint own = %s[%s], places = (own + %du) / %du * %du;", w.counts, number, w.k.Group.Rows-1,
		w.k.Group.Rows, w.k.Group.Rows)

	w.comment("How many of them are in the runs before this invocation's?")
	run := binary("/", plus(fold, uintLit(lanes-1)), uintLit(lanes))
	run = w.named("run", run)
	begin, end := binary("*", w.self, run), binary("+", primary("begin"), run)
	if !schedule.DivisibleBy(w.k.Fold, int(lanes)) {
		begin, end = call("min", begin, fold), call("min", end, fold)
	}
	w.line("uint begin = %s, end = %s;", begin, end)
	w.line("uint mine = 0u;")
	w.eachOwn(number, func(text) { w.line("++mine;") })
	w.line("%s[%s] = mine;", found, w.self)
	w.barrier()
	w.line("uint place = 0u;")
	w.open("for (uint i = 0u; i < %s; ++i)", w.self)
	w.line("place += %s[i];", found)
	w.close()

	w.comment("Place them.")
	w.eachOwn(number, func(j text) {
		w.assign(w.at("place"), call("int", j))
		w.line("++place;")
	})
	w.stride("i", "own", "places", func(i text) { w.assign(w.at(i.Text), intLit(-1)) })
	w.stride("i", "0u", fmt.Sprintf("places / %du", w.k.Group.Rows), func(i text) {
		w.line("%s[(first + %s) * %du] = int(%s);", w.table, i, w.width, number)
	})
	w.openIf(binary("==", number, uintLit(numbers-1)))
	w.comment("The groups left over.")
	w.stride("i", fmt.Sprintf("(first + places / %du) * %du", w.k.Group.Rows, w.width),
		uintLit(w.k.Group.Groups*w.width).String(),
		func(i text) { w.line("%s[%s] = -1;", w.table, i) })
	w.close()
}

// at prints the table's element for a slot of the workgroup's number.
func (w *groupWriter) at(place string) text {
	rows := w.k.Group.Rows
	return elementAt(w.table, primary(fmt.Sprintf("(first + %s / %du) * %du + 1u + %[1]s %% %[2]du", place, rows,
		w.width)))
}

// stride distributes the numbers from first up to end over the invocations.
func (w *groupWriter) stride(name, first, end string, body func(i text)) {
	from := plus(w.self, primary(first))
	if first != "0u" {
		from = primary(fmt.Sprintf("%s + %s", first, w.self))
	}
	body(w.openFor("", name, from, primary(end), uintLit(w.sched.Workgroup)))
	w.close()
}

// eachOwn loops over the elements of the invocation's run that have the given number.
func (w *groupWriter) eachOwn(number text, body func(j text)) {
	j := w.openFor("", "j", primary("begin"), primary("end"), uintLit(1))
	w.openIf(binary("==", w.numberOf(j), number))
	body(j)
	w.close()
	w.close()
}

// numberOf prints the number of an element.
func (w *groupWriter) numberOf(j text) text {
	w.bindAxis(w.k.FoldAxis(), j)
	w.plan(nil, []kernel.Index{w.k.Group.Of})
	return w.coordinate(w.k.Group.Of)
}
