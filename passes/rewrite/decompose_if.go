package rewrite

import (
	"fmt"

	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
)

// branches rewrites an if to two loops, one per branch, and returns the results. Each loop has at most one trip and
// carries the results. The loop of the branch that is not taken has no trip and leaves them unchanged.
func (r *rewriter) branches(n *ir.Node, args []*ir.Node) []*ir.Node {
	types := ir.Results(n)
	results := make([]*ir.Node, len(types))
	for i, t := range types {
		// The first loop starts with zeros, the second with the results of the first. Exactly one has a trip, which
		// sets the results.
		results[i] = r.fill(t.DType, 0, t.Shape)
	}
	condition := args[0]
	for _, branch := range []string{"then", "else"} {
		if branch == "else" {
			condition = r.unary(ir.OpNot, condition)
		}
		body := branchBody(r.g, n.Attrs().Graph(branch), types)
		given := append([]*ir.Node{condition}, append(results, args[1:]...)...)
		loop := r.add(ir.OpLoop, given, attr("trips", ir.ShapeOf(1)), attr("while", true), attr("body", body))
		results = make([]*ir.Node, len(types))
		for i := range results {
			results[i] = r.unary(ir.OpResult, loop, attr("index", i+1)) // result 0 of the loop is the condition
		}
	}
	return results
}

// branchBody returns the body of a branch's loop: the condition and the results are states, and the branch's outputs
// become the results' new values.
func branchBody(around, g *ir.Graph, types []ir.Type) *ir.Graph {
	body := ir.NewBody(g.Name)
	r := &nodes{g: body}
	bailout.Check(body.DeclareSymbolsOf(around))
	// The branch's inputs keep their names.
	r.add(ir.OpState, nil, attr("name", g.UnusedName("condition")), attr("dtype", ir.Bool), attr("shape", ir.Shape{}))
	states := make([]*ir.Node, len(types))
	for i, t := range types {
		states[i] = r.add(ir.OpState, nil, attr("name", g.UnusedName(fmt.Sprintf("result %d", i))),
			attr("dtype", t.DType), attr("shape", t.Shape))
	}
	nodes, err := ir.CopyInto(body, g)
	bailout.Check(err)
	for i, o := range g.Outputs() {
		bailout.Check(body.Update(states[i], nodes[o.Node.ID()]))
	}
	return body
}
