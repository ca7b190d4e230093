package graphgen

import (
	"math"

	"github.com/vkc-go/vkc/ir"
)

// linear adds an op of Fourier transforms and linear algebra.
func (g *generator) linear() *ir.Node {
	x := g.pick(func(n *ir.Node) bool {
		return isFloat(n) && n.Rank() > 0 && n.Rank() < 6 && n.Shape()[n.Rank()-1].IsStatic()
	})
	if x == nil {
		return nil
	}
	x = g.add(ir.OpRFFT, []*ir.Node{x})
	switch g.rng.IntN(4) {
	case 0:
		return x
	case 1:
		if x == nil {
			return nil
		}
		n := 2*(x.Shape()[x.Rank()-2].Add-1) + int64(g.rng.IntN(2))
		return g.add(ir.OpIRFFT, []*ir.Node{x}, attr("n", n))
	}
	return g.add(ir.OpFFT, []*ir.Node{x}, attr("inverse", g.rng.IntN(2) == 0))
}

// linear bounds the results of Fourier transforms. Each element is a sum of all elements of its row, and rounding one
// of them changes all.
func (b *Bound) linear(n *ir.Node, args []Bound) {
	x := args[0]
	rows := n.Arg(0).Shape()
	elements := float64(rows[len(rows)-1].Max())
	if n.Op() != ir.OpRFFT {
		elements *= 2 * float64(rows[len(rows)-2].Max())
	}
	m := elements * x.mag()
	b.Lo, b.Hi = -m, m
	b.Err = elements*x.Err + 256*m
	if math.IsNaN(b.Err) {
		b.Bad = true
	}
}
