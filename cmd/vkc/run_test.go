package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/npy"
)

func TestRunOnReference(t *testing.T) {
	devtest.OwnCache(t)
	file := filepath.Join(t.TempDir(), "label.npy")
	r := ok(t, mlpArgs(t, "--device", "cpu", "--check", "--output", "label="+file)...)
	// The last digits, and how far the results are from the reference, depend on the processor's instructions.
	stdout := regexp.MustCompile(`worst error [^;]*;|\([^()]* at its worst element\)`).ReplaceAllString(r.stdout, "…")
	stdout = regexp.MustCompile(`\d+\.\d+`).ReplaceAllStringFunc(stdout, func(number string) string {
		value, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Fatal(err)
		}
		return strconv.FormatFloat(value, 'g', 4, 64)
	})
	goldenFile(t, "run.txt", stdout)
	if !strings.Contains(r.stderr, "vkc: device CPU fast path: asked for\n") {
		t.Errorf("standard error:\n%s", r.stderr)
	}
	label, err := npy.ReadFile(file)
	if err != nil || label.String() != "i32[3]" {
		t.Fatalf("the output is %v, %v", label, err)
	}
	r = ok(t, mlpArgs(t, "--device", "cpu", "--profile")...)
	if !strings.Contains(r.stderr, " has no kernels: vkc measures only the time of the whole run") {
		t.Errorf("--profile and standard error has %q", r.stderr)
	}
	if r := ok(t, mlpArgs(t, "--device", "cpu", "--quiet")...); r.stderr != "" {
		t.Errorf("--quiet and standard error has %q", r.stderr)
	}
}

// TestRunOnDevice: the first run compiles, the second comes from the cache and
// starts no compiler; both are within the tolerance of the reference.
func TestRunOnDevice(t *testing.T) {
	needDevice(t)
	devtest.EmptyCache(t)
	var outputs [][]outputInfo
	for i, wantHit := range []bool{false, true} {
		info := okJSON[runInfo](t, mlpArgs(t, "--check")...)
		if p := info.Program; p == nil || p.CacheHit != wantHit || (p.Processes == 0) != wantHit ||
			p.Kernels == 0 || p.Shaders == 0 {
			t.Errorf("run %d: %+v", i, p)
		}
		if len(info.Check) != 2 || !info.Check[0].OK || !info.Check[1].OK {
			t.Errorf("run %d: check %+v", i, info.Check)
		}
		if info.Device == "" || info.Why == "" || info.Millis <= 0 {
			t.Errorf("run %d: %+v", i, info)
		}
		outputs = append(outputs, info.Outputs)
	}
	if diff := cmp.Diff(outputs[0], outputs[1]); diff != "" {
		t.Error("the cached program gives other results: ", diff)
	}
	if r := ok(t, mlpArgs(t, "--device", "vulkan")...); !strings.Contains(r.stderr, "vkc: program from cache: ") ||
		!strings.Contains(r.stderr, " 0 compiler processes\n") {
		t.Errorf("standard error:\n%s", r.stderr)
	}
	if r := ok(t, mlpArgs(t, "--no-cache", "--device", "vulkan")...); !strings.Contains(r.stderr, "vkc: compiled ") {
		t.Errorf("standard error:\n%s", r.stderr)
	}
}

func TestRunProfile(t *testing.T) {
	needDevice(t)
	devtest.OwnCache(t)
	info := okJSON[runInfo](t, mlpArgs(t, "--profile", "--repeat", "2")...)
	if info.Profile == nil || len(info.Profile.Kernels) != info.Program.Kernels {
		t.Errorf("profile %+v of %+v", info.Profile, info.Program)
	}
	trace := filepath.Join(t.TempDir(), "trace.json")
	if r := ok(t, mlpArgs(t, "--trace", trace)...); strings.Contains(r.stdout, "share") {
		t.Errorf("--trace alone prints a profile:\n%s", r.stdout)
	}
	if text, err := os.ReadFile(trace); err != nil || !strings.Contains(string(text), `"wait for the results"`) ||
		!strings.Contains(string(text), "matmul") {
		t.Errorf("the trace: %v\n%s", err, text)
	}
	info = okJSON[runInfo](t, mlpArgs(t, "--measure", "--device", "vulkan")...)
	if m := info.Measure; m == nil || m.Device == nil || m.Device.Median <= 0 || m.Wall.Median <= 0 || m.Wall.Runs < 3 {
		t.Errorf("measured %+v", info.Measure)
	}
	has(t, ok(t, mlpArgs(t, "--measure", "--device", "cpu")...).stdout, "measured: ", " by the wall clock")
	all := ok(t, mlpArgs(t, "--profile")...)
	top := ok(t, mlpArgs(t, "--profile", "--top", "1")...) // whichever takes longest
	for _, want := range []string{"GFLOP/s", "share", "wall"} {
		if !strings.Contains(all.stdout, want) || !strings.Contains(top.stdout, want) {
			t.Errorf("no %q in a profile:\n%s\n%s", want, all.stdout, top.stdout)
		}
	}
	if !strings.Contains(all.stdout, "matmul") || strings.Contains(all.stdout, "more kernels") ||
		!strings.Contains(top.stdout, "more kernels") {
		t.Errorf("want every kernel, and the one that takes longest:\n%s\n%s", all.stdout, top.stdout)
	}
}

