package nn

import (
	"github.com/vkc-go/vkc/frontend"
)

// RopeAxes is rotary embedding with positions in several directions, as for the patches of a picture (M-RoPE; Wang et
// al. 2024, arXiv:2409.12191). positions has a vector of positions for each direction. Pair i of the innermost elements
// of x turns by the position in direction axes[i]. The options are as in frontend.Tensor.Rope, with RopeHalf: the
// elements of pair i are i and i+len(axes).
func RopeAxes(x frontend.Tensor, positions []frontend.Tensor, axes []int,
	options ...frontend.RopeOption) frontend.Tensor {
	// For each direction, turn all pairs by its positions, and select the result for the pairs of that direction.
	y := x.Rope(positions[0], options...)
	width := int(x.Dim(-1).Max())
	for direction := 1; direction < len(positions); direction++ {
		turns := make([]bool, width)
		for i, axis := range axes {
			if axis == direction {
				turns[i], turns[i+len(axes)] = true, true
			}
		}
		y = x.Builder().Const(turns).Where(x.Rope(positions[direction], options...), y)
	}
	return y
}
