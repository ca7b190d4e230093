package vk_test

import (
	"context"
	"errors"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// stray is a program with a kernel that writes wherever its input says.
func stray(t testing.TB) *fixture {
	f := newFixture(t, "stray")
	x := f.buffer(kernel.BufInput, "x", ir.ShapeOf(100))
	y := f.buffer(kernel.BufOutput, "y", ir.ShapeOf(100))
	f.step("stray", false, over(100), x, y)
	return f
}

func (f *fixture) loadGuarded(d *vk.Device) *vk.Executable {
	f.t.Helper()
	return closing(f.t, must(d.Load(context.Background(), f.program, f.spirv, f.weights,
		vk.LoadOptions{Guards: true}))(f.t))
}

// TestOverrunIsSeen runs a wrong kernel with a stray write that stays within the allocation.
func TestOverrunIsSeen(t *testing.T) {
	exe := stray(t).loadGuarded(vktest.Device(t, vk.DeviceOptions{}))
	for _, tt := range []struct{ place, want int64 }{{0, 0}, {99, 0}, {100, 400}, {103, 412}, {104, 416},
		{4000, 16000}, {50, 0}} {
		x := ramp(1, 100)
		x[0] = float32(tt.place)
		_, err := exe.Run(context.Background(), inputs(x), runtime.RunOptions{})
		var overrun *vk.OverrunError
		switch {
		case tt.want == 0 && err != nil:
			t.Errorf("a write at element %d: %v", tt.place, err)
		case tt.want > 0 && !errors.As(err, &overrun):
			t.Errorf("a write at element %d of 100: error %v, want an OverrunError", tt.place, err)
		case tt.want > 0 && (overrun.Name != "y" || overrun.State || overrun.Offset != tt.want || overrun.Size != 400):
			t.Errorf("a write at element %d: %v; want it at byte %d of y", tt.place, err, tt.want)
		}
	}
}

// TestStateGuards checks that writes before and after a state are detected.
func TestStateGuards(t *testing.T) {
	dev := vktest.Device(t, vk.DeviceOptions{})
	for _, offset := range []int64{-1, -4096, 256, 300} {
		exe := counter(t, 64).loadGuarded(dev)
		in := inputs(ramp(1, 64))
		if _, err := exe.Run(context.Background(), in, runtime.RunOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := exe.ResetStates(); err != nil {
			t.Fatal(err)
		}
		r := must(exe.Run(context.Background(), in, runtime.RunOptions{}))(t)
		if have := must(r.Outputs["twice"].Floats())(t); have[0] != 2 || have[63] != 128 {
			t.Errorf("twice the sum is %v to %v", have[0], have[63])
		}
		if err := exe.Damage("sum", offset); err != nil {
			t.Fatal(err)
		}
		_, err := exe.Run(context.Background(), in, runtime.RunOptions{})
		var overrun *vk.OverrunError
		if !errors.As(err, &overrun) || overrun.Name != "sum" || !overrun.State || overrun.Offset != offset {
			t.Errorf("a change at byte %d of 256: %v", offset, err)
		}
	}
}

// TestGuardedPrograms checks that guards change no results, with lengths that vary and with staging.
func TestGuardedPrograms(t *testing.T) {
	for _, opt := range placements {
		dev := vktest.Device(t, opt)
		exe := symbolic(t, 5000).loadGuarded(dev)
		for _, n := range []int{3, 5000, 1} {
			in := inputs(ramp(0, 8*n), n, 8)
			r := must(exe.Run(context.Background(), in, runtime.RunOptions{Symbols: map[string]int64{"U": 1}}))(t)
			have := must(r.Outputs["y"].Floats())(t)
			if len(have) != 8*n || have[0] != float64(n) || have[8*n-1] != float64(8*n-1+n) {
				t.Errorf("%d rows: %d values from %v to %v", n, len(have), have[0], have[len(have)-1])
			}
		}
	}
}
