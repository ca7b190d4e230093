package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/bench"
	"github.com/vkc-go/vkc/internal/devtest"
)

// TestBench measures a case of each suite on the device, and reads its own file back.
func TestBench(t *testing.T) {
	needDevice(t)
	devtest.OwnCache(t)
	file, trace := filepath.Join(t.TempDir(), "bench.json"), filepath.Join(t.TempDir(), "trace.json")
	r := ok(t, "bench", "--scale", "tiny", "--filter",
		"^(matmul/f16/32x32x32|matvec/q4_0/96x512/n1$|add/f32/65536|softmax/f32/64x256|attention/full/h4_kv1/1x64/d64|"+
			"launch/dependent)", "--output", file, "--trace", trace)
	has(t, r.stdout, "GFLOP/s", "add/f32/65536\n", "50 kernels, busy", "TFLOP/s", "ceiling", "add/f32/65536",
		"map wg=", "us a kernel", "6 cases: 6 ok, 0 refused", "ceilings measured: copy")
	if text, err := os.ReadFile(trace); err != nil || !strings.Contains(string(text), `"softmax/f32/64x256"`) ||
		!strings.Contains(string(text), `"traceEvents"`) {
		t.Errorf("the trace: %v\n%s", err, text)
	}
	report, err := bench.ReadReport(file)
	if err != nil {
		t.Fatal(err)
	}
	add := report.Find("add/f32/65536")
	if add == nil || add.Status != bench.OK || add.Micros <= 0 || add.GBps <= 0 || add.Share <= 0 || add.Kernels != 1 ||
		len(add.Schedules) != 1 || add.Moved != 3*4*65536 {
		t.Errorf("%+v", add)
	}
	if report.Device == "" || report.Driver == "" || report.Date.IsZero() || report.Ceilings.CopyGBps <= 0 ||
		report.Ceilings.VectorF32 <= 0 {
		t.Errorf("%+v", report)
	}
}

// TestBenchReference measures cases on the CPU fast path, which has no ceilings and no kernels.
func TestBenchReference(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bench.json")
	r := ok(t, "bench", "--device", "cpu", "--filter", "^(matmul/f32/16x16x16|add/f32/32|launch/dependent/50)$",
		"--output", file)
	has(t, r.stdout, "matmul/f32/16x16x16 ", "us a kernel", "3 cases: 3 ok, 0 refused")
	if strings.Contains(r.stdout, "ceilings measured") {
		t.Errorf("prints\n%s", r.stdout)
	}
	report, err := bench.ReadReport(file)
	if err != nil {
		t.Fatal(err)
	}
	if add := report.Find("add/f32/32"); add == nil || add.Status != bench.OK || add.Micros <= 0 || add.GBps <= 0 ||
		add.Kernels != 0 || add.Share != 0 || add.Replays < 3 {
		t.Errorf("%+v", add)
	}
	if !strings.HasPrefix(report.Device, "CPU fast path, GOMAXPROCS=") || report.API != "" {
		t.Errorf("%q, Vulkan %q", report.Device, report.API)
	}
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte(bench.PageBegin+"\n"+bench.PageEnd+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ok(t, "bench", "--from", file, "--page", page)
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "| add/f32/32 |") ||
		strings.Contains(string(text), "Ceilings") {
		t.Errorf("the page: %v\n%s", err, text)
	}
}

// TestBenchModelReference measures a model on the CPU fast path.
func TestBenchModelReference(t *testing.T) {
	r := ok(t, "bench", "--device", "cpu", "-m", gollama, "-p", "0", "-n", "2", "--n-depth", "0", "-r", "1")
	has(t, r.stdout, "  CPU  ", "tg2", "1 cases: 1 ok")
}

