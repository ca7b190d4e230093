package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/flowtest"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/internal/pairs"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/runtime"
)

// TestControl: loops and branches on the device match the reference, at several lengths, with profiles, and with
// outputs kept on the device.
func TestControl(t *testing.T) {
	dev := openDevice(t)
	graphs := map[string]*ir.Graph{}
	for name, define := range flowtest.Graphs {
		graphs[name] = build(t, define)
	}
	devtest.CompileShaders(t, dev.Caps(), slices.Collect(maps.Values(graphs))...)
	for name, g := range graphs {
		t.Run(name, func(t *testing.T) { compareRuns(t, dev, g, 5) })
	}
}

// TestGradientsOfLoops: gradients of a recurrent layer of any length, and of a loop that ends by a condition.
func TestGradientsOfLoops(t *testing.T) {
	compareRuns(t, openDevice(t), build(t, func(b *frontend.Builder) {
		x, h := b.Input("x", ir.F32, b.Sym("T", 4), 2, 3), b.Input("h", ir.F32, 2, 4)
		leaves := map[string]frontend.Tensor{"ih.weight": b.Input("ih", ir.F32, 16, 3),
			"hh.weight": b.Input("hh", ir.F32, 16, 4)}
		w := nn.NewWeights(b, map[string]ir.Type{"ih.weight": leaves["ih.weight"].Node().Type(),
			"hh.weight": leaves["hh.weight"].Node().Type()})
		w.Give(func(name string, _ ir.Type) frontend.Tensor { return leaves[name] })
		all, last, _ := nn.LSTM(x, h, frontend.Tensor{}, w)
		n := b.While(ir.D(4), []frontend.Tensor{b.Scalar(ir.I32, 0), last}, func(s []frontend.Tensor) frontend.Tensor {
			return s[0].Lt(s[0].Lit(3))
		}, func(s []frontend.Tensor) []frontend.Tensor {
			return []frontend.Tensor{s[0].AddScalar(1), s[1].MatMulT(leaves["hh.weight"].Slice(0, 0, 4)).Sin()}
		})
		loss := all.Sqr().Sum().Add(n[1].Sum())
		for i, g := range frontend.Grad(loss, x, h, leaves["ih.weight"], leaves["hh.weight"]) {
			b.Output([]string{"x", "h", "ih", "hh"}[i], g)
		}
	}), 2)
}

