package vkc_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/bench"
	"github.com/vkc-go/vkc/check"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// storedMLP is a graph of the kinds of ops that take quantized weights, its matrices declared in that dtype.
func storedMLP(t *testing.T, matrices ir.DType) *ir.Graph {
	t.Helper()
	return devtest.Build(t, func(b *frontend.Builder) {
		x := b.Weight("table", matrices, 64, 256).Embedding(b.Input("ids", ir.I32, 3), ir.F32)
		x = x.RMSNorm(b.Weight("norm", ir.F32, 256), 1e-5)
		y := x.MatMulT(b.Weight("gate", matrices, 512, 256)).Silu().Mul(x.MatMulT(b.Weight("up", matrices, 512, 256)))
		b.Output("y", y.MatMulT(b.Weight("down", matrices, 256, 512)))
	})
}

// weightsOf is random weights for storedMLP, its matrices stored in that dtype.
func weightsOf(t *testing.T, matrices ir.DType) vkc.WeightMap {
	t.Helper()
	weights := vkc.WeightMap{}
	for name, dims := range map[string][]int{"table": {64, 256}, "norm": {256}, "gate": {512, 256}, "up": {512, 256},
		"down": {256, 512}} {
		dt := matrices
		if len(dims) == 1 {
			dt = ir.F32
		}
		d, err := bench.Random(name, dt, bench.Fill{}, dims...)
		if err != nil {
			t.Fatal(err)
		}
		weights[name] = d
	}
	return weights
}

// TestStoredWeights runs one graph with weights of several dtypes, and graphs of several dtypes with one file. The
// results and kernels must be those of the graph that declares the stored dtypes.
func TestStoredWeights(t *testing.T) {
	dtypes := []ir.DType{ir.F32, ir.F16, ir.BF16, ir.Q8_0, ir.Q4_0, ir.Q4_K}
	graphs := map[ir.DType]*ir.Graph{}
	files := map[ir.DType]vkc.WeightMap{}
	for _, dt := range dtypes {
		files[dt] = weightsOf(t, dt)
		if dt.IsBlock() || dt == ir.F32 { // all f16 would compute in f16, so skip it
			graphs[dt] = storedMLP(t, dt)
		}
	}
	for declared, g := range graphs {
		for _, stored := range dtypes {
			t.Run(declared.String()+" stored as "+stored.String(), func(t *testing.T) {
				fitted, _, err := ir.FitWeights(g, files[stored])
				if err != nil {
					t.Fatal(err)
				}
				for _, n := range fitted.Leaves(ir.OpWeight) {
					if want := files[stored][n.Name()].DType; n.DType() != want {
						t.Errorf("weight %q is %s, and stored as %s", n.Name(), n.DType(), want)
					}
				}
				if native := graphs[stored]; native != nil {
					if have, want := scheduled(t, fitted), scheduled(t, native); !slices.Equal(have, want) {
						t.Errorf("other kernels than for a graph that declares %s:\n%s\nwant\n%s", stored,
							strings.Join(have, "\n"), strings.Join(want, "\n"))
					}
				}
			})
		}
	}
}

// TestEveryStoredDType runs one graph on the reference with its weights in every dtype of floats in files. The values
// must be those of the same graph with the decoded weights.
func TestEveryStoredDType(t *testing.T) {
	dev, err := vkc.OpenDevice("reference")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	g := storedMLP(t, ir.F32)
	run := func(weights vkc.WeightMap) []float64 {
		t.Helper()
		exe, err := dev.LoadGraph(t.Context(), g, weights)
		if err != nil {
			t.Fatal(err)
		}
		defer exe.Close()
		res, err := exe.Run(t.Context(), vkc.Tensors{"ids": devtest.TensorOf(t, []int32{5, 63, 0}, 3)})
		if err != nil {
			t.Fatal(err)
		}
		y, err := res.Outputs["y"].Floats()
		if err != nil {
			t.Fatal(err)
		}
		return y
	}
	for _, dt := range ir.DTypes() {
		if !dt.IsBlock() && dt != ir.F16 && dt != ir.BF16 {
			continue
		}
		stored, decoded := weightsOf(t, dt), vkc.WeightMap{}
		for name, d := range stored {
			values := make([]float32, d.Elems())
			if dt.IsBlock() && d.DType.IsBlock() {
				if err := quant.Dequantize(values, d.DType, d.Bytes); err != nil {
					t.Fatal(err)
				}
			} else {
				list, err := d.Floats()
				if err != nil {
					t.Fatal(err)
				}
				for i, v := range list {
					values[i] = float32(v)
				}
			}
			decoded[name] = devtest.TensorOf(t, values, d.Dims...)
		}
		have, want := run(stored), run(decoded)
		largest := 0.0
		for _, w := range want {
			largest = max(largest, math.Abs(w))
		}
		for i, w := range want { // matmuls may sum in another order
			if !(math.Abs(have[i]-w) <= 1e-5*largest) {
				t.Errorf("%s: element %d is %v, want %v", dt, i, have[i], w)
				break
			}
		}
	}
}

// scheduled is the kernels of a graph on an H100: names and schedules.
func scheduled(t *testing.T, g *ir.Graph) []string {
	low, err := compiler.Lower(context.Background(), g, devtest.Profile(t, "nvidia-h100"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for i, st := range low.Program.Steps {
		list = append(list, low.Kernels[i].Name+" "+st.Schedule)
	}
	return list
}

// TestStoredWeightsOnDevice loads a graph with weights of other dtypes than it declares, and compares it with the
// reference. A compiled program accepts only the dtypes that it was compiled for; the error says what to do.
func TestStoredWeightsOnDevice(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	ctx := context.Background()
	dev := devtest.OpenDevice(t)
	g := storedMLP(t, ir.Q8_0)
	ids, err := vkc.Of([]int32{1, 63, 7}, 3)
	if err != nil {
		t.Fatal(err)
	}
	in := vkc.Tensors{"ids": ids}
	for _, dt := range []ir.DType{ir.F32, ir.F16, ir.Q4_K} {
		weights := weightsOf(t, dt)
		exe, err := dev.LoadGraph(ctx, g, weights)
		if err != nil {
			t.Fatal(err)
		}
		checker, err := check.New(g, weights)
		if err != nil {
			t.Fatal(err)
		}
		res, err := exe.Run(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		if report, err := checker.Check(ctx, exe, in, nil, res.Outputs); err != nil || !report.OK() {
			t.Errorf("weights of %s: %v, %v", dt, err, report.Err())
		}
		if err := exe.Close(); err != nil {
			t.Error(err)
		}
	}
	p, err := dev.Compile(ctx, g, vkc.CompileOptions{Weights: weightsOf(t, ir.Q8_0)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = dev.Load(ctx, p, vkc.LoadOptions{Weights: weightsOf(t, ir.F16)})
	var bad *ir.WeightError
	if !errors.As(err, &bad) || len(bad.Bad) != 4 || !strings.Contains(err.Error(), "compile the graph with these") {
		t.Errorf("loading other weights: %v", err)
	}
}
