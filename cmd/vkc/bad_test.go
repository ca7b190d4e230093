package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/npy"
)

// mustWrite writes an array and returns its path.
func writeNPY(t *testing.T, dtype ir.DType, dims ...int) string {
	t.Helper()
	d, err := ir.NewData(dtype, dims...)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.npy")
	if err := npy.WriteFile(path, d); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWrongInputs(t *testing.T) {
	devtest.EmptyCache(t)
	garbage := write(t, "garbage.npy", []byte("no array"))
	for _, tt := range []struct {
		name, input string
		code        int
		want        string
	}{
		{"shape", writeNPY(t, ir.F32, 3, 9), exitUsage, "axis 1"},
		{"rank", writeNPY(t, ir.F32, 24), exitUsage, "rank 1 is not 2"},
		{"past the bound", writeNPY(t, ir.F32, 65, 8), exitUsage, "at most 64"},
		{"dtype", writeNPY(t, ir.F16, 3, 8), exitUsage,
			`input "x" is f16[3 8], want f32[T,8]: save the array again with a.astype("<f4")`},
		{"numbers of another shape", "[[1,2,3]]", exitUsage, "is 3, not 8"},
		{"numbers cut short", "[[1,2,3", exitUsage, "--input x: "},
		{"neither file nor numbers", "pixels", exitUsage,
			"--input x=pixels: there is no such file: want FILE.npy, [1,2,3]"},
		{"no seed", "random", exitUsage, "random:SEED"},
		{"no file", filepath.Join(t.TempDir(), "none.npy"), exitFailure, "no such file"},
		{"no array", garbage, exitFailure, "garbage.npy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fails(t, tt.code, []string{"run", mlpGraph, "--device", "cpu", "--weights", mlpWeights(t), "--input",
				"x=" + tt.input}, tt.want)
		})
	}
}

// TestIndicesInRange: indices are checked when they are given, and an axis to pick from must not be empty.
func TestIndicesInRange(t *testing.T) {
	devtest.EmptyCache(t)
	line := []string{"run", "../../examples/gollama/gollama-q8_0.gguf", "--ctx", "16", "--device", "reference",
		"--input"}
	fails(t, exitUsage, append(line, "tokens=[0,4096]"), `input "tokens": element [1] is 4096: want 0 to 4095`, "--clamp")
	fails(t, exitUsage, append(line, "tokens=[-1]"), `input "tokens": element [0] is -1: want 0 to 4095`)
	for _, more := range [][]string{{}, {"--clamp"}} {
		fails(t, exitUsage, append(append(line, "tokens=[]"), more...), `input "tokens": T is 0, so axis`,
			"want at least 1 element along axis 0")
	}
	fails(t, exitUsage, append(line, "tokens=random:1", "--symbol", "T=0"), `input "tokens": T is 0`)
	last := okJSON[runInfo](t, append(line, "tokens=[4095]")...)
	if got := okJSON[runInfo](t, append(line, "tokens=[70000]", "--clamp")...); !cmp.Equal(got.Outputs, last.Outputs) {
		t.Errorf("--clamp gives %v, and the last token %v", got.Outputs, last.Outputs)
	}
}

// TestRandomIndices: random numbers that stand for indices are in range.
func TestRandomIndices(t *testing.T) {
	devtest.EmptyCache(t)
	graph := write(t, "g.ir", []byte(`graph "g" {
  %0 = input {name="ids", dtype=i32, shape=[500]} : i32[500]
  %1 = iota {shape=[7]} : i32[7]
  %2 = index_select %1, %0 {axis=0} : i32[500]
  output "picked" %2
  output "ids" %0
}
`))
	info := okJSON[runInfo](t, "run", graph, "--device", "reference", "--input", "ids=random:1")
	for _, o := range info.Outputs {
		if o.Min == nil || o.Max == nil || *o.Min != 0 || *o.Max != 6 {
			t.Errorf("%+v", o)
		}
	}
}

