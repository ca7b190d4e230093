package graphgen

import "github.com/vkc-go/vkc/ir"

// custom adds a custom op of Options.Custom, and perhaps a node for another result of it.
func (g *generator) custom() *ir.Node {
	op := g.opt.Custom[g.rng.IntN(len(g.opt.Custom))]
	in := op.Info()
	for range 24 {
		first := g.pick(anyNode)
		if g.rng.IntN(3) == 0 {
			first = g.ints()
		}
		if first == nil {
			continue
		}
		args := []*ir.Node{first}
		for len(args) < len(in.Args) {
			args = append(args, g.customArg(first))
		}
		attrs := in.SampleAttrs(g.rng.IntN(max(1, in.SampleCount())), g.rng.IntN(3) > 0)
		results := 1
		if in.Custom.Kernel != nil {
			results = len(in.Custom.Kernel.Outputs)
		}
		var n *ir.Node
		for i := range results {
			of := attrs
			if results > 1 {
				of = append(attrs[:len(attrs):len(attrs)], attr("output", i))
			}
			if i == 0 || g.rng.IntN(2) == 0 {
				n = g.add(op, args, of...)
			}
		}
		if n != nil {
			return n
		}
	}
	return nil
}

// customArg returns an argument of a custom op after the first one: often one that fits the first.
func (g *generator) customArg(first *ir.Node) *ir.Node {
	switch g.rng.IntN(4) {
	case 0:
		return g.leaf(g.broadcastable(first.Shape()), ir.Bool)
	case 1:
		return g.pick(anyNode)
	}
	return g.partner(first)
}
