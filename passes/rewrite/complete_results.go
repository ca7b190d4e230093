package rewrite

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// loopCompleter adds a node for every result of a loop. It also copies every initial value, because the loop overwrites
// it: the copy (a reshape to the same shape) is in the buffer of the result. An initial value that is another loop's
// result, and has no other user, needs no copy: both loops use one buffer.
type loopCompleter struct {
	shown   map[*ir.Node]bool       // the nodes that are outputs
	users   [][]*ir.Node            // by node: the nodes that have it as an argument
	results map[*ir.Node][]*ir.Node // by loop of the new graph: the nodes of its results
}

// loop adds a copy of loop n to graph `to`, with the nodes of its results.
func (c *loopCompleter) loop(r *rewriter, n *ir.Node, args []*ir.Node) *ir.Node {
	own := slices.Clone(args)
	for i := range ir.Results(n) {
		// An initial value that only this loop uses needs no copy.
		if !c.onlyFirst(n, i) {
			own[i] = r.unary(ir.OpReshape, args[i], attr("shape", args[i].Shape()))
		}
	}
	loop := r.add(ir.OpLoop, own, n.Attrs()...)
	results := []*ir.Node{loop}
	for i := 1; i < len(ir.Results(n)); i++ {
		results = append(results, r.unary(ir.OpResult, loop, attr("index", i)))
	}
	c.results[loop] = results
	return loop
}

// onlyFirst reports whether initial value i of a loop is a result of another loop and has no other use.
func (c *loopCompleter) onlyFirst(loop *ir.Node, i int) bool {
	first, uses := loop.Arg(i), 0
	for _, a := range loop.Args() {
		if a == first {
			uses++
		}
	}
	return first.Op() == ir.OpResult && !c.shown[first] && len(c.users[first.ID()]) == 1 && uses == 1
}

// CompleteResults adds a node for every result of a custom kernel and of a loop, even if no node uses it: the kernel
// writes all results, so each needs a buffer.
func CompleteResults(g *ir.Graph) (*ir.Graph, error) {
	if !slices.ContainsFunc(g.Nodes(), func(n *ir.Node) bool {
		return n.Op().Class() == ir.ClassCustom || n.Op() == ir.OpLoop
	}) {
		return g, nil
	}
	made := map[string][]*ir.Node{} // by call: its results
	loops := &loopCompleter{shown: map[*ir.Node]bool{}, users: g.Users(), results: map[*ir.Node][]*ir.Node{}}
	for _, o := range g.Outputs() {
		loops.shown[o.Node] = true
	}
	return rewrite(g, nil, func(r *rewriter, n *ir.Node, args []*ir.Node) *ir.Node {
		switch {
		case n.Op() == ir.OpLoop:
			return loops.loop(r, n, args)
		case n.Op() == ir.OpResult:
			return loops.results[args[0]][n.Attrs().Int("index")]
		case n.Op().Class() != ir.ClassCustom:
			return nil
		}
		// The nodes of one call, one per result, have equal keys, so make its results once.
		key := analysis.CallKey(n.Op(), args, n.Attrs())
		if made[key] == nil {
			for i := range n.Op().Info().Custom.Kernel.Outputs {
				made[key] = append(made[key], r.add(n.Op(), args, ir.WithOutput(n.Attrs(), i)...))
			}
		}
		return made[key][ir.OutputIndex(n)]
	})
}
