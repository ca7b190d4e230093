package bench

import (
	"context"
	"slices"
	"time"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/runtime/vk"
)

// Options adjusts Measure. Report only results that were measured with the zero value.
type Options struct {
	// Warm is how long the device works without a gap right before the timed replays: 250 ms on a GPU unless set. A GPU
	// raises its clocks only then; the same kernels take up to 14 times as long on an idle card.
	Warm time.Duration
	// Window is the total time of the timed replays: 40 ms unless set.
	Window time.Duration
	// Copies is the number of copies of inputs, weights and outputs that replays use in turn; see CopiesFor. 0 is 1.
	Copies int
}

const (
	gpuWarm  = 250 * time.Millisecond
	cpuWarm  = 10 * time.Millisecond // a processor is up to speed at once
	window   = 40 * time.Millisecond
	cpuBurst = 20 * time.Millisecond
	// minBatch is the minimum time between a pair of timestamps, so that their own cost is below 2 %.
	minBatch   = 60 * time.Microsecond
	maxBatches = 64
	// For wall-clock times, which other programs on the machine disturb.
	wallWindow = 300 * time.Millisecond
	maxCalls   = 1 << 14
	minBatches = 3
	// a replay that takes at least this long is its own warm-up, and is measured once
	slow = 250 * time.Millisecond
)

// withDefaults replaces zero fields by the defaults for a device.
func (o Options) withDefaults(caps device.Caps) Options {
	cpu := caps.Type == device.DeviceCPU
	if o.Warm == 0 {
		o.Warm = gpuWarm
		if cpu {
			o.Warm = cpuWarm
		}
	}
	if o.Window == 0 {
		o.Window = window
		if cpu {
			o.Window = cpuBurst
		}
	}
	o.Copies = max(o.Copies, 1)
	return o
}

// rotated is the number of bytes that replays touch before they reuse the first copy. It is more than twice the largest
// cache of current GPUs, except AMD's 256 MiB last-level caches.
const rotated = 192 << 20

// CopiesFor returns how many copies of tensors of the given total size are needed so that replays, which use the copies
// in turn, do not find them in the cache.
func CopiesFor(caps device.Caps, bytes int64) int {
	if caps.Type == device.DeviceCPU {
		return 1 // main memory and a cache that other programs use too
	}
	return int(min(max((rotated+bytes-1)/max(bytes, 1), 1), 256))
}

// Timing is the measured time of a replay.
type Timing struct {
	// Median, Min and Max are times of one replay by the device's clock, taken over the medians of batches of replays.
	Median, Min, Max time.Duration
	Replays          int // timed
	Copies           int // number of copies of the buffers, used in turn
}

// Measure times a loaded program on the current content of its buffers. Run the program once before, so that its inputs
// are there. The program must not run during Measure.
func Measure(ctx context.Context, dev *vk.Device, exe *vk.Executable, opt Options) (t Timing, err error) {
	opt = opt.withDefaults(dev.Caps())
	copies, err := exe.Replicate(ctx, opt.Copies)
	if err != nil {
		return t, err
	}
	defer copies.Close()
	one, err := estimate(ctx, dev, copies)
	if err != nil {
		return t, err
	}
	batches, replays := shape(one, opt.Window, exe.Stats().Steps)
	burst, err := copies.Burst(batches, replays)
	if err != nil {
		return t, err
	}
	defer burst.Close()
	times, err := repeatUntilSteady(ctx, dev, burst, opt.Warm)
	if err != nil {
		return t, err
	}
	return Timing{Median: times[len(times)/2], Min: times[0], Max: times[len(times)-1], Replays: burst.Replays(),
		Copies: opt.Copies}, nil
}

