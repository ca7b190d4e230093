package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/check"
	"github.com/vkc-go/vkc/internal/cachefile"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// TestMain gives the tests one cache of their own, as many kernels are alike.
func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "vkc-e2e-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := vktest.Share(dir, vktest.Shaders, vktest.Tools); err != nil {
		panic(err)
	}
	os.Setenv(cachefile.EnvDir, dir)
	os.Unsetenv(cachefile.Env)
	return vktest.Main(m)
}

// openDevice opens the Vulkan device that VKC_DEVICE names, or the best one. Without one, or without shader
// compilers, the test is skipped, or fails if VKC_REQUIRE_DEVICE=1.
func openDevice(t testing.TB) *vkc.Device {
	t.Helper()
	devtest.NeedTools(t)
	want := os.Getenv("VKC_DEVICE")
	if want == "" {
		want = "vulkan"
	}
	dev, err := vkc.OpenDevice(want)
	vktest.Need(t, err)
	vktest.CloseAfter(t, dev)
	return dev
}

// valuesOf makes inputs and weights for a graph.
func valuesOf(g *ir.Graph, seed uint64) graphgen.Values {
	return graphgen.Values{Seed: seed, Graph: g}
}

// load compiles a graph for the device and loads it. It is closed when the test ends. What cannot be
// compiled yet is skipped.
func load(t testing.TB, dev *vkc.Device, g *ir.Graph, weights ir.WeightSource) *vk.Executable {
	t.Helper()
	exe, err := dev.LoadGraph(context.Background(), g, weights)
	if gap := notYet(err); gap != "" {
		t.Skip(gap)
	}
	if err != nil {
		t.Fatal(err)
	}
	vktest.CloseAfter(t, exe)
	return exe.Vulkan()
}

// runCase is a graph for checkRun, with choices of symbol values.
type runCase struct {
	name    string
	graph   *ir.Graph
	symbols []map[string]int64
}

// checkRuns is checkRun in a subtest of each case. It compiles the shaders of all cases together.
func checkRuns(t *testing.T, dev *vkc.Device, cases []runCase) {
	t.Helper()
	graphs := make([]*ir.Graph, len(cases))
	for i, c := range cases {
		graphs[i] = c.graph
	}
	devtest.CompileShaders(t, dev.Caps(), graphs...)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { checkRun(t, dev, c.graph, c.symbols) })
	}
}

// checkRun loads a graph with random weights, runs it on random inputs under each choice of symbol values, one
// run after the other, and compares all outputs and states with the reference.
func checkRun(t *testing.T, dev *vkc.Device, g *ir.Graph, symbols []map[string]int64) {
	t.Helper()
	values := valuesOf(g, 1)
	exe := load(t, dev, g, values)
	reference, err := check.New(g, values)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range symbols {
		in, err := values.Inputs(s, i)
		if err != nil {
			t.Fatal(err)
		}
		compare(t, exe, reference, in, s)
	}
	if n, want := exe.Stats().Recordings, paths(t, dev, g, values, symbols); n != want {
		t.Errorf("the steps were recorded %d times for %d runs; want %d", n, len(symbols), want)
	}
}

// paths returns the number of different choices of alternatives, at least 1, for the given values of symbols.
func paths(t *testing.T, dev *vkc.Device, g *ir.Graph, weights ir.WeightSource, symbols []map[string]int64) int {
	t.Helper()
	p, err := dev.Compile(t.Context(), g, vkc.CompileOptions{Weights: weights})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, values := range symbols {
		var choices []int
		for _, s := range p.Contents.Program.Steps {
			i, err := s.Choose(values)
			if err != nil {
				t.Fatal(err)
			}
			choices = append(choices, i)
		}
		all[fmt.Sprint(choices)] = true
	}
	return max(len(all), 1)
}

// compare runs a program and compares it with the reference, whose states advance in the same way.
func compare(t *testing.T, exe *vk.Executable, reference *check.Checker, in map[string]*ir.Data,
	symbols map[string]int64) map[string]*ir.Data {
	t.Helper()
	r, err := exe.Run(context.Background(), in, runtime.RunOptions{Symbols: symbols})
	if err != nil {
		t.Fatalf("%v: %v", symbols, err)
	}
	report, err := reference.Check(context.Background(), exe, in, symbols, r.Outputs)
	if err == nil {
		err = report.Err()
	}
	if err != nil {
		t.Errorf("%v: %v", symbols, err)
	}
	return r.Outputs
}

// lengths are choices of values for one symbol.
func lengths(symbol string, values ...int64) []map[string]int64 {
	var list []map[string]int64
	for _, v := range values {
		list = append(list, map[string]int64{symbol: v})
	}
	return list
}

// once is for graphs without symbols.
var once = []map[string]int64{nil}

// TestWarmUpWithoutResults loads a program with no results if each symbol is 1. A warm-up with these symbols would
// store results before the beginning of the output, which crashes lavapipe.
func TestWarmUpWithoutResults(t *testing.T) {
	g, err := ir.Parse(`graph "pool" {
  symbol S <= 2
  symbol T <= 10
  %x = input {name="x", dtype=f16, shape=[8,4,S+T]}
  %y = avg_pool %x {kernel=[4], stride=[3]}
  output "y" %y
}
`)
	if err != nil {
		t.Fatal(err)
	}
	checkRun(t, openDevice(t), g, []map[string]int64{{"S": 1, "T": 5}})
}
