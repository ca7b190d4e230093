package graphgen

import (
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// experts adds ops of a mixture of experts: one or two matmul_id of the same rows and ids, as in a gated layer, or else
// an expert_groups.
func (g *generator) experts() *ir.Node {
	tokens, used, count := g.shape(1)[0], 1+g.rng.IntN(3), 1+g.rng.IntN(4)
	ids := g.leaf(ir.Shape{tokens, ir.D(used)}, g.intType())
	if g.rng.IntN(4) == 0 {
		return g.add(ir.OpExpertGroups, []*ir.Node{ids}, attr("experts", int64(count)),
			attr("rows", int64(1+g.rng.IntN(20))))
	}
	t, k := g.float, g.rng.IntN(40)
	if g.rng.IntN(2) == 0 {
		t = g.oneOf(ir.Q8_0, ir.Q4_0, ir.Q5_1)
		if g.rng.IntN(3) == 0 {
			t = g.oneOf(ir.BlockFormats()...)
		}
		k = t.BlockElems()
	}
	x := g.leaf(ir.Shape{tokens, ir.D([]int{1, used}[g.rng.IntN(2)]), ir.D(k)}, g.float)
	n := g.upTo(12)
	product := func() *ir.Node {
		w := g.named(ir.OpWeight, fmt.Sprintf("experts%d", len(g.g.Nodes())), ir.ShapeOf(count, n, k), t)
		return g.add(ir.OpMatMulID, []*ir.Node{x, w, ids}, g.precision())
	}
	if out := product(); g.rng.IntN(2) == 0 {
		return out
	}
	return product()
}