// MeasureWall times a function in wall-clock time, including everything that its users wait for. The zero Options call
// it for 300 ms after a warm-up, at least three times.
func MeasureWall(opt Options, run func() error) (Timing, error) {
	if opt.Warm == 0 {
		opt.Warm = cpuWarm
	}
	if opt.Window == 0 {
		opt.Window = wallWindow
	}
	for start := time.Now(); ; { // warm up
		if err := run(); err != nil {
			return Timing{}, err
		}
		if time.Since(start) >= opt.Warm {
			break
		}
	}
	var times []time.Duration
	for begin := time.Now(); len(times) < minBatches || time.Since(begin) < opt.Window && len(times) < maxCalls; {
		start := time.Now()
		if err := run(); err != nil {
			return Timing{}, err
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	return Timing{Median: times[len(times)/2], Min: times[0], Max: times[len(times)-1], Replays: len(times),
		Copies: 1}, nil
}

// rounds is the maximum number of times that a burst is timed.
const rounds = 6

// repeatUntilSteady repeats a burst until a repetition is at most 3 % faster than the one before, and returns the
// sorted times of the last repetition. A CPU needs only one. On an H100 that had been idle for eight seconds, the usual
// warm-up was too short for the memory clock to rise, and a program that takes 2640 us took 5840 until then.
func repeatUntilSteady(ctx context.Context, dev *vk.Device, burst *vk.Burst, warm time.Duration) (
	[]time.Duration, error) {
	var before time.Duration // median of the round before
	for round := 0; ; round++ {
		if err := warmUp(ctx, dev, burst, warm); err != nil {
			return nil, err
		}
		times, err := burst.Times()
		if err != nil {
			return nil, err
		}
		slices.Sort(times)
		median := times[len(times)/2]
		isSteady := round > 0 && 1.03*float64(median) >= float64(before)
		if isSteady || round == rounds-1 || dev.Caps().Type == device.DeviceCPU {
			return times, nil
		}
		before, warm = median, 0 // the device is already warm
	}
}

// estimate returns the time of one replay, to plan the measurement. The device may be cold, so the time may be too
// long.
func estimate(ctx context.Context, dev *vk.Device, copies *vk.Replicas) (time.Duration, error) {
	burst, err := copies.Burst(1, 1)
	if err != nil {
		return 0, err
	}
	defer burst.Close()
	p, err := burst.Submit()
	if err != nil {
		return 0, err
	}
	if err := dev.Wait(ctx, p); err != nil {
		return 0, err
	}
	times, err := burst.Times()
	if err != nil {
		return 0, err
	}
	return max(times[0], 500*time.Nanosecond), nil // a coarse clock may say 0
}

// maxDispatches limits a burst, because recording it takes host memory and time.
const maxDispatches = 1 << 14

// shape returns how many batches of how many replays fill the window. `one` is the time of a replay and steps its
// number of dispatches. A slow replay is measured once. If there would be more than maxDispatches, shape halves the
// replays of a batch first, and then removes batches.
func shape(one, window time.Duration, steps int) (batches, replays int) {
	if one > slow {
		return 1, 1
	}
	replays = int((minBatch + one - 1) / one)
	batches = int(window / (one * time.Duration(replays)))
	batches = min(max(batches, minBatches), maxBatches)
	for batches*replays*max(steps, 1) > maxDispatches && replays > 1 {
		replays = (replays + 1) / 2
	}
	for batches*replays*max(steps, 1) > maxDispatches && batches > minBatches {
		batches--
	}
	return batches, replays
}

// submitter is recorded work that may be submitted again while it is in flight.
type submitter interface{ Submit() (vk.Point, error) }

// warmUp submits the burst without a gap for the duration of the warm-up, and then once more. The warm-up starts when
// the first submission has completed, because an H100 that had been idle for seconds took 250 ms to begin it. For
// another 80 ms, until its memory clock rose, a replay took 302 us instead of 175.
func warmUp(ctx context.Context, dev *vk.Device, burst submitter, warm time.Duration) error {
	first, err := burst.Submit()
	if err != nil {
		return err
	}
	before, err := burst.Submit()
	if err != nil {
		return err
	}
	if err := dev.Wait(ctx, first); err != nil {
		return err
	}
	start := time.Now()
	for {
		// One submission is always queued after the running one.
		next, err := burst.Submit()
		if err != nil {
			return err
		}
		if err := dev.Wait(ctx, before); err != nil {
			return err
		}
		if time.Since(start) >= warm {
			return dev.Wait(ctx, next)
		}
		before = next
	}
}

// hostReplays is the number of submissions for the median.
const hostReplays = 21

// MeasureHost returns the median CPU time to submit one replay of a program.
func MeasureHost(ctx context.Context, dev *vk.Device, exe *vk.Executable) (time.Duration, error) {
	copies, err := exe.Replicate(ctx, 1)
	if err != nil {
		return 0, err
	}
	defer copies.Close()
	burst, err := copies.Burst(1, 1)
	if err != nil {
		return 0, err
	}
	defer burst.Close()
	var times []time.Duration
	for range hostReplays {
		start := time.Now()
		p, err := burst.Submit()
		if err != nil {
			return 0, err
		}
		times = append(times, time.Since(start))
		// Outside of the timed part.
		if err := dev.Wait(ctx, p); err != nil {
			return 0, err
		}
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}
