package vk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/runtime"
)

// Replicas is a loaded program with several copies of its inputs, weights and outputs, for measuring times without the
// device's cache. If the copies together exceed the cache, and replays use one copy after the other, no replay finds
// its data in the cache. All copies use the same temporaries and states.
//
// Use Replicas while no run is in progress, and close them before the executable.
type Replicas struct {
	exe      *Executable
	made     resources   // the buffers and bindings of all copies but the first
	bindings []*Bindings // by copy; the first is the executable's own
}

// maxReplicas is the largest number of copies.
const maxReplicas = 1 << 10

// Replicate makes Replicas with the given number of copies. The executable's own buffers are the first copy. The others
// get their current contents. Allocation errors come from [Device.NewBuffer].
func (e *Executable) Replicate(ctx context.Context, copies int) (_ *Replicas, err error) {
	defer e.explain("replicate", &err)
	r := &Replicas{exe: e}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	defer bailout.Caught(&err)
	bailout.Check(runtime.CheckContext(ctx))
	if copies < 1 || copies > maxReplicas {
		return nil, fmt.Errorf("%d copies; want 1 to %d", copies, maxReplicas)
	}
	bailout.Check(e.lock(ctx))
	defer e.unlock()
	r.bindings = []*Bindings{e.own.bindings}
	list := e.device.NewCommandList()
	for range copies - 1 {
		r.add(list)
	}
	fill := bailout.Must(e.device.Record("replicas of "+e.program.Name, list))
	defer fill.Close()
	bailout.Check(e.device.Run(ctx, fill))
	return r, nil
}

// add makes one more copy, and adds the commands that fill it to list. Buffers of other kinds, such as temporary ones,
// are the executable's own in every copy.
func (r *Replicas) add(list *CommandList) {
	e := r.exe
	ranges := e.bufferRanges()
	copied := []kernel.BufferKind{kernel.BufInput, kernel.BufWeight, kernel.BufPrepared, kernel.BufOutput}
	for i, b := range e.program.Buffers {
		if !slices.Contains(copied, b.Kind) {
			continue
		}
		own := ranges[i].Buffer
		made := bailout.Must(e.device.NewBuffer(b.Name, own.Size(), DeviceMemory))
		r.made.keep(made)
		list.CopyBuffer(made, 0, own, 0, own.Size())
		ranges[i].Buffer = made
	}
	r.bindings = append(r.bindings, e.bind(ranges, &r.made))
}

// Close frees the copies once the device is done with them. Closing twice is fine.
func (r *Replicas) Close() error {
	if r == nil {
		return nil
	}
	return r.made.Close()
}

// Burst is a recording of many replays of a program. Each replay uses the next copy of the buffers. There is a
// timestamp after each batch of replays.
type Burst struct {
	recording *Recording
	stamps    *Timestamps
	batches   int
	replays   int // in each batch
}

// maxBurstSteps is the largest number of dispatches in a burst, because a recording takes memory.
const maxBurstSteps = 1 << 17

// Burst makes a recording of several batches with several replays each. Between two replays is a barrier, as between
// dependent kernels, so the time of a replay includes the cost of one.
func (r *Replicas) Burst(batches, replays int) (_ *Burst, err error) {
	if r == nil {
		return nil, fmt.Errorf("vk: burst: there are no replicas: Executable.Replicate makes them, unless it " +
			"returns an error")
	}
	e := r.exe
	// Both limits come before the product, which could otherwise overflow.
	if batches < 1 || replays < 1 || batches > maxBurstSteps || replays > maxBurstSteps ||
		batches*replays > max(maxBurstSteps/max(len(e.program.Steps), 1), 1) {
		return nil, fmt.Errorf("vk: burst of %d times %d replays of %d steps; want at most %d steps", batches, replays,
			len(e.program.Steps), maxBurstSteps)
	}
	b := &Burst{batches: batches, replays: replays}
	if b.stamps, err = e.device.NewTimestamps(batches + 1); err != nil {
		return nil, err
	}
	list := e.device.NewCommandList()
	list.ResetTimestamps(b.stamps)
	list.Timestamp(b.stamps, 0)
	for i := range batches {
		for j := range replays {
			list.Barrier(StageCompute, StageCompute)
			e.recordReplay(list, r.bindings[(i*replays+j)%len(r.bindings)])
		}
		list.Timestamp(b.stamps, i+1)
	}
	if b.recording, err = e.device.Record("burst of "+e.program.Name, list); err != nil {
		b.stamps.Close()
		return nil, err
	}
	return b, nil
}

// recordReplay adds the steps of a run, and the barriers between them, to list. It runs each step of a loop once. The
// symbols have their values of the last run.
func (rec *recorder) recordReplay(list *CommandList, bindings *Bindings) {
	var steps []int
	for i := rec.program.Prepared; i < len(rec.program.Steps); i++ {
		steps = append(steps, i)
	}
	if rec.stats.Persistent > 0 {
		steps = rec.program.UsePersistent(steps)
	}
	rec.recordList(list, bindings, rec.grids.now, steps, nil)
}

// Submit submits the burst without waiting for it. It may be submitted again while it is in flight, so that the device
// is busy without a gap.
func (b *Burst) Submit() (Point, error) {
	if b == nil {
		return 0, errNoBurst
	}
	return b.recording.device.Submit(b.recording)
}

// errNoBurst is the error of methods of a nil Burst.
var errNoBurst = errors.New("vk: there is no burst: Replicas.Burst makes one, unless it returns an error")

// Replays returns the number of replays in the burst.
func (b *Burst) Replays() int {
	if b == nil {
		return 0
	}
	return b.batches * b.replays
}

// Times returns the average time of a replay in each batch of the last submission. Wait for that submission before.
func (b *Burst) Times() ([]time.Duration, error) {
	if b == nil {
		return nil, errNoBurst
	}
	at, err := b.stamps.Read(0, b.batches+1)
	if err != nil {
		return nil, err
	}
	times := make([]time.Duration, b.batches)
	for i := range times {
		times[i] = (at[i+1] - at[i]) / time.Duration(b.replays)
	}
	return times, nil
}

// Close frees the burst after the work submitted so far has finished. Closing twice is fine.
func (b *Burst) Close() error {
	if b == nil {
		return nil
	}
	b.recording.Close()
	return b.stamps.Close()
}
