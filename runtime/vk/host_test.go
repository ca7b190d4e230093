package vk_test

import (
	"fmt"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// summing adds three weights to its input.
func summing(t testing.TB, n int) *fixture {
	f := newFixture(t, "summing")
	weights := mapSource{}
	last := f.buffer(kernel.BufInput, "x", ir.ShapeOf(n))
	for i := range 3 {
		name := fmt.Sprint("w", i)
		w := f.buffer(kernel.BufWeight, name, ir.ShapeOf(n))
		f.program.Buffers[w].Segments = []kernel.Segment{{Weight: name, DType: ir.F32, Dims: []int{n}}}
		weights[name] = tensor(ramp(float32(100*i), n), n)
		var sum int
		if i == 2 {
			sum = f.buffer(kernel.BufOutput, "y", ir.ShapeOf(n))
		} else {
			sum = f.temp(n, int64(i)*int64(4*n+255)/256*256)
		}
		f.step("add", i > 0, over(n), last, w, sum)
		last = sum
	}
	f.weights = weights
	return f
}

// TestWeightRoom: weights that do not fit on the device are in host memory, beginning with the least read ones, and
// kernels read them there. A second program uses the same memory.
func TestWeightRoom(t *testing.T) {
	const n = 1 << 14
	x, want := ramp(1, n), scaled(ramp(1, n), 4)
	for i := range want {
		want[i] = x[i] + 3*float32(i) + 300
	}
	for _, tt := range []struct {
		room  uint64
		first string
		own   uint64
	}{
		{room: 2 * 4 * n, own: 2 * 4 * n}, {room: 2*4*n - 1, first: "w0", own: 4 * n}, {room: 1, own: 0},
		{room: 0, own: 3 * 4 * n}, {room: 3 * 4 * n, first: "w1", own: 3 * 4 * n},
	} {
		d := vktest.Device(t, vk.OwnAsHost(vk.DeviceOptions{}))
		opt := vk.LoadOptions{WeightRoom: tt.room, HostFirst: map[string]bool{tt.first: true}}
		for range 2 {
			f := summing(t, n)
			e := closing(t, must(d.Load(t.Context(), f.program, f.spirv, f.weights, opt))(t))
			use := d.MemoryStats().Owners
			if use[runtime.OwnWeights] != tt.own || use[runtime.OwnHostWeights] != 3*4*n-tt.own {
				t.Errorf("room for %d bytes: %v, want %d of weights on the device", tt.room, use, tt.own)
			}
			expect(t, "y", runProgram(t, e, inputs(x), runtime.RunOptions{}).Outputs["y"], want)
		}
	}
	d := vktest.Device(t, vk.DeviceOptions{})
	if !d.HasHostMemory() {
		f := summing(t, n)
		_, err := d.Load(t.Context(), f.program, f.spirv, f.weights, vk.LoadOptions{WeightRoom: 4 * n})
		wantError(t, err, "has no memory but its own", "leave out the bound of 64.0 KiB")
	}
}
