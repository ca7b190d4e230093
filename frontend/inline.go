package frontend

import (
	"fmt"
	"maps"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Inline adds the nodes of another graph, such as one read from a file, and returns its outputs by name. leaves has
// replacements for its inputs, weights and states, by name. Leaves without a replacement become leaves of this graph.
// The other graph must not update states, because states belong to one graph.
func (b *Builder) Inline(g *ir.Graph, leaves map[string]Tensor) map[string]Tensor {
	const op = "inline"
	b.checkArgs(op, slices.Collect(maps.Values(leaves))...)
	if len(g.Updates()) > 0 {
		fail(op, fmt.Errorf("graph %q updates states: take the new values as outputs, and update states of this graph",
			g.Name))
	}
	for _, name := range g.Symbols() {
		bound, _ := g.SymbolBound(name)
		b.Sym(name, int(bound))
	}
	given := map[*ir.Node]Tensor{}
	used := map[string]bool{}
	for _, n := range g.Nodes() {
		if t, ok := leaves[n.Name()]; ok && n.Name() != "" {
			if !t.node.Type().Equal(n.Type()) {
				fail(op, fmt.Errorf("%s %q of graph %q is %s, the tensor given for it is %s", n.Op(), n.Name(), g.Name,
					n.Type(), t.node.Type()), t)
			}
			given[n], used[n.Name()] = t, true
		}
	}
	made := b.copyOf(g, given)
	for name, t := range leaves {
		if !used[name] {
			fail(op, fmt.Errorf("graph %q has no input, weight or state %q", g.Name, name), t)
		}
	}
	out := map[string]Tensor{}
	for _, o := range g.Outputs() {
		out[o.Name] = made[o.Node.ID()]
	}
	return out
}
