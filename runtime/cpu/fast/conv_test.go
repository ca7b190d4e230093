package fast_test

import (
	"context"
	"math"
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/runtime/cpu/fast"
)

// TestConvLeavesPaddingOut: weights that are not finite count where they meet elements, not where they meet padding.
func TestConvLeavesPaddingOut(t *testing.T) {
	g, err := ir.Parse(`graph "g" {
  %x = input {name="x", dtype=f32, shape=[1,4,5,6]}
  %w = input {name="w", dtype=f32, shape=[6,2,3,3]}
  %y = conv %x, %w {groups=2, padding_low=[1,1], padding_high=[1,2], stride=[1,2]}
  output "y" %y
}
`)
	if err != nil {
		t.Fatal(err)
	}
	x, w := make([]float64, 4*5*6), make([]float64, 6*2*3*3)
	for i := range x {
		x[i] = float64(i%7 + 1)
	}
	for i := range w {
		w[i] = float64(i%5) - 2
	}
	w[0], w[9+8], w[18+4], w[36+2], w[54+6] = math.Inf(1), math.Inf(-1), math.NaN(), math.NaN(), math.Inf(1)
	in := map[string]*ir.Data{}
	for _, name := range []string{"x", "w"} {
		values, dims := x, []int{1, 4, 5, 6}
		if name == "w" {
			values, dims = w, []int{6, 2, 3, 3}
		}
		if in[name], err = ir.FromFloats(ir.F32, values, dims...); err != nil {
			t.Fatal(err)
		}
	}
	results := map[string][]float64{}
	for name, replace := range map[string]func(*ir.Graph) []*interp.Kernel{"reference": nil, "fast": fast.Kernels} {
		p, err := interp.New(g, interp.Options{Replace: replace, Poison: true})
		if err != nil {
			t.Fatal(err)
		}
		out, err := p.Run(context.Background(), in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if results[name], err = out["y"].Floats(); err != nil {
			t.Fatal(err)
		}
	}
	numbers := 0
	for i, want := range results["reference"] {
		have := results["fast"][i]
		if have != want && !(have != have && want != want) {
			t.Errorf("element %d is %g, want %g", i, have, want)
		}
		if want-want == 0 {
			numbers++
		}
	}
	if n := len(results["reference"]); numbers == 0 || numbers == n {
		t.Errorf("%d of %d elements are finite: want some, and not all", numbers, n)
	}
}
