package interp

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Programs with kernels of a backend write updates of states over the states themselves, and give parts
// of tensors to kernels without copying them: a step of a language model reads and writes a few rows of caches.

// planStates reports, by node ID, which nodes may write over the state that is their argument 0: those that alone
// use it and are what it becomes. It returns nil where two states could come to lie on the same elements, which
// rules it out for all programs that share them.
func (p *Program) planStates() []bool {
	list := make([]bool, len(p.graph.Nodes()))
	for _, u := range p.graph.Updates() {
		n := u.Value
		if list[n.ID()] || !p.makes(n) {
			return nil
		}
		list[n.ID()] = true
	}
	for _, u := range p.graph.Updates() {
		n := u.Value
		list[n.ID()] = p.kernels != nil && writesParts(n) && n.Arg(0) == u.State &&
			p.plan.uses[u.State.ID()] == 1
	}
	return list
}

// writesParts reports whether a node is its argument 0 with parts of it written anew.
func writesParts(n *ir.Node) bool {
	return n.Op() == ir.OpDynamicUpdateSlice || n.Op() == ir.OpScatterND || n.Op() == ir.OpScatter
}

// makes reports whether the elements of a node's result are surely not those of an argument or of a constant.
func (p *Program) makes(n *ir.Node) bool {
	if !slices.Contains(p.plan.nodes, n) {
		return false
	}
	return writesParts(n) || p.kernels != nil && p.kernels[n.ID()] != nil ||
		n.Op().Info().Class == ir.ClassElementwise && n.Op() != ir.OpCast
}

// planViews reports, by node ID, which slices only kernels use that take matrices which lie apart.
func (p *Program) planViews() []bool {
	list := make([]bool, len(p.graph.Nodes()))
	if p.kernels == nil {
		return list
	}
	for _, n := range p.plan.nodes {
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

// rowsOf returns the part of x along the axis before the innermost that begins at element off, without
// copying it, and whether it is such a part.
func rowsOf(x value, dims []int, off int) (value, bool) {
	axis := len(dims) - 2
	if x.n == nil || elems(dims) == 0 || x.dims[axis+1] != dims[axis+1] || !slices.Equal(x.dims[:axis], dims[:axis]) {
		return value{}, false
	}
	x.apart = x.dims[axis] * x.dims[axis+1]
	x.n = x.n[off:]
	return x.withDims(dims), true
}

// undo is how to take back what a run wrote over states, if it fails.
type undo []func()

func (u undo) all() {
	for _, f := range slices.Backward(u) {
		f()
	}
}

func (s *states) areAliased() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.aliased
}
