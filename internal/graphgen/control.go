package graphgen

import (
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// maxDepth is the maximum nesting depth of bodies.
const maxDepth = 2

// control adds a loop or a branch, or uses another result of an existing one.
func (g *generator) control() *ir.Node {
	if n := g.lateResult(); n != nil && g.rng.IntN(3) == 0 {
		return n
	}
	if g.depth == maxDepth {
		return nil
	}
	if g.rng.IntN(3) == 0 {
		return g.branch()
	}
	return g.loop()
}

// lateResult returns a result after the first of a random earlier loop or branch, or nil if there is none.
func (g *generator) lateResult() *ir.Node {
	n := g.pick(func(n *ir.Node) bool { return len(ir.Results(n)) > 1 })
	if n == nil {
		return nil
	}
	return g.result(n, 1+g.rng.IntN(len(ir.Results(n))-1))
}

// result adds the node for a result of n, a loop or branch. Index 0 is n itself.
func (g *generator) result(n *ir.Node, index int) *ir.Node {
	return g.add(ir.OpResult, []*ir.Node{n}, attr("index", index))
}

// results adds nodes for most of the results of n after the first, and returns n.
func (g *generator) results(n *ir.Node) *ir.Node {
	for i := range ir.Results(n) {
		if i > 0 && g.rng.IntN(4) > 0 {
			g.result(n, i)
		}
	}
	return n
}

// body returns a generator of a body. Leaves of the body are captured from the enclosing graph.
func (g *generator) body() *generator {
	b := &generator{rng: g.rng, g: ir.NewBody(""), opt: g.opt, dims: g.dims, float: g.float, makers: g.makers,
		outer: g, depth: g.depth + 1}
	g.keepError(b.g.DeclareSymbolsOf(g.g))
	return b
}

// leafOf adds an input or state to a body, as a stand-in for a value with the given bound.
func (g *generator) leafOf(op ir.Op, t ir.Type, known Bound) *ir.Node {
	n := g.add(op, nil, attr("name", fmt.Sprintf("v%d", len(g.g.Nodes()))), attr("dtype", t.DType),
		attr("shape", t.Shape))
	if n != nil {
		g.bounds[n.ID()] = known
	}
	return n
}

// capture passes a value of the enclosing graph to a body.
func (g *generator) capture(value *ir.Node) *ir.Node {
	if value == nil {
		return nil
	}
	n := g.leafOf(ir.OpInput, value.Type(), g.outer.bounds[value.ID()])
	g.captured = append(g.captured, value)
	return n
}

// flag returns a scalar bool for a condition. It is often a constant, because the compiler then removes the branch.
func (g *generator) flag() *ir.Node {
	if n := g.pick(func(n *ir.Node) bool { return isBool(n) && n.Rank() == 0 }); n != nil && g.rng.IntN(3) == 0 {
		return n
	}
	if g.rng.IntN(2) == 0 {
		return g.add(ir.OpConst, nil, attr("data", &ir.Data{DType: ir.Bool, Bytes: []byte{byte(g.rng.IntN(2))}}))
	}
	return g.leaf(ir.Shape{}, ir.Bool)
}

// loop adds a loop. Each carried value stays the same, becomes one of the others, or is computed.
func (g *generator) loop() *ir.Node {
	body, while := g.body(), g.rng.IntN(3) == 0
	var first []*ir.Node
	if while {
		first = append(first, g.flag())
	}
	for range 1 + g.rng.IntN(4) {
		first = append(first, g.pick(anyNode))
	}
	var changing []*ir.Node // the states of values that the body may change
	for _, n := range first {
		if n == nil {
			return nil
		}
		known := g.bounds[n.ID()]
		changes := g.rng.IntN(3) > 0 && isCarried(n, known)
		if changes {
			known = carried(n)
		}
		state := body.leafOf(ir.OpState, n.Type(), known)
		if changes {
			changing = append(changing, state)
		}
	}
	body.capture(g.anyFloat()) // some ops need one
	for range g.rng.IntN(3) {
		body.capture(g.pick(anyNode))
	}
	if g.rng.IntN(6) == 0 {
		body.control() // a loop or branch inside
	}
	for range 1 + g.rng.IntN(4) {
		body.op()
	}
	for _, s := range changing {
		n := body.pick(func(n *ir.Node) bool { return n.Type().Equal(s.Type()) && isCarried(n, body.bounds[n.ID()]) })
		// A reshape to the same shape is a copy: the value stays, but through a computation.
		if g.rng.IntN(6) == 0 {
			n = body.add(ir.OpReshape, []*ir.Node{s}, attr("shape", s.Shape()))
		}
		if n != nil && n != s {
			body.keepError(body.g.Update(s, n))
		}
	}
	// Without updates the loop would compute nothing.
	if len(body.g.Updates()) == 0 {
		return nil
	}
	trips := ir.D(g.rng.IntN(4))
	if d := g.dims[g.rng.IntN(len(g.dims))]; g.rng.IntN(2) == 0 && d.Max() < 30 {
		trips = d
	}
	return g.addControl(ir.OpLoop, first, []*generator{body}, attr("trips", ir.Shape{trips}), attr("while", while),
		attr("body", body.g))
}

// branch adds an if. Both bodies have the same inputs, and each output of one has the type of the other's.
func (g *generator) branch() *ir.Node {
	then, other := g.body(), g.body()
	then.capture(g.anyFloat())
	for range g.rng.IntN(3) {
		then.capture(g.pick(anyNode))
	}
	for range g.rng.IntN(4) {
		then.op()
	}
	// Both bodies need the same inputs in the same order.
	for _, v := range then.captured {
		other.capture(v)
	}
	for range g.rng.IntN(4) {
		other.op()
	}
	for i := range 1 + g.rng.IntN(3) {
		a := then.pick(anyNode)
		if a == nil {
			break
		}
		b := other.pick(func(n *ir.Node) bool { return n.Type().Equal(a.Type()) })
		if b == nil {
			b = other.leaf(a.Shape(), a.DType())
		}
		if b == nil {
			break
		}
		then.keepError(then.g.Output(fmt.Sprintf("out%d", i), a))
		other.keepError(other.g.Output(fmt.Sprintf("out%d", i), b))
	}
	// other may have captured more since.
	for _, v := range other.captured[len(then.captured):] {
		then.capture(v)
	}
	if len(then.g.Outputs()) == 0 {
		return nil
	}
	return g.addControl(ir.OpIf, []*ir.Node{g.flag()}, []*generator{then, other}, attr("then", then.g),
		attr("else", other.g))
}

// addControl adds an op with bodies and passes it the values that the bodies capture.
func (g *generator) addControl(op ir.Op, args []*ir.Node, bodies []*generator, attrs ...ir.Attr) *ir.Node {
	for _, b := range bodies {
		g.keepError(b.err)
	}
	n := g.add(op, append(args, bodies[0].captured...), attrs...)
	if n == nil {
		return nil
	}
	return g.results(n)
}

// keepError keeps the first error.
func (g *generator) keepError(err error) {
	if g.err == nil {
		g.err = err
	}
}

// carried returns the bound of a value that a loop carries from trip to trip, starting with n.
func carried(n *ir.Node) Bound {
	b := Bound{Lo: -stateMagnitude, Hi: stateMagnitude, Err: stateErr * epsilonOf(n), Exact: !isFloat(n)}
	return b.finish(n)
}

// isCarried reports whether a loop may carry a value with this bound.
func isCarried(n *ir.Node, known Bound) bool {
	return !n.DType().IsBlock() && (!isFloat(n) || known.mag() <= stateMagnitude && known.Err <= stateErr*epsilonOf(n))
}

// controlled sets the bound of a loop or branch n, or of one result of it.
func (b *Bound) controlled(n *ir.Node, args []Bound) {
	var results []Bound
	switch n.Op() {
	case ir.OpResult:
		*b = (*args[0].more)[n.Attrs().Int("index")-1]
		return
	case ir.OpLoop:
		body := n.Attrs().Graph("body")
		for i, s := range body.Leaves(ir.OpState) {
			known := args[i]
			for _, u := range body.Updates() {
				if u.State == s {
					// The value may be the initial one or any later one.
					known = carried(n.Arg(i))
					known.join(args[i : i+1])
				}
			}
			results = append(results, known)
		}
	case ir.OpIf:
		for _, name := range []string{"then", "else"} {
			body, known := n.Attrs().Graph(name), map[*ir.Node]Bound{}
			for i, leaf := range body.Leaves(ir.OpInput) {
				known[leaf] = args[1+i]
			}
			all := boundsOf(body, known)
			for i, o := range body.Outputs() {
				result := all[o.Node.ID()]
				if name == "then" {
					results = append(results, result)
					continue
				}
				// Either branch may run.
				both := &results[i]
				both.join([]Bound{result})
				both.Exact = both.Exact && result.Exact
				both.Bad = both.Bad || result.Bad
				both.Rounded = both.Rounded || result.Rounded
			}
		}
	}
	// Bounds from args may still have the results of other loops or branches.
	for i := range results {
		results[i].more = nil
	}
	*b = results[0] // the node itself is its first result
	rest := results[1:]
	b.more = &rest
}
