package vk_test

import (
	"context"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// prepared computes y = 2*x + 4*w. 4*w is prepared with a temporary whose memory the run's temporary reuses. So
// preparing again after a run, or too late, would change the result.
func prepared(t testing.TB, n int) *fixture {
	f := newFixture(t, "prepared")
	x := f.buffer(kernel.BufInput, "x", ir.ShapeOf(n))
	y := f.buffer(kernel.BufOutput, "y", ir.ShapeOf(n))
	w := f.buffer(kernel.BufWeight, "w", ir.ShapeOf(n))
	f.program.Buffers[w].Segments = []kernel.Segment{{Weight: "w", DType: ir.F32, Dims: []int{n}}}
	f.weights = mapSource{"w": tensor(ramp(7, n), n)}
	kept := f.buffer(kernel.BufPrepared, "kept", ir.ShapeOf(n))
	early, late := f.temp(n, 0), f.temp(n, 0)
	f.step("double", false, over(n), w, early)
	f.step("double", true, over(n), early, kept)
	f.program.Prepared = len(f.program.Steps)
	f.step("double", false, over(n), x, late)
	f.step("add", true, over(n), late, kept, y)
	return f
}

func TestProgramPrepared(t *testing.T) {
	for name, options := range placements {
		t.Run(name, func(t *testing.T) {
			d := vktest.Device(t, options)
			const n = 1003
			e := prepared(t, n).load(d)
			for i := range 3 {
				x := ramp(float32(i), n)
				want := scaled(x, 2)
				for j, w := range ramp(7, n) {
					want[j] += 4 * w
				}
				r := runProgram(t, e, inputs(x), runtime.RunOptions{Profile: i > 0})
				expect(t, "y", r.Outputs["y"], want)
				if i > 0 && d.Caps().TimestampBits > 0 &&
					(len(r.Profile.Kernels) != 2 || r.Profile.Kernels[0].Name != "double 2") {
					t.Errorf("the profile of a run has %+v", r.Profile.Kernels)
				}
			}
			if s := e.Stats(); s.Steps != 2 || s.Prepared != 2 || s.Bytes[kernel.BufPrepared] < 4*n {
				t.Errorf("%+v", s)
			}
		})
	}
}

// Replicas of a prepared program have their own prepared buffers.
func TestReplicasPrepared(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	e := prepared(t, 100).load(d)
	live := d.Live()["buffer"]
	r := must(e.Replicate(context.Background(), 2))(t)
	defer r.Close()
	if got := d.Live()["buffer"] - live; got != 4 {
		t.Errorf("a copy has %d buffers; want 4: an input, an output, a weight and what is made of it", got)
	}
	b := must(r.Burst(1, 2))(t)
	defer b.Close()
	must(b.Submit())(t)
	if err := d.WaitIdle(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// What is prepared of equal weights by equal steps is on a device once, in any order of loading and closing.
func TestPreparedShared(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	const n = 1003
	check := func(e *vk.Executable, factor, kept float32) {
		t.Helper()
		want := scaled(ramp(1, n), 2)
		for j, w := range ramp(7, n) {
			want[j] += kept * factor * w
		}
		expect(t, "y", runProgram(t, e, inputs(ramp(1, n)), runtime.RunOptions{}).Outputs["y"], want)
	}
	own := func(e *vk.Executable) int64 { return e.Stats().Bytes[kernel.BufPrepared] }
	first := prepared(t, n).load(d)
	second := prepared(t, n).load(d)
	heavier := prepared(t, n)
	heavier.weights = mapSource{"w": tensor(scaled(ramp(7, n), 3), n)}
	third := heavier.load(d)
	shorter := prepared(t, n) // prepares 2*w
	shorter.program.Steps = append(shorter.program.Steps[:0:0], shorter.program.Steps...)
	shorter.program.Steps[1].Binds = append(shorter.program.Steps[1].Binds[:0:0], shorter.program.Steps[1].Binds...)
	shorter.program.Steps[1].Binds[0].Buffer = shorter.program.Steps[0].Binds[0].Buffer
	fourth := shorter.load(d)
	if own(first) == 0 || own(second) != 0 || own(third) == 0 || own(fourth) == 0 {
		t.Errorf("bytes prepared: %d, %d by one that is equal, %d of other weights, %d by other steps",
			own(first), own(second), own(third), own(fourth))
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	check(second, 1, 4)
	check(third, 3, 4)
	check(fourth, 1, 2)
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	again := prepared(t, n).load(d)
	if own(again) == 0 {
		t.Error("what all have closed is still shared")
	}
	check(again, 1, 4)
}
