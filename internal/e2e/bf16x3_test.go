package e2e_test

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// runCompiled compiles a graph for the device with another pricer and runs it once. It returns the results and the
// names of the kernels.
func runCompiled(t *testing.T, dev *vkc.Device, g *ir.Graph, in map[string]*ir.Data,
	weights ir.WeightSource, pricer func(device.Caps) kernel.Pricer) (out map[string]*ir.Data, kernels []string) {
	t.Helper()
	ctx := context.Background()
	p := compileWith(t, dev.Caps(), g, compiler.Options{Pricer: pricer})
	for _, s := range p.Contents.Program.Steps {
		kernels = append(kernels, s.Name)
		t.Logf("%s: %s", s.Name, s.Schedule)
	}
	exe, err := dev.Load(ctx, p, vkc.LoadOptions{Weights: weights})
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	res, err := exe.Run(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	return res.Outputs, kernels
}

// compareBuilt builds a graph, runs it on random values and compares the results with the reference. It returns the
// second result of run.
func compareBuilt[T any](t *testing.T, dev *vkc.Device, define func(b *frontend.Builder),
	run func(*testing.T, *vkc.Device, *ir.Graph, map[string]*ir.Data, ir.WeightSource) (map[string]*ir.Data, T)) T {
	t.Helper()
	g, err := frontend.Build("product", define)
	if err != nil {
		t.Fatal(err)
	}
	values := graphgen.Values{Seed: 2, Graph: g}
	inputs := inputsOf(t, values)
	have, said := run(t, dev, g, inputs, values)
	compareOutputs(t, g, have, outputsOf(t, g, values, inputs))
	return said
}

// runSplit runs a graph on the device with split operands. It returns the results and the number of split matmuls.
func runSplit(t *testing.T, dev *vkc.Device, g *ir.Graph, in map[string]*ir.Data,
	weights ir.WeightSource) (out map[string]*ir.Data, split int) {
	t.Helper()
	out, kernels := runCompiled(t, dev, g, in, weights, splitAllOperands)
	for _, name := range kernels {
		if strings.HasSuffix(name, "_operand") {
			split++
		}
	}
	return out, split / 2
}

func TestBF16x3OnDevice(t *testing.T) {
	devtest.NeedTools(t)
	dev := devtest.OpenDevice(t)
	in := func(b *frontend.Builder, name string, dims ...any) frontend.Tensor {
		return b.Input(name, ir.F32, dims...)
	}
	for _, tt := range []struct {
		name   string
		define func(b *frontend.Builder)
		split  int
	}{
		{"odd", func(b *frontend.Builder) {
			b.Output("y", in(b, "x", 301, 275).MatMulTIn(frontend.BF16x3, in(b, "w", 187, 275)))
		}, 1},
		{"columns, with a bias and a residual", func(b *frontend.Builder) {
			y := in(b, "x", 256, 96).MatMulIn(frontend.BF16x3, in(b, "w", 96, 256))
			b.Output("y", y.Add(b.Weight("bias", ir.F32, 256)).Relu().Add(in(b, "r", 256, 256)))
		}, 1},
		{"batches of one weight", func(b *frontend.Builder) {
			b.Output("y", in(b, "x", 2, 160, 100).Transpose(0, 2, 1).Exp().MatMulIn(frontend.BF16x3,
				in(b, "w", 160, 200)))
		}, 1},
		{"by a weight of bf16", func(b *frontend.Builder) {
			b.Output("y", in(b, "x", 200, 300).MatMulTIn(frontend.BF16x3,
				b.Weight("w", ir.BF16, 100, 300).Cast(ir.F32)))
		}, 1},
		{"before a softmax", func(b *frontend.Builder) {
			b.Output("y", in(b, "x", 33, 256).MatMulTIn(frontend.BF16x3, b.Weight("w", ir.BF16, 100, 256).Cast(ir.F32)).
				Softmax(-1))
		}, 1},
		{"full", func(b *frontend.Builder) { b.Output("y", in(b, "x", 64, 128).MatMulT(in(b, "w", 32, 128))) }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if split := compareBuilt(t, dev, tt.define, runSplit); split != tt.split {
				t.Errorf("%d products are split, want %d", split, tt.split)
			}
		})
	}
}

// TestBF16x3Errors bounds the largest error of a matmul of normally distributed numbers in bf16x3, in standard
// deviations of a result. One row of x has an infinity, which may affect only that row.
func TestBF16x3Errors(t *testing.T) {
	devtest.NeedTools(t)
	dev := devtest.OpenDevice(t)
	const n, k, special = 128, 4096, 77
	rng := rand.New(rand.NewPCG(5, 5))
	normal := func() ([]float64, *ir.Data) {
		v := make([]float64, n*k)
		for i := range v {
			v[i] = float64(float32(rng.NormFloat64()))
		}
		d, err := ir.FromFloats(ir.F32, v, n, k)
		if err != nil {
			t.Fatal(err)
		}
		return v, d
	}
	x, xs := normal()
	w, ws := normal()
	x[special*k+5] = math.Inf(1)
	ir.EncodeFloats(xs.Bytes, ir.F32, x)
	g, err := frontend.Build("product", func(b *frontend.Builder) {
		b.Output("y", b.Input("x", ir.F32, n, k).MatMulTIn(frontend.BF16x3, b.Input("w", ir.F32, n, k)))
	})
	if err != nil {
		t.Fatal(err)
	}
	out, split := runSplit(t, dev, g, map[string]*ir.Data{"x": xs, "w": ws}, nil)
	y, err := out["y"].Floats()
	if err != nil {
		t.Fatal(err)
	}
	largest, most := 0.0, 0.0
	for i := 0; i < n; i += 8 {
		for j := 7; j < n; j += 8 {
			sum := 0.0
			for l := range k {
				sum += x[i*k+l] * w[j*k+l]
			}
			largest = max(largest, math.Abs(y[i*n+j]-sum)/math.Sqrt(k))
			most = max(most, math.Abs(sum)/math.Sqrt(k))
		}
	}
	t.Logf("largest error %.2e, 2^%.1f", largest, math.Log2(largest))
	for j := range n {
		if want := math.Inf(1) * w[j*k+5]; y[special*n+j] != want {
			t.Fatalf("a product with infinity is %v, want %v", y[special*n+j], want)
		}
	}
	allowed := interp.ToleranceOf(g, g.Outputs()[0].Node).Eps * 0x1p-23 * most
	if split != 1 || !(largest < allowed) {
		t.Errorf("%d products are split, their largest error %.2e is past %.2e", split, largest, allowed)
	}
}
