package hints

import (
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// TestHints checks the hints about programs that have a problem, and about similar ones that do not.
func TestHints(t *testing.T) {
	chain := func(rows, kernels int) func(*frontend.Builder) {
		return func(b *frontend.Builder) {
			x := b.Input("x", ir.F32, rows, 64)
			for range kernels {
				x = x.Softmax(-1).CumSum(-1)
			}
			b.Output("y", x)
		}
	}
	bytes := func(transposed, cast bool) func(*frontend.Builder) {
		return func(b *frontend.Builder) {
			x, w := b.Input("x", ir.I8, 512, 512), b.Weight("blk.w", ir.I8, 512, 512)
			if cast {
				x, w = x.Cast(ir.F32), w.Cast(ir.F32).MulScalar(0.5)
			}
			if transposed {
				b.Output("y", x.MatMulT(w))
			} else {
				b.Output("y", x.MatMul(w))
			}
		}
	}
	doubles := func(b *frontend.Builder) { b.Output("y", b.Input("x", ir.F64, 1<<20).Exp().Neg()) }
	pairs := func(n int) func(*frontend.Builder) {
		return func(b *frontend.Builder) {
			x := b.Input("x", ir.F32, n)
			b.Output("y", x.Unsqueeze(1).Sub(x).Abs().Sum(0))
		}
	}
	symbol := func(b *frontend.Builder) { b.Output("y", b.Input("x", ir.F32, b.Sym("T", 4096), 1024).Exp()) }
	for _, tt := range []struct {
		name, profile string
		build         func(*frontend.Builder)
		symbols       map[string]int64
		hint, text    string // "" for no hint
	}{
		{"all pairs", "nvidia-h100", pairs(4096), nil, "expansion", "4096 times the size"},
		{"few pairs", "nvidia-h100", pairs(64), nil, "", ""},
		{"small kernels", "amd-rdna3", chain(2, 6), nil, "launches", "kernels takes less time than its launch"},
		{"large kernels", "nvidia-h100", chain(1<<17, 6), nil, "", ""},
		{"a few small kernels", "nvidia-h100", chain(2, 1), nil, "", ""},
		{"columns", "nvidia-h100", bytes(false, false), nil, "weights", `weight "blk.w" is i8[512,512]`},
		{"columns, dequantized", "nvidia-h100", bytes(false, true), nil, "weights", `weight "blk.w"`},
		{"rows", "nvidia-h100", bytes(true, false), nil, "", ""},
		{"rows, dequantized", "nvidia-h100", bytes(true, true), nil, "", ""},
		{"f64 for graphics", "amd-rdna3", doubles, nil, "f64", "exp"},
		{"f64 for computing", "nvidia-h100", doubles, nil, "", ""},
		{"f64 on a processor", "lavapipe", doubles, nil, "", ""},
		{"a wide bound", "nvidia-h100", symbol, map[string]int64{"T": 6}, "symbols", "T <= 4096 is 6"},
		{"a bound in use", "nvidia-h100", symbol, map[string]int64{"T": 1000}, "", ""},
		{"an unknown value", "nvidia-h100", symbol, nil, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, err := frontend.Build("g", tt.build)
			if err != nil {
				t.Fatal(err)
			}
			caps, err := device.Profile(tt.profile)
			if err != nil {
				t.Fatal(err)
			}
			list, err := Of(t.Context(), g, caps, nil, tt.symbols)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, h := range list {
				names = append(names, h.Name)
				if strings.Contains(h.Text, "\n") || !strings.Contains(h.Text, tt.text) {
					t.Errorf("%s: %q, want %q in it", h.Name, h.Text, tt.text)
				}
				t.Log(h.Text)
			}
			if have := strings.Join(names, " "); have != tt.hint {
				t.Errorf("hints %q, want %q", have, tt.hint)
			}
		})
	}
}
