package tune

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/runtime/vk"
)

// Limits of a burst. On a CPU device, timestamps are at least minBatch apart, so that their own cost is below 2 %.
const (
	minBatch   = 60 * time.Microsecond
	maxBatches = 32
	maxReplays = 1 << 12 // in a burst
	maxSamples = 128     // batches of one dispatch
)

// burst is a recording of many dispatches of one schedule, in batches. The dispatches run one after another, each on
// the next copy of the buffers. A timestamp before and after each batch measures it. If another kernel runs in between
// (harness.filler), a batch is one dispatch.
type burst struct {
	recording *vk.Recording
	stamps    *vk.Timestamps
	batches   int
	replays   int // in each batch
}

// newBurst records a burst of c that takes about as long as window. one is the approximate time of one dispatch.
func (s *harness) newBurst(c *candidate, one, window time.Duration) (*burst, error) {
	if s.filler != nil {
		return s.burstOf(c, min(max(int(window/one), 3), maxSamples), 1)
	}
	replays := int(min((minBatch+one-1)/one, maxReplays/maxBatches))
	batches := min(max(int(window/(one*time.Duration(replays))), 3), maxBatches)
	return s.burstOf(c, batches, replays)
}

// burstOf records commands that run a schedule for timing: batches with a timestamp before and after, of as many
// dispatches as replays says.
func (s *harness) burstOf(c *candidate, batches, replays int) (_ *burst, err error) {
	groups, err := c.grid.Eval(s.trials[0].symbols)
	if err != nil {
		return nil, err
	}
	b := &burst{batches: batches, replays: replays}
	if b.stamps, err = s.dev.NewTimestamps(2 * batches); err != nil {
		return nil, err
	}
	list := s.dev.NewCommandList()
	list.ResetTimestamps(b.stamps)
	for i := range batches {
		if s.filler != nil { // evicts the kernel's code from caches, as other kernels of a program do
			s.filler.record(list)
		}
		list.BindPipeline(c.pipeline)
		list.Timestamp(b.stamps, 2*i)
		for j := range replays {
			list.Barrier(vk.StageCompute, vk.StageCompute) // one dispatch at a time
			list.Bind(s.sets, (i*replays+j)%s.copies)
			list.Dispatch(groups[0], groups[1], groups[2])
		}
		list.Timestamp(b.stamps, 2*i+1)
	}
	if b.recording, err = s.dev.Record("burst of "+s.kernel.Name, list); err != nil {
		b.stamps.Close()
		return nil, err
	}
	return b, nil
}

func (b *burst) close() error {
	b.recording.Close()
	return b.stamps.Close()
}

// times returns the average time of a dispatch in each batch of the last submission.
func (b *burst) times() ([]time.Duration, error) {
	at, err := b.stamps.Read(0, 2*b.batches)
	if err != nil {
		return nil, err
	}
	list := make([]time.Duration, b.batches)
	for i := range list {
		list[i] = (at[2*i+1] - at[2*i]) / time.Duration(b.replays)
	}
	return list, nil
}

// The duration of the warm-up before timing. A GPU raises its clocks only while it works without a gap. A shorter
// warm-up (gpuRewarm) suffices for a later round of the same race, which starts a few milliseconds after the previous
// one. A CPU is at full speed at once.
const (
	gpuWarm   = 250 * time.Millisecond
	gpuRewarm = 30 * time.Millisecond
	cpuWarm   = 5 * time.Millisecond
)

// Time implements [Harness]: it times the schedules in turns, right after a warm-up with the same work, and returns
// their median times.
func (s *harness) Time(ctx context.Context, which []int, window time.Duration, turns int) ([]time.Duration, error) {
	warm := gpuWarm
	switch {
	case s.caps.Type == device.DeviceCPU:
		warm = cpuWarm
	case s.warm:
		warm = gpuRewarm
	}
	s.warm = true
	bursts := make([]*burst, len(which))
	for n, i := range which {
		b, err := s.burstFor(ctx, s.list[i], window)
		if err != nil {
			return nil, fmt.Errorf("schedule %s: %w", s.list[i].schedule, err)
		}
		bursts[n] = b
	}
	for start := time.Now(); time.Since(start) < warm; {
		if err := s.runAll(ctx, bursts, nil); err != nil {
			return nil, err
		}
	}
	all := make([][]time.Duration, len(which))
	for range turns {
		if err := s.runAll(ctx, bursts, all); err != nil {
			return nil, err
		}
	}
	medians := make([]time.Duration, len(which))
	for n, list := range all {
		slices.Sort(list)
		medians[n] = max(list[len(list)/2], 1) // 0 would mean that it was not timed
	}
	return medians, nil
}

// burstFor returns a burst of a schedule that takes about the time of window, or the shortest one if window is 0. The
// first burst of a schedule is always the shortest, since its speed is unknown.
func (s *harness) burstFor(ctx context.Context, c *candidate, window time.Duration) (*burst, error) {
	if c.burst == nil {
		var err error
		// Three batches of one dispatch are the shortest burst.
		if c.burst, err = s.burstOf(c, 3, 1); err != nil || window == 0 {
			return c.burst, err
		}
		if err := s.dev.Run(ctx, c.burst.recording); err != nil {
			return nil, err
		}
	}
	if window == 0 {
		return c.burst, nil
	}
	times, err := c.burst.times()
	if err != nil {
		return nil, err
	}
	next, err := s.newBurst(c, max(slices.Min(times), 500*time.Nanosecond), window)
	if err != nil {
		return nil, err
	}
	old := c.burst
	c.burst = next
	return next, old.close()
}

// runAll runs each burst once. It submits the next burst while one runs, so that the device never idles. If samples
// is not nil, it appends the times of bursts[n] to samples[n].
func (s *harness) runAll(ctx context.Context, bursts []*burst, samples [][]time.Duration) error {
	var before vk.Point
	finish := func(n int, at vk.Point) error {
		if err := s.dev.Wait(ctx, at); err != nil || samples == nil {
			return err
		}
		times, err := bursts[n].times()
		samples[n] = append(samples[n], times...)
		return err
	}
	for n, b := range bursts {
		at, err := s.dev.Submit(b.recording)
		if err != nil {
			return err
		}
		if n > 0 {
			if err := finish(n-1, before); err != nil {
				return err
			}
		}
		before = at
	}
	return finish(len(bursts)-1, before)
}
