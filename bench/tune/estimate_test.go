package tune

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/tunefile"
	"github.com/vkc-go/vkc/runtime"
)

// TestEstimate: more expensive kernels take longer, and no estimate is below the time of its memory traffic.
func TestEstimate(t *testing.T) {
	caps, err := device.Profile("amd-rdna3")
	if err != nil {
		t.Fatal(err)
	}
	k := &Kernel{Kernel: &kernel.Kernel{}}
	k.step.Moved = 1 << 20
	cost := func(change func(runtime.KernelCost)) runtime.KernelCost {
		c := runtime.KernelCost{runtime.InverseThroughput: 1000, runtime.Latency: 2000, runtime.Occupancy: 16}
		change(c)
		return c
	}
	time := func(workgroups float64, change func(runtime.KernelCost)) float64 {
		return estimate(k, kernel.Launch{}, caps, cost(change), workgroups, 256, 64)
	}
	plain := time(1e6, func(runtime.KernelCost) {})
	for name, slower := range map[string]float64{
		"twice the cycles":     time(1e6, func(c runtime.KernelCost) { c[runtime.InverseThroughput] *= 2 }),
		"nothing hides memory": time(1e6, func(c runtime.KernelCost) { c[runtime.Occupancy] = 1 }),
		"spills":               time(1e6, func(c runtime.KernelCost) { c[runtime.Spills] = 100 }),
		"more workgroups":      time(2e6, func(runtime.KernelCost) {}),
	} {
		if slower <= plain*1.05 {
			t.Errorf("%s: %v ns, and %v without", name, slower, plain)
		}
	}
	machine := device.MachineOf(caps)
	if least := float64(k.step.Moved) / machine.CopyGBps; time(1, func(runtime.KernelCost) {}) < least {
		t.Errorf("less than the %v ns that copying takes", least)
	}
}

func TestCompare(t *testing.T) {
	schedule := func(n int) kernel.Schedule {
		return kernel.Points{Launch: kernel.Launch{Variant: kernel.VarMap,
			Workgroup: n}}
	}
	file := func(times ...float64) *tunefile.File {
		k := tunefile.Kernel{Key: "k", About: "map"}
		for i, us := range times {
			k.Measured = append(k.Measured,
				tunefile.Measurement{Schedule: schedule(i), Status: tunefile.OK, Micros: us})
		}
		return &tunefile.File{Kernels: []tunefile.Kernel{k}}
	}
	// What one of them did not time does not count.
	got := Compare(file(1, 2, 3, 4, 0), file(30, 20, 10, 5, 1, 7))
	if diff := cmp.Diff([]Agreement{{"map", 4, -1}}, got); diff != "" {
		t.Error(diff)
	}
	other := file(1, 2)
	other.Kernels[0].Lengths = []int64{7}
	if got := Compare(file(1, 2), other); len(got) != 0 {
		t.Errorf("times at other lengths were compared: %v", got)
	}
}
