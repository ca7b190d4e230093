package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/bench"
)

// TestBench measures a few cases on the device, and reads its own file back.
func TestBench(t *testing.T) {
	needDevice(t)
	ownCache(t)
	file := filepath.Join(t.TempDir(), "bench.json")
	r := ok(t, "bench", "--scale", "tiny", "--filter", "^(add/f32|softmax/f32/64|matvec/q4_0/96x512/n1$|launch/dependent)", "--output", file)
	for _, want := range []string{"TFLOP/s", "ceiling", "add/f32/65536", "map wg=", "us a kernel", "4 cases: 4 ok, 0 refused", "ceilings measured: copy"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s", want, r.stdout)
		}
	}
	report, err := bench.ReadReport(file)
	if err != nil {
		t.Fatal(err)
	}
	add := report.Find("add/f32/65536")
	if add == nil || add.Status != bench.OK || add.Micros <= 0 || add.GBps <= 0 || add.Share <= 0 || add.Kernels != 1 || len(add.Schedules) != 1 || add.Moved != 3*4*65536 {
		t.Errorf("%+v", add)
	}
	if report.Device == "" || report.Driver == "" || report.Date.IsZero() || report.Ceilings.CopyGBps <= 0 || report.Ceilings.VectorF32 <= 0 {
		t.Errorf("%+v", report)
	}
}

func TestBenchList(t *testing.T) {
	needDevice(t)
	r := ok(t, "bench", "--list", "--scale", "full", "--suite", "attention,memory")
	if !strings.Contains(r.stdout, "attention\tattention/causal/h32_kv32/4096x4096/d128\n") || strings.Contains(r.stdout, "matmul\t") {
		t.Errorf("lists\n%s", r.stdout)
	}
}

func TestBenchRefuses(t *testing.T) {
	fails(t, exitUsage, []string{"bench", "--suite", "speed"}, "speed", "matmul, matvec")
	fails(t, exitUsage, []string{"bench", "--scale", "huge"}, "huge", "full, tiny, auto")
	fails(t, exitUsage, []string{"bench", "--filter", "("}, "--filter")
	fails(t, exitUsage, []string{"bench", "--filter", "^nothing"}, "matches no case", "matmul/f16/")
	fails(t, exitFailure, []string{"bench", "--device", "cpu"}, "Vulkan")
}
