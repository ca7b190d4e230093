package vkc_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/check"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/cachefile"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/vk/vktest"
)

func TestMain(m *testing.M) { os.Exit(vktest.Main(m)) }

// ownCache gives a test an empty cache.
func ownCache(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv(cachefile.EnvDir, dir)
	t.Setenv(cachefile.Env, "")
	return dir
}

// needTools skips a test where shaders cannot be compiled, or fails it where
// everything must be there.
func needTools(t *testing.T) {
	t.Helper()
	tools, err := spirv.Find(context.Background(), spirv.FindOptions{})
	if err == nil {
		err = tools.Ready()
	}
	skipOrFail(t, err)
}

func skipOrFail(t *testing.T, err error) {
	t.Helper()
	if err != nil && vktest.Required() {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
}

// openDevice opens the best Vulkan device and closes it when the test ends.
func openDevice(t testing.TB) *vkc.Device {
	t.Helper()
	dev, err := vkc.OpenDevice("vulkan")
	vktest.Need(t, err)
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}

func readGraph(t *testing.T, name string) *ir.Graph {
	t.Helper()
	g, err := vkc.ReadGraph(filepath.Join("golden", "graphs", name))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// noise is floats from -1 to 1.
func noise(t *testing.T, dims ...int) *ir.Data {
	t.Helper()
	d, err := ir.NewData(ir.F32, dims...)
	if err != nil {
		t.Fatal(err)
	}
	rng, values := rand.New(rand.NewPCG(1, uint64(len(d.Bytes)))), make([]float64, d.Elems())
	for i := range values {
		values[i] = 2*rng.Float64() - 1
	}
	ir.EncodeFloats(d.Bytes, ir.F32, values)
	return d
}

func mlpWeights(t *testing.T) vkc.WeightMap {
	t.Helper()
	return vkc.WeightMap{"layer.0.weight": noise(t, 16, 8), "layer.0.bias": noise(t, 16),
		"layer.1.weight": noise(t, 4, 16)}
}

// wantError fails unless err is one line with all of those texts.
func wantError(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", texts)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q, want %q in it", err, text)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error of several lines: %q", err)
	}
}

// TestMLP takes a graph through everything: compiled, cached, saved, opened
// again, and run on the best device and on the reference, with equal results.
func TestMLP(t *testing.T) {
	needTools(t)
	ownCache(t)
	ctx := context.Background()
	dev := openDevice(t)
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
		in := map[string]*ir.Data{"x": noise(t, n, 8)}
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
	needTools(t)
	ownCache(t)
	ctx := context.Background()
	g, err := frontend.Build("running sum", func(b *frontend.Builder) {
		x, sum := b.Input("x", ir.F32, 4), b.State("sum", ir.F32, 4)
		b.Update(sum, sum.Add(x))
		b.Output("mean", sum.Add(x).Mean())
	})
	if err != nil {
		t.Fatal(err)
	}
	exe, err := openDevice(t).LoadGraph(ctx, g, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	checker, err := check.New(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		in := map[string]*ir.Data{"x": noise(t, 4)}
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
	in := map[string]*ir.Data{"x": noise(t, 4)}
	res, err := exe.Run(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	report, err := checker.Check(ctx, exe, in, nil, res.Outputs)
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, report.Err(), `output "mean"`, `state "sum"`)
}

func TestRun(t *testing.T) {
	needTools(t)
	ownCache(t)
	openDevice(t)
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
	wantError(t, err, `input "x" is missing`)
}
