package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/safetensors"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/golden"
	"github.com/vkc-go/vkc/internal/pairs"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
)

var updateGolden = flag.Bool("update-golden", false, "rewrite the files of testdata")

func TestMain(m *testing.M) {
	code := vktest.Main(m)
	os.RemoveAll(plain.dir) // of buildPlain
	os.Exit(code)
}

const (
	mlpGraph   = "../../golden/graphs/mlp.json"
	viewsGraph = "../../golden/graphs/views.ir"
)

// result is the result of a command line.
type result struct {
	code           int
	stdout, stderr string
}

// vkc runs a command line.
func run(t *testing.T, args ...string) result {
	t.Helper()
	return runCtx(t, context.Background(), args...)
}

func runCtx(t *testing.T, ctx context.Context, args ...string) result {
	t.Helper()
	var stdout, stderr strings.Builder
	code := execute(ctx, args, &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// ok runs a command line that must succeed.
func ok(t *testing.T, args ...string) result {
	t.Helper()
	r := run(t, args...)
	if r.code != exitOK {
		t.Fatalf("vkc %s: exit code %d\n%s", strings.Join(args, " "), r.code, r.stderr)
	}
	return r
}

// instead returns a command line with those flags, each with another value than it has there, or not there yet.
func instead(line []string, flags ...string) []string {
	line = slices.Clone(line)
	for i := 0; i < len(flags); i += 2 {
		if at := slices.Index(line, flags[i]); at >= 0 {
			line = slices.Delete(line, at, at+2)
		}
	}
	return append(line, flags...)
}

// okJSON runs a command line that must succeed and decodes its output.
func okJSON[T any](t *testing.T, args ...string) T {
	t.Helper()
	var v T
	r := ok(t, append(args, "--json")...)
	if err := json.Unmarshal([]byte(r.stdout), &v); err != nil {
		t.Fatalf("vkc %s: %v in\n%s", strings.Join(args, " "), err, r.stdout)
	}
	return v
}

// fails runs a command line that must fail with that exit code and an error of
// one line, the last on standard error, that has all those texts.
func fails(t *testing.T, code int, args []string, texts ...string) {
	t.Helper()
	r := run(t, args...)
	what := "vkc " + strings.Join(args, " ")
	if r.code != code {
		t.Errorf("%s: exit code %d, want %d\n%s", what, r.code, code, r.stderr)
	}
	var errs []string
	for line := range strings.Lines(r.stderr) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "vkc: ") {
			t.Errorf("%s: standard error has %q", what, line)
		}
		errs = append(errs, line)
	}
	if len(errs) == 0 {
		t.Fatalf("%s: nothing on standard error", what)
	}
	last := errs[len(errs)-1]
	for _, text := range texts {
		if !strings.Contains(last, text) {
			t.Errorf("%s: error %q, want %q in it", what, last, text)
		}
	}
	if strings.Contains(r.stderr, "Usage:") {
		t.Errorf("%s: usage among the errors", what)
	}
}

// has checks that the output contains all the texts.
func has(t *testing.T, printed string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(printed, text) {
			t.Errorf("no %q in\n%s", text, printed)
		}
	}
}

// goldenFile compares with a file of testdata.
func goldenFile(t *testing.T, name, got string) {
	t.Helper()
	golden.Check(t, filepath.Join("testdata", name), got, *updateGolden, "go test ./cmd/vkc -update-golden")
}

// noVulkan makes the loader find no driver.
func noVulkan(t *testing.T) {
	t.Helper()
	for _, name := range []string{"VK_DRIVER_FILES", "VK_ICD_FILENAMES"} {
		t.Setenv(name, filepath.Join(t.TempDir(), "none.json"))
	}
}

// noTools hides the GLSL tools.
func noTools(t *testing.T) {
	t.Helper()
	t.Setenv(spirv.ToolsEnv, "")
	t.Setenv("XDG_DATA_HOME", t.TempDir()) // nothing is registered there
	t.Setenv("PATH", "")
}