func compareRuns(t *testing.T, dev *vkc.Device, g *ir.Graph, runs int) {
	t.Helper()
	ctx := context.Background()
	values := graphgen.Values{Seed: 5, Graph: g}
	p, err := dev.Compile(ctx, g, vkc.CompileOptions{})
	if err != nil {
		t.Fatal(err)
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
	compare := func(what string, have, want *ir.Data) {
		t.Helper()
		if err := interp.Compare(have, want, ir.Tolerance{Eps: 512, Sum: true}).Err(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for run, symbols := range values.Symbols(runs) {
		in, err := values.Inputs(symbols, run)
		if err != nil {
			t.Fatal(err)
		}
		want, err := ref.Run(ctx, in, symbols)
		if err != nil {
			t.Fatal(err)
		}
		opt := runtime.RunOptions{Symbols: symbols, Profile: run == 1}
		if run%2 == 0 {
			for _, o := range g.Outputs() {
				opt.Keep = append(opt.Keep, o.Name)
			}
		}
		have, err := exe.Run(ctx, in, opt)
		if err != nil {
			t.Fatal(err)
		}
		for name, d := range want {
			if kept := have.Kept[name]; kept != nil {
				got, err := kept.Read(ctx)
				if err != nil {
					t.Fatal(err)
				}
				compare(name, got, d)
				kept.Close()
				continue
			}
			compare(name, have.Outputs[name], d)
		}
	}
}

// TestLongScan: a recurrence of a thousand steps has as many kernels and shaders as one of two.
func TestLongScan(t *testing.T) {
	dev := openDevice(t)
	var kernels, shaders []int
	for _, steps := range []int{2, 1000} {
		g := build(t, func(b *frontend.Builder) {
			x, w := b.Input("x", ir.F32, steps, 4, 16), b.Weight("w", ir.F32, 16, 16).MulScalar(0.05)
			last, all := b.Scan([]frontend.Tensor{b.Full(ir.F32, 0, 4, 16)}, []frontend.Tensor{x},
				func(c, x []frontend.Tensor) (next, outs []frontend.Tensor) {
					h := c[0].MatMul(w).Add(x[0]).Tanh()
					return []frontend.Tensor{h}, []frontend.Tensor{h}
				})
			b.Output("last", last[0])
			b.Output("all", all[0])
		})
		p, err := dev.Compile(context.Background(), g, vkc.CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		kernels, shaders = append(kernels, p.Stats.Kernels), append(shaders, p.Stats.Shaders)
		compareRuns(t, dev, g, 1)
	}
	if kernels[0] != kernels[1] || shaders[0] != shaders[1] {
		t.Errorf("%d kernels of %d shaders for two steps, %d of %d for a thousand", kernels[0], shaders[0], kernels[1],
			shaders[1])
	}
	t.Logf("%d kernels, %d shaders", kernels[1], shaders[1])
}

// TestRandomMovedGraphs: random graphs with extents derived from symbols, in loops and branches, match the reference on
// the device. It runs a twentieth of the graphs of TestRandomGraphs.
func TestRandomMovedGraphs(t *testing.T) {
	dev := openDevice(t)
	n, ran := graphCount()/20, 0
	if testing.Short() {
		n = min(n, 4)
	}
	type moved struct {
		seed uint64
		from *ir.Graph
		flowtest.Moving
	}
	var all []moved
	var graphs []*ir.Graph
	for seed := *firstSeed; seed < *firstSeed+uint64(n); seed++ {
		g, err := graphgen.New(seed, graphgen.Options{Derived: true})
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range flowtest.Moved(g) {
			if m.Err != nil {
				t.Fatalf("seed %d, %s: %v", seed, m.Name, m.Err)
			}
			if (int(seed)+i)%2 == 0 && os.Getenv(pairs.Env) != "all" { // each graph is moved into a loop or a branch
				continue
			}
			all, graphs = append(all, moved{seed, g, m}), append(graphs, m.Graph)
		}
	}
	devtest.CompileShaders(t, dev.Caps(), graphs...)
	for _, m := range all {
		runs, err := runMoved(t, dev, m.from, m.Moving, m.seed)
		if err != nil && notYet(err) == "" {
			t.Errorf("seed %d, %s: %v\n%s", m.seed, m.Name, err, m.Graph)
		}
		ran += runs
	}
	if ran < 2*n {
		t.Errorf("only %d runs of %d graphs", ran, n)
	}
}

func runMoved(t *testing.T, dev *vkc.Device, g *ir.Graph, m flowtest.Moving, seed uint64) (ran int, err error) {
	values := valuesOf(g, seed)
	exe, err := dev.LoadGraph(t.Context(), m.Graph, values)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, exe.Close()) }()
	bounds := graphgen.Bounds(g)
	for run, symbols := range values.Symbols(3) {
		in, want, err := m.Want(t.Context(), values, symbols, run)
		if err != nil {
			continue // an axis to pick from is empty under these values
		}
		got, err := exe.Run(t.Context(), in, vkc.RunOptions{Symbols: symbols})
		if err != nil {
			return ran, fmt.Errorf("%v: %w", symbols, err)
		}
		for _, o := range g.Outputs() {
			tol := bounds[o.Node.ID()].Tolerance(o.Node)
			if err := interp.Compare(got.Outputs[o.Name], want[o.Name], tol).Err(); err != nil {
				return ran, fmt.Errorf("%v: output %q: %w", symbols, o.Name, err)
			}
		}
		ran++
	}
	return ran, nil
}
