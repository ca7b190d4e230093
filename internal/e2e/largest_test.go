package e2e_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
)

// TestLargestOnDevice: the largest of each row and where it is, as steps of a language model find them, also where
// elements are NaN, which then is the largest, or no finite numbers. Long rows are folded in parts.
func TestLargestOnDevice(t *testing.T) {
	devtest.NeedTools(t)
	dev := devtest.OpenDevice(t)
	const rows = 3
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, n := range []int{5, 4096, 128256} {
		p, err := vkc.Compile(t.Context(), devtest.Build(t, func(b *frontend.Builder) {
			x := b.Input("x", ir.F32, rows, n)
			best := x.Argmax(-1)
			b.Output("best", best)
			b.Output("top", x.Gather(1, best.Reshape(rows, 1)).Reshape(rows))
		}), vkc.CompileOptions{Target: dev.Caps()})
		if err != nil {
			t.Fatal(err)
		}
		exe, err := dev.Load(t.Context(), p, vkc.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			all, at float32 // elements, and some of them
			from    int     // the first of these
		}{
			{-3, -1, n / 2}, {-3, nan, n / 2}, {-3, nan, 0}, {-3, nan, n - 1}, {inf, nan, n - 1}, {-3, inf, n / 2},
			{-inf, -inf, 0}, {nan, nan, 0}, {-inf, -3, n - 1},
		} {
			values := make([]float32, rows*n)
			for i := range values {
				values[i] = tt.all
				if column := i % n; column >= tt.from && (column-tt.from)%3 == 0 {
					values[i] = tt.at
				}
			}
			x, err := vkc.OfType(ir.F32, values, rows, n)
			if err != nil {
				t.Fatal(err)
			}
			res, err := exe.Run(t.Context(), vkc.Tensors{"x": x})
			if err != nil {
				t.Fatal(err)
			}
			best, err := vkc.Values[int32](res.Outputs["best"])
			if err != nil {
				t.Fatal(err)
			}
			top, err := vkc.Values[float32](res.Outputs["top"])
			if err != nil {
				t.Fatal(err)
			}
			for row := range rows {
				if int(best[row]) != tt.from || fmt.Sprint(top[row]) != fmt.Sprint(tt.at) {
					t.Errorf("%d elements of %v, some of %v: row %d has %v at %d, want it at %d", n, tt.all, tt.at, row,
						top[row], best[row], tt.from)
				}
			}
		}
		if err := exe.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