func TestWrongWeights(t *testing.T) {
	devtest.EmptyCache(t)
	line := func(weights ...string) []string {
		return append([]string{"run", mlpGraph, "--device", "cpu", "--input", "x=random:1", "--symbol", "T=3"},
			weights...)
	}
	fails(t, exitUsage, line(), "3 weights", "--weights FILE")
	fails(t, exitFailure, line("--weights", mlpWeights(t, "layer.0.bias")), `"layer.0.bias"`)
	fails(t, exitFailure, line("--weights", filepath.Join(t.TempDir(), "none.gguf")), "no such file")
	fails(t, exitFailure, line("--weights", mlpGraph), "mlp.json")
	needTools(t)
	dir := t.TempDir()
	fails(t, exitFailure, []string{"compile", mlpGraph, "-o", filepath.Join(dir, "x.vkb"),
		"--weights", mlpWeights(t, "layer.0.bias")}, `"layer.0.bias"`)
	if got := files(t, dir); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
}

func TestWrongGraphs(t *testing.T) {
	devtest.EmptyCache(t)
	unknown := write(t, "g.json", []byte(
		`{"format": "vkc.graph", "version": 1, "name": "g", "nodes": [{"id": "0", "op": "frobnicate"}], "outputs": [{"name": "y", "node": "0"}]}`))
	empty := write(t, "empty.json", nil)
	for _, verb := range []string{"run", "dump", "compile"} {
		more := map[string][]string{"compile": {"-o", filepath.Join(t.TempDir(), "x.vkb")}}[verb]
		fails(t, exitFailure, append([]string{verb, unknown}, more...), "g.json:1:", "frobnicate")
		fails(t, exitFailure, append([]string{verb, empty}, more...), "empty.json:1:1")
		fails(t, exitFailure, append([]string{verb, filepath.Join(t.TempDir(), "none.json")}, more...), "no such file")
	}
}

// TestAllMistakes: all mistakes in a graph file are reported at once, one a line.
func TestAllMistakes(t *testing.T) {
	devtest.EmptyCache(t)
	path := write(t, "g.json", []byte(`{"format": "vkc.graph", "version": 1, "nodes": [
{"id": "0", "op": "frobnicate"},
{"id": "1", "op": "input", "attrs": {"name": "x", "dtype": "f23", "shape": [1]}}],
"outputs": [{"name": "y", "node": "2"}]}`))
	for _, verb := range []string{"dump", "inspect", "run"} {
		r := run(t, verb, path)
		lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
		if r.code != exitFailure || len(lines) != 3 || !strings.Contains(lines[0], "g.json:2:") ||
			!strings.Contains(lines[1], "g.json:3:") || !strings.Contains(lines[2], "g.json:4:") {
			t.Errorf("vkc %s: exit code %d\n%s", verb, r.code, r.stderr)
		}
	}
}

// TestDamagedBundles cuts a bundle short and flips bits all over it: each time
// it is refused, by every command that reads bundles.
func TestDamagedBundles(t *testing.T) {
	needTools(t)
	devtest.EmptyCache(t)
	sound, err := os.ReadFile(bundleOf(t))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "damaged.vkb")
	refused := func(what string, content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, line := range [][]string{{"run", path, "--device", "cpu", "--input", "x=random:1", "--symbol", "T=3"},
			{"run", path, "--check", "--input", "x=random:1", "--symbol", "T=3"}} {
			r := run(t, line...)
			if r.code != exitFailure || strings.Count(r.stderr, "\n") > 2 ||
				!strings.Contains(r.stderr, "damaged.vkb") {
				t.Fatalf("%s: vkc %s: exit code %d, %q", what, strings.Join(line, " "), r.code, r.stderr)
			}
		}
	}
	for _, n := range []int{0, 1, 7, 31, 32, 100, len(sound) / 2, len(sound) - 1} {
		refused("cut short", sound[:n])
	}
	step := max(len(sound)/97, 1)
	for at := 0; at < len(sound); at += step {
		flipped := bytes.Clone(sound)
		flipped[at] ^= 1 << (at % 8)
		refused("flipped bit", flipped)
	}
	fails(t, exitFailure, []string{"dump", path}, "damaged.vkb")
	if err := os.WriteFile(path, sound, 0o600); err != nil {
		t.Fatal(err)
	}
	ok(t, "run", path, "--device", "cpu", "--input", "x=random:1", "--symbol", "T=3")
}

func TestWithoutVulkan(t *testing.T) {
	devtest.EmptyCache(t)
	noVulkan(t)
	testWithoutVulkan(t, run)
}

