package rewrite

import (
	"cmp"
	"math"

	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
)

// turns returns the angle per position of each pair of elements, for a rope without that argument (its third). Angles
// are integer fractions of a turn, so that whole turns wrap around and every position is exact. In f32,
// position*frequency would have an error of 2^-12 radian at position 4096, growing with the position.
func (r *rewriter) turns(n *ir.Node) *ir.Node {
	x := n.Arg(0).Shape()
	dims := cmp.Or(int64(n.Attrs().Int("dims")), x[len(x)-1].Add)
	radians := make([]float64, dims/2)
	for i := range radians {
		radians[i] = math.Pow(n.Attrs().Float("base"), -2*float64(i)/float64(dims))
	}
	d, err := ir.RopeTurns(radians)
	bailout.Check(err)
	return r.add(ir.OpConst, nil, attr("data", d))
}