// TestBenchAgainst compares a stored run with itself and with one twice as fast,
// needing no device.
func TestBenchAgainst(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, us float64) string {
		file := filepath.Join(dir, name)
		text := fmt.Sprintf(
			`{"format":%q,"device":"d","results":[{"suite":"memory","name":"add","status":"ok","us":%v,"moved":8,"gbps":3}],"ceilings":{"copy_gbps":4}}`, bench.ReportFormat, us)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	slow, fast := write("slow.json", 10), write("fast.json", 5)
	page, plot := filepath.Join(dir, "page.md"), filepath.Join(dir, "plot.svg")
	if err := os.WriteFile(page, []byte("top\n"+bench.PageBegin+"\n"+bench.PageEnd+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := ok(t, "bench", "--from", slow, "--against", fast, "--page", page, "--plot", plot)
	if !strings.Contains(r.stdout, "0.50x  5.00 us") {
		t.Errorf("prints\n%s", r.stdout)
	}
	for _, file := range []string{page, plot} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "add") {
			t.Errorf("%s: %v\n%s", file, err, text)
		}
	}
	ok(t, "bench", "--from", fast, "--from", slow, "--against", slow, "--max-regress", "1")
	ok(t, "bench", "--from", slow, "--against", "h100", "--max-regress", "1")
	fails(t, exitFailure, []string{"bench", "--from", slow, "--against", fast, "--max-regress", "50"},
		"add takes 10.00 us, 100.0% more")
	fails(t, exitFailure, []string{"bench", "--from", slow, "--chart", plot}, "no result has tokens a second", "-m")
	fails(t, exitFailure, []string{"bench", "--from", slow, "--page", plot}, "--page", "lacks the lines")
	fails(t, exitFailure, []string{"bench", "--from", filepath.Join(dir, "none")}, "--from")
	fails(t, exitFailure, []string{"bench", "--against", page}, "--against", "neither")
	fails(t, exitUsage, []string{"bench", "--max-regress", "5"}, "--against")
}

// TestBenchCheck: a case that only some devices run is no mistake.
func TestBenchCheck(t *testing.T) {
	for filter, good := range map[string]bool{"full/h4_kv4/32x32/d64": true, "full/h32_kv32/4096x4096/d64": true,
		"h5_kv5": false} {
		if err := (&benchFlags{scale: "auto", filter: filter}).check(); (err == nil) != good {
			t.Errorf("--filter %s: %v", filter, err)
		}
	}
}

// TestBenchTarget compiles for another profile than the device's, and says so.
func TestBenchTarget(t *testing.T) {
	needDevice(t)
	devtest.OwnCache(t)
	file := filepath.Join(t.TempDir(), "bench.json")
	r := ok(t, "bench", "--scale", "tiny", "--target", "generic", "--filter", "^matmul/f16/32x32x32", "--output", file)
	if !strings.Contains(r.stdout, "compiled for generic") {
		t.Errorf("does not say what it was compiled for:\n%s", r.stdout)
	}
	report, err := bench.ReadReport(file)
	if err != nil {
		t.Fatal(err)
	}
	if report.Target != "generic" || len(report.Results) == 0 ||
		!strings.Contains(strings.Join(report.Results[0].Schedules, "\n"), "tile=16x16x16") {
		t.Errorf("no schedule of the generic profile in %+v", report)
	}
	other := *report
	if other.Target = ""; report.Merge(&other) == nil {
		t.Error("results of two targets are merged")
	}
}

func TestBenchList(t *testing.T) {
	needDevice(t)
	r := ok(t, "bench", "--list", "--scale", "full", "--suite", "attention,memory")
	if !strings.Contains(r.stdout, "attention\tattention/causal/h32_kv32/4096x4096/d128\n") ||
		strings.Contains(r.stdout, "matmul\t") {
		t.Errorf("lists\n%s", r.stdout)
	}
}

func TestBenchRefuses(t *testing.T) {
	fails(t, exitUsage, []string{"bench", "--suite", "speed"}, "speed", "matmul, matvec")
	fails(t, exitUsage, []string{"bench", "--scale", "huge"}, "huge", "full, tiny, auto")
	fails(t, exitUsage, []string{"bench", "--target", "h1"}, "h1", "generic", "lavapipe")
	fails(t, exitUsage, []string{"bench", "--filter", "("}, "--filter")
	fails(t, exitUsage, []string{"bench", "--filter", "^nothing"}, "matches no case", "matmul/f16/")
	fails(t, exitUsage, []string{"bench", "--device", "cpu", "--target", "generic"}, "vkc compiles nothing")
}

