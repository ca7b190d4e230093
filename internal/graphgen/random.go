package graphgen

import "github.com/vkc-go/vkc/ir"

// random adds random numbers for seeds and offsets that may be anything.
func (g *generator) random() *ir.Node {
	result := g.shape(g.rng.IntN(4))
	streams := result[:g.rng.IntN(len(result)+1)]
	word := func() *ir.Node {
		t := g.oneOf(ir.U32, ir.I64)
		if n := g.pick(func(n *ir.Node) bool { return n.DType() == t && n.Shape().Equal(streams) }); n != nil &&
			g.rng.IntN(2) == 0 {
			return n
		}
		return g.leaf(streams, t)
	}
	args := []*ir.Node{word(), word()}
	shape := attr("shape", result)
	if g.rng.IntN(3) == 0 {
		return g.add(ir.OpRandomBernoulli, args, attr("p", float64(g.rng.IntN(5))/4), shape)
	}
	op := []ir.Op{ir.OpRandomUniform, ir.OpRandomNormal}[g.rng.IntN(2)]
	return g.add(op, args, attr("dtype", g.floatType()), shape)
}

// random bounds random numbers. Normal ones are at most sqrt(-2*log(2^-24)).
func (b *Bound) random(n *ir.Node) {
	b.Lo, b.Hi, b.Err = 0, 1, 0
	if n.Op() == ir.OpRandomNormal {
		b.Lo, b.Hi, b.Err = -5.8, 5.8, 64
	}
}
