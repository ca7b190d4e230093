package interp

import (
	"context"

	"github.com/vkc-go/vkc/ir"
)

// FoldConstants returns the graph with nodes that depend only on constants replaced by their values. New constants and
// all intermediate values have at most limit elements. It does not fold weights, branches, loops and custom ops.
func FoldConstants(ctx context.Context, g *ir.Graph, limit int64) (*ir.Graph, error) {
	nodes, uses := g.Nodes(), make([]bool, len(g.Nodes())) // whether a node that stays uses this one
	known := constants(nodes, nil)
	for i, n := range nodes {
		class := n.Op().Class()
		known[i] = known[i] && n.Op() != ir.OpWeight && class != ir.ClassControl && class != ir.ClassCustom &&
			n.Shape().MaxElems() <= limit && (class == ir.ClassLeaf || !n.DType().IsBlock())
		for _, a := range n.Args() {
			known[i] = known[i] && known[a.ID()]
		}
		for _, a := range n.Args() {
			uses[a.ID()] = uses[a.ID()] || !known[i]
		}
	}
	for _, o := range g.Outputs() {
		uses[o.Node.ID()] = true
	}
	for _, u := range g.Updates() {
		uses[u.Value.ID()] = true
	}
	var list []*ir.Node
	for i, n := range nodes {
		if known[i] && uses[i] && n.Op().Class() != ir.ClassLeaf {
			list = append(list, n)
		}
	}
	data, err := Eval(ctx, g, list, Options{})
	if err != nil {
		return nil, err
	}
	value := map[*ir.Node]*ir.Data{}
	for i, n := range list {
		value[n] = data[i]
	}
	folded, err := ir.Rewrite(g, func(rw *ir.Rewriter, n *ir.Node, args []*ir.Node) (*ir.Node, error) {
		if d := value[n]; d != nil {
			return rw.New.Add(ir.OpConst, nil, []ir.Attr{{Name: "data", Value: d}}, n.Pos())
		}
		return rw.Copy(n, args)
	})
	if err != nil {
		return nil, err
	}
	// Rewrite again, to remove the nodes that only constants used.
	return ir.Rewrite(folded, func(rw *ir.Rewriter, n *ir.Node, args []*ir.Node) (*ir.Node, error) {
		return rw.Copy(n, args)
	})
}