// twoLayers writes a model with the first two layers of gollama, which show how layers follow one another as well as
// all do, and returns its path.
func twoLayers(t *testing.T) string {
	t.Helper()
	f, err := gguf.Open(gollama)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var w gguf.Writer
	for _, kv := range f.Metadata() {
		if strings.HasSuffix(kv.Key, ".block_count") {
			kv.Value = uint32(2)
		}
		if err := w.Set(kv.Key, kv.Value); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range f.Names() {
		layer := 0
		if n, _ := fmt.Sscanf(name, "blk.%d.", &layer); n == 1 && layer > 1 {
			continue
		}
		d, err := f.Weight(name)
		if err == nil {
			err = w.Add(name, d)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "two.gguf")
	if err := w.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// withoutOptimizer lets a test compile shaders without spirv-opt, as scripts/unoptimized does for whole packages: it
// takes a third of the time of compiling a language model. With VKC_TEST_CASES=all the optimizer stays.
func withoutOptimizer(t *testing.T) {
	t.Helper()
	if os.Getenv(pairs.Env) == "all" || runtime.GOOS == "windows" { // the stand-in is a shell script
		return
	}
	dir, err := filepath.Abs("../../scripts/lib/unoptimized")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(spirv.ToolsEnv, dir)
}

// needTools skips a test where shaders cannot be compiled, or fails it where
// everything must be there.
func needTools(t *testing.T) {
	t.Helper()
	devtest.NeedTools(t)
}

// needsTools returns an error if a tool to compile shaders is missing.
func needsTools() error {
	tools, err := spirv.Find(context.Background(), spirv.FindOptions{})
	if err == nil {
		err = tools.Ready()
	}
	return err
}

// needDevice is needTools for a Vulkan device and the tools.
func needDevice(t *testing.T) {
	t.Helper()
	needTools(t)
	dev, err := vkc.OpenDevice("vulkan")
	vktest.Need(t, err)
	defer dev.Close()
}

// absolute is the absolute path of a file of the repository.
func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// write makes a file and returns its path.
func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// mlpWeights writes the weights of the MLP, those named left out.
func mlpWeights(t *testing.T, without ...string) string {
	t.Helper()
	dims := map[string][]int{"layer.0.weight": {16, 8}, "layer.0.bias": {16}, "layer.1.weight": {4, 16}}
	for _, name := range without {
		delete(dims, name)
	}
	var tensors []safetensors.Named
	rng := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"layer.0.weight", "layer.0.bias", "layer.1.weight"} {
		if dims[name] == nil {
			continue
		}
		d, err := ir.NewData(ir.F32, dims[name]...)
		if err != nil {
			t.Fatal(err)
		}
		if d, err = fillRandom(rng, d, maxRandomInt); err != nil {
			t.Fatal(err)
		}
		tensors = append(tensors, safetensors.Named{Name: name, Data: d})
	}
	path := filepath.Join(t.TempDir(), "mlp.safetensors")
	if err := safetensors.WriteFile(path, nil, tensors); err != nil {
		t.Fatal(err)
	}
	return path
}

// mlpArgs is a command line that runs the MLP, and more arguments.
func mlpArgs(t *testing.T, more ...string) []string {
	t.Helper()
	return runArgs(t, mlpGraph, more...)
}

// runArgs is mlpArgs for a bundle of the MLP without weights.
func runArgs(t *testing.T, program string, more ...string) []string {
	t.Helper()
	return append([]string{"run", program, "--weights", mlpWeights(t), "--input", "x=random:1", "--symbol", "T=3"},
		more...)
}

// bundleOf compiles the MLP with its weights.
func bundleOf(t *testing.T, more ...string) string {
	t.Helper()
	return compiled(t, instead([]string{"--target", "generic", "--weights", mlpWeights(t)}, more...)...)
}

// compiled compiles the MLP to a bundle.
func compiled(t *testing.T, args ...string) string {
	t.Helper()
	needTools(t)
	path := filepath.Join(t.TempDir(), "x.vkb")
	ok(t, append([]string{"compile", mlpGraph, "-o", path}, args...)...)
	return path
}

// files lists a folder.
func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
