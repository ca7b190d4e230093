package vkc_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
	"github.com/vkc-go/vkc/runtime"
)

// runJoined runs a graph on the device, its norms joined to the products that
// read them, and returns the results and the names of the kernels.
func runJoined(t *testing.T, dev *vkc.Device, g *ir.Graph, in map[string]*ir.Data, weights ir.WeightSource) (out map[string]*ir.Data, kernels string) {
	t.Helper()
	defer vkc.JoinAllNorms()()
	ctx := context.Background()
	p, err := dev.Compile(ctx, g, vkc.CompileOptions{NoCache: true})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range p.Contents.Program.Steps {
		names = append(names, s.Name)
	}
	exe, err := dev.Load(ctx, p, vkc.LoadOptions{Weights: weights})
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	res, err := exe.Run(ctx, in, runtime.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return res.Outputs, strings.Join(names, " ")
}

// normedRows is y = norm(x) by two weights, one gating the other.
func normedRows(rows, depth int, norm func(x, w frontend.Tensor) frontend.Tensor, t ir.DType) func(b *frontend.Builder) {
	return func(b *frontend.Builder) {
		x := norm(b.Input("x", ir.F32, rows, depth), b.Weight("g", ir.F32, depth))
		weight := func(name string) frontend.Tensor {
			w := b.Weight(name, t, 44, depth)
			if t.IsBlock() {
				return w
			}
			return w.Cast(ir.F32)
		}
		b.Output("y", x.MatMulT(weight("w")).Silu().Mul(x.MatMulT(weight("v"))))
	}
}

func TestJoinedNormsOnDevice(t *testing.T) {
	needTools(t)
	dev := openDevice(t)
	rms := func(x, w frontend.Tensor) frontend.Tensor { return x.RMSNorm(w, 1e-5) }
	l2 := func(x, _ frontend.Tensor) frontend.Tensor { return x.L2Normalize(-1, 1e-6) }
	for _, tt := range []struct {
		name    string
		define  func(b *frontend.Builder)
		kernels string
	}{
		{"a row by q8_0", normedRows(1, 256, rms, ir.Q8_0), "rms_norm_matmul_mul"},
		{"a row by f32", normedRows(1, 132, rms, ir.F32), "rms_norm_matmul_mul"},
		{"three rows by q4_0", normedRows(3, 96, rms, ir.Q4_0), "rms_norm_matmul_mul"},
		{"rows of length one", normedRows(4, 64, l2, ir.F16), "l2_normalize_matmul_mul"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, err := frontend.Build("product", tt.define)
			if err != nil {
				t.Fatal(err)
			}
			values := graphgen.Values{Seed: 2, Graph: g, Quantize: quantize}
			inputs := inputsOf(t, values)
			have, kernels := runJoined(t, dev, g, inputs, values)
			if kernels != tt.kernels {
				t.Errorf("kernels %s, want %s", kernels, tt.kernels)
			}
			compareOutputs(t, g, have, outputsOf(t, g, values, inputs))
		})
	}
}

// TestJoinedNormsOfExtremes: rows of no size, of tiny and of large elements, and
// with what is no number, are what they are by a norm of its own.
func TestJoinedNormsOfExtremes(t *testing.T) {
	needTools(t)
	dev := openDevice(t)
	g, err := frontend.Build("product", normedRows(1, 64, func(x, w frontend.Tensor) frontend.Tensor { return x.RMSNorm(w, 1e-5) }, ir.F32))
	if err != nil {
		t.Fatal(err)
	}
	values := graphgen.Values{Seed: 2, Graph: g, Quantize: quantize}
	for name, change := range map[string]func(i int, x float64) float64{
		"zeros":         func(int, float64) float64 { return 0 },
		"tiny":          func(_ int, x float64) float64 { return x * 1e-18 },
		"large":         func(_ int, x float64) float64 { return x * 1e17 },
		"an infinity":   func(i int, x float64) float64 { return map[bool]float64{true: math.Inf(-1), false: x}[i == 7] },
		"not a number":  func(i int, x float64) float64 { return map[bool]float64{true: math.NaN(), false: x}[i == 63] },
		"one of a kind": func(i int, x float64) float64 { return map[bool]float64{true: 1e6, false: x}[i == 0] },
	} {
		t.Run(name, func(t *testing.T) {
			inputs := inputsOf(t, values)
			x := make([]float64, 64)
			ir.DecodeFloats(x, ir.F32, inputs["x"].Bytes)
			for i := range x {
				x[i] = change(i, x[i])
			}
			ir.EncodeFloats(inputs["x"].Bytes, ir.F32, x)
			have, kernels := runJoined(t, dev, g, inputs, values)
			if kernels != "rms_norm_matmul_mul" {
				t.Errorf("kernels %s", kernels)
			}
			compareOutputs(t, g, have, outputsOf(t, g, values, inputs))
		})
	}
}

func quantize(dst []byte, t ir.DType, src []float32) error { return quant.Quantize(dst, t, src, nil) }
