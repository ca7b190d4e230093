package lower

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// sinks reports whether argument n of a loop is computed inside the loop's body instead of being passed in a buffer.
// That is so for views and dequantized forms of weights and constants, which cost nothing to compute. It is not so for
// the loop's first arguments, the initial values of carried values, which need buffers.
func sinks(loop, n *ir.Node) bool {
	carried := len(ir.Results(loop))
	return !slices.Contains(loop.Args()[:carried], n) && isWeightView(n)
}

// isWeightView reports whether n is a weight or constant, or a view or dequantized form of some.
func isWeightView(n *ir.Node) bool {
	if analysis.IsLeaf(n) {
		return n.Op() != ir.OpInput && n.Op() != ir.OpState
	}
	isOther := func(a *ir.Node) bool { return !isWeightView(a) }
	return (isView(n) || n.Op() == ir.OpDequantize) && !slices.ContainsFunc(n.Args(), isOther)
}

// sunkBody returns a copy of a loop's body that computes the loop's weight and constant arguments itself (see sinks).
// others are the loop's other arguments, without the initial values of carried values. around is the loop's graph.
func sunkBody(around *ir.Graph, loop *ir.Node) (to *ir.Graph, others []*ir.Node, err error) {
	defer bailout.Caught(&err)
	g := loop.Attrs().Graph("body")
	to = ir.NewLike(g)
	bailout.Check(to.DeclareSymbolsOf(around))
	bailout.Check(to.DeclareSymbolsOf(g))
	carried := len(g.Leaves(ir.OpState))
	copies := map[*ir.Node]*ir.Node{} // by node of around or g: the new body's node
	var copied func(n *ir.Node) *ir.Node
	// copied adds n and its arguments to the new body, unless they are there.
	copied = func(n *ir.Node) *ir.Node {
		if copies[n] == nil {
			args := make([]*ir.Node, len(n.Args()))
			for i, a := range n.Args() {
				args[i] = copied(a)
			}
			copies[n] = bailout.Must(to.Add(n.Op(), args, unusedName(to, n), n.Pos()))
		}
		return copies[n]
	}
	for i, in := range g.Leaves(ir.OpInput) {
		a := loop.Arg(carried + i) // a loop's first arguments are the initial values of its carried values
		if !sinks(loop, a) {
			others = append(others, a)
			continue
		}
		copies[in] = copied(a)
	}
	for _, n := range g.Nodes() { // in order, so that arguments are there already
		copied(n)
	}
	for _, u := range g.Updates() {
		bailout.Check(to.Update(copied(u.State), copied(u.Value)))
	}
	return to, others, nil
}

// unusedName returns the attributes of n, with another name if g already has a node with n's name: a leaf of a body may
// have the name of a weight of the graph around the loop. A loop refers to the leaves of its body by number, so the
// name does not matter.
func unusedName(g *ir.Graph, n *ir.Node) ir.Attrs {
	if n.Name() == "" {
		return n.Attrs()
	}
	attrs := slices.Clone(n.Attrs())
	i := slices.IndexFunc(attrs, func(a ir.Attr) bool { return a.Name == "name" })
	attrs[i].Value = g.UnusedName(n.Name())
	return attrs
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
	body, args, err := sunkBody(l.f.Graph, loop)
	bailout.Check(err)
	fused, err := l.f.LowerBody(body)
	bailout.Unless(err == nil, "body %q: %w", body.Name, err)
	results := l.f.resultsOf(loop)
	l.k.Family = kernel.FamilyLoop
	l.k.Loop = &kernel.Loop{Trips: loop.Attrs().Shape("trips")[0], While: loop.Attrs().Bool("while"),
		Carried: len(results), Body: len(l.f.Plan.Bodies)}
	l.f.Plan.Bodies, l.c.Body = append(l.f.Plan.Bodies, fused.Plan), fused
	l.ops[loop] = true
	bind := func(n *ir.Node, how access) {
		l.k.Bindings = append(l.k.Bindings, kernel.Binding{Name: n.Op().String(), DType: n.DType(), Read: true,
			Write: how == writing, Buffer: l.f.bufferNode(n).ID(), Elems: n.Shape().MaxElems(), Fixed: analysis.IsFixed(n)})
	}
	for _, n := range results {
		bind(n, writing)
	}
	for _, n := range args {
		bind(n, reading)
	}
}
