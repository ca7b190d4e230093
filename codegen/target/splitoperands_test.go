package target

import (
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

func TestSplitOperands(t *testing.T) {
	h100 := profile(t, "nvidia-h100")
	noBF16 := h100
	noBF16.Features.BFloat16Matrix = false
	small := h100
	small.MaxStorageRange = 64 << 20
	f32 := func(m, n, k ir.Dim, transposed bool) *kernel.Kernel { return matMul(one, m, n, k, ir.F32, transposed) }
	d := ir.D
	cases := []struct {
		what        string
		k           *kernel.Kernel
		caps        Caps
		want        int // operands
		rows, depth int // of the first
		across      bool
	}{
		{"large", f32(d(4096), d(4096), d(4096), true), h100, 2, 0, 0, false},
		{"columns", f32(d(4096), d(4096), d(4096), false), h100, 2, 0, 0, false},
		{"odd", f32(d(4095), d(4095), d(4095), true), h100, 2, 4096, 4096, false},
		{"odd columns", f32(d(4095), d(4095), d(4095), false), h100, 2, 4096, 4096, false},
		{"by bf16", matMul(one, d(4096), d(4096), d(4096), ir.BF16, true), h100, 2, 0, 0, false},
		{"T rows", f32(ir.Symbol("T", 4096), d(4096), d(4096), true), h100, 2, 0, 0, false},
		{"T deep", f32(d(4096), d(4096), ir.Symbol("T", 4096), true), h100, 0, 0, 0, false},
		{"nothing to add up", f32(d(4096), d(4096), d(0), true), h100, 0, 0, 0, false},
		{"small", f32(d(256), d(256), d(256), true), h100, 0, 0, 0, false},
		{"few rows", f32(d(4), d(4096), d(4096), true), h100, 0, 0, 0, false},
		{"shallow", f32(d(4096), d(4096), d(8), true), h100, 0, 0, 0, false},
		{"no bf16 in matrix units", f32(d(4096), d(4096), d(4096), true), noBF16, 0, 0, 0, false},
		{"no room", f32(d(4096), d(4096), d(4096), true), small, 0, 0, 0, false},
		{"no rates are known", f32(d(4096), d(4096), d(4096), true), profile(t, "amd-rdna3"), 0, 0, 0, false},
		{"no matrix units", f32(d(4096), d(4096), d(4096), true), profile(t, "lavapipe"), 0, 0, 0, false},
	}
	for _, c := range cases {
		got := SplitOperands(c.k, c.caps)
		if len(got) != c.want || c.want > 0 && (got[0].Rows != c.rows || got[0].Depth != c.depth || got[0].Across != c.across) {
			t.Errorf("%s: %+v, want %d of %d rows, %d deep", c.what, got, c.want, c.rows, c.depth)
		}
		if c.what == "columns" && !got[1].Across || c.what == "odd columns" && got[1].Across {
			t.Errorf("%s: across is %v: neighbours stay neighbours where tiles are whole", c.what, got[1].Across)
		}
	}
}
