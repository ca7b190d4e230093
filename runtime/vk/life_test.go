package vk_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// slow is counter with the sum taken many times over, so that a run takes a while.
func slow(t testing.TB, n, times int) *fixture {
	f := counter(t, n)
	last := f.program.Steps[1]
	f.program.Steps = f.program.Steps[:1]
	for range times - 1 {
		f.step("accumulate", true, over(n), 0, 1)
	}
	f.program.Steps = append(f.program.Steps, last)
	return f
}

func TestRunCancel(t *testing.T) {
	for name, options := range placements {
		t.Run(name, func(t *testing.T) {
			d := vktest.Device(t, options)
			const n = 1 << 18
			ones := slices.Repeat([]float32{1}, n)
			// A run may be over before anybody cancels it: longer ones are tried until one is not. And
			// where inputs are copied it has begun with a submission that is not its last.
			midway := false
			for times := 50; !midway && times <= 50<<6; times *= 2 {
				for submissions := vk.Point(1); !midway && submissions <= 3; submissions++ {
					midway = cancelMidway(t, d, slow(t, n, times).load(d), times, submissions, ones)
				}
			}
			if !midway {
				t.Error("no run returned before the device was done with it")
			}
		})
	}
}

// cancelMidway cancels a run of slow after some of its submissions. It reports whether the run was in progress and
// returned before the device was done, as a cancelled run should.
func cancelMidway(t *testing.T, d *vk.Device, e *vk.Executable, times int, submissions vk.Point, ones []float32) bool {
	t.Helper()
	n, step := len(ones), float32(times)
	runProgram(t, e, inputs(ones), runtime.RunOptions{}) // includes the driver's work on first use

	// Before it has begun, nothing has happened.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := e.Run(ctx, inputs(ones), runtime.RunOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a cancelled context: %v", err)
	}
	expect(t, "state", must(e.ReadState("sum"))(t), slices.Repeat([]float32{step}, n))

	// Midway, it returns at once, and the next run waits and gets its own inputs.
	ctx, cancel = context.WithCancel(context.Background())
	before := d.Submitted()
	var group sync.WaitGroup
	var over atomic.Bool
	group.Go(func() {
		for d.Submitted() < before+submissions && !over.Load() {
			goruntime.Gosched()
		}
		cancel()
	})
	_, err := e.Run(ctx, inputs(ones), runtime.RunOptions{})
	midway := errors.Is(err, context.Canceled) && !d.Done(d.Submitted())
	over.Store(true)
	group.Wait()
	switch {
	case err != nil && !errors.Is(err, context.Canceled):
		t.Errorf("cancelled: %v", err)
	case err != nil && strings.Contains(err.Error(), "another run"):
		t.Errorf("no other run was under way: %v", err)
	}
	r := runProgram(t, e, inputs(scaled(ones, 2)), runtime.RunOptions{})
	sum, runs := must(e.ReadState("sum"))(t), float32(2)
	if err != nil && floats(sum.Bytes)[0] == (1+2)*step {
		runs, midway = 1, false // it was cancelled before it had begun
	}
	want := slices.Repeat([]float32{(runs + 2) * step}, n)
	expect(t, "state", sum, want)
	expect(t, "twice", r.Outputs["twice"], scaled(want, 2))
	return midway
}