func TestRunBundle(t *testing.T) {
	needDevice(t)
	devtest.OwnCache(t)
	path := bundleOf(t, "--target", "auto")
	noTools(t) // a bundle needs none
	for _, device := range []string{"auto", "cpu"} {
		info := okJSON[runInfo](t, "run", path, "--device", device, "--input", "x=random:1", "--symbol",
			"T=64", "--check")
		if info.Program != nil {
			t.Errorf("a bundle was compiled: %+v", info.Program)
		}
	}
}

// TestRunBundleOfAnotherDevice: a bundle for another device is rejected with a hint.
func TestRunBundleOfAnotherDevice(t *testing.T) {
	needDevice(t)
	devtest.OwnCache(t)
	p, err := vkc.OpenBundle(bundleOf(t, "--target", "nvidia-h100"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for i := range p.Contents.Program.Shaders {
		sh := &p.Contents.Program.Shaders[i]
		sh.Needs = append(sh.Needs, "quantumMatrix") // no device has it yet
	}
	path := filepath.Join(t.TempDir(), "foreign.vkb")
	if err := p.Save(path, p.Contents.Weights); err != nil {
		t.Fatal(err)
	}
	fails(t, exitFailure, []string{"run", path, "--input", "x=random:1", "--symbol", "T=2", "--device", "vulkan"},
		"H100", "quantumMatrix",
		"vkc compile --target auto")
	ok(t, "run", path, "--input", "x=random:1", "--symbol", "T=2", "--device", "cpu")
}

// TestCheckFails runs a bundle with a program that does not match its graph. The exit code is 1, and after all other
// output a line reports the deviation.
func TestCheckFails(t *testing.T) {
	needDevice(t)
	devtest.OwnCache(t)
	scale := func(factor float64) *ir.Graph {
		g, err := frontend.Build("scale", func(b *frontend.Builder) {
			b.Output("y", b.Input("x", ir.F32, 4).MulScalar(factor))
		})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	p, err := vkc.Compile(t.Context(), scale(2), vkc.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	g := scale(3)
	p.Contents.Graph, p.Contents.Program.GraphHash = g, g.HashString()
	path := filepath.Join(t.TempDir(), "wrong.vkb")
	if err := p.Save(path, nil); err != nil {
		t.Fatal(err)
	}
	line := []string{"run", path, "--input", "x=[1,2,3,4]", "--check"}
	fails(t, exitFailure, line, "past the tolerance", `output "y"`)
	if r := run(t, line...); !strings.Contains(r.stdout, "[2 4 6 8]") ||
		!strings.Contains(r.stdout, "worst error 4, relative 0.333333; PAST THE TOLERANCE in 4 of 4 elements") {
		t.Errorf("prints\n%s", r.stdout)
	}
}

func TestCheckLine(t *testing.T) {
	for _, tt := range []struct {
		c    checkInfo
		want string
	}{
		{checkInfo{Name: "y", OK: true, Elems: 3}, "check y: equal with the reference"},
		{checkInfo{Name: "s", State: true, OK: true, WorstAbs: 0.5, WorstRel: 0.25, Allowed: 1, Elems: 3}, "check state s: worst error 0.5, relative 0.25; within the tolerance (1 at its worst element)"},
		{checkInfo{Name: "y", WorstAbs: 2, WorstRel: 1, Allowed: 1, Elems: 3, Bad: 2}, "check y: worst error 2, relative 1; PAST THE TOLERANCE in 2 of 3 elements (1 at its worst element)"},
		{checkInfo{Name: "y", Problem: "f32[2], want f32[3]"}, "check y: f32[2], want f32[3]"},
	} {
		if got := tt.c.line(); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

func TestInputs(t *testing.T) {
	devtest.OwnCache(t)
	x, err := ir.FromFloats(ir.F16, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 1, 2, 6)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "x.npy")
	if err := npy.WriteFile(file, x); err != nil {
		t.Fatal(err)
	}
	// The size of a random input comes from another input.
	info := okJSON[runInfo](t, "run", viewsGraph, "--device", "cpu", "--input", "x="+file, "--input", "7=random:3")
	if got := info.Outputs[0].Shape; len(got) != 3 || got[1] != 2 {
		t.Errorf("shape %v", got)
	}
	one := okJSON[runInfo](t, "run", viewsGraph, "--device", "cpu", "--input", "x="+file, "--input", "7=[0,1]")
	two := okJSON[runInfo](t, "run", viewsGraph, "--device", "cpu", "--input", "x="+file, "--input", "7=[1,0]")
	if cmp.Equal(one.Outputs, two.Outputs) {
		t.Error("numbers given as an input have no effect")
	}
}

func TestRandomInputs(t *testing.T) {
	devtest.OwnCache(t)
	line := func(seed string) []string {
		return []string{"run", viewsGraph, "--device", "cpu", "--input", "x=random:" + seed, "--input", "7=[0,1]",
			"--symbol", "B=1"}
	}
	a, b, c := okJSON[runInfo](t, line("1")...), okJSON[runInfo](t, line("1")...), okJSON[runInfo](t, line("2")...)
	if !cmp.Equal(a.Outputs, b.Outputs) || cmp.Equal(a.Outputs, c.Outputs) {
		t.Errorf("seeds 1, 1 and 2 give %v, %v and %v", a.Outputs, b.Outputs, c.Outputs)
	}
	for _, dtype := range []ir.DType{ir.F32, ir.F16, ir.BF16, ir.F64, ir.F8E4M3, ir.I64, ir.I32, ir.U32, ir.I8,
		ir.U8, ir.Bool} {
		d, err := ir.NewData(dtype, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if d, err = fillRandom(testRand(), d, maxRandomInt); err != nil {
			t.Fatal(err)
		}
		info, err := describe("x", d)
		if err != nil {
			t.Fatal(err)
		}
		lo, hi := number(-1), number(1)
		switch {
		case dtype == ir.Bool:
			lo, hi = 0, 1
		case !dtype.IsFloat():
			lo, hi = 0, maxRandomInt-1
		}
		if *info.Min < lo || *info.Max > hi || *info.Min > lo+(hi-lo)/10 || *info.Max < hi-(hi-lo)/10 {
			t.Errorf("%s: from %v to %v, want %v to %v", dtype, *info.Min, *info.Max, lo, hi)
		}
	}
}

func TestDescribe(t *testing.T) {
	inf := []float64{0.5, 1, 2}
	inf[1] /= 0 * inf[0]
	nan := inf[1] - inf[1]
	for _, tt := range []struct {
		values []float64
		text   string
	}{
		{nil, "no elements []"},
		{[]float64{0.5, -2, 1}, "-2 to 1 [0.5 -2 1]"},
		{inf, "0.5 to +Inf [0.5 +Inf 2]"},
		{[]float64{nan, nan}, "2 NaN [NaN NaN]"},
		{[]float64{nan, 3}, "1 NaN, the others 3 to 3 [NaN 3]"},
		{make([]float64, 9), "0 to 0 [0 0 0 0 0 0 0 0 …]"},
	} {
		d, err := ir.FromFloats(ir.F32, tt.values, len(tt.values))
		if err != nil {
			t.Fatal(err)
		}
		o, err := describe("x", d)
		if err != nil {
			t.Fatal(err)
		}
		if got := o.span() + " " + o.first(); got != tt.text {
			t.Errorf("%v: %q, want %q", tt.values, got, tt.text)
		}
		if err := (&app{stdout: newOutput(&strings.Builder{})}).printJSON(o); err != nil {
			t.Errorf("%v: %v", tt.values, err)
		}
	}
}

// TestOutputNotWritten: an output path that cannot be written is an error and leaves no files.
func TestOutputNotWritten(t *testing.T) {
	devtest.OwnCache(t)
	dir := t.TempDir()
	fails(t, exitFailure, mlpArgs(t, "--device", "cpu", "--output", "label="+filepath.Join(dir, "no", "x.npy")),
		`output "label"`, "no such file")
	if err := os.Mkdir(filepath.Join(dir, "x.npy"), 0o700); err != nil {
		t.Fatal(err)
	}
	fails(t, exitFailure, mlpArgs(t, "--device", "cpu", "--output", "label="+filepath.Join(dir, "x.npy")),
		`output "label"`)
	if got := files(t, dir); len(got) != 1 {
		t.Errorf("left behind: %v", got)
	}
}

// TestRunLayers: a graph divided over two devices gives the reference's results.
func TestRunLayers(t *testing.T) {
	line := mlpArgs(t, "--device", "cpu,cpu")
	if r := ok(t, append(line, "--check")...); !strings.Contains(r.stderr, "layers over CPU fast path") {
		t.Errorf("it does not say what is where:\n%s", r.stderr)
	}
	fails(t, exitUsage, append(line, "--profile"), "--profile runs on one")
	fails(t, exitFailure, append(line[:len(line)-1], "cpu,"), "a name is missing")
}
