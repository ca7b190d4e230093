package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vkc-go/vkc/internal/devtest"
)

const gollamaGraph = "../../examples/gollama/graph.json"

// TestGoldenGraph: the example's graph is the output of vkc graph for its model.
func TestGoldenGraph(t *testing.T) {
	if *updateGolden {
		ok(t, "graph", gollama, "-o", gollamaGraph)
	}
	want, err := os.ReadFile(gollamaGraph)
	if err != nil {
		t.Fatal(err)
	}
	if have := ok(t, "graph", gollama).stdout; have != string(want) {
		t.Errorf("%s is not what vkc graph writes: run go test ./cmd/vkc -run Golden -update-golden", gollamaGraph)
	}
}

// TestModel: a model is a graph and its weights in one.
func TestModel(t *testing.T) {
	const tokens = "tokens=[0,339,2007]"
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	logits := func(name string, args ...string) string {
		ok(t, append(append([]string{"run"}, args...), "--device", "cpu", "--input", tokens, "--output",
			"logits="+file(name))...)
		out, err := os.ReadFile(file(name))
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	want := logits("graph.npy", gollamaGraph, "--weights", gollama)
	if logits("model.npy", gollama) != want {
		t.Error("the model gives other logits than its graph and weights")
	}
	ok(t, "quantize", gollama, "-o", file("q4.gguf"), "--type", "q4_0", "--requantize")
	if logits("stored.npy", gollamaGraph, "--weights", file("q4.gguf")) != logits("q4.npy", file("q4.gguf")) {
		t.Error("the graph of q8_0 with weights of q4_0 gives other logits than the model of q4_0")
	}

	step := ok(t, "graph", gollama, "--step", "--ctx", "16", "--kv", "q8_0", "-o", file("step.json"))
	if step.stdout != "" {
		t.Errorf("vkc graph -o prints %q", step.stdout)
	}
	ok(t, "run", file("step.json"), "--weights", gollama, "--device", "cpu", "--input", "tokens=[7]", "--symbol", "S=1")

	fails(t, exitUsage, []string{"graph", gollama, "--kv", "f16"}, "--kv goes with --step")
	fails(t, exitUsage, []string{"graph", gollama, "--step", "--kv", "f17"}, "f17")
	fails(t, exitUsage, []string{"graph", gollama, "--ctx", "-1"}, "--ctx -1")
	fails(t, exitUsage, []string{"graph", gollama, "--ctx", "100000"}, "100000 positions", "1024")
	fails(t, exitUsage, []string{"run", mlpGraph, "--step"}, "GGUF models", "a graph")
	fails(t, exitFailure, []string{"graph", file("no.gguf")}, "no.gguf")
}

// TestGraphOfBundle: vkc graph gives back the graph that a bundle was compiled from.
func TestGraphOfBundle(t *testing.T) {
	needTools(t)
	devtest.OwnCache(t)
	out := filepath.Join(t.TempDir(), "mlp.vkb")
	ok(t, "compile", mlpGraph, "-o", out, "--target", "generic")
	if diff := cmp.Diff(ok(t, "graph", mlpGraph).stdout, ok(t, "graph", out).stdout); diff != "" {
		t.Error(diff)
	}
	fails(t, exitUsage, []string{"graph", out, "--ctx", "8"}, "a bundle")
}
