package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/generator"
	"github.com/vkc-go/vkc/passes"
)

func testRand() *rand.Rand { return rand.New(rand.NewPCG(3, 4)) }

func TestVersion(t *testing.T) {
	v := okJSON[versionInfo](t, "version")
	if v.Version != vkc.Version() || v.Generator != generator.ID() || !strings.HasPrefix(v.Go, "go") {
		t.Errorf("%+v", v)
	}
	if r := ok(t, "version"); !strings.HasPrefix(r.stdout, "vkc "+v.Version+" (generator "+v.Generator[:12]) {
		t.Errorf("prints %q", r.stdout)
	}
}

func TestCompile(t *testing.T) {
	needTools(t)
	devtest.EmptyCache(t)
	dir := filepath.Join(t.TempDir(), "new", "dump")
	out := filepath.Join(t.TempDir(), "x.vkb")
	info := okJSON[compileInfo](t, "compile", mlpGraph, "-o", out, "--target", "intel-xe",
		"--dump-dir", dir, "--validate")
	p, err := vkc.OpenBundle(out)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	steps := p.Contents.Program.Steps
	st, err := os.Stat(out)
	if err != nil {
		t.Fatal(err)
	}
	if info.Graph != "mlp" || info.Weights || info.Bytes != st.Size() || info.Program.Kernels != len(steps) ||
		info.Program.CacheHit {
		t.Errorf("%+v", info)
	}
	var want []string
	for i, s := range steps {
		for _, ext := range []string{"comp", "kernel", "spv"} {
			want = append(want, fmt.Sprintf("%02d-%s.%s", i, s.Name, ext))
		}
	}
	want = append(want, "graph.ir", "plan.txt")
	if got := files(t, dir); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("dumped %v, want %v", got, want)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "graph.ir")); err != nil ||
		string(text) != p.Contents.Graph.String() {
		t.Errorf("graph.ir: %v\n%s", err, text)
	}
	if text, err := os.ReadFile(filepath.Join(dir, want[0])); err != nil ||
		string(text) != p.Contents.GLSL[steps[0].Shader] {
		t.Errorf("%s: %v\n%s", want[0], err, text)
	}
	if r := ok(t, "compile", mlpGraph, "-o", out, "--target", "intel-xe", "--validate"); !strings.Contains(r.stderr,
		"program from cache") || !strings.Contains(r.stdout, "x.vkb: ") {
		t.Errorf("again: %+v", r)
	}
}

func TestDumpGraph(t *testing.T) {
	want, err := os.ReadFile("../../golden/graphs/mlp.ir")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]string{{"dump", mlpGraph}, {"dump", mlpGraph, "--stage", "graph"}} {
		if r := ok(t, line...); r.stdout != string(want) {
			t.Errorf("%v:\n%s", line, r.stdout)
		}
	}
}

func TestDumpPasses(t *testing.T) {
	var names []string
	for _, p := range passes.Passes() {
		names = append(names, p.Name)
	}
	heads := regexp.MustCompile(`(?m)^; (\w+)( \(unchanged\))?, [^ ]+s: .+$`)
	listed := func(line ...string) []string {
		t.Helper()
		var got []string
		for _, m := range heads.FindAllStringSubmatch(ok(t, line...).stdout, -1) {
			got = append(got, m[1])
		}
		return got
	}
	for _, more := range []string{"--stage=passes", "--all"} {
		if got := listed("dump", mlpGraph, more); strings.Join(got, " ") != strings.Join(names, " ") {
			t.Errorf("%s lists %v, want %v", more, got, names)
		}
	}
	if short, long := ok(t, "dump", mlpGraph, "--stage", "passes").stdout, ok(t, "dump", mlpGraph, "--all").
		stdout; len(long) < len(short)*3/2 || !strings.Contains(short, "(unchanged)") {
		t.Errorf("--all prints\n%s", long)
	}
	if after := ok(t, "dump", mlpGraph, "--after", names[0]).stdout; !strings.HasPrefix(after, `graph "mlp" {`) {
		t.Errorf("--after %s prints\n%s", names[0], after)
	}
	last := ok(t, "dump", mlpGraph, "--after", names[len(names)-1]).stdout
	if !strings.HasPrefix(last, `program "mlp": `) {
		t.Errorf("--after %s prints\n%s", names[len(names)-1], last)
	}
}

