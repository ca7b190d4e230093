package schedule_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// chainOf is a program of steps that each depend on the previous one, with kernels and schedules. They are maps with
// the given numbers of workgroups of 256, each with its own shader.
func chainOf(groups ...int) (*kernel.Program, []*kernel.Kernel, []kernel.Schedule) {
	p := &kernel.Program{}
	var kernels []*kernel.Kernel
	var schedules []kernel.Schedule
	for i, n := range groups {
		p.Buffers = append(p.Buffers, kernel.Buffer{Kind: kernel.BufTemp, Bytes: 1024, Offset: int64(1024 * i)})
		s := kernel.Step{Shader: i, Barrier: i > 0, Grid: kernel.Grid{{{Extent: ir.D(n), Tile: 1}}},
			Binds: []kernel.Bind{{Buffer: i, Write: true}}}
		if i > 0 {
			s.Binds = append(s.Binds, kernel.Bind{Buffer: i - 1, Read: true})
		}
		p.Steps = append(p.Steps, s)
		kernels = append(kernels, &kernel.Kernel{Family: kernel.FamilyMap})
		schedules = append(schedules, kernel.Points{Launch: kernel.Launch{Variant: kernel.VarMap, Workgroup: 256}})
	}
	return p, kernels, schedules
}

func profileOf(t *testing.T, name string) device.Caps {
	t.Helper()
	caps, err := device.Profile(name)
	if err != nil {
		t.Fatal(err)
	}
	return caps
}

// TestRuns checks which steps of a chain become persistent kernels on an H100, with 132 cores of 2048 invocations.
func TestRuns(t *testing.T) {
	type run struct{ first, count, groups int }
	h100 := profileOf(t, "nvidia-h100")
	off, err := h100.Without("persistent")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		what   string
		caps   device.Caps
		groups []int
		change func(p *kernel.Program, s []kernel.Schedule)
		want   []run
	}{
		{what: "small ones are one", groups: []int{4, 192, 2}, want: []run{{0, 3, 192}}},
		{what: "one that fills the device several times ends a run", groups: []int{4, 4, 5000, 4, 4},
			want: []run{{0, 2, 4}, {3, 2, 4}}},
		{what: "waiting takes many workgroups longer than a launch", groups: []int{900, 900}},
		{what: "one alone is none", groups: []int{4}},
		{what: "steps without a barrier between them run side by side", groups: []int{4, 4, 4, 4},
			change: func(p *kernel.Program, _ []kernel.Schedule) { p.Steps[2].Barrier = false }},
		{what: "workgroups of another size", groups: []int{4, 4, 4, 4},
			change: func(_ *kernel.Program, s []kernel.Schedule) {
				s[2] = kernel.Points{Launch: kernel.Launch{Variant: kernel.VarMap, Workgroup: 128}}
			}, want: []run{{0, 2, 4}}},
		{what: "a number of workgroups that depends on a symbol", groups: []int{4, 4, 4},
			change: func(p *kernel.Program, _ []kernel.Schedule) { p.Steps[2].Grid[0][0].Extent = ir.Symbol("T", 9) },
			want:   []run{{0, 2, 4}}},
		{what: "a kernel that is there already begins another", groups: []int{4, 4, 4, 4},
			change: func(p *kernel.Program, _ []kernel.Schedule) { p.Steps[2].Shader, p.Steps[3].Shader = 0, 1 },
			want:   []run{{0, 2, 4}, {2, 2, 4}}},
		{what: "what all read takes longer through the cache than a launch", groups: []int{4, 200},
			change: func(p *kernel.Program, _ []kernel.Schedule) { p.Buffers[0].Bytes = 1 << 20 }},
		{what: "a step that is prepared is none of a run", groups: []int{4, 4, 4},
			change: func(p *kernel.Program, _ []kernel.Schedule) { p.Prepared = 1 }, want: []run{{1, 2, 4}}},
		{what: "a region begins", groups: []int{4, 4, 4, 4},
			change: func(p *kernel.Program, _ []kernel.Schedule) {
				p.Regions = []kernel.Region{{First: 2, Count: 2, Trips: ir.D(3)}}
			}, want: []run{{0, 2, 4}, {2, 2, 4}}},
		{what: "turned off", caps: off, groups: []int{4, 4}},
		{what: "a device of which nothing is known", caps: profileOf(t, "amd-rdna3"), groups: []int{4, 4}},
		{what: "NVIDIA's hardware by another driver", caps: profileOf(t, "nvidia-ada-nvk"), groups: []int{4, 4}},
	} {
		if tt.caps.Name == "" {
			tt.caps = h100
		}
		p, kernels, schedules := chainOf(tt.groups...)
		if tt.change != nil {
			tt.change(p, schedules)
		}
		var have []run
		for _, r := range schedule.Runs(p, kernels, schedules, tt.caps) {
			have = append(have, run{r.First, r.Count, r.Groups})
			if !strings.Contains(r.Why, "us gained") {
				t.Errorf("%s: it does not say why: %q", tt.what, r.Why)
			}
		}
		if !slices.Equal(have, tt.want) {
			t.Errorf("%s: runs %v, want %v", tt.what, have, tt.want)
		}
	}
}
