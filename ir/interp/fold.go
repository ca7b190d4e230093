package interp

import (
	"context"

	"github.com/vkc-go/vkc/ir"
)

// FoldConstants returns the graph with nodes that depend only on constants replaced by their values. New constants and
// all intermediate values have at most limit elements. It does not fold weights, branches, loops and custom ops.
func FoldConstants(ctx context.Context, g *ir.Graph, limit int64) (*ir.Graph, error) {
	list := foldable(g, limit)
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

// foldable returns the nodes for FoldConstants to replace: constant nodes of at most limit elements that an output, an
// update or a node that is not folded uses.
func foldable(g *ir.Graph, limit int64) (list []*ir.Node) {
	nodes, used := g.Nodes(), make([]bool, len(g.Nodes()))
	fold := constants(nodes, nil)
	for i, n := range nodes {
		fold[i] = fold[i] && mayFold(n, limit)
		for _, a := range n.Args() {
			fold[i] = fold[i] && fold[a.ID()]
		}
		for _, a := range n.Args() { // a node that is not folded needs the values of its arguments
			used[a.ID()] = used[a.ID()] || !fold[i]
		}
	}
	for _, o := range g.Outputs() {
		used[o.Node.ID()] = true
	}
	for _, u := range g.Updates() {
		used[u.Value.ID()] = true
	}
	for i, n := range nodes {
		if fold[i] && used[i] && n.Op().Class() != ir.ClassLeaf {
			list = append(list, n)
		}
	}
	return list
}

// mayFold reports whether FoldConstants folds a constant node if it folds all of its arguments. It does not
// fold ops that make blocks, or more than limit elements.
func mayFold(n *ir.Node, limit int64) bool {
	switch n.Op().Class() {
	case ir.ClassControl, ir.ClassCustom:
		return false
	case ir.ClassLeaf:
		return n.Op() != ir.OpWeight && n.Shape().MaxElems() <= limit
	}
	return !n.DType().IsBlock() && n.Shape().MaxElems() <= limit
}