// TestBenchModel measures a model of a file, and says which tests it has no positions for.
func TestBenchModel(t *testing.T) {
	needDevice(t)
	devtest.OwnCache(t)
	withoutOptimizer(t)
	file := filepath.Join(t.TempDir(), "bench.json")
	line := []string{"bench", "--suite", "model", "-m", gollama, "-p", "6", "-n", "2", "--n-depth", "8,2000", "-r", "2",
		"-b", "4"}
	r := ok(t, append(line, "--output", file)...)
	has(t, r.stdout, "t/s", "gollama q8_0", "7.34 M", "pp6 @ d8", "tg2 @ d8", " ± ",
		"refused: 2002 positions: the model was trained for 1024", "4 cases: 2 ok, 2 refused")
	report, err := bench.ReadReport(file)
	if err != nil {
		t.Fatal(err)
	}
	res := report.Find("gollama q8_0/tg2 @ d8")
	if res == nil || res.Text == nil || res.Status != bench.OK || res.Micros <= 0 {
		t.Fatalf("%+v", res)
	}
	if text := *res.Text; text.Mean <= 0 || text.Device <= 0 || text.Params != 7344384 || text.Size < text.Params {
		t.Errorf("%+v", text)
	}
	has(t, ok(t, append(line, "--filter", "tg", "--list")...).stdout, "model\tgollama q8_0/tg2 @ d8\n")
}

// TestBenchModelSplits says how two devices have a model, and why.
func TestBenchModelSplits(t *testing.T) {
	needDevice(t)
	devtest.OwnCache(t)
	withoutOptimizer(t)
	line := []string{"bench", "-m", twoLayers(t), "-d", "vulkan,vulkan", "-p", "0", "-n", "2", "--n-depth", "0",
		"-r", "1", "-b", "2", "--split"}
	for split, want := range map[string][]string{
		"auto":   {"one device is cheapest: ", "layers: ", "tensor: "},
		"layers": {"tg2 runs on "},
		// Whether kernels can wait for one another is found out in a limited time, and so not always on a busy machine.
		"tensor": {"tg2 runs on tensor parallel over ", "the devices exchange values 4 times a run: "},
	} {
		file := filepath.Join(t.TempDir(), "bench.json")
		r := ok(t, append(line, split, "--output", file)...)
		has(t, r.stderr, want...)
		has(t, r.stdout, "1 cases: 1 ok")
		report, err := bench.ReadReport(file)
		if err != nil {
			t.Fatal(err)
		}
		// A device's clock covers only that device.
		text := report.Results[0].Text
		if oneClock := split == "auto"; text.Mean <= 0 || (text.Device > 0) != oneClock {
			t.Errorf("--split %s: %.1f tokens a second, %.1f by a clock of the device", split, text.Mean, text.Device)
		}
	}
	fails(t, exitUsage, append(line, "rows"), "--split", "rows", "layers, tensor, auto")
}

func TestBenchModelRefuses(t *testing.T) {
	fails(t, exitUsage, []string{"bench", "-p", "512"}, "--n-prompt goes with -m MODEL.gguf")
	fails(t, exitUsage, []string{"bench", "-m", gollama, "--suite", "memory"}, "--suite memory has no cases that "+
		"read a file")
	fails(t, exitUsage, []string{"bench", "-m", gollama, "--kv", "f17"}, "--kv", "f17")
	fails(t, exitUsage, []string{"bench", "-m", gollama, "-n", "-1"}, "--n-gen -1: want at least 0")
	fails(t, exitUsage, []string{"bench", "-m", gollama, "-n", "0", "-p", "0"}, "--n-prompt and --n-gen are both 0")
	fails(t, exitUsage, []string{"bench", "-m", gollama, "--split", "tensor", "-d", "cpu"},
		"--split tensor: a single device (--device cpu)", "name several")
	fails(t, exitUsage, []string{"bench", "-m", gollama, "-b", "0"}, "--batch 0: want at least 1")
	fails(t, exitFailure, []string{"bench", "-m", filepath.Join(t.TempDir(), "no.gguf")}, "no.gguf")
}
