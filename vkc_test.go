package vkc_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/check"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
)

func TestMain(m *testing.M) { os.Exit(vktest.Main(m)) }

func readGraph(t *testing.T, name string) *ir.Graph {
	t.Helper()
	g, err := vkc.ReadGraph(filepath.Join("golden", "graphs", name))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func mlpWeights(t *testing.T) vkc.WeightMap {
	t.Helper()
	return vkc.WeightMap{"layer.0.weight": devtest.Noise(t, 16, 8), "layer.0.bias": devtest.Noise(t, 16),
		"layer.1.weight": devtest.Noise(t, 4, 16)}
}

// TestMLP takes a graph through everything: compiled, cached, saved, opened
// again, and run on the best device and on the reference, with equal results.
func TestMLP(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	ctx := context.Background()
	dev := devtest.OpenDevice(t)
	g, weights := readGraph(t, "mlp.ir"), mlpWeights(t)
	p, err := dev.Compile(ctx, g, vkc.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "mlp.vkb")
	if err := p.Save(path, weights); err != nil {
		t.Fatal(err)
	}
	bundle, err := vkc.OpenBundle(path)
	if err != nil {
		t.Fatal(err)
	}
	defer bundle.Close()
	cpu, err := vkc.OpenDevice("cpu")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("compiled", func(t *testing.T) { testRuns(t, dev, p, g, weights, vkc.LoadOptions{Weights: weights}) })
	t.Run("bundle", func(t *testing.T) { testRuns(t, dev, bundle, g, weights, vkc.LoadOptions{}) })
	t.Run("bundle on the reference", func(t *testing.T) { testRuns(t, cpu, bundle, g, weights, vkc.LoadOptions{}) })
}

// testRuns runs the MLP at several lengths and compares with the reference.
func testRuns(t *testing.T, dev *vkc.Device, p *vkc.Program, g *ir.Graph, weights ir.WeightSource,
	opt vkc.LoadOptions) {
	ctx := context.Background()
	exe, err := dev.Load(ctx, p, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	checker, err := check.New(g, weights)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 64, 3} {
		in := map[string]*ir.Data{"x": devtest.Noise(t, n, 8)}
		res, err := exe.Run(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		report, err := checker.Check(ctx, exe, in, nil, res.Outputs)
		if err != nil {
			t.Fatal(err)
		}
		if err := report.Err(); err != nil || !report.OK() || len(report.Values) != 2 {
			t.Errorf("%d rows: %v, %d values", n, err, len(report.Values))
		}
	}
}

// TestStates runs a program that keeps a state, which the checker follows.
func TestStates(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	ctx := context.Background()
	g, err := frontend.Build("running sum", func(b *frontend.Builder) {
		x, sum := b.Input("x", ir.F32, 4), b.State("sum", ir.F32, 4)
		b.Update(sum, sum.Add(x))
		b.Output("mean", sum.Add(x).Mean())
	})
	if err != nil {
		t.Fatal(err)
	}
	exe, err := devtest.OpenDevice(t).LoadGraph(ctx, g, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	checker, err := check.New(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		in := map[string]*ir.Data{"x": devtest.Noise(t, 4)}
		res, err := exe.Run(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		report, err := checker.Check(ctx, exe, in, nil, res.Outputs)
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Values) != 2 || !report.Values[1].State || report.Err() != nil {
			t.Errorf("run %d: %+v: %v", i, report.Values, report.Err())
		}
	}
	if err := exe.ResetStates(); err != nil {
		t.Fatal(err)
	}
	in := map[string]*ir.Data{"x": devtest.Noise(t, 4)}
	res, err := exe.Run(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	report, err := checker.Check(ctx, exe, in, nil, res.Outputs)
	if err != nil {
		t.Fatal(err)
	}
	devtest.WantError(t, report.Err(), `output "mean"`, `state "sum"`)
}

func TestRun(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	devtest.OpenDevice(t)
	g, err := frontend.Build("negate", func(b *frontend.Builder) {
		b.Output("y", b.Input("x", ir.I32, b.Sym("N", 9)).Neg())
	})
	if err != nil {
		t.Fatal(err)
	}
	x, err := ir.FromInts(ir.I32, []int64{1, -2, 3}, 3)
	if err != nil {
		t.Fatal(err)
	}
	out, err := vkc.Run(context.Background(), g, nil, map[string]*ir.Data{"x": x})
	if err != nil {
		t.Fatal(err)
	}
	if y, err := out["y"].Ints(); err != nil || !slices.Equal(y, []int64{-1, 2, -3}) {
		t.Errorf("got %v, %v", y, err)
	}
	_, err = vkc.Run(context.Background(), g, nil, nil)
	devtest.WantError(t, err, `input "x" is missing`)
}
