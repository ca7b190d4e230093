package frontend_test

import (
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// TestGradAtTies: where two operands are equal, max and min give half of the gradient to each, whichever of them is a
// constant; and reductions give equal parts to all that are equal.
func TestGradAtTies(t *testing.T) {
	of := func(f func(x, c frontend.Tensor) frontend.Tensor) func(b *frontend.Builder) {
		return func(b *frontend.Builder) {
			x := b.Input("x", ir.F32, 4)
			y := f(x, b.Full(ir.F32, 2, 4))
			b.Output("g", frontend.Grad(y.Mul(y.Lit(8)).Sum(), x)[0])
		}
	}
	for name, tt := range map[string]struct {
		f    func(x, c frontend.Tensor) frontend.Tensor
		want []float64
	}{
		"max(x, c)": {func(x, c frontend.Tensor) frontend.Tensor { return x.Max(c) }, []float64{0, 4, 8, 4}},
		"max(c, x)": {func(x, c frontend.Tensor) frontend.Tensor { return c.Max(x) }, []float64{0, 4, 8, 4}},
		"min(x, c)": {func(x, c frontend.Tensor) frontend.Tensor { return x.Min(c) }, []float64{8, 4, 0, 4}},
		"min(c, x)": {func(x, c frontend.Tensor) frontend.Tensor { return c.Min(x) }, []float64{8, 4, 0, 4}},
		"max(x, x)": {func(x, _ frontend.Tensor) frontend.Tensor { return x.Max(x) }, []float64{8, 8, 8, 8}},
		"reduce_max": {func(x, c frontend.Tensor) frontend.Tensor { return x.Min(c).ReduceMax() },
			[]float64{0, 4. / 3, 0, 4. / 3}},
		"reduce_min": {func(x, c frontend.Tensor) frontend.Tensor { return x.Max(c).ReduceMin() },
			[]float64{0, 4. / 3, 0, 4. / 3}},
	} {
		t.Run(name, func(t *testing.T) {
			in, err := ir.FromFloats(ir.F32, []float64{1, 2, 3, 2}, 4)
			if err != nil {
				t.Fatal(err)
			}
			got := runOnce(t, map[string]*ir.Data{"x": in}, of(tt.f))["g"]
			want, err := ir.FromFloats(ir.F32, tt.want, 4)
			if err != nil {
				t.Fatal(err)
			}
			if err := interp.Compare(got, want, ir.Tolerance{Eps: 4}).Err(); err != nil {
				t.Error(err)
			}
		})
	}
}
