package interp

import (
	"context"
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// Eval computes nodes of a graph that depend only on constants and, if opt has them, weights, and returns their values
// in the same order. It fails if a node depends on an input, a state or a symbol. Constant folding uses it.
func Eval(ctx context.Context, g *ir.Graph, nodes []*ir.Node, opt Options) ([]*ir.Data, error) {
	isConst := constants(g.Nodes(), nil)
	for _, n := range nodes {
		if !isConst[n.ID()] {
			return nil, nodeError(n, fmt.Errorf("is not constant: it depends on %s", dependency(n, isConst)))
		}
	}
	// Nothing has a value yet.
	plan := newPlan(g.Nodes(), nodes, nil, func(*ir.Node) bool { return false })
	var used []*ir.Node
	for _, n := range plan.nodes {
		if n.Op() == ir.OpWeight {
			used = append(used, n)
		}
	}
	weights, err := loadWeights(used, opt)
	if err != nil {
		return nil, err
	}
	values, err := evalConstants(ctx, g.Nodes(), nodes, weights, opt)
	if err != nil {
		return nil, err
	}
	out := make([]*ir.Data, len(nodes))
	for i, n := range nodes {
		if out[i], err = values[n.ID()].data(); err != nil {
			return nil, nodeError(n, err)
		}
	}
	return out, nil
}

// IsConstant reports, by node ID, which nodes of a graph Eval can compute from weights and constants.
func IsConstant(g *ir.Graph) []bool { return constants(g.Nodes(), nil) }

// dependency names an input, state or symbol on which node n depends. is[id] reports whether a node is constant.
func dependency(n *ir.Node, is []bool) string {
	for _, a := range n.Args() {
		if !is[a.ID()] {
			return dependency(a, is)
		}
	}
	if n.Name() != "" {
		return fmt.Sprintf("%s %q", n.Op(), n.Name())
	}
	return fmt.Sprintf("a symbol (%s is %s)", n, n.Type())
}
