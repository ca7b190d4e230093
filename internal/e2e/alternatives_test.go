package e2e_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/check"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/ir"
)

// everyAlternative gives every kernel with a symbolic axis alternatives for up to 1 and up to 4 of the symbol.
func everyAlternative(k *kernel.Kernel, _ kernel.Schedule, caps device.Caps,
	_ device.Tuning) (list []schedule.Alternative) {
	axes := append(slices.Clone(k.Parallel), k.Fold)
	i := slices.IndexFunc(axes, func(d ir.Dim) bool { return !d.IsStatic() })
	if i < 0 || k.Custom != nil {
		return nil
	}
	for _, most := range []int64{1, 4} {
		small := kernel.Narrow(k, axes[i].Sym, most)
		if s, _, err := schedule.Select(small, caps); err == nil && most < axes[i].Bound {
			list = append(list, schedule.Alternative{Kernel: small, Schedule: s,
				Symbol: kernel.Symbol{Name: axes[i].Sym, Bound: most}})
		}
	}
	return list
}

// fewRows has matmuls of Q and of 2*Q rows, also in a loop with steps that a gate may skip.
func fewRows(b *frontend.Builder) {
	rows := b.Sym("Q", 20)
	x, n := b.Input("x", ir.F32, rows, ir.D(64)), b.Input("n", ir.I32)
	b.Output("relu", x.MatMulT(b.Weight("w", ir.F32, ir.D(48), ir.D(64))).Relu())
	b.Output("blocks", x.Reshape(rows.Times(2), ir.D(32)).MatMulT(b.Weight("q", ir.Q4_0, ir.D(40), ir.D(32))))
	v := b.Weight("v", ir.F32, ir.D(64), ir.D(64))
	loop := b.While(ir.D(3), []frontend.Tensor{n, x}, func(s []frontend.Tensor) frontend.Tensor {
		return s[0].Lt(s[0].Lit(3))
	}, func(s []frontend.Tensor) []frontend.Tensor {
		return []frontend.Tensor{s[0].AddScalar(1), s[1].MatMulT(v).MulScalar(0.1)}
	})
	b.Output("loop", loop[1])
}

// TestAlternatives runs every number of rows from none to the bound with alternatives, with copies of the tensors and
// on the tensors, and compares the results with the reference. The program comes from a bundle.
func TestAlternatives(t *testing.T) {
	dev := devtest.OpenNamed(t, "vulkan")
	g := devtest.Build(t, fewRows)
	values := graphgen.Values{Seed: 1, Graph: g}
	made := compileWith(t, dev.Caps(), g, compiler.Options{Alternatives: everyAlternative})
	path := filepath.Join(t.TempDir(), "few.vkb")
	if err := made.Save(path, values); err != nil {
		t.Fatal(err)
	}
	p, err := vkc.OpenBundle(path)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	exe, err := dev.Load(t.Context(), p, vkc.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	reference, err := check.New(g, values)
	if err != nil {
		t.Fatal(err)
	}
	chosen := map[string]bool{}
	for q := range int64(21) {
		symbols := map[string]int64{"Q": q}
		in, err := values.Inputs(symbols, int(q))
		if err != nil {
			t.Fatal(err)
		}
		result, err := exe.Run(t.Context(), in, vkc.RunOptions{Profile: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range result.Profile.Kernels {
			chosen[k.Schedule] = true
		}
		outputs := []vkc.Tensors{result.Outputs}
		for range map[bool]int{true: 3}[q == 4 || q == 5] { // the second run with the same tensors is recorded on them
			outputs = append(outputs, keptRun(t, exe, in))
		}
		for _, have := range outputs {
			report, err := reference.Check(t.Context(), exe, in, symbols, have)
			if err = errors.Join(err, report.Err()); err != nil {
				t.Fatalf("%d rows: %v", q, err)
			}
		}
	}
	for _, s := range p.Contents.Program.Steps {
		for _, one := range s.Kernels() {
			if !s.Grid.IsStatic() && !chosen[one.Schedule] {
				t.Errorf("step %s: no run used %q", s.Name, one.Schedule)
			}
		}
	}
}

// keptRun returns the outputs of a run that keeps one of them on the device.
func keptRun(t *testing.T, exe *vkc.Executable, in vkc.Tensors) vkc.Tensors {
	t.Helper()
	result, err := exe.Run(t.Context(), in, vkc.RunOptions{Keep: []string{"relu"}})
	if err != nil {
		t.Fatal(err)
	}
	kept := result.Kept["relu"]
	relu, err := kept.Read(t.Context())
	if err = errors.Join(err, kept.Close()); err != nil {
		t.Fatal(err)
	}
	result.Outputs["relu"] = relu
	return result.Outputs
}

// TestRandomAlternatives gives all kernels of random graphs alternatives, and compares the results with the reference.
func TestRandomAlternatives(t *testing.T) {
	dev := devtest.OpenNamed(t, "vulkan")
	for seed, graphs := uint64(0), 2; graphs > 0; seed++ {
		g, err := graphgen.New(seed, graphgen.Options{Derived: seed%2 == 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(g.Symbols()) > 0 {
			graphs--
			runAlternatives(t, dev, g, seed)
		}
	}
}

// runAlternatives compares some runs of a graph with the reference. It skips values for which an axis to pick from is
// empty.
func runAlternatives(t *testing.T, dev *vkc.Device, g *ir.Graph, seed uint64) {
	t.Helper()
	values := graphgen.Values{Seed: seed, Graph: g}
	p := compileWith(t, dev.Caps(), g, compiler.Options{Alternatives: everyAlternative})
	exe, err := dev.Load(t.Context(), p, vkc.LoadOptions{Weights: values})
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	reference, err := check.New(g, values)
	if err != nil {
		t.Fatal(err)
	}
	for run, symbols := range values.Symbols(4) {
		in, err := values.Inputs(symbols, run)
		if err != nil {
			t.Fatal(err)
		}
		result, err := exe.Run(t.Context(), in, vkc.RunOptions{Symbols: symbols})
		if err != nil && strings.Contains(err.Error(), "nothing to pick") {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		report, err := reference.Check(t.Context(), exe, in, symbols, result.Outputs)
		if err = errors.Join(err, report.Err()); err != nil {
			t.Fatalf("seed %d, %v: %v\n%s", seed, symbols, err, g)
		}
	}
}
