package export_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/frontend/onnx/export"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/optest"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/cpu"
)

// readBack is a backend that writes a graph as ONNX and runs what the importer makes of it.
type readBack struct {
	runtime.Executable
	states map[string]*ir.Data
}

func load(_ context.Context, g *ir.Graph, w ir.WeightSource) (runtime.Executable, error) {
	content, err := export.Marshal(g, w)
	if err != nil {
		return nil, err
	}
	return read(g, content, onnx.Options{})
}

// read runs what the importer makes of a graph's model.
func read(g *ir.Graph, content []byte, o onnx.Options) (*readBack, error) {
	f, err := onnx.NewReader(content, o)
	if err != nil {
		return nil, err
	}
	exe, err := cpu.Load(f.Graph, f, cpu.Options{})
	if err != nil {
		return nil, err
	}
	b := &readBack{exe, map[string]*ir.Data{}}
	for _, s := range g.Leaves(ir.OpState) {
		dims, err := s.Shape().Eval(nil)
		if err != nil {
			return nil, err
		}
		if b.states["past."+s.Name()], err = ir.NewData(s.DType(), dims...); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Run gives the states of the last run to the model.
func (b *readBack) Run(ctx context.Context, in map[string]*ir.Data, _ ...runtime.RunOptions) (*runtime.Result, error) {
	given := map[string]*ir.Data{}
	for _, p := range b.Inputs() {
		if s, ok := b.states[p.Name]; ok {
			given[p.Name] = s
		} else if d, ok := in[p.Name]; ok {
			given[p.Name] = d
		}
	}
	res, err := b.Executable.Run(ctx, given)
	if err != nil {
		return nil, err
	}
	for name, d := range res.Outputs {
		if state, ok := strings.CutPrefix(name, "present."); ok {
			b.states["past."+state] = d
		}
	}
	return res, nil
}

// TestOps writes the cases of every op as ONNX, and reads them back.
func TestOps(t *testing.T) {
	report, err := optest.Run(context.Background(), load, optest.Options{Smoke: os.Getenv("VKC_TEST_CASES") != "all"})
	if err != nil {
		t.Fatal(err)
	}
	refused := map[string]bool{} // ops without a case that passes
	for _, s := range report.Summaries() {
		refused[s.Op] = s.Refused == s.Cases
	}
	for _, r := range report.Failures() {
		t.Errorf("%s: %.300s", r.Case, r.Reason)
	}
	maps.DeleteFunc(refused, func(_ string, all bool) bool { return !all })
	want := []string{"attention_grad", "causal_conv1d", "cholesky", "cummax", "cummin", "delta_rule", "eigh",
		"expert_groups", "irfft", "qr", "quantize", "random_bernoulli", "random_normal", "random_uniform", "ssm_scan",
		"triangular_solve"}
	if got := slices.Sorted(maps.Keys(refused)); !slices.Equal(got, want) {
		t.Errorf("ops without ONNX: %q, want %q: write one in frontend/onnx/export, or name it in this test", got, want)
	}
}

// graph builds a small graph with a weight in blocks, a state, an output that is an input, one value with two names,
// and a symbol of no input.
func graph(t *testing.T) (*ir.Graph, ir.WeightSource) {
	t.Helper()
	blocks, err := ir.NewData(ir.Q8_0, 3, 32)
	if err != nil {
		t.Fatal(err)
	}
	for i := range blocks.Bytes {
		if blocks.Bytes[i] = byte(i); i%34 < 2 {
			blocks.Bytes[i] = []byte{0, 0x3c}[i%34] // a scale of 1
		}
	}
	g, err := frontend.Build("small", func(b *frontend.Builder) {
		n := b.Sym("N", 8)
		x := b.Input("x", ir.F32, n, ir.D(32))
		y := x.MatMulT(b.Weight("w", ir.Q8_0, []int{3, 32}))
		s := b.State("sum", ir.F32, ir.D(3))
		b.Update(s, s.Add(y.Sum(0)))
		b.Output("x", x)
		b.Output("y", y)
		b.Output("again", y)
		b.Output("length", b.DimValue(b.Sym("L", 100)).Add(b.DimValue(n)))
	})
	if err != nil {
		t.Fatal(err)
	}
	return g, weights{"w": blocks}
}

type weights map[string]*ir.Data

func (w weights) Weight(name string) (*ir.Data, error) { return w[name], nil }

// TestFile writes a model with its weights in the file and next to it, and reads both.
func TestFile(t *testing.T) {
	g, w := graph(t)
	for _, inline := range []int64{0, -1} {
		path := filepath.Join(t.TempDir(), "model.onnx")
		if err := export.WriteFile(path, g, w, export.Options{Inline: inline}); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path + export.DataSuffix); (err == nil) != (inline < 0) {
			t.Errorf("weights inline up to %d: %v", inline, err)
		}
		one, err := ir.FromInts(ir.I64, []int64{41})
		if err != nil {
			t.Fatal(err)
		}
		f, err := onnx.Open(path, onnx.Options{Inputs: map[string]*ir.Data{"L": one}})
		if err != nil {
			t.Fatal(err)
		}
		var ports []string
		for _, in := range f.Model.Graph.Inputs {
			ports = append(ports, in.Name+" "+in.Type.String())
		}
		for _, out := range f.Model.Graph.Outputs {
			ports = append(ports, out.Name+" "+out.Type.String())
		}
		want := []string{"x_2 float[N,32]", "past.sum float[3]", "L int64[]", "x float[N,32]", "y float[N,3]",
			"again float[N,3]", "length int32[]", "present.sum float[3]"}
		if !slices.Equal(ports, want) {
			t.Errorf("ports %q, want %q", ports, want)
		}
		x := make([]float64, 2*32)
		x[0], x[33] = 1, 2
		in := map[string]*ir.Data{"past.sum": data(t, []float64{1, 2, 3}, 3), "x_2": data(t, x, 2, 32)}
		exe, err := cpu.Load(f.Graph, f, cpu.Options{})
		if err != nil {
			t.Fatal(err)
		}
		res, err := exe.Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		y, _ := res.Outputs["y"].Floats()
		sum, _ := res.Outputs["present.sum"].Floats()
		length, _ := res.Outputs["length"].Ints()
		if !slices.Equal(y, []float64{2, 36, 70, 6, 74, 142}) || !slices.Equal(sum, []float64{9, 112, 215}) ||
			length[0] != 43 {
			t.Errorf("y %v, sum %v, length %v", y, sum, length)
		}
		if err := errors.Join(exe.Close(), f.Close()); err != nil {
			t.Error(err)
		}
	}
}

func data(t *testing.T, values []float64, dims ...int) *ir.Data {
	t.Helper()
	d, err := ir.FromFloats(ir.F32, values, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestRefused lists all nodes that cannot be written.
func TestRefused(t *testing.T) {
	g, err := frontend.Build("g", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, ir.D(4), ir.D(4))
		b.Output("y", x.Cholesky().Add(x.CumMax(0)).Relu())
	})
	if err != nil {
		t.Fatal(err)
	}
	err = export.WriteFile(filepath.Join(t.TempDir(), "m.onnx"), g, nil, export.Options{})
	var refused *export.RefusedError
	if !errors.As(err, &refused) || len(refused.Nodes) != 2 || !errors.Is(err, errors.ErrUnsupported) ||
		!strings.Contains(err.Error(), "%2 (cummax): ONNX has no op for it") {
		t.Errorf("%v", err)
	}
}
