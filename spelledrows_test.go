package vkc_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
)

// TestSpelledNorm: a layer norm that a graph spells by ops rounds the mean as each op does. That shifts a row by what
// the mean lost, and loses no more: between elements of a row, no digits go. layer_norm does not round the mean.
func TestSpelledNorm(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	const rows, width, mean, deviation = 16, 768, 1e4, 0.1
	r := rand.New(rand.NewPCG(3, 1))
	x := make([]float32, rows*width)
	for i := range x {
		x[i] = float32(mean + deviation*r.NormFloat64())
	}
	for _, name := range []string{"reference", "cpu", "vulkan"} {
		dev, err := vkc.OpenDevice(name)
		vktest.Need(t, err)
		defer dev.Close()
		exe := built(t, dev, "spelled", func(b *frontend.Builder) {
			x := b.Input("x", ir.F32, rows, width)
			d := x.Sub(x.MeanKeep(1))
			b.Output("spelled", d.Div(d.Powf(2).MeanKeep(1).AddScalar(1e-5).Sqrt()))
			b.Output("norm", x.LayerNorm(frontend.Tensor{}, frontend.Tensor{}, 1e-5))
		})
		res, err := exe.Run(t.Context(), vkc.Tensors{"x": devtest.TensorOf(t, x, rows, width)})
		if err != nil {
			t.Fatal(err)
		}
		for output, most := range map[string]float64{"spelled": 2 * 0x1p-10 / deviation, "norm": 1e-5} {
			y, err := vkc.Values[float32](res.Outputs[output])
			if err != nil {
				t.Fatal(err)
			}
			for row := range rows {
				own := x[row*width:][:width]
				sum, squares := 0.0, 0.0
				for _, v := range own {
					sum += float64(v)
				}
				for _, v := range own {
					squares += (float64(v) - sum/width) * (float64(v) - sum/width)
				}
				least, largest := math.Inf(1), math.Inf(-1) // of the errors
				for i, v := range own {
					off := float64(y[row*width+i]) - (float64(v)-sum/width)/math.Sqrt(squares/width+1e-5)
					least, largest = min(least, off), max(largest, off)
				}
				if max(-least, largest) > most || largest-least > 1e-3 {
					t.Errorf("%s on %s, row %d: off by %.2g to %.2g, want %.2g at most", output, name, row, least,
						largest, most)
				}
			}
		}
		exe.Close()
	}
}
