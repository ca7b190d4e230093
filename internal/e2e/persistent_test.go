package e2e_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/check"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
)

// allRuns has a persistent kernel of so many workgroups do each run of steps that one can do.
func allRuns(groups int) func(*kernel.Program, []*kernel.Kernel, []kernel.Schedule, device.Caps) []schedule.Run {
	return func(p *kernel.Program, _ []*kernel.Kernel, schedules []kernel.Schedule,
		_ device.Caps) (runs []schedule.Run) {
		can := func(i int) bool {
			return p.Steps[i].Grid.IsStatic() && schedules[i].Config().Variant != kernel.VarCustom
		}
		for i := p.Prepared; i < len(p.Steps); {
			n := 1
			alike := func(a, b kernel.Launch) bool { return a.Workgroup == b.Workgroup && a.Subgroup == b.Subgroup }
			for i+n < len(p.Steps) && can(i) && can(i+n) && p.Steps[i+n].Barrier &&
				alike(schedules[i].Config(), schedules[i+n].Config()) {
				n++
			}
			if n > 1 && (i+n == len(p.Steps) || p.Steps[i+n].Barrier) && (p.Begins(i) || p.Steps[i].Barrier) {
				runs = append(runs, schedule.Run{First: i, Count: n, Groups: groups})
			}
			i += n
		}
		return runs
	}
}

// step is a step of a two-layer language model with the KV caches in states.
func step(t *testing.T) (*ir.Graph, *gguf.File) {
	t.Helper()
	f, err := gguf.Open("../../examples/gollama/gollama-q8_0.gguf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	cfg, err := llm.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Layers = 2
	g, err := llm.Step(cfg, 16)
	if err != nil {
		t.Fatal(err)
	}
	return g, f
}

// loadStep compiles it for a device and loads it.
func loadStep(t *testing.T, dev *vkc.Device, g *ir.Graph, f *gguf.File,
	opt compiler.Options) (*vkc.Program, *vkc.Executable) {
	t.Helper()
	p := compileWith(t, dev.Caps(), g, opt)
	exe, err := dev.Load(t.Context(), p, vkc.LoadOptions{Weights: f})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { exe.Close() })
	return p, exe
}

// Persistent kernels give the same bits as their separate steps. The test makes several runs with different symbols,
// and one phase reads states that another writes. One workgroup executes all tiles of each phase in a loop.
func TestPersistent(t *testing.T) {
	devtest.NeedTools(t)
	dev := devtest.OpenDevice(t)
	g, f := step(t)
	_, apart := loadStep(t, dev, g, f, compiler.Options{})
	p, exe := loadStep(t, dev, g, f, compiler.Options{Persistence: allRuns(1)})
	steps := 0
	for _, k := range p.Contents.Program.Persistent {
		steps += k.Count
	}
	if n := exe.Vulkan().Stats().Persistent; n == 0 || n != len(p.Contents.Program.Persistent) || steps < 6 {
		t.Fatalf("%d persistent kernels of %d are run, for %d steps", n, len(p.Contents.Program.Persistent), steps)
	}
	checker, err := check.New(g, f)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		in, o := oneToken(t, i)
		o.Profile = i == 3
		want, err := apart.Run(t.Context(), in, o)
		if err != nil {
			t.Fatal(err)
		}
		have, err := exe.Run(t.Context(), in, o)
		if err != nil {
			t.Fatal(err)
		}
		for name, x := range want.Outputs {
			if !slices.Equal(x.Bytes, have.Outputs[name].Bytes) {
				t.Errorf("run %d: %s differs from what the steps compute", i, name)
			}
		}
		report, err := checker.Check(t.Context(), exe, in, o.Symbols, have.Outputs)
		if err != nil {
			t.Fatal(err)
		}
		if err := report.Err(); err != nil || len(report.Values) < 3 {
			t.Errorf("run %d, %d values: %v", i, len(report.Values), err)
		}
		if o.Profile && len(have.Profile.Kernels) != len(p.Contents.Program.Steps) {
			t.Errorf("a profile of %d kernels, of %d", len(have.Profile.Kernels), len(p.Contents.Program.Steps))
		}
	}
}

// oneToken returns inputs for a run that extends a text of i tokens by one.
func oneToken(t *testing.T, i int) (vkc.Tensors, vkc.RunOptions) {
	t.Helper()
	d, err := vkc.Of([]int32{int32(7 * i)}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return vkc.Tensors{"tokens": d}, vkc.RunOptions{Symbols: map[string]int64{"S": int64(i + 1)}}
}

// A device that has no room for all workgroups at a time runs the steps instead.
func TestPersistentWithoutRoom(t *testing.T) {
	devtest.NeedTools(t)
	dev := devtest.OpenDevice(t)
	g, f := step(t)
	p, exe := loadStep(t, dev, g, f, compiler.Options{Persistence: allRuns(1 << 15)})
	if n := exe.Vulkan().Stats().Persistent; n != 0 || len(p.Contents.Program.Persistent) == 0 {
		t.Fatalf("%d persistent kernels of %d are run", n, len(p.Contents.Program.Persistent))
	}
	if why := exe.Why(); !strings.Contains(why, "no room for all workgroups of a persistent kernel") {
		t.Errorf("nobody is told: %s", why)
	}
	checker, err := check.New(g, f)
	if err != nil {
		t.Fatal(err)
	}
	in, o := oneToken(t, 0)
	have, err := exe.Run(t.Context(), in, o)
	if err != nil {
		t.Fatal(err)
	}
	report, err := checker.Check(t.Context(), exe, in, o.Symbols, have.Outputs)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Err(); err != nil || len(report.Values) < 3 {
		t.Errorf("%d values: %v", len(report.Values), err)
	}
}