// TestDumpPrecision: dump shows which kernels may round, and a bundle keeps its precision.
func TestDumpPrecision(t *testing.T) {
	rounds := func(args ...string) int {
		t.Helper()
		return strings.Count(ok(t, append([]string{"dump", "--stage", "kernels"}, args...)...).stdout, " in f16\n")
	}
	if full, half := rounds(mlpGraph), rounds(mlpGraph, "--precision", "half"); full != 0 || half == 0 {
		t.Errorf("%d products of full precision and %d of half may round to f16", full, half)
	}
	needTools(t)
	devtest.OwnCache(t)
	path := bundleOf(t)
	ok(t, "compile", mlpGraph, "-o", path, "--precision", "half")
	if rounds(path) == 0 {
		t.Error("no product of a bundle in half precision may round to f16")
	}
	for _, command := range []string{"dump", "run"} {
		fails(t, exitUsage, []string{command, path, "--precision", "half"},
			"the precision of a bundle is fixed when it is compiled")
	}
}

// TestExactGraphs: graphs are exact unless the user allows less, also the graphs of a language model.
func TestExactGraphs(t *testing.T) {
	rounds := func(args ...string) bool {
		t.Helper()
		return strings.Contains(ok(t, append([]string{"dump", "--stage", "graph"}, args...)...).stdout, `precision="int8"`)
	}
	for _, path := range []string{gollama, mlpGraph} {
		if rounds(path) || rounds(path, "--precision", "exact") || rounds(path, "--precision", "full") ||
			!rounds(path, "--precision", "int8") {
			t.Errorf("%s: products round without being allowed to, or not at all", path)
		}
	}
}

