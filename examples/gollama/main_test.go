package main

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/vktest"
)

func TestMain(m *testing.M) { os.Exit(vktest.Main(m)) }

// TestText checks the decoding of tokens on the texts of reference.json.
func TestText(t *testing.T) {
	m, err := openModel("")
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	prompts, err := references()
	if err != nil {
		t.Fatal(err)
	}
	if len(prompts) != 5 {
		t.Errorf("%d prompts, want 5", len(prompts))
	}
	for _, p := range prompts {
		if got := m.tokenizer.Decode(p.Tokens); got != p.Text {
			t.Errorf("tokens %v are %q, want %q", p.Tokens, got, p.Text)
		}
	}
	if got := m.tokenizer.Piece(0); got != "<|endoftext|>" {
		t.Errorf("the control token is %q", got)
	}
}

func TestBest(t *testing.T) {
	got := best([]float64{1, math.Log(3) + 1, 1}, 2)
	if len(got) != 2 || got[0].token != 1 || got[1].token != 0 || math.Abs(got[0].probability-0.6) > 1e-12 {
		t.Errorf("got %v", got)
	}
}

func TestCompare(t *testing.T) {
	p := prompt{Top: [][2]float64{{1, 5}, {0, 3}}}
	for _, tt := range []struct {
		logits    []float64
		tolerance float64
		ok        bool
	}{
		{[]float64{3, 5, 0}, 0.1, true},
		{[]float64{3, 5.05, 0}, 0.1, true},
		{[]float64{3, 5.2, 0}, 0.1, false},
		{[]float64{3, 5.2, 0}, 0, true}, // only the order is known
		{[]float64{6, 5, 0}, 0, false},
		{[]float64{math.NaN(), 5, 0}, 0.1, false},
	} {
		if err := compare(tt.logits, p).check(tt.tolerance); (err == nil) != tt.ok {
			t.Errorf("%v within %v: %v", tt.logits, tt.tolerance, err)
		}
	}
}

// TestReference runs the demo on the CPU reference. The most likely token must equal the one in reference.json for
// every prompt, although the weights are Q8_0.
func TestReference(t *testing.T) { testDemo(t, "cpu") }

// TestDevice is TestReference on the best device, where every logit is also
// compared with the CPU reference's.
func TestDevice(t *testing.T) {
	dev, err := vkc.OpenDevice("vulkan")
	vktest.Need(t, err)
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	tools, err := spirv.Find(context.Background(), spirv.FindOptions{})
	if err == nil {
		err = tools.Ready()
	}
	skipOrFail(t, err)
	devtest.OwnCache(t)
	out := testDemo(t, "vulkan")
	if n := strings.Count(out, "CPU reference   worst difference of 4096 logits"); n != 5 {
		t.Errorf("%d of 5 results compared with the CPU reference:\n%s", n, out)
	}
	if again := testDemo(t, "vulkan"); !strings.Contains(again, " from cache, 0 compiler processes;") {
		t.Errorf("the second time:\n%s", again)
	}
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

// testDemo runs the demo and returns its output. A failed check in the demo is an error.
func testDemo(t *testing.T, device string) string {
	t.Helper()
	var out strings.Builder
	if err := run(context.Background(), options{device: device, top: 3, check: true}, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if n := strings.Count(out.String(), "top-1 equal"); n != 5 {
		t.Errorf("top-1 equal for %d of 5 prompts:\n%s", n, out.String())
	}
	return out.String()
}

func TestPrompt(t *testing.T) {
	var out strings.Builder
	if err := run(context.Background(), options{device: "cpu", prompt: "339 2007 308 268 199", top: 1},
		&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"func main() {\n", `"\t" 98.0%`, "for 6 tokens"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestOwnModel builds the graph from a model file. It must give the results of graph.json.
func TestOwnModel(t *testing.T) {
	here, err := openModel("")
	if err != nil {
		t.Fatal(err)
	}
	defer here.close()
	named, err := openModel(modelFile)
	if err != nil {
		t.Fatal(err)
	}
	defer named.close()
	if here.graph.HashString() != named.graph.HashString() {
		t.Error("graph.json is not the graph of the model: go run ./examples/gollama/graph rewrites it")
	}
}

func TestRefuses(t *testing.T) {
	for _, tt := range []struct {
		o    options
		want string
	}{
		{options{device: "cpu", prompt: "4096"}, `"4096" is not a token: want numbers from 0 to 4095`},
		{options{device: "cpu", prompt: "1 two"}, `"two" is not a token`},
		{options{device: "cpu", prompt: strings.Repeat("1 ", 512)}, "513 tokens"},
		{options{device: "cpu", gguf: "graph.json"}, "graph.json"},
		{options{device: "99"}, "99"},
	} {
		if err := run(context.Background(), tt.o, &strings.Builder{}); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.o, err, tt.want)
		}
	}
	t.Chdir(t.TempDir())
	if err := run(context.Background(), options{device: "cpu"}, &strings.Builder{}); !errors.Is(err, os.ErrNotExist) ||
		!strings.Contains(err.Error(), "-gguf") {
		t.Errorf("elsewhere: %v", err)
	}
}

// TestTolerance: for a model with unknown error, only the order of the logits is compared.
func TestTolerance(t *testing.T) {
	m, err := openModel("")
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	if got := m.tolerance(); got != 0.2 {
		t.Errorf("tolerance %v of %s", got, m.weightType())
	}
}
