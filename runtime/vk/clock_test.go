package vk_test

import (
	"testing"
	"time"

	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// TestCalibrate: a time taken on the device lies between two taken on the host, before and after.
func TestCalibrate(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	began := time.Now()
	clock, ok := d.Calibrate()
	took := time.Since(began)
	if ok != d.Caps().Features.CalibratedTimestamps {
		t.Logf("calibrated: %v; the device advertises %v", ok, d.Caps().Features.CalibratedTimestamps)
	}
	if !ok {
		t.Skip("the device's clock cannot be compared with the host's")
	}
	if clock.Deviation <= 0 || clock.Deviation > took { // clock: a busy machine makes the bound wider
		t.Errorf("a deviation of %v, of clocks that were read within %v", clock.Deviation, took)
	}
	stamps := closing(t, must(d.NewTimestamps(1))(t))
	c := d.NewCommandList()
	c.ResetTimestamps(stamps)
	c.Timestamp(stamps, 0)
	r := record(t, d, c)
	before := time.Now()
	run(t, d, r)
	after := time.Now()
	at := clock.At(must(stamps.Ticks(0, 1))(t)[0])
	if at.Before(before.Add(-clock.Deviation)) || at.After(after.Add(clock.Deviation)) {
		t.Errorf("the device's time is %v after the start of a run that took %v (deviation %v)", at.Sub(before),
			after.Sub(before), clock.Deviation)
	}
}

// TestProfileClock: the kernels of a profiled run lie between its submission and the end of its wait.
func TestProfileClock(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	e := chain(t, 1<<16).load(d)
	runProgram(t, e, inputs(ramp(0, 1<<16)), runtime.RunOptions{Profile: true})
	p := runProgram(t, e, inputs(ramp(0, 1<<16)), runtime.RunOptions{Profile: true}).Profile
	if len(p.Kernels) == 0 {
		t.Skip("the device takes no timestamps")
	}
	at := map[string]runtime.HostSpan{}
	end := int64(0)
	for _, s := range p.Host {
		if s.Start != end || s.Nanos < 0 {
			t.Errorf("%+v does not follow what ended at %d", s, end)
		}
		end = s.Start + s.Nanos
		at[s.Name] = s
	}
	submit, wait := at["submit"], at["wait for the results"]
	first, last := p.Kernels[0], p.Kernels[len(p.Kernels)-1]
	const slack = int64(time.Millisecond) // of the clocks
	start := p.Offset.Nanoseconds() + first.Start
	if stop := p.Offset.Nanoseconds() + last.Start + last.Nanos; start < submit.Start-slack ||
		stop > wait.Start+wait.Nanos+slack {
		t.Errorf("kernels from %d to %d ns (%s) in a run of %+v", start, stop, p.Clock, p.Host)
	}
	for i, k := range p.Kernels[1:] {
		if k.Start < p.Kernels[i].Start+p.Kernels[i].Nanos {
			t.Errorf("kernel %d starts at %d, before the one ahead of it ends", i+1, k.Start)
		}
	}
	if p.Began.IsZero() || p.Wall.Nanoseconds() < end || p.Clock == "" {
		t.Errorf("%+v", p)
	}
}