func TestDumpFusion(t *testing.T) {
	got := ok(t, "dump", mlpGraph, "--fusion").stdout
	has(t, got, " computed nodes in ", "\nk0 ", "  core    %", "  stores  %", "\ndecisions\n", ": inline")
	path := filepath.Join(t.TempDir(), "loop.txt")
	text := `graph "g" {
  %x = input {name="x", dtype=f32, shape=[4, 4]}
  %y = loop %x {trips=[3], body=graph "step" {
    %s = state {name="s", dtype=f32, shape=[4, 4]}
    %m = matmul %s, %s
    update %s = %m
  }}
  output "y" %y
}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	has(t, ok(t, "dump", path, "--fusion").stdout, " loop\n", "  body    ", "\n    k0 matmul\n", "\n    decisions\n")
}

// TestDumpDecisions: each decision lists the weights of its kernel. For a graph without decisions, dump says so.
func TestDumpDecisions(t *testing.T) {
	got := ok(t, "dump", "../../examples/gollama/graph.json", "--decisions", "--target", "nvidia-h100").stdout
	has(t, got, "of", "blk.0.attn_q.weight and 2 others", "blk.7.ffn_down.weight", "taken")
	path := filepath.Join(t.TempDir(), "neg.txt")
	text := `graph "g" { %x = input {name="x", dtype=f32, shape=[4]} %y = neg %x output "y" %y }`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	has(t, ok(t, "dump", path, "--decisions").stdout, "no rule proposes other kernels for this graph")
}

// TestDumpSplit: each split over several devices is listed with its estimate, its parts, and whether it is chosen.
func TestDumpSplit(t *testing.T) {
	model := "../../examples/gollama/gollama-q8_0.gguf"
	for _, devices := range []string{"2", "4"} {
		got := ok(t, "dump", model, "--step", "--split", devices, "--target", "nvidia-h100").stdout
		has(t, got, "one device  ", "GiB of weights and states\n", "\nlayers ", " to pass values on + ", "\ntensor ",
			" exchanges: the host tells kernels of one another", "  taken  ", "  left  ")
		if strings.Contains(got, " 0.0 GiB") {
			t.Errorf("parts have no size in\n%s", got)
		}
	}
}

// TestDumpNamesWeights: the heading of each kernel lists the graph's names for its bindings, because the source has
// generic names.
func TestDumpNamesWeights(t *testing.T) {
	for _, stage := range []string{"kernels", "glsl"} {
		got := ok(t, "dump", mlpGraph, "--stage", stage).stdout
		has(t, got, "bindings 0 = x, 1 = layer.0.weight, 2 = layer.0.bias, 3 = ", "1 = layer.1.weight, ")
	}
	got := ok(t, "dump", "../../examples/gollama/graph.json", "--stage", "glsl").stdout
	if want := "1 = blk.0.attn_q.weight + blk.0.attn_k.weight + blk.0.attn_v.weight,"; !strings.Contains(got, want) {
		t.Errorf("no %q", want)
	}
}

// TestDumpAlternatives: the plan of a matmul shows for which values of a symbol it has another kernel, and why. The
// GLSL has both kernels.
func TestDumpAlternatives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.ir")
	if err := os.WriteFile(path, []byte(`graph "rows" {
  symbol Q <= 32
  %x = input {name="x", dtype=f32, shape=[Q,128]}
  %w = weight {name="w", dtype=f32, shape=[100000,128]}
  %y = matmul %x, %w {transpose_b=true}
  output "y" %y
}
`), 0o644); err != nil {
		t.Fatal(err)
	}
	const want = `program "rows": 1 kernels, 0 barriers, arena 0 bytes (0 without sharing)
  buffer 0 input x : f32[Q,128], 16384 bytes
  buffer 1 output y : f32[Q,100000], 12800000 bytes
  buffer 2 weight w : f32[100000,128], 51200000 bytes
  buffer 3 params params : u32[1], 16 bytes
  step 0 matmul [r0 r2 w1 r3] ; matmul ; direct wg=16 tile=16x64x8 thread=16x4
    for Q <= 4 ; direct wg=16 tile=4x64x8 thread=4x4, about 1.8 times as fast as the kernel of more rows
`
	if have := ok(t, "dump", path, "--stage", "plan", "--target", "lavapipe").stdout; have != want {
		t.Errorf("have\n%swant\n%s", have, want)
	}
	text := ok(t, "dump", path, "--stage", "glsl", "--target", "lavapipe").stdout
	if strings.Count(text, "void main()") != 2 || !strings.Contains(text, "// kernel 0 matmul for Q <= 4: direct ") {
		t.Errorf("the GLSL of two kernels is\n%s", text)
	}
}

// TestDumpCode prints plan, kernels, GLSL and SPIR-V, of the graph and of its
// bundle; the two agree where the bundle holds the stage itself.
func TestDumpCode(t *testing.T) {
	needTools(t)
	devtest.OwnCache(t)
	path := bundleOf(t)
	kernels := okJSON[compileInfo](t, "compile", mlpGraph, "-o", path, "--target", "generic").Program.Kernels
	for stage, head := range map[string]string{"kernels": "kernel ", "plan": "\n  step ", "glsl": "// kernel ",
		"spirv": "// kernel "} {
		graph, bundle := ok(t, "dump", mlpGraph, "--stage", stage).stdout, ok(t, "dump", path, "--stage", stage).stdout
		for _, text := range []string{graph, bundle} {
			if n := strings.Count("\n"+text, head); n < kernels {
				t.Errorf("%s has %d of %d kernels:\n%s", stage, n, kernels, text)
			}
		}
		if (stage == "kernels" || stage == "spirv") && graph != bundle {
			t.Errorf("%s of the graph:\n%s\nof the bundle:\n%s", stage, graph, bundle)
		}
		one := ok(t, "dump", path, "--stage", stage, "--kernel", "1").stdout
		if one == "" || len(one) >= len(bundle) {
			t.Errorf("%s of one kernel:\n%s", stage, one)
		}
	}
	if text := ok(t, "dump", mlpGraph, "--kernel", "0").stdout; !strings.Contains(text, "#version 4") ||
		strings.Count(text, "void main()") != 1 {
		t.Errorf("--kernel alone prints\n%s", text)
	}
	a, b := ok(t, "dump", mlpGraph, "--stage", "glsl").stdout, ok(t, "dump", mlpGraph, "--stage", "glsl", "--target",
		"nvidia-h100").stdout
	if a == b {
		t.Error("GLSL does not depend on --target")
	}
}

func TestDevices(t *testing.T) {
	needDevice(t)
	info := okJSON[devicesInfo](t, "devices")
	auto, reference := 0, "* cpu "
	for _, d := range info.Devices {
		if d.Auto {
			auto++
			reference = "  cpu "
		}
		if d.Auto && d.Caps.Type == device.DeviceCPU {
			t.Errorf("auto takes %s, which is software", d.Caps.Name)
		}
		if d.Caps.Name == "" || d.Caps.MaxInvocations == 0 {
			t.Errorf("device %+v", d)
		}
	}
	if auto > 1 || info.Vulkan == "" || info.Error != "" {
		t.Errorf("%+v", info)
	}
	r := ok(t, "devices")
	if !strings.Contains(r.stdout, "* ") || !strings.Contains(r.stdout, reference) ||
		!strings.Contains(r.stdout, info.Devices[0].Caps.Name) {
		t.Errorf("prints\n%s", r.stdout)
	}
}

// TestDevicesProfile: the written profile of the device works as a target, and gives the device's kernels.
func TestDevicesProfile(t *testing.T) {
	needDevice(t)
	devtest.OwnCache(t)
	path := filepath.Join(t.TempDir(), "mine.json")
	graph := filepath.Join("..", "..", "examples", "tour", "graph.json")
	ok(t, "devices", "--profile", path)
	want := ok(t, "dump", graph, "--stage", "glsl", "--target", "auto").stdout
	if got := ok(t, "dump", graph, "--stage", "glsl", "--target", path).stdout; got != want {
		t.Errorf("for the profile\n%s\nfor the device\n%s", got, want)
	}
	fails(t, exitUsage, []string{"devices", "--profile", "mine"}, "want a FILE.json")
	fails(t, exitFailure, []string{"dump", graph, "--stage", "glsl", "--target", path + ".json"}, "mine.json.json")
}

func TestDevicesWithoutVulkan(t *testing.T) {
	noVulkan(t)
	r := run(t, "devices")
	if r.code != exitFailure || !strings.Contains(r.stdout, "* cpu ") {
		t.Errorf("%+v", r)
	}
	r = run(t, "devices", "--json")
	var info devicesInfo
	if err := json.Unmarshal([]byte(r.stdout), &info); err != nil || info.Error == "" || len(info.Devices) != 0 ||
		r.code != exitFailure {
		t.Errorf("%v: %+v", err, r)
	}
}

func TestDoctor(t *testing.T) {
	needDevice(t)
	root := devtest.NoCache(t)
	findings := okJSON[[]finding](t, "doctor")
	byName := map[string]finding{}
	for _, f := range findings {
		byName[f.Name] = f
		if f.Detail == "" || f.Purpose == "" || (f.Fix == "") != f.OK {
			t.Errorf("%+v", f)
		}
	}
	for _, name := range []string{"spirv-opt", "Vulkan loader", "device 0", "cache"} {
		if !byName[name].OK {
			t.Errorf("%s: %+v", name, byName[name])
		}
	}
	if byName["cache"].Detail != root {
		t.Errorf("cache in %s, want %s", byName["cache"].Detail, root)
	}
	if r := ok(t, "doctor"); !strings.Contains(r.stdout, "ok       spirv-opt ") {
		t.Errorf("prints\n%s", r.stdout)
	}
}

func TestDoctorFindsFaults(t *testing.T) {
	file := write(t, "file", nil)
	t.Setenv("VKC_CACHE_DIR", filepath.Join(file, "cache"))
	t.Setenv("VK_LAYER_PATH", t.TempDir())
	noVulkan(t)
	noTools(t)
	r := run(t, "doctor")
	has(t, r.stdout, "MISSING  spirv-opt", "install spirv-tools", "MISSING  Vulkan", "absent   validation layers",
		"vulkan-validationlayers", "absent   cache")
	if r.code != exitFailure {
		t.Errorf("exit code %d", r.code)
	}
}

// damage flips a bit in one file below a folder.
func damage(t *testing.T, dir string) {
	t.Helper()
	done := false
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || done || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		b[len(b)/2] ^= 4
		done = true
		return os.WriteFile(path, b, 0o600)
	})
	if err != nil || !done {
		t.Fatalf("nothing to damage in %s: %v", dir, err)
	}
}

func TestCache(t *testing.T) {
	needDevice(t)
	root := devtest.NoCache(t)
	empty := okJSON[cacheInfo](t, "cache", "ls")
	if empty.Dir != root || len(empty.Programs) != 0 || empty.Shaders.Entries != 0 {
		t.Errorf("at first: %+v", empty)
	}
	ok(t, mlpArgs(t, "--device", "vulkan")...)
	full := okJSON[cacheInfo](t, "cache", "ls")
	if len(full.Programs) != 1 || full.Programs[0].Program != "mlp" || full.Programs[0].Kernels == 0 ||
		full.Shaders.Entries == 0 || full.Pipelines.Entries != 1 {
		t.Errorf("after a run: %+v", full)
	}
	if r := ok(t, "cache", "ls"); !strings.Contains(r.stdout, "\nmlp ") ||
		!strings.Contains(r.stdout, "programs: 1\n") {
		t.Errorf("prints\n%s", r.stdout)
	}
	if r := ok(t, "cache", "verify"); !strings.Contains(r.stdout, "sound: 1 programs, ") {
		t.Errorf("verify prints\n%s", r.stdout)
	}
	damage(t, filepath.Join(root, "programs"))
	damage(t, filepath.Dir(filepath.Dir(findShader(t, root))))
	damage(t, filepath.Join(root, "pipelines"))
	fails(t, exitFailure, []string{"cache", "verify"}, "2 damaged cache entries removed")
	ok(t, "cache", "verify")
	// What is left of the cache, the damaged pipelines too, is no obstacle.
	if info := okJSON[runInfo](t, mlpArgs(t, "--check")...); info.Program.CacheHit {
		t.Error("a damaged program came from the cache")
	}
	if r := ok(t, "cache", "clear"); !strings.Contains(r.stdout, "removed 1 programs, ") {
		t.Errorf("clear prints\n%s", r.stdout)
	}
	if after := okJSON[cacheInfo](t, "cache",
		"ls"); len(after.Programs)+after.Shaders.Entries+after.Pipelines.Entries != 0 {
		t.Errorf("after clear: %+v", after)
	}
}

// findShader returns a file of the shader cache.
func findShader(t *testing.T, root string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "spirv", "*", "*"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no shaders in the cache: %v", err)
	}
	return found[0]
}

func TestCacheOff(t *testing.T) {
	t.Setenv("VKC_CACHE", "off")
	for _, verb := range []string{"ls", "verify", "clear"} {
		fails(t, exitFailure, []string{"cache", verb}, "$VKC_CACHE is off")
	}
}
