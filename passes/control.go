package passes

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/plan"
)

// branches rewrites an if to two loops, one per branch, of at most one trip each, which carry the results. The loop of
// the branch not taken leaves them unchanged.
func (r *rewriter) branches(n *ir.Node, args []*ir.Node) []*ir.Node {
	types := ir.Results(n)
	results := make([]*ir.Node, len(types))
	for i, t := range types {
		results[i] = r.unary(ir.OpBroadcast, r.scalar(t.DType, 0), ir.Attr{Name: "shape", Value: t.Shape})
	}
	condition := args[0]
	for _, branch := range []string{"then", "else"} {
		if branch == "else" {
			condition = r.unary(ir.OpNot, condition)
		}
		if r.err != nil {
			return nil
		}
		body, err := branchBody(r.g, n.Attrs().Graph(branch), types)
		if err != nil {
			r.err = err
			return nil
		}
		given := append([]*ir.Node{condition}, append(results, args[1:]...)...)
		loop := r.add(ir.OpLoop, given, ir.Attr{Name: "trips", Value: ir.ShapeOf(1)},
			ir.Attr{Name: "while", Value: true}, ir.Attr{Name: "body", Value: body})
		results = make([]*ir.Node, len(types))
		for i := range results {
			results[i] = r.unary(ir.OpResult, loop, ir.Attr{Name: "index", Value: i + 1})
		}
	}
	return results
}

