package e2e_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// runJoined runs a graph on the device with norms, and ops on slices of rows, fused into matmuls. It returns the
// results and the names of the kernels.
func runJoined(t *testing.T, dev *vkc.Device, g *ir.Graph, in map[string]*ir.Data,
	weights ir.WeightSource) (out map[string]*ir.Data, kernels string) {
	t.Helper()
	out, names := runCompiled(t, dev, g, in, weights, fuseAllRows)
	return out, strings.Join(names, " ")
}

// normedRows is y = norm(x) by two weights, one gating the other.
func normedRows(rows, depth int, norm func(x, w frontend.Tensor) frontend.Tensor,
	t ir.DType) func(b *frontend.Builder) {
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

func TestFusedNormsOnDevice(t *testing.T) {
	devtest.NeedTools(t)
	dev := devtest.OpenDevice(t)
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
		{"a row that is computed, and weighed where it is", func(b *frontend.Builder) {
			x := b.Input("x", ir.F32, 1, 64)
			y := x.MatMulT(b.Weight("u", ir.Q8_0, 64, 64)).Add(x)
			b.Output("y", y.RMSNorm(b.Weight("g", ir.F32, 64), 1e-5).MatMulT(b.Weight("w", ir.Q8_0, 40, 64)))
			b.Output("x2", y.Neg())
		}, "matmul_neg rms_norm_matmul"},
		{"rows of length one", normedRows(4, 64, l2, ir.F16), "l2_normalize_matmul_mul"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if kernels := compareBuilt(t, dev, tt.define, runJoined); kernels != tt.kernels {
				t.Errorf("kernels %s, want %s", kernels, tt.kernels)
			}
		})
	}
}

// TestFusedNormsOfExtremes: for rows of zeros, rows with tiny or huge elements, and rows with NaN, a fused norm gives
// the same result as a separate one.
func TestFusedNormsOfExtremes(t *testing.T) {
	devtest.NeedTools(t)
	dev := devtest.OpenDevice(t)
	g, err := frontend.Build("product", normedRows(1, 64, func(x, w frontend.Tensor) frontend.Tensor {
		return x.RMSNorm(w, 1e-5)
	}, ir.F32))
	if err != nil {
		t.Fatal(err)
	}
	values := graphgen.Values{Seed: 2, Graph: g}
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

// TestFusedSlicesOnDevice runs steps of a small model with keys and values written directly to caches, for one text or
// as many texts as rows. The largest case needs two workgroups.
func TestFusedSlicesOnDevice(t *testing.T) {
	devtest.NeedTools(t)
	dev := devtest.OpenDevice(t)
	const heads, dim, context = 2, 16, 6
	for _, tt := range []struct {
		rows   int
		weight ir.DType
	}{{1, ir.F32}, {1, ir.Q8_0}, {1, ir.Q4_0}, {3, ir.Q8_0}, {13, ir.Q8_0}, {13, ir.F32}} {
		t.Run(fmt.Sprintf("%s by %d", tt.weight, tt.rows), func(t *testing.T) {
			g, err := frontend.Build("step", func(b *frontend.Builder) {
				const width = heads * dim
				pos := b.Input("pos", ir.I32)
				x := b.Input("x", ir.F32, tt.rows, width).RMSNorm(b.Weight("g", ir.F32, width), 1e-5)
				qkv := x.MatMulT(b.Weight("w", tt.weight, 3*width, width))
				head := func(i int) frontend.Tensor {
					return qkv.Slice(1, i*width, (i+1)*width).Reshape(tt.rows, heads, dim).Transpose(1, 0, 2)
				}
				text := b.Iota(ir.I32, 0, tt.rows)
				turned := func(i int) frontend.Tensor {
					return head(i).Rope(text.Add(pos))
				}
				extend := func(name string, x frontend.Tensor) {
					cache := b.State(name, ir.F16, heads, tt.rows*context, dim)
					if tt.rows == 1 {
						b.Update(cache, cache.DynamicUpdateSlice(1, x.Cast(ir.F16), pos))
						return
					}
					at := text.MulScalar(context).Add(pos).Reshape(1, tt.rows, 1).Broadcast(heads, tt.rows, dim)
					b.Update(cache, cache.ScatterDistinct(1, at, x.Cast(ir.F16)))
				}
				extend("k", turned(1))
				extend("v", head(2))
				b.Output("q", turned(0))
				if tt.weight == ir.F32 { // the rows are stored for another kernel
					b.Output("s", qkv.Softmax(-1))
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			compareSteps(t, dev, g, graphgen.Values{Seed: 2, Graph: g}, context, len(g.Outputs()))
		})
	}
}

// compareSteps runs a graph once for every position, its rows joined into so many
// kernels, and compares results and states with the reference.
func compareSteps(t *testing.T, dev *vkc.Device, g *ir.Graph, values graphgen.Values, steps, kernels int) {
	t.Helper()
	ctx := context.Background()
	p := compileWith(t, dev.Caps(), g, compiler.Options{Pricer: fuseAllRows})
	if n := len(p.Contents.Program.Steps); n != kernels {
		t.Errorf("%d kernels, want %d:\n%v", n, kernels, p.Contents.Program.Steps)
	}
	exe, err := dev.Load(ctx, p, vkc.LoadOptions{Weights: values})
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	ref, err := interp.New(g, interp.Options{Weights: values})
	if err != nil {
		t.Fatal(err)
	}
	for step := range steps {
		in, err := values.Inputs(nil, step)
		if err != nil {
			t.Fatal(err)
		}
		ir.EncodeInts(in["pos"].Bytes, ir.I32, []int64{int64(step)})
		res, err := exe.Run(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		want, err := ref.Run(ctx, in, nil)
		if err != nil {
			t.Fatal(err)
		}
		compareOutputs(t, g, res.Outputs, want)
	}
	for _, s := range g.Leaves(ir.OpState) {
		have, err := exe.ReadState(s.Name())
		if err != nil {
			t.Fatal(err)
		}
		want, err := ref.State(s.Name())
		if err != nil {
			t.Fatal(err)
		}
		if err := interp.Compare(have, want, ir.Tolerance{Eps: 2, Abs: 1e-4}).Err(); err != nil {
			t.Errorf("state %s: %v", s.Name(), err)
		}
	}
}