// TestRunWaitsItsTurn cancels a run that waits for another.
func TestRunWaitsItsTurn(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	const n, times = 1 << 18, 200
	e := slow(t, n, times).load(d)
	x := make([]float32, n)
	var group sync.WaitGroup
	group.Go(func() {
		for range 5 {
			if _, err := e.Run(context.Background(), inputs(x), runtime.RunOptions{}); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range 20 {
		limit := time.Duration(i) * time.Millisecond
		ctx, cancel := context.WithTimeout(context.Background(), limit) // clock: whichever comes first is right
		if _, err := e.Run(ctx, inputs(x), runtime.RunOptions{}); err != nil &&
			!errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		cancel()
	}
	group.Wait()
}

func TestProgramClose(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	const n = 1 << 16
	f := slow(t, n, 50)
	e := must(d.Load(context.Background(), f.program, f.spirv, nil, vk.LoadOptions{}))(t)
	// Close directly after an asynchronous run.
	const limit = 100 * time.Microsecond
	ctx, cancel := context.WithTimeout(context.Background(), limit) // clock: whichever comes first is right
	defer cancel()
	e.Run(ctx, inputs(make([]float32, n)), runtime.RunOptions{})
	for range 2 {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if live := d.Live(); len(live) != 0 {
		t.Errorf("left behind: %v", live)
	}
	_, err := e.Run(context.Background(), nil, runtime.RunOptions{})
	_, err2 := e.ReadState("sum")
	for _, err := range []error{err, err2, e.WriteState("sum", nil), e.ResetStates()} {
		if !errors.Is(err, vk.ErrClosed) || !strings.Contains(err.Error(), `"counter"`) {
			t.Errorf("after Close: %v; want ErrClosed", err)
		}
	}
	if e.Stats().Steps != 51 || len(e.Inputs()) != 1 {
		t.Error("what describes a program is gone after Close")
	}
}

// TestProgramOutlivesDevice closes things in the wrong order.
func TestProgramOutlivesDevice(t *testing.T) {
	inst := vktest.Instance(t)
	index, _, err := vk.Choose(inst.Devices(), "cpu")
	if err != nil {
		index = 0
	}
	d := must(inst.OpenDevice(index, vk.DeviceOptions{}))(t)
	f := counter(t, 100)
	e := must(d.Load(context.Background(), f.program, f.spirv, nil, vk.LoadOptions{}))(t)
	wantError(t, d.Close(), "still open", "recording steps of counter")
	if _, err := e.Run(context.Background(), inputs(make([]float32, 100)),
		runtime.RunOptions{}); !errors.Is(err, vk.ErrClosed) {
		t.Errorf("run on a closed device: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

func TestLoadCloseCycles(t *testing.T) {
	d := vktest.Device(t, vk.ForceStaging(vk.DeviceOptions{StagingBytes: 1 << 14}))
	load := func(i int) {
		f := symbolic(t, 5000)
		e := must(d.Load(context.Background(), f.program, f.spirv, nil, vk.LoadOptions{}))(t)
		for _, n := range []int{i, 2000} {
			runProgram(t, e, inputs(make([]float32, 8*n), n, 8),
				runtime.RunOptions{Profile: i%2 == 0, Symbols: map[string]int64{"U": 0}})
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	load(1) // the staging rings stay
	before := d.MemoryStats()
	for i := range 50 {
		load(i)
		if live := d.Live(); len(live) != 0 {
			t.Fatalf("cycle %d left %v behind", i, live)
		}
	}
	after := d.MemoryStats()
	if after.InUse != before.InUse || after.Allocations != before.Allocations || after.Reserved > before.Reserved {
		t.Errorf("memory has grown from %+v to %+v", before, after)
	}
}

// TestProgramConcurrency has programs of one device run at the same time, each from several goroutines, and
// others come and go, while the garbage collector runs all the time.
func TestProgramConcurrency(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	for name, options := range placements {
		t.Run(name, func(t *testing.T) {
			d := vktest.Device(t, options)
			lengths, mul := symbolic(t, 3000).load(d), chain(t, 500).load(d)
			sum := counter(t, 500).load(d)
			var group sync.WaitGroup
			loop := func(work func(i int) error) {
				group.Go(func() {
					for i := range 40 {
						if err := work(i); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			check := func(e *vk.Executable, in map[string]*ir.Data, output string, want []float32) error {
				r, err := e.Run(context.Background(), in, runtime.RunOptions{Symbols: explicit(e)})
				if err == nil && !slices.Equal(floats(r.Outputs[output].Bytes), want) {
					err = fmt.Errorf("%s: a wrong result", output)
				}
				return err
			}
			for worker := range 2 {
				loop(func(i int) error {
					n := (i*97 + worker*1000) % 3001
					return check(lengths, inputs(ramp(0, 8*n), n, 8), "y", ramp(float32(n), 8*n))
				})
				loop(func(i int) error {
					x := ramp(float32(i%100), 500)
					return check(mul, inputs(x), "y", scaled(x, 12))
				})
				loop(func(int) error {
					_, err := sum.Run(context.Background(), inputs(slices.Repeat([]float32{1}, 500)),
						runtime.RunOptions{})
					return err
				})
			}
			loop(func(int) error {
				f := chain(t, 200)
				e, err := d.Load(context.Background(), f.program, f.spirv, nil, vk.LoadOptions{})
				if err != nil {
					return err
				}
				err = check(e, inputs(ramp(1, 200)), "y", scaled(ramp(1, 200), 12))
				return errors.Join(err, e.Close())
			})
			loop(func(int) error {
				goruntime.GC()
				_, err := sum.ReadState("sum")
				return err
			})
			group.Wait()
			// Each run has added one to all elements alike.
			state := floats(must(sum.ReadState("sum"))(t).Bytes)
			if state[0] != 2*40 || !slices.Equal(state, slices.Repeat(state[:1], 500)) {
				t.Errorf("the sums differ: %v", state[:10])
			}
			if n := lengths.Stats().Recordings; n != 1 {
				t.Errorf("%d recordings", n)
			}
		})
	}
}

// explicit gives the symbols that no input tells.
func explicit(e *vk.Executable) map[string]int64 {
	if len(e.Symbols()) == 0 {
		return nil
	}
	return map[string]int64{"U": 0}
}