// branchBody makes the loop body of a branch: its outputs become the updates of the states.
func branchBody(around, g *ir.Graph, types []ir.Type) (*ir.Graph, error) {
	body := ir.NewBody(g.Name)
	if err := body.DeclareSymbolsOf(around); err != nil {
		return nil, err
	}
	r := &rewriter{g: body}
	r.add(ir.OpState, nil, ir.Attr{Name: "name", Value: "condition"}, ir.Attr{Name: "dtype", Value: ir.Bool},
		ir.Attr{Name: "shape", Value: ir.Shape{}})
	states := make([]*ir.Node, len(types))
	for i, t := range types {
		states[i] = r.add(ir.OpState, nil, ir.Attr{Name: "name", Value: fmt.Sprintf("result %d", i)},
			ir.Attr{Name: "dtype", Value: t.DType}, ir.Attr{Name: "shape", Value: t.Shape})
	}
	if r.err != nil {
		return nil, r.err
	}
	nodes, err := copyBody(body, g, nil)
	if err != nil {
		return nil, err
	}
	for i, o := range g.Outputs() {
		if err := body.Update(states[i], nodes[o.Node.ID()]); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// copyBody copies the nodes of a graph to another, with some leaves replaced by given nodes. It returns the copies by
// ID.
func copyBody(to, g *ir.Graph, given map[*ir.Node]*ir.Node) ([]*ir.Node, error) {
	if err := to.DeclareSymbolsOf(g); err != nil {
		return nil, err
	}
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
		if nodes[i], err = to.Add(n.Op(), args, n.Attrs(), n.Pos()); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// loopCompleter gives every result of a loop a node. It gives every initial value a copy of its own, a reshape to the
// same shape, that occupies the result's buffer. If an initial value is another loop's result without other users, both
// loops share one buffer instead.
type loopCompleter struct {
	shown   map[*ir.Node]bool // outputs
	users   [][]*ir.Node
	results map[*ir.Node][]*ir.Node // of loops of the new graph
}

func newLoopCompleter(g *ir.Graph) *loopCompleter {
	c := &loopCompleter{shown: map[*ir.Node]bool{}, users: g.Users(), results: map[*ir.Node][]*ir.Node{}}
	for _, o := range g.Outputs() {
		c.shown[o.Node] = true
	}
	return c
}

func (c *loopCompleter) loop(to *ir.Graph, n *ir.Node, args []*ir.Node) (*ir.Node, error) {
	r := &rewriter{g: to, pos: n.Pos()}
	own := slices.Clone(args)
	for i := range ir.Results(n) {
		if !c.onlyFirst(n, i) {
			own[i] = r.unary(ir.OpReshape, args[i], ir.Attr{Name: "shape", Value: args[i].Shape()})
		}
	}
	loop := r.add(ir.OpLoop, own, n.Attrs()...)
	results := []*ir.Node{loop}
	for i := 1; i < len(ir.Results(n)); i++ {
		results = append(results, r.unary(ir.OpResult, loop, ir.Attr{Name: "index", Value: i}))
	}
	c.results[loop] = results
	return loop, r.err
}

// onlyFirst reports whether argument i of a loop is the result of another loop and has no other use.
func (c *loopCompleter) onlyFirst(loop *ir.Node, i int) bool {
	first, uses := loop.Arg(i), 0
	for _, a := range loop.Args() {
		if a == first {
			uses++
		}
	}
	return first.Op() == ir.OpResult && !c.shown[first] && len(c.users[first.ID()]) == 1 && uses == 1
}

// sinks reports whether a loop computes an argument in its body rather than receiving it: an argument computed for free
// from weights and constants.
func sinks(loop, n *ir.Node) bool {
	for i, a := range loop.Args() {
		if a == n && i < len(ir.Results(loop)) {
			return false
		}
	}
	return isGiven(n)
}

func isGiven(n *ir.Node) bool {
	switch {
	case isLeaf(n):
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

// sunkBody returns a loop's body with the sunk arguments computed inside, and the arguments that remain, after the
// carried ones.
func sunkBody(around *ir.Graph, loop *ir.Node) (*ir.Graph, []*ir.Node, error) {
	g := loop.Attrs().Graph("body")
	to := ir.NewLike(g)
	if err := to.DeclareSymbolsOf(around); err != nil {
		return nil, nil, err
	}
	carried := len(g.Leaves(ir.OpState))
	sunk, given := map[*ir.Node]*ir.Node{}, map[*ir.Node]*ir.Node{}
	var sink func(n *ir.Node) (*ir.Node, error)
	sink = func(n *ir.Node) (m *ir.Node, err error) {
		if sunk[n] != nil {
			return sunk[n], nil
		}
		args := make([]*ir.Node, len(n.Args()))
		for i, a := range n.Args() {
			if args[i], err = sink(a); err != nil {
				return nil, err
			}
		}
		sunk[n], err = to.Add(n.Op(), args, n.Attrs(), n.Pos())
		return sunk[n], err
	}
	var left []*ir.Node
	for i, in := range g.Leaves(ir.OpInput) {
		a := loop.Arg(carried + i)
		if !sinks(loop, a) {
			left = append(left, a)
			continue
		}
		var err error
		if given[in], err = sink(a); err != nil {
			return nil, nil, err
		}
	}
	nodes, err := copyBody(to, g, given)
	if err != nil {
		return nil, nil, err
	}
	for _, u := range g.Updates() {
		if err := to.Update(nodes[u.State.ID()], nodes[u.Value.ID()]); err != nil {
			return nil, nil, err
		}
	}
	return to, left, nil
}

// placeLoops makes a cluster of each live loop. The initial values of its carried values occupy the buffers of the
// results.
func (f *Fusion) placeLoops() {
	for _, n := range f.Graph.Nodes() {
		if n.Op() != ir.OpLoop || !f.live[n.ID()] {
			continue
		}
		c := f.newCluster(ClusterLoop, n)
		c.tails = f.resultsOf(n)
		for i, o := range c.tails {
			f.home[o.ID()] = c
			first := n.Arg(i)
			f.required[first.ID()], f.overwritten[first.ID()] = true, o
		}
	}
}

// resultsOf returns the nodes of all results of a loop, in order.
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

// lowerLoop binds a loop's carried values and arguments, and lowers its body.
func (l *lowerer) lowerLoop() error {
	loop := l.c.tails[0] // the results have later numbers
	body, given, err := sunkBody(l.f.Graph, loop)
	if err != nil {
		return err
	}
	state, err := l.f.lowerBody(body)
	if err != nil {
		return fmt.Errorf("body %q: %w", body.Name, err)
	}
	results := l.f.resultsOf(loop)
	l.k.Family = kernel.FamilyLoop
	l.k.Loop = &kernel.Loop{Trips: loop.Attrs().Shape("trips")[0], While: loop.Attrs().Bool("while"),
		Carried: len(results), Body: len(l.f.bodies)}
	l.f.bodies, l.c.Body = append(l.f.bodies, state), state
	l.ops[loop] = true
	bind := func(n *ir.Node, write bool) {
		l.k.Bindings = append(l.k.Bindings, kernel.Binding{Name: n.Op().String(), DType: n.DType(), Read: true,
			Write: write, Buffer: l.f.bufferNode(n).ID(), Elems: n.Shape().MaxElems(), Fixed: isFixed(n)})
	}
	for _, n := range results {
		bind(n, true)
	}
	for _, n := range given {
		bind(n, false)
	}
	return nil
}

// lowerBody compiles the body of a loop to kernels.
func lowerBody(s *State) func(g *ir.Graph) (*State, error) {
	return func(g *ir.Graph) (*State, error) {
		return run(&State{Graph: g, body: true, passes: s.passes},
			Options{Context: s.ctx, Limits: s.limits, Pricer: s.pricer, Until: "canonicalize"})
	}
}

// captured reports, by value, the arguments of a loop body, which are the same in every trip.
func (s *State) captured() map[plan.ValueID]bool {
	ready := map[plan.ValueID]bool{}
	if s.body {
		for _, n := range s.Graph.Leaves(ir.OpInput) {
			ready[n.ID()] = true
		}
	}
	return ready
}
