// Package plan represents the kernels of a program as a dataflow graph: kernels, and the values that they read and
// write. Package passes/lower makes the graph, passes/rules rewrites it, and passes/layout makes a program of it.
package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// Origin says where the content of a value comes from.
type Origin uint8

// The origins.
const (
	Temp     Origin = iota // kernels write it for other kernels
	Input                  // the host writes it before each run
	Output                 // kernels write it for the host
	State                  // the previous run left it; kernels may overwrite it
	Weight                 // it is read from the weights
	Const                  // a constant of the graph
	Params                 // the values of symbols
	Codebook               // the table of a block format, by which its elements are decoded
	Fault                  // kernels write the cause of a failed run for the host
)

// ValueID identifies a value. kernel.Binding.Buffer holds one until layout.
type ValueID = int

// NoValue is the ID of no value.
const NoValue ValueID = -1

// KernelID identifies a kernel. A kernel that replaces another one keeps its ID.
type KernelID int

// Value is the content of a buffer.
type Value struct {
	Type   ir.Type
	Origin Origin
	// Node is the node of the op graph with this value; nil if there is none.
	Node *ir.Node
	// Layout is the layout of a weight's blocks.
	Layout kernel.Layout

	writers, readers map[KernelID]bool
}

// Graph holds the kernels of an op graph in an order in which they can run one after another. Dependencies follow from
// that order: if two kernels access a value and one of them writes it, the earlier kernel comes first. A state can have
// several writers.
type Graph struct {
	Ops    *ir.Graph // node N has value N
	Params ValueID   // the values of the symbols
	Bodies []*Graph  // by kernel.Loop.Body
	InLoop bool      // it is a loop's body: its inputs have the same values in every trip

	values  []*Value
	kernels []*kernel.Kernel // by ID; nil after removal
	once    []bool           // by ID: whether the kernel runs only when the program is loaded
	order   []KernelID       // the order of execution
	levels  []int            // by ID; nil until needed
	places  []int            // by ID: index in order; nil until needed

	codebooks map[ir.DType]ValueID // by block format, see Codebook
}

// AddValue adds a value that no kernel accesses yet.
func (g *Graph) AddValue(v Value) ValueID {
	v.writers, v.readers = map[KernelID]bool{}, map[KernelID]bool{}
	g.values = append(g.values, &v)
	return len(g.values) - 1
}

// Scratch adds a temporary value that is no node of the op graph.
func (g *Graph) Scratch(t ir.Type) ValueID { return g.AddValue(Value{Type: t}) }

// Value returns a value; do not modify it.
func (g *Graph) Value(id ValueID) *Value { return g.values[id] }

// Outlives reports whether a value is needed after a run: it is an output or a state.
func (g *Graph) Outlives(id ValueID) bool {
	o := g.values[id].Origin
	return o == Output || o == State
}

// Append adds a kernel at the end of the order.
func (g *Graph) Append(k *kernel.Kernel) KernelID {
	id := g.add(k, false)
	g.order, g.levels, g.places = append(g.order, id), nil, nil
	return id
}

// add adds a kernel to the graph, but not to the order of execution.
func (g *Graph) add(k *kernel.Kernel, once bool) KernelID {
	id := KernelID(len(g.kernels))
	g.kernels, g.once = append(g.kernels, nil), append(g.once, once)
	g.set(id, k)
	return id
}

// touched returns the bindings of a kernel, plus a read binding for each value in kernel.After: the kernel does not
// read such a value, but must follow its writers.
func touched(k *kernel.Kernel) []kernel.Binding {
	if len(k.After) == 0 {
		return k.Bindings
	}
	list := slices.Clone(k.Bindings)
	for _, v := range k.After {
		list = append(list, kernel.Binding{Buffer: v, Read: true})
	}
	return list
}

// set replaces a kernel, or removes it if k is nil, and updates the readers and writers of values.
func (g *Graph) set(id KernelID, k *kernel.Kernel) {
	if old := g.kernels[id]; old != nil {
		for _, b := range touched(old) {
			delete(g.values[b.Buffer].readers, id)
			delete(g.values[b.Buffer].writers, id)
		}
	}
	g.kernels[id] = k
	if k != nil {
		for _, b := range touched(k) {
			if b.Read {
				g.values[b.Buffer].readers[id] = true
			}
			if b.Write {
				g.values[b.Buffer].writers[id] = true
			}
		}
	}
	g.levels, g.places = nil, nil // they are computed again when needed
}

