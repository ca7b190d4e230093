package vk_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/runtime/vk"
)

// longRecording adds to y many times over, one dispatch after the other.
func longRecording(t testing.TB, d *vk.Device, x, y *vk.Buffer, steps int) *vk.Recording {
	t.Helper()
	n := int(x.Size() / 4)
	c := d.NewCommandList()
	c.BindPipeline(pipeline(t, d, accumulateDesc(t)))
	c.Bind(bindings(t, d, bind(x, y)), 0)
	for range steps {
		c.Dispatch(uint32(n+63)/64, 1, 1)
		c.Barrier(vk.StageCompute, vk.StageCompute)
	}
	return record(t, d, c)
}

func fill(t testing.TB, d *vk.Device, b *vk.Buffer, v float32) {
	t.Helper()
	values := make([]float32, b.Size()/4)
	for i := range values {
		values[i] = v
	}
	upload(t, d, b, floatBytes(values))
}

// TestInFlight submits one recording many times without waiting; each run builds on the last.
func TestInFlight(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	x, y := buffer(t, d, "x", 4*1000, vk.DeviceMemory), buffer(t, d, "y", 4*1000, vk.DeviceMemory)
	fill(t, d, x, 1)
	fill(t, d, y, 0)
	r := longRecording(t, d, x, y, 3)
	var last vk.Point
	for range 20 {
		p := must(d.Submit(r))(t)
		if p <= last {
			t.Fatalf("point %d follows point %d", p, last)
		}
		last = p
	}
	p := must(d.Submit(r, r, r))(t)
	if err := d.Wait(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	if !d.Done(p) || !d.Done(last) || d.Submitted() != p {
		t.Errorf("after waiting for point %d, it is not done, or %d is the latest", p, d.Submitted())
	}
	for i, got := range floats(download(t, d, y)) {
		if got != 23*3 {
			t.Fatalf("y[%d] = %v; want %v", i, got, 23*3)
		}
	}
}

func TestWaitCancel(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	const n = 1 << 20
	x, y := buffer(t, d, "x", 4*n, vk.DeviceMemory), buffer(t, d, "y", 4*n, vk.DeviceMemory)
	fill(t, d, x, 1)
	fill(t, d, y, 0)
	const steps = 20
	r := longRecording(t, d, x, y, steps)
	run(t, d, r) // the first includes the driver's own compiler
	runs := 1
	var p vk.Point
	// The device may be done before the wait is cancelled: more work is given to it until it is not.
	for more := 4; ; more *= 2 {
		for range more {
			p = must(d.Submit(r))(t)
		}
		runs += more
		ctx, cancel := context.WithCancel(context.Background())
		go cancel()
		err := d.Wait(ctx, p)
		if !d.Done(p) {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("a wait that was cancelled: %v", err)
			}
			break
		}
		if more > 1000 {
			t.Fatalf("after %d runs at once, a wait that was cancelled still returned only when the device was done",
				more)
		}
	}
	// The device is still working, so resources closed now must live until it is done.
	retired := d.Retired()
	r.Close()
	if retired == d.Retired() && !d.Done(p) {
		t.Error("a recording in flight is not kept")
	}
	if err := d.Wait(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	if d.Retired() != 0 {
		t.Error("a closed recording is kept after it is done")
	}
	if got := floats(download(t, d, y))[n-1]; got != float32(steps*runs) {
		t.Errorf("y = %v; want %v", got, steps*runs)
	}
}

func TestWaitErrors(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	if err := d.Wait(context.Background(), 0); err != nil {
		t.Errorf("waiting for point 0: %v", err)
	}
	if err := d.Wait(context.Background(), 5); err == nil || !strings.Contains(err.Error(), "only 0") {
		t.Errorf("waiting for what was not submitted: %v", err)
	}
	if d.Done(5) {
		t.Error("what was not submitted is done")
	}
	if p, err := d.Submit(); err != nil || p != 1 || d.Wait(context.Background(), p) != nil {
		t.Errorf("submitting nothing: point %d, %v", p, err)
	}
}

func TestSubmitRefusesClosed(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	make := func() (b *vk.Buffer, p *vk.Pipeline, sets *vk.Bindings, r *vk.Recording) {
		b = buffer(t, d, "b", 256, vk.DeviceMemory)
		p = pipeline(t, d, copyDesc(t))
		sets = bindings(t, d, bind(b, buffer(t, d, "c", 256, vk.DeviceMemory)))
		c := d.NewCommandList()
		c.BindPipeline(p)
		c.Bind(sets, 0)
		c.Dispatch(1, 1, 1)
		return b, p, sets, record(t, d, c)
	}
	for i, what := range []string{"buffer b", "pipeline copy", "bindings", "recording"} {
		b, p, sets, r := make()
		run(t, d, r)
		[]closer{b, p, sets, r}[i].Close()
		if _, err := d.Submit(r); !errors.Is(err, vk.ErrClosed) || !strings.Contains(err.Error(), what) {
			t.Errorf("submitting with a closed %s: %v", what, err)
		}
	}
	if _, err := d.Submit(nil); err == nil {
		t.Error("submitting a nil recording succeeds")
	}
	_, _, _, r := make()
	if _, err := vktest.Device(t, vk.DeviceOptions{}).Submit(r); err == nil {
		t.Error("submitting to another device succeeds")
	}
}

// TestGather: gathered recordings execute in order, together with the next submission or when somebody waits for them.
func TestGather(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	x, y := buffer(t, d, "x", 4*1000, vk.DeviceMemory), buffer(t, d, "y", 4*1000, vk.DeviceMemory)
	fill(t, d, x, 1)
	fill(t, d, y, 0)
	const steps = 3
	r := longRecording(t, d, x, y, steps)
	before := d.Submitted()
	first, second := must(d.Gather(r))(t), must(d.Gather(r, r))(t)
	if first != before+1 || second != first || d.Submitted() != first || d.Done(first) {
		t.Errorf("after point %d two were gathered to points %d and %d, of which %d is the latest, done: %v", before,
			first, second, d.Submitted(), d.Done(first))
	}
	if p := must(d.Submit(r))(t); p != first {
		t.Errorf("a submission behind what was gathered to point %d is point %d", first, p)
	}
	alone := must(d.Gather(r))(t)
	if alone != first+1 {
		t.Errorf("point %d follows point %d", alone, first)
	}
	if err := d.Wait(context.Background(), alone+1); err == nil {
		t.Error("a point that nothing was gathered to was waited for")
	}
	if err := d.Wait(context.Background(), alone); err != nil || !d.Done(alone) {
		t.Errorf("after waiting for what was gathered: %v, done: %v", err, d.Done(alone))
	}
	const many = 200 // more than are gathered
	last := vk.Point(0)
	for range many {
		last = must(d.Gather(r))(t)
	}
	if last <= alone+1 {
		t.Errorf("%d recordings were gathered to point %d, after point %d", many, last, alone)
	}
	must(d.Gather(r))(t)
	if err := r.Close(); err != nil { // which is to be there until it is done
		t.Fatal(err)
	}
	if _, err := d.Gather(r); !errors.Is(err, vk.ErrClosed) {
		t.Errorf("a closed recording was gathered: %v", err)
	}
	for i, got := range floats(download(t, d, y)) {
		if got != (5+many+1)*steps {
			t.Fatalf("y[%d] = %v; want %v", i, got, (5+many+1)*steps)
		}
	}
}