// testWithoutVulkan tests a vkc that finds no Vulkan: automatic choice says so
// and takes the reference, everything that asks for a device fails.
func testWithoutVulkan(t *testing.T, run func(t *testing.T, args ...string) result) {
	t.Helper()
	r := run(t, mlpArgs(t, "--check", "--quiet")...)
	if r.code != exitOK || strings.Count(r.stderr, "\n") != 1 ||
		!strings.Contains(r.stderr, "this runs on the CPU fast path, slower than a GPU: no Vulkan device can be used") {
		t.Errorf("run: exit code %d, %q", r.code, r.stderr)
	}
	out := filepath.Join(t.TempDir(), "x.vkb")
	for _, line := range [][]string{
		mlpArgs(t, "--device", "0"), mlpArgs(t, "--device", "radeon"), {"devices"}, {"doctor"},
		{"compile", mlpGraph, "-o", out, "--target", "auto"}, {"dump", mlpGraph, "--stage", "glsl", "--target", "auto"},
	} {
		r := run(t, line...)
		if r.code != exitFailure || strings.Count(r.stderr, "\n") != 1 || !strings.HasPrefix(r.stderr, "vkc: ") {
			t.Errorf("vkc %s: exit code %d, %q", strings.Join(line, " "), r.code, r.stderr)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a bundle was written")
	}
}

// plain is a vkc without cgo, which tests share: linking it takes seconds.
var plain struct {
	sync.Once
	dir, exe string
	err      error
}

// buildPlain builds a vkc without cgo, once, and returns its path.
func buildPlain(t *testing.T) string {
	t.Helper()
	plain.Do(func() {
		if plain.dir, plain.err = os.MkdirTemp("", "vkc-plain-"); plain.err != nil {
			return
		}
		plain.exe = filepath.Join(plain.dir, "vkc.exe") // a name for every system
		build := exec.Command("go", "build", "-o", plain.exe, ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			plain.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if plain.err != nil {
		t.Fatal(plain.err)
	}
	return plain.exe
}

// TestWithoutCgo builds a vkc without cgo, which has no Vulkan, and says so.
func TestWithoutCgo(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds vkc")
	}
	devtest.EmptyCache(t)
	exe := buildPlain(t)
	testWithoutVulkan(t, func(t *testing.T, args ...string) result {
		t.Helper()
		var stdout, stderr strings.Builder
		cmd := exec.Command(exe, args...)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	})
}

func TestWithoutTools(t *testing.T) {
	devtest.EmptyCache(t)
	graph, weights, out := absolute(t, mlpGraph), mlpWeights(t), filepath.Join(t.TempDir(), "x.vkb")
	noTools(t)
	fails(t, exitFailure, []string{"compile", graph, "-o", out}, "glslc", "spirv-opt", "not found", "install")
	fails(t, exitFailure, []string{"doctor"}, "missing: ", "spirv-opt")
	if _, err := os.Stat(out); err == nil {
		t.Error("a bundle was written")
	}
	// The reference needs none, and neither do the stages before SPIR-V.
	ok(t, "run", graph, "--device", "cpu", "--weights", weights, "--input", "x=random:1", "--symbol", "T=3")
	ok(t, "dump", graph, "--stage", "glsl")
	t.Setenv("VKC_TOOLS", t.TempDir())
	fails(t, exitFailure, []string{"compile", graph, "-o", out}, "VKC_TOOLS")
	fails(t, exitFailure, []string{"doctor"}, "GLSL tools")
}

// TestOutputKept: a compile that fails leaves the bundle of before.
func TestOutputKept(t *testing.T) {
	needTools(t)
	devtest.EmptyCache(t)
	path := write(t, "x.vkb", []byte("the old one"))
	fails(t, exitFailure, []string{"compile", mlpGraph, "-o", path, "--weights", mlpWeights(t, "layer.0.bias")})
	if old, err := os.ReadFile(path); err != nil || string(old) != "the old one" {
		t.Errorf("the file is %q, %v", old, err)
	}
	if got := files(t, filepath.Dir(path)); len(got) != 1 {
		t.Errorf("left behind: %v", got)
	}
}

// TestInspectNothing: a file of none of the kinds that vkc inspect takes is told all of them.
func TestInspectNothing(t *testing.T) {
	for name, text := range map[string]string{"notes.md": "# Notes\n", "empty": ""} {
		fails(t, exitFailure, []string{"inspect", write(t, name, []byte(text))}, name, "GGUF",
			"bundles, ONNX models (.onnx) and graphs")
	}
}