// Replace replaces a kernel by the kernels `by`, which run in that order in its place. The last of them keeps the ID,
// and Replace returns the new IDs of those before it. If `by` is empty, it removes the kernel.
func (g *Graph) Replace(id KernelID, by ...*kernel.Kernel) (before []KernelID) {
	if len(by) == 0 {
		g.set(id, nil)
		g.order = slices.DeleteFunc(g.order, func(x KernelID) bool { return x == id })
		return nil
	}
	last := len(by) - 1
	g.set(id, by[last])
	for _, k := range by[:last] {
		before = append(before, g.add(k, g.once[id]))
	}
	if len(before) > 0 {
		g.order = slices.Insert(g.order, slices.Index(g.order, id), before...)
	}
	return before
}

// RunOnce marks kernels to run only when the program is loaded. It moves them, in the order of ids, before all others.
// ids must have all such kernels, and they must not depend on other kernels.
func (g *Graph) RunOnce(ids []KernelID) {
	for _, id := range ids {
		g.once[id] = true
	}
	g.order = slices.Concat(ids, slices.DeleteFunc(g.order, func(id KernelID) bool { return g.once[id] }))
	g.levels, g.places = nil, nil
}

// RunsOnce reports whether a kernel runs only when the program is loaded.
func (g *Graph) RunsOnce(id KernelID) bool { return g.once[id] }

// Once returns the number of kernels that run only when the program is loaded. They are the first ones in the order.
func (g *Graph) Once() int {
	n := 0
	for n < len(g.order) && g.once[g.order[n]] {
		n++
	}
	return n
}

// IDs returns the IDs of the kernels in order. The caller may modify the graph while it iterates over them.
func (g *Graph) IDs() []KernelID { return slices.Clone(g.order) }

// Kernel returns a kernel, or nil if it was removed.
func (g *Graph) Kernel(id KernelID) *kernel.Kernel { return g.kernels[id] }

// Kernels returns all kernels in order.
func (g *Graph) Kernels() []*kernel.Kernel {
	list := make([]*kernel.Kernel, len(g.order))
	for i, id := range g.order {
		list[i] = g.kernels[id]
	}
	return list
}

// Writers returns the kernels that write a value, in order.
func (g *Graph) Writers(v ValueID) []KernelID { return g.inOrder(g.values[v].writers) }

// Readers returns the kernels that read a value, in order.
func (g *Graph) Readers(v ValueID) []KernelID { return g.inOrder(g.values[v].readers) }

// inOrder lists a set of kernels in the order of execution.
func (g *Graph) inOrder(set map[KernelID]bool) []KernelID {
	list := slices.Collect(maps.Keys(set))
	if len(list) > 1 {
		list = slices.DeleteFunc(g.IDs(), func(id KernelID) bool { return !set[id] })
	}
	return list
}

// Level returns a kernel's level: the smallest number greater than the levels of all kernels that it depends on.
// Kernels of one level can run at the same time. A kernel of a run that reads only constant data, for example to store
// zeros or to dequantize a weight, has the greatest possible level instead, so that its result has a short lifetime.
func (g *Graph) Level(id KernelID) int {
	if g.levels == nil {
		g.findLevels()
	}
	return g.levels[id]
}

