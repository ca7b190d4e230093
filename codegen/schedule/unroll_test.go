package schedule

import (
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// Steps are written out as far as they divide the contraction, and nowhere that
// operands are staged.
func TestUnroll(t *testing.T) {
	h100 := profile(t, "nvidia-h100")
	for _, c := range []struct{ depth, fewest, most, want int }{
		{2304, 12, 36, 36}, {4096, 12, 36, 32}, {1024, 12, 36, 32}, {512, 12, 36, 16}, {4608, 8, 24, 24},
		{11008, 12, 36, 0}, {11008, 2, 36, 8}, {2304, 1, 5, 4}, {2320, 2, 36, 0}, {96, 12, 36, 0},
	} {
		k := matrixMul(ir.D(1), ir.D(1024), ir.D(1024), ir.D(c.depth), ir.F16, true)
		s := kernel.CoopMat2{MatrixTile: kernel.MatrixTile{Launch: kernel.Launch{Variant: kernel.VarCoopMat2,
			Workgroup: 256, Vec: 4}, Tile: kernel.Tile{TileM: 128, TileN: 256, TileK: 32}}}
		if have := stepsUnrolled(k, s, c.fewest, c.most); have != c.want {
			t.Errorf("%d deep, %d to %d steps: %d, want %d", c.depth, c.fewest, c.most, have, c.want)
		}
		s.Unroll = max(c.want, 1)
		if _, err := New(k, s, h100); (err == nil) != (c.depth%32 == 0) {
			t.Errorf("%d deep in %d steps of 32: %v", c.depth, s.Unroll, err)
		}
		s.Unroll = 7
		if _, err := New(k, s, h100); err == nil || !strings.Contains(err.Error(), "7 steps do not divide") {
			t.Errorf("%d deep in 7 steps of 32: %v", c.depth, err)
		}
	}
}
