package vk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/runtime"
)

// Replicas is a loaded program with several copies of its inputs, weights and outputs, for measuring. If the copies
// together exceed the device's cache, replays that rotate through them never hit the cache. Temporaries and states are
// shared, as they are between runs.
//
// Use Replicas while no run is in progress, and close them before the executable.
type Replicas struct {
	exe      *Executable
	made     resources
	bindings []*Bindings // by copy; the first is the executable's own
}

// maxReplicas bounds the copies of a program's buffers.
const maxReplicas = 1 << 10

// Replicate makes the copies. Each starts with the current contents of the executable's own buffers, which are the
// first copy. Allocation errors come from [Device.NewBuffer].
func (e *Executable) Replicate(ctx context.Context, copies int) (_ *Replicas, err error) {
	if err := runtime.CheckContext(ctx); err != nil {
		return nil, e.wrap("replicate", err)
	}
	if copies < 1 || copies > maxReplicas {
		return nil, e.wrap("replicate", fmt.Errorf("%d copies; want 1 to %d", copies, maxReplicas))
	}
	if err := e.lock(ctx); err != nil {
		return nil, e.wrap("replicate", err)
	}
	defer e.unlock()
	r := &Replicas{exe: e, bindings: []*Bindings{e.own.bindings}}
	defer func() {
		if err != nil {
			err = e.wrap("replicate", err)
			r.Close()
		}
	}()
	list := e.device.NewCommandList()
	for range copies - 1 {
		if err := r.add(list); err != nil {
			return nil, err
		}
	}
	fill, err := e.device.Record("replicas of "+e.program.Name, list)
	if err != nil {
		return nil, err
	}
	defer fill.Close()
	return r, e.device.Run(ctx, fill)
}

// add makes one more copy, and records the commands that fill it.
func (r *Replicas) add(list *CommandList) error {
	e := r.exe
	ranges := e.ranges()
	for i, b := range e.program.Buffers {
		switch b.Kind {
		case kernel.BufInput, kernel.BufWeight, kernel.BufPrepared, kernel.BufOutput:
		default:
			continue
		}
		own := ranges[i].Buffer
		made, err := e.device.NewBuffer(b.Name, own.Size(), DeviceMemory)
		if err != nil {
			return err
		}
		r.made.keep(made)
		list.CopyBuffer(made, 0, own, 0, own.Size())
		ranges[i].Buffer = made
	}
	bindings, err := e.bind(ranges, &r.made)
	if err != nil {
		return err
	}
	r.bindings = append(r.bindings, bindings)
	return nil
}

// Close frees the copies once the device is done with them. Closing twice is fine.
func (r *Replicas) Close() error {
	if r == nil {
		return nil
	}
	return r.made.Close()
}

// Burst is a recording of many replays of a program, each on the next copy of its buffers, with a timestamp after each
// batch of replays.
type Burst struct {
	recording *Recording
	stamps    *Timestamps
	batches   int
	replays   int // in each batch
}

// maxBurstSteps bounds the dispatches of a burst, because a recording takes memory.
const maxBurstSteps = 1 << 17

// Burst records batches of replays. A barrier separates replays, as between any two dependent kernels. So the time of a
// replay includes the cost of one dependent dispatch.
func (r *Replicas) Burst(batches, replays int) (_ *Burst, err error) {
	if r == nil {
		return nil, fmt.Errorf("vk: burst: there are no replicas: Executable.Replicate makes them, unless it " +
			"returns an error")
	}
	e := r.exe
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

// recordReplay records the steps of a run with their barriers, except a barrier before the first.
func (rec *recorder) recordReplay(list *CommandList, bindings *Bindings) {
	var steps []int
	for i := rec.program.Prepared; i < len(rec.program.Steps); i++ {
		steps = append(steps, i)
	}
	if rec.stats.Persistent > 0 {
		steps = rec.program.Joined(steps)
	}
	for n, i := range steps {
		if rec.waitsForRoom(n, i) || n > 0 && rec.steps[i].Barrier {
			list.Barrier(StageCompute, StageCompute)
		}
		rec.recordStep(list, bindings, i)
	}
}

// Submit submits the burst without waiting. It may be submitted again while it is in flight, which keeps the device
// busy without a gap.
func (b *Burst) Submit() (Point, error) {
	if b == nil {
		return 0, errNoBurst
	}
	return b.recording.device.Submit(b.recording)
}

// errNoBurst is returned by the methods of a nil Burst.
var errNoBurst = errors.New("vk: there is no burst: Replicas.Burst makes one, unless it returns an error")

// Replays is the number of replays in a burst.
func (b *Burst) Replays() int {
	if b == nil {
		return 0
	}
	return b.batches * b.replays
}

// Times returns the time of each batch in the last submission, divided by its replays. The caller waits for that
// submission first.
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
