package fast

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestConvTiles: tiles cover all positions, with all terms once, however many there are.
func TestConvTiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	const blocks = 2
	for _, terms := range []int{5, 2*tileTerms + 1} {
		for _, positions := range []int{1, 8, 13, 16, 20, 27, 32, 35, 57} {
			line := max(positions, lanes)
			offsets, in := make([]int32, terms), make([]float32, terms+line)
			for i := range offsets {
				offsets[i] = int32(4 * i)
			}
			weights := make([]float32, blocks*terms*channelBlock)
			for _, list := range [][]float32{in, weights} {
				for i := range list {
					list[i] = float32(rng.IntN(9) - 4) // sums are exact
				}
			}
			have, want := make([]float32, blocks*channelBlock*line), make([]float32, blocks*channelBlock*line)
			convTiles(have, line, in, offsets, weights, blocks, positions)
			convTilePlain(line, want, line, in, offsets, weights, terms*channelBlock, blocks, false)
			for ch := range blocks * channelBlock {
				if !slices.Equal(have[ch*line:][:positions], want[ch*line:][:positions]) {
					t.Errorf("%d positions of %d terms, channel %d: they differ", positions, terms, ch)
				}
			}
		}
	}
}

// TestConvSplit: workers share the channels if parts of the positions would not fill tiles, and else the positions.
func TestConvSplit(t *testing.T) {
	for _, tt := range []struct{ in, out, size, cols, channels int }{
		{512, 128, 14, 196, 32},
		{64, 64, 56, 784, 64},
	} {
		g := ir.NewGraph("conv")
		leaf := func(name string, shape ir.Shape) *ir.Node {
			n, err := g.Add(ir.OpInput, nil, []ir.Attr{{Name: "name", Value: name}, {Name: "dtype", Value: ir.F32},
				{Name: "shape", Value: shape}}, "")
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		x, w := leaf("x", ir.ShapeOf(1, tt.in, tt.size, tt.size)), leaf("w", ir.ShapeOf(tt.out, tt.in, 1, 1))
		n, err := g.Add(ir.OpConv, []*ir.Node{x, w}, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		from, to := []int{1, tt.in, tt.size, tt.size}, []int{1, tt.out, tt.size, tt.size}
		s := newConvShape(n, phasesOf(n)[0], 1, from, to, 2, nil)
		if s.cols != tt.cols || s.channels != tt.channels {
			t.Errorf("%d to %d channels of %d by %d: parts of %d positions and %d channels, want %d and %d", tt.in,
				tt.out, tt.size, tt.size, s.cols, s.channels, tt.cols, tt.channels)
		}
	}
}
