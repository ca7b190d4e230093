package lower

import (
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// copyBody copies the nodes of graph g to graph `to`. given maps some leaves of g to nodes of `to` that take their
// place. It returns the copies, by the IDs of the originals.
func copyBody(to, g *ir.Graph, given map[*ir.Node]*ir.Node) []*ir.Node {
	bailout.Check(to.DeclareSymbolsOf(g))
	nodes := make([]*ir.Node, len(g.Nodes()))
	for i, n := range g.Nodes() {
		if nodes[i] = given[n]; nodes[i] != nil {
			continue
		}
		args := make([]*ir.Node, len(n.Args()))
		for j, a := range n.Args() {
			args[j] = nodes[a.ID()]
		}
		var err error
		nodes[i], err = to.Add(n.Op(), args, n.Attrs(), n.Pos())
		bailout.Check(err)
	}
	return nodes
}

// sinks reports whether argument n of a loop is computed inside the loop's body instead of being passed in a buffer.
// That is so for views and dequantized forms of weights and constants, which cost nothing to compute.
func sinks(loop, n *ir.Node) bool {
	for i, a := range loop.Args() {
		if a == n && i < len(ir.Results(loop)) {
			return false
		}
	}
	return isGiven(n)
}

// isGiven reports whether n is a weight or constant, or a view or dequantized form of some.
func isGiven(n *ir.Node) bool {
	switch {
	case analysis.IsLeaf(n):
		return n.Op() != ir.OpInput && n.Op() != ir.OpState
	case isView(n) || n.Op() == ir.OpDequantize:
		for _, a := range n.Args() {
			if !isGiven(a) {
				return false
			}
		}
		return true
	}
	return false
}

// sunkBody returns the body of a loop of graph around, changed so that it computes some of the loop's arguments inside
// (see sinks). It also returns the other arguments, except the initial values of carried values.
func sunkBody(around *ir.Graph, loop *ir.Node) (to *ir.Graph, left []*ir.Node, err error) {
	defer bailout.Caught(&err)
	g := loop.Attrs().Graph("body")
	to = ir.NewLike(g)
	bailout.Check(to.DeclareSymbolsOf(around))
	carried := len(g.Leaves(ir.OpState))
	sunk, given := map[*ir.Node]*ir.Node{}, map[*ir.Node]*ir.Node{}
	var sink func(n *ir.Node) *ir.Node
	sink = func(n *ir.Node) *ir.Node {
		if sunk[n] != nil {
			return sunk[n]
		}
		args := make([]*ir.Node, len(n.Args()))
		for i, a := range n.Args() {
			args[i] = sink(a)
		}
		var err error
		sunk[n], err = to.Add(n.Op(), args, n.Attrs(), n.Pos())
		bailout.Check(err)
		return sunk[n]
	}
	for i, in := range g.Leaves(ir.OpInput) {
		a := loop.Arg(carried + i)
		if !sinks(loop, a) {
			left = append(left, a)
			continue
		}
		given[in] = sink(a)
	}
	nodes := copyBody(to, g, given)
	for _, u := range g.Updates() {
		bailout.Check(to.Update(nodes[u.State.ID()], nodes[u.Value.ID()]))
	}
	return to, left, nil
}

// placeLoops makes a cluster of each live loop. The initial values of carried values are stored in the buffers of the
// loop's results.
func (f *Fusion) placeLoops() {
	for _, n := range f.Graph.Nodes() {
		if n.Op() != ir.OpLoop || !f.live[n.ID()] {
			continue
		}
		c := f.newCluster(ClusterLoop, n)
		c.tails = f.resultsOf(n)
		for i, o := range c.tails {
			f.storedBy[o.ID()] = c
			first := n.Arg(i)
			f.required[first.ID()], f.overwritten[first.ID()] = true, o
		}
	}
}

// resultsOf returns the nodes of a loop's results, in order; nil for a result that no node reads.
func (f *Fusion) resultsOf(loop *ir.Node) []*ir.Node {
	list := make([]*ir.Node, len(ir.Results(loop)))
	list[0] = loop
	for _, u := range f.uses[loop.ID()] {
		if u.Op() == ir.OpResult {
			list[u.Attrs().Int("index")] = u
		}
	}
	return list
}

// lowerLoop makes the kernel of a loop: it runs the passes on the body and binds carried values and arguments.
func (l *lowerer) lowerLoop() {
	loop := l.c.tails[0] // the results have later numbers
	body, given, err := sunkBody(l.f.Graph, loop)
	bailout.Check(err)
	fused, err := l.f.LowerBody(body)
	bailout.Unless(err == nil, "body %q: %w", body.Name, err)
	results := l.f.resultsOf(loop)
	l.k.Family = kernel.FamilyLoop
	l.k.Loop = &kernel.Loop{Trips: loop.Attrs().Shape("trips")[0], While: loop.Attrs().Bool("while"),
		Carried: len(results), Body: len(l.f.Plan.Bodies)}
	l.f.Plan.Bodies, l.c.Body = append(l.f.Plan.Bodies, fused.Plan), fused
	l.ops[loop] = true
	bind := func(n *ir.Node, write bool) {
		l.k.Bindings = append(l.k.Bindings, kernel.Binding{Name: n.Op().String(), DType: n.DType(), Read: true,
			Write: write, Buffer: l.f.bufferNode(n).ID(), Elems: n.Shape().MaxElems(), Fixed: analysis.IsFixed(n)})
	}
	for _, n := range results {
		bind(n, true)
	}
	for _, n := range given {
		bind(n, false)
	}
}
