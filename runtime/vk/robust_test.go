package vk_test

import (
	"context"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// TestRobustDevice enables the driver's bounds checks and runs a kernel that writes far outside its buffers. The device
// must survive, and the valid writes must be right.
func TestRobustDevice(t *testing.T) {
	if have := vktest.Device(t, vk.DeviceOptions{}).Robustness(); have != vk.Unchecked {
		t.Errorf("a device that was not asked to check: %s", have)
	}
	dev := vktest.Device(t, vk.DeviceOptions{Robust: true})
	if have := dev.Robustness(); have == vk.Unchecked {
		t.Fatalf("a device that was asked to check: %s", have)
	}
	f := stray(t)
	exe := closing(t, must(dev.Load(context.Background(), f.program, f.spirv, f.weights, vk.LoadOptions{}))(t))
	x := ramp(1, 100)
	for _, place := range []float32{100, 1 << 20, 1 << 29} {
		x[0] = place
		r, err := exe.Run(context.Background(), inputs(x), runtime.RunOptions{})
		if err != nil {
			t.Fatalf("a write at element %v of 100: %v", place, err)
		}
		have := must(r.Outputs["y"].Floats())(t)
		want := make([]float64, 100)
		for i := range want {
			want[i] = 2 * float64(x[i])
		}
		if !slices.Equal(have, want) {
			t.Errorf("a write at element %v of 100 changed the others: %v", place, have)
		}
	}
}
