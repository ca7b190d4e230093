package interp

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Programs with kernels of a backend apply updates of states in place, and pass slices of tensors to kernels without
// copying: a step of a language model reads and writes only a few rows of its caches.

// planStates reports, by node ID, which nodes may overwrite the state that is their argument 0: nodes that are its only
// user and compute its update. It returns nil if two states could come to share elements; then no program with these
// states may write in place.
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

// writesParts reports whether a node is its argument 0 with some parts overwritten.
func writesParts(n *ir.Node) bool {
	return n.Op() == ir.OpDynamicUpdateSlice || n.Op() == ir.OpScatterND || n.Op() == ir.OpScatter
}

// makes reports whether a node's result certainly does not share elements with an argument or constant.
func (p *Program) makes(n *ir.Node) bool {
	if !slices.Contains(p.plan.nodes, n) {
		return false
	}
	return writesParts(n) || p.kernels != nil && p.kernels[n.ID()] != nil ||
		n.Op().Info().Class == ir.ClassElementwise && n.Op() != ir.OpCast
}

// planViews reports, by node ID, the slices whose only users are kernels that accept strided matrices.
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

// rowsOf returns, without copying, the slice of x along the axis before the innermost that starts at element off. It
// returns false if the extents do not describe such a slice.
func rowsOf(x value, dims []int, off int) (value, bool) {
	axis := len(dims) - 2
	if x.n == nil || elems(dims) == 0 || x.dims[axis+1] != dims[axis+1] || !slices.Equal(x.dims[:axis], dims[:axis]) {
		return value{}, false
	}
	x.apart = x.dims[axis] * x.dims[axis+1]
	x.n = x.n[off:]
	return x.withDims(dims), true
}

// undo reverts a failed run's writes to states.
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
