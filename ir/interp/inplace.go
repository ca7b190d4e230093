package interp

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Programs with kernels of a backend write updates of states in place, and pass slices of tensors to kernels without
// copying. Copies would dominate a step of a language model, which reads and writes only a few rows of its caches.

// planStates reports, by node ID, which nodes may overwrite their argument 0: a state, or the result of another such
// node. It returns nil if two states could come to share elements; then no program with these states may write in
// place.
func (p *Program) planStates() []bool {
	seen, list := map[*ir.Node]bool{}, make([]bool, len(p.graph.Nodes()))
	for _, u := range p.graph.Updates() {
		maker := p.makerOf(u.Value)
		if seen[maker] || !p.makesNewMemory(maker) {
			return nil
		}
		seen[maker] = true
	}
	for _, u := range p.graph.Updates() {
		for _, n := range p.writers(u) {
			list[n.ID()] = true
		}
	}
	return list
}

// makerOf follows reshapes from node n back to the node that allocates the memory of n's value, and returns that node.
// It stops at a reshape with an argument that has other users.
func (p *Program) makerOf(n *ir.Node) *ir.Node {
	for reshapes(n) && p.plan.uses[n.Arg(0).ID()] == 1 {
		n = n.Arg(0)
	}
	return n
}

// writers returns the nodes that may write an update of a state in place, the last one first, or nil if the state must
// be copied. The nodes are on a chain from the state to its new value, in which each node changes some parts, or
// reshapes. No other node reads the results on the chain, or the state after the first write.
func (p *Program) writers(u ir.Update) (writers []*ir.Node) {
	if p.kernels == nil {
		return nil
	}
	var start *ir.Node // of the chain: it reads the state
	n := u.Value
	for writesParts(n) || reshapes(n) {
		if n != u.Value && p.plan.uses[n.ID()] != 1 {
			return nil
		}
		if writesParts(n) {
			writers = append(writers, n)
		}
		start, n = n, n.Arg(0)
	}
	if n != u.State || len(writers) == 0 {
		return nil
	}
	firstWriter := writers[len(writers)-1]
	reads := 0
	for _, n := range p.plan.nodes {
		for i, a := range argsOf(n, p.kernels) {
			if a != u.State {
				continue
			}
			reads++
			onChain := n == start && i == 0
			copiesBefore := n.ID() < firstWriter.ID() && p.makesNewMemory(n)
			if !onChain && !copiesBefore {
				return nil
			}
		}
	}
	if reads != p.plan.uses[u.State.ID()] {
		return nil // it is also an output
	}
	return writers
}

// writesParts reports whether a node's result is its argument 0 with some elements replaced.
func writesParts(n *ir.Node) bool {
	switch n.Op() {
	case ir.OpDynamicUpdateSlice, ir.OpScatter, ir.OpScatterAdd, ir.OpIndexAdd, ir.OpScatterND, ir.OpScatterNDAdd:
		return true
	}
	return false
}

// reshapes reports whether a node's result has the elements of its argument, in the same memory.
func reshapes(n *ir.Node) bool {
	return n.Op() == ir.OpReshape || n.Op() == ir.OpSqueeze || n.Op() == ir.OpUnsqueeze
}

// makesNewMemory reports whether a node's result is certainly new memory, which no argument or constant shares. Writing
// parts in place does not count as sharing.
func (p *Program) makesNewMemory(n *ir.Node) bool {
	if !slices.Contains(p.plan.nodes, n) { // its value was computed before the run
		return false
	}
	switch n.Op().Info().Class {
	case ir.ClassElementwise:
		// The interpreter's cast may return its argument.
		return n.Op() != ir.OpCast || p.kernels != nil && p.kernels[n.ID()] != nil
	case ir.ClassIndexing, ir.ClassReduce, ir.ClassContraction:
		return true
	}
	switch n.Op() {
	case ir.OpSlice:
		return !p.views.has(n)
	case ir.OpBroadcast, ir.OpFlip, ir.OpRoll:
		return true
	}
	return p.kernels != nil && p.kernels[n.ID()] != nil
}

// planViews reports, by node ID, the slices that only kernels read, each as an argument that may be strided.
func (p *Program) planViews() []bool {
	list := make([]bool, len(p.graph.Nodes()))
	if p.kernels == nil {
		return list
	}
	for _, n := range p.plan.nodes { // gaps are only possible between matrices, see rowsOf
		list[n.ID()] = n.Op() == ir.OpSlice && n.Rank() > 2
	}
	for _, n := range p.plan.nodes {
		k := p.kernels[n.ID()]
		for i, a := range argsOf(n, p.kernels) {
			list[a.ID()] = list[a.ID()] && k != nil && slices.Contains(k.Apart, i)
		}
	}
	for _, o := range p.graph.Outputs() {
		list[o.Node.ID()] = false
	}
	for _, u := range p.graph.Updates() {
		list[u.Value.ID()] = false
	}
	return list
}

// rowsOf returns, without copying, the slice of x with extents dims that starts at element off. It returns false unless
// x has f32 elements and only the second-innermost axis is sliced.
func rowsOf(x value, dims []int, off int) (value, bool) {
	axis := len(dims) - 2
	onlyRows := slices.Equal(x.dims[:axis], dims[:axis]) && x.dims[axis+1] == dims[axis+1]
	if x.f32 == nil || elems(dims) == 0 || !onlyRows {
		return value{}, false
	}
	x.apart = x.dims[axis] * x.dims[axis+1] // the matrices stay where they are in x
	x.f32 = x.f32[off:]
	return x.withDims(dims), true
}

// undo collects functions that revert a failed run's writes to states.
type undo struct {
	functions []func()
	saved     []float32 // memory for the elements that these functions restore
}

func (u *undo) add(f func()) { u.functions = append(u.functions, f) }

// save returns memory for n elements, which is valid until the run ends.
func (u *undo) save(n int) []float32 {
	at := len(u.saved)
	if at+n > cap(u.saved) { // earlier callers keep the old memory
		u.saved, at = make([]float32, 0, max(n, 2*cap(u.saved))), 0
	}
	u.saved = u.saved[:at+n]
	return u.saved[at:]
}

// all reverts the writes, the last one first.
func (u *undo) all() {
	for _, f := range slices.Backward(u.functions) {
		f()
	}
}

// mostSaved is the largest number of elements for which the memory stays for the next run.
const mostSaved = 1 << 18

// forget drops the functions, and keeps memory for those of the next run.
func (u *undo) forget() {
	clear(u.functions)
	u.functions, u.saved = u.functions[:0], u.saved[:0]
	if cap(u.saved) > mostSaved {
		u.saved = nil
	}
}

func (s *states) areAliased() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.aliased
}