// findLevels computes the levels of all kernels. A kernel has a higher level than the kernels that wrote what it reads,
// and than earlier readers of what it writes. Kernels that run at load have lower levels than all others.
func (g *Graph) findLevels() {
	g.levels = make([]int, len(g.kernels))
	// By value: 1 more than the highest level of the readers or writers so far.
	read, written := make([]int, len(g.values)), make([]int, len(g.values))
	first, next := 0, 0 // the lowest level for the next kernel, and 1 more than the highest level so far
	for i, id := range g.order {
		if i > 0 && g.once[g.order[i-1]] && !g.once[id] {
			first = next // a run begins here: all kernels before run only when the program is loaded
		}
		level := first
		for bind, b := range touched(g.kernels[id]) {
			if b.Write {
				level = max(level, read[b.Buffer])
			}
			switch {
			case written[b.Buffer] <= level: // all writers have lower levels
			case b.Read:
				level = written[b.Buffer]
			default: // only writers of the same elements matter
				level = max(level, g.levelAfterWriters(id, bind))
			}
		}
		g.levels[id], next = level, max(next, level+1)
		for _, b := range touched(g.kernels[id]) {
			if b.Read {
				read[b.Buffer] = max(read[b.Buffer], level+1)
			}
			if b.Write {
				written[b.Buffer] = max(written[b.Buffer], level+1)
			}
		}
	}
	for _, id := range g.order {
		reads := func(b kernel.Binding) bool { return b.Read && !b.Fixed }
		if !g.once[id] && !slices.ContainsFunc(touched(g.kernels[id]), reads) {
			g.levels[id] = max(g.levels[id], g.firstAfter(id)-1)
		}
	}
}

// levelAfterWriters returns the lowest level at which a kernel can write through a binding: after all earlier kernels
// that may write the same elements.
func (g *Graph) levelAfterWriters(id KernelID, bind int) (level int) {
	k, value := g.kernels[id], g.kernels[id].Bindings[bind].Buffer
	for _, w := range g.Writers(value) {
		if w == id {
			break
		}
		other := g.kernels[w]
		same := func(b kernel.Binding) bool { return b.Buffer == value }
		if !kernel.WriteApart(k, bind, other, slices.IndexFunc(other.Bindings, same)) {
			level = max(level, g.levels[w]+1)
		}
	}
	return level
}

// firstAfter returns the lowest level of the kernels that depend on a kernel, or 0 if there are none.
func (g *Graph) firstAfter(id KernelID) int {
	first := 0
	for _, b := range g.kernels[id].Bindings {
		conflicts := []map[KernelID]bool{g.values[b.Buffer].writers}
		if b.Write {
			conflicts = append(conflicts, g.values[b.Buffer].readers)
		}
		for _, set := range conflicts {
			for other := range set {
				if level := g.levels[other]; level > g.levels[id] && (first == 0 || level < first) {
					first = level
				}
			}
		}
	}
	return first
}

// Sort orders the kernels by level, so that consecutive kernels rarely depend on each other.
func (g *Graph) Sort() {
	g.findLevels()
	slices.SortStableFunc(g.order, func(a, b KernelID) int { return g.Level(a) - g.Level(b) })
	g.places = nil
}

// CanMove reports whether kernel id may run at the position in the order of kernel `to`. The two are adjacent through
// value `between`: one of them writes it, the other reads it. The move is possible if neither `to` nor any kernel in
// between writes another input of id, or accesses an output of id. A kernel that changes a value in place stays.
func (g *Graph) CanMove(id, to KernelID, between ValueID) bool {
	if g.places == nil {
		g.places = make([]int, len(g.kernels))
		for i, x := range g.order {
			g.places[x] = i
		}
	}
	from, until := min(g.places[id], g.places[to]), max(g.places[id], g.places[to])
	passes := func(others map[KernelID]bool) bool { // whether the move passes one of the others
		for other := range others {
			if other != id && g.places[other] >= from && g.places[other] <= until {
				return true
			}
		}
		return false
	}
	for _, b := range touched(g.kernels[id]) {
		v := g.values[b.Buffer]
		inPlace := b.Read && b.Write
		if b.Buffer != between && (inPlace || passes(v.writers) || b.Write && passes(v.readers)) {
			return false
		}
	}
	return true
}

// Check returns an error if a kernel reads a value before any kernel has written it.
func (g *Graph) Check() error {
	made := make([]bool, len(g.values))
	for _, id := range g.order {
		k := g.kernels[id]
		for _, b := range touched(k) {
			v := g.values[b.Buffer]
			if b.Read && !b.Write && !made[b.Buffer] && (v.Origin == Temp || v.Origin == Output) {
				return fmt.Errorf("kernel %s reads %s, which no kernel before it stores", k.Name,
					cmp.Or(b.Name, fmt.Sprintf("value %d", b.Buffer)))
			}
			made[b.Buffer] = made[b.Buffer] || b.Write
		}
	}
	return nil
}
