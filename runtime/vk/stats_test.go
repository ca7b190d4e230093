package vk_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// TestCostOf takes rows as drivers gave them for one shader.
func TestCostOf(t *testing.T) {
	tests := map[string]struct {
		driver uint32
		rows   []vk.Statistic
		want   runtime.KernelCost
	}{
		"radv": {3, []vk.Statistic{{Name: "SGPRs", Value: 108}, {Name: "VGPRs", Value: 12},
			{Name: "Spilled SGPRs", Value: 2},
			{Name: "Spilled VGPRs", Value: 1}, {Name: "Inverse Throughput", Value: 50}},
			runtime.KernelCost{runtime.Registers: 12, runtime.Spills: 3, runtime.InverseThroughput: 50}},
		"NVIDIA": {4, []vk.Statistic{{Name: "Register Count", Value: 255},
			{Name: "Local Memory Size", Value: 1<<36 + 112}},
			runtime.KernelCost{runtime.Registers: 255, runtime.Scratch: 112}},
		"turnip": {18, []vk.Statistic{{Name: "Registers used", Value: 6}, {Name: "Code size", Value: 264}},
			runtime.KernelCost{runtime.Registers: 24, runtime.CodeSize: 1056}},
		"honeykrisp": {26, []vk.Statistic{{Name: "GPRs", Value: 9}, {Name: "Threads", Value: 1024}},
			runtime.KernelCost{runtime.Registers: 4.5, runtime.Occupancy: 32}},
		"unknown driver": {9999, []vk.Statistic{{Name: "VGPRs", Value: 12}}, runtime.KernelCost{}},
	}
	for name, test := range tests {
		if diff := cmp.Diff(test.want, vk.CostOf(test.driver, test.rows)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestStatistics queries a driver's statistics of a shader. Software drivers have none.
func TestStatistics(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	desc := copyDesc(t)
	plain := pipeline(t, d, desc)
	if _, err := plain.Statistics(); err == nil || !strings.Contains(err.Error(), "PipelineDesc.Capture") {
		t.Errorf("statistics that were not asked for: %v", err)
	}
	desc.Capture = vk.CaptureStatistics | vk.CaptureRepresentations
	p, err := d.NewPipeline(desc)
	if !d.Caps().Features.PipelineExecutableProperties {
		if err == nil || !strings.Contains(err.Error(), "VK_KHR_pipeline_executable_properties") {
			t.Errorf("%s cannot say what it compiled, and the error is %v", d.Caps().Name, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	rows, err := p.Statistics()
	if err != nil || len(rows) == 0 {
		t.Errorf("%d statistics: %v", len(rows), err)
	}
	if _, err := p.Representations(); err != nil {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Statistics(); err == nil {
		t.Error("statistics of a closed pipeline")
	}
}

// TestRepresentationsCached: a driver shows the same representations for a pipeline from the cache as for a new one.
func TestRepresentationsCached(t *testing.T) {
	options := vk.DeviceOptions{CacheDir: t.TempDir()}
	var shown []int
	for _, from := range []string{"new", "cache"} {
		t.Run(from, func(t *testing.T) {
			d := vktest.Device(t, options)
			if !d.Caps().Features.PipelineExecutableProperties {
				t.Skipf("%s shows nothing", d.Caps().Name)
			}
			desc := copyDesc(t)
			desc.Capture = vk.CaptureRepresentations
			list, err := pipeline(t, d, desc).Representations()
			if err != nil {
				t.Fatal(err)
			}
			if shown = append(shown, len(list)); len(list) != shown[0] {
				t.Errorf("%d representations, want the %d of a new pipeline", len(list), shown[0])
			}
		})
	}
}
