package optest_test

import (
	"context"
	"os"
	"regexp"
	goruntime "runtime"
	"testing"
	"time"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/cachefile"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/optest"
	"github.com/vkc-go/vkc/runtime"
)

// atOnce is how many cases share a graph, and so a start of the GLSL compiler: more than a user's, because few fail.
const atOnce = 96

// TestMain gives the tests a cache of their own.
func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "vkc-optest-")
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
func openDevice(t *testing.T) *vkc.Device {
	t.Helper()
	tools, err := spirv.Find(context.Background(), spirv.FindOptions{})
	if err == nil {
		err = tools.Ready()
	}
	skipOrFail(t, err)
	want := os.Getenv("VKC_DEVICE")
	if want == "" {
		want = "vulkan"
	}
	dev, err := vkc.OpenDevice(want)
	vktest.Need(t, err)
	vktest.CloseAfter(t, dev)
	return dev
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

// TestDevice runs the quick cases, or those matching VKC_OPTEST, on the device.
func TestDevice(t *testing.T) {
	dev := openDevice(t)
	opt := optest.Options{Smoke: true}
	if text := os.Getenv("VKC_OPTEST"); text != "" {
		filter, err := regexp.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		opt = optest.Options{Filter: filter}
	}
	opt.Jobs, opt.Batch = goruntime.GOMAXPROCS(0), atOnce
	start := time.Now()
	report, err := optest.Run(context.Background(),
		func(ctx context.Context, g *ir.Graph, w ir.WeightSource) (runtime.Executable, error) {
			p, err := dev.Compile(ctx, g, vkc.CompileOptions{})
			if err != nil {
				return nil, err
			}
			return dev.Load(ctx, p, vkc.LoadOptions{Weights: w, Guards: true})
		}, opt)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Failures() {
		t.Errorf("%s: %s", f.Case, f.Reason)
	}
	total := report.Total()
	t.Logf("%s: %d cases in %v, %d refused", dev.Name(), total.Cases,
		time.Since(start).Round(time.Second), total.Refused)
	for _, s := range report.Summaries() {
		for _, reason := range s.Reasons {
			t.Logf("%s: %d of %d refused: %s", s.Op, s.Refused, s.Cases, reason)
		}
	}
}
