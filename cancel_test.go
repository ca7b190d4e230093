package vkc_test

import (
	"math"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// TestWhatCancels: a value less itself, or by itself, is no number where the value is none or infinite, though drivers
// may take it for 0 and 1; also where a row of one element is folded to that element.
func TestWhatCancels(t *testing.T) {
	special := []float32{1, 0, float32(math.Inf(1)), -2, float32(math.NaN()), float32(math.Inf(-1)), 1e30, 1e-30}
	x := tensorOf(t, special, 1, len(special))
	for name, of := range map[string]func(x frontend.Tensor) frontend.Tensor{
		"difference":       func(x frontend.Tensor) frontend.Tensor { return x.Sub(x) },
		"quotient":         func(x frontend.Tensor) frontend.Tensor { return x.Div(x) },
		"product":          func(x frontend.Tensor) frontend.Tensor { return x.Mul(x.Recip()) },
		"softmax":          func(x frontend.Tensor) frontend.Tensor { return x.Softmax(0) },
		"log_softmax":      func(x frontend.Tensor) frontend.Tensor { return x.LogSoftmax(0) },
		"less the largest": func(x frontend.Tensor) frontend.Tensor { return x.Sub(x.ReduceMax(0)) },
		"over the sum":     func(x frontend.Tensor) frontend.Tensor { return x.Div(x.Sum(0)) },
		"less the sum":     func(x frontend.Tensor) frontend.Tensor { return x.Sub(x.Sum(0)) },
		"less the mean":    func(x frontend.Tensor) frontend.Tensor { return x.Sub(x.Mean(0)) },
	} {
		t.Run(name, func(t *testing.T) {
			g, err := frontend.Build(name, func(b *frontend.Builder) {
				x := b.Input("x", ir.F32, 1, len(special))
				b.Output("y", of(x.Abs()))
			})
			if err != nil {
				t.Fatal(err)
			}
			checker, err := vkc.NewChecker(g, nil)
			if err != nil {
				t.Fatal(err)
			}
			runOnEach(t, g, vkc.Tensors{"x": x}, func(t *testing.T, exe *vkc.Executable, res *vkc.Result) {
				report, err := checker.Check(t.Context(), exe, vkc.Tensors{"x": x}, nil, res.Outputs)
				if err != nil {
					t.Fatal(err)
				}
				if err := report.Err(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestSumsOfZero: a sum of -0 alone is 0, as one of several is, whose inverse tells them apart.
func TestSumsOfZero(t *testing.T) {
	zero := tensorOf(t, []float32{float32(math.Copysign(0, -1)), 0}, 1, 2)
	g, err := frontend.Build("zeros", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 1, 2)
		b.Output("sum", x.Sum(0).Recip())
		b.Output("mean", x.Mean(0).Recip())
		b.Output("norm", x.Norm1(0).Recip())
		b.Output("of several", x.Sum().Recip())
	})
	if err != nil {
		t.Fatal(err)
	}
	runOnEach(t, g, vkc.Tensors{"x": zero}, func(t *testing.T, _ *vkc.Executable, res *vkc.Result) {
		for name, d := range res.Outputs {
			values, err := vkc.Values[float32](d)
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range values {
				if !math.IsInf(float64(v), 1) {
					t.Errorf("%s of element %d: the inverse is %v, want +Inf", name, i, v)
				}
			}
		}
	})
}

// runOnEach runs a graph without weights on each device.
func runOnEach(t *testing.T, g *ir.Graph, in vkc.Tensors,
	then func(t *testing.T, exe *vkc.Executable, res *vkc.Result)) {
	t.Helper()
	onEach(t, func(t *testing.T, dev *vkc.Device) {
		exe, err := dev.LoadGraph(t.Context(), g, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer exe.Close()
		res, err := exe.Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		then(t, exe, res)
	})
}

// TestNothingCancels: no kernel takes a value from itself, nor from the sum of it and 0, which drivers take for 0.
func TestNothingCancels(t *testing.T) {
	caps := profile(t, "generic")
	for name, of := range map[string]func(x frontend.Tensor) frontend.Tensor{
		"difference":    func(x frontend.Tensor) frontend.Tensor { return x.Sub(x) },
		"less the sum":  func(x frontend.Tensor) frontend.Tensor { return x.Sub(x.Sum(0)) },
		"less the mean": func(x frontend.Tensor) frontend.Tensor { return x.Sub(x.Mean(0)) },
		"the sum less":  func(x frontend.Tensor) frontend.Tensor { return x.Sum(0).Sub(x) },
	} {
		g, err := frontend.Build(name, func(b *frontend.Builder) { b.Output("y", of(b.Input("x", ir.F32, 1, 8))) })
		if err != nil {
			t.Fatal(err)
		}
		low, err := vkc.Lower(t.Context(), g, caps, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, src := range low.GLSL {
			if strings.Contains(src, " - ") || !strings.Contains(src, "* 0.0") {
				t.Errorf("%s: want 0 times the value in\n%s", name, src)
			}
		}
	}
}
