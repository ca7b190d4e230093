package vk

import (
	"context"
	"fmt"
	"time"

	"github.com/vkc-go/vkc/runtime"
)

// The queues of a device. Where it has no queue for copies alone, they are the same one by two names.
const (
	kernelQueue = iota // executes recordings
	copyQueue          // copies beside them
	queueCount
)

// Point is a place in a device's timeline: everything submitted up to it is done once it is reached.
// Point 0 is reached from the start.
type Point uint64

const (
	// spinTime is how long a wait polls before it sleeps: waking up costs tens of microseconds, and a
	// short program is done before that.
	spinTime = 50 * time.Microsecond
	// cancelTime is how late a wait may notice that its context is done.
	cancelTime = 2 * time.Millisecond
	// sleepTime is how long a wait sleeps at once where it need not watch a context.
	sleepTime = 10 * time.Second
	// maxGathered bounds the recordings that wait for others.
	maxGathered = 64
)

// Submit hands recordings to the device, which runs them in order after everything submitted before,
// and returns the point at which they are done. It does not wait. A recording may be submitted again
// while it is in flight.
func (d *Device) Submit(recordings ...*Recording) (Point, error) {
	return d.submit(false, recordings)
}

// Gather is Submit of recordings that others follow at once: the device is given them together with those, or when
// somebody waits for their point, and so has no gap between them (M-token-gap).
func (d *Device) Gather(recordings ...*Recording) (Point, error) {
	return d.submit(true, recordings)
}

// submit submits recordings, or has the next submission begin with them.
func (d *Device) submit(more bool, recordings []*Recording) (Point, error) {
	if err := d.usable("submit"); err != nil {
		return 0, err
	}
	d.reap()
	d.queue.Lock()
	defer d.unlockQueue()
	return d.giveLocked(more, recordings)
}

// unlockQueue is for whoever may have submitted: it closes the recordings of groups that gave way to others.
func (d *Device) unlockQueue() {
	dropped := d.dropped
	d.dropped = nil
	d.queue.Unlock()
	for _, r := range dropped {
		_ = r.Close() // retires it, which cannot fail
	}
}

// giveLocked is submit with d.queue held.
func (d *Device) giveLocked(more bool, recordings []*Recording) (Point, error) {
	for _, r := range recordings {
		if err := r.ready(d); err != nil {
			return 0, err
		}
	}
	before := len(d.gathered)
	d.gathered = append(d.gathered, recordings...)
	if more && len(d.gathered) <= maxGathered {
		return d.latestLocked(), nil
	}
	p, err := d.submitLocked()
	if err != nil {
		d.gathered = d.gathered[:before]
	}
	return p, err
}

// submitLocked submits what was gathered, and advances the timeline by one. d.queue is held.
func (d *Device) submitLocked() (Point, error) {
	point := d.kernels.submitted.Load() + 1
	buffers, err := d.groupedLocked(d.gathered)
	if err != nil {
		return 0, err
	}
	if err := d.checkResult(d.queues.submit(kernelQueue, buffers, d.awaited, point), "submit"); err != nil {
		return 0, err
	}
	clear(d.gathered)
	d.gathered, d.awaited = d.gathered[:0], 0 // what is submitted later begins no sooner
	d.kernels.submitted.Store(point)
	return Point(point), nil
}

// submitUpTo submits what was gathered, if a point needs it.
func (d *Device) submitUpTo(p Point) error {
	d.queue.Lock()
	defer d.unlockQueue()
	if uint64(p) <= d.kernels.submitted.Load() {
		return nil
	}
	if latest := d.latestLocked(); p > latest {
		return fmt.Errorf("vk: wait for point %d: only %d have been submitted", p, latest)
	}
	_, err := d.submitLocked()
	return err
}

// latestLocked is the point at which all is done that was submitted or gathered. d.queue is held.
func (d *Device) latestLocked() Point {
	point := Point(d.kernels.submitted.Load())
	if len(d.gathered) > 0 {
		point++
	}
	return point
}

// Submitted is the latest point submitted, what was gathered counted.
func (d *Device) Submitted() Point {
	if d == nil {
		return 0
	}
	d.queue.Lock()
	defer d.queue.Unlock()
	return d.latestLocked()
}

// Done reports whether a point has been reached, without waiting.
func (d *Device) Done(p Point) bool {
	if d.usable("look for a point") != nil {
		return p == 0
	}
	return d.knownDone(p) || uint64(p) <= d.reached(&d.kernels)
}

// knownDone reports whether somebody has waited for a point, or for a later one.
func (d *Device) knownDone(p Point) bool { return uint64(p) <= d.kernels.completed.Load() }

// Wait waits until a point is reached or ctx is done, whose error it then returns, wrapped; the device goes on
// undisturbed, and nothing it uses is freed. On a lost device the error wraps [ErrDeviceLost].
func (d *Device) Wait(ctx context.Context, p Point) error {
	if d == nil {
		return d.usable("wait")
	}
	if err := runtime.CheckContext(ctx); err != nil {
		return fmt.Errorf("vk: wait: %w", err)
	}
	if d.knownDone(p) {
		return nil
	}
	if err := d.enter("wait"); err != nil {
		return err
	}
	defer d.leave()
	if err := d.submitUpTo(p); err != nil {
		return err
	}
	return d.waitOn(ctx, &d.kernels, uint64(p))
}

// waitOn waits until a queue has reached what was submitted to it.
func (d *Device) waitOn(ctx context.Context, t *timeline, point uint64) error {
	return t.wait(ctx, point, func() error { return d.ask(ctx, t, point) })
}

// ask asks the device for a point until it is reached, and notes that.
func (d *Device) ask(ctx context.Context, t *timeline, point uint64) error {
	spin := spinTime
	if point < t.submitted.Load() {
		spin = 0 // the device has more to do, so that it does not wait for whoever wakes up late
	}
	slice := sleepTime
	if ctx.Done() != nil {
		slice = cancelTime
	}
	for ; ; spin = 0 {
		if ctx.Err() != nil {
			return endedWait(ctx)
		}
		r := d.queues.wait(t.queue, point, uint64(slice), uint64(spin))
		if err := d.checkResult(r, "wait"); err != nil {
			return err
		}
		if r != Timeout {
			t.note(point)
			d.reap()
			return nil
		}
	}
}

// WaitIdle waits for everything submitted so far.
func (d *Device) WaitIdle(ctx context.Context) error {
	copied := uint64(0)
	if d != nil {
		copied = d.copies.submitted.Load()
	}
	if err := d.Wait(ctx, d.Submitted()); err != nil {
		return err
	}
	return d.waitOn(ctx, &d.copies, copied)
}

// order is how copies stand to what kernels do. The zero value is in order: after all that was submitted before, and
// ahead of all that is submitted later.
type order struct {
	beside bool  // begin as soon as point after is reached, whatever else was submitted
	after  Point // 0 is at once
}

// submitCopy submits a command buffer of copies and returns the point of the copies' timeline at which they are done.
// What is submitted to kernels later waits for copies in order, and for those that write what kernels read.
func (d *Device) submitCopy(buffer uint64, o order, writes bool) (uint64, error) {
	d.queue.Lock()
	defer d.unlockQueue()
	if !o.beside {
		o.after = d.latestLocked()
	}
	if uint64(o.after) > d.kernels.submitted.Load() {
		if _, err := d.submitLocked(); err != nil {
			return 0, err
		}
	}
	point := d.copies.submitted.Load() + 1
	r := d.queues.submit(copyQueue, []uint64{buffer}, uint64(o.after), point)
	if err := d.checkResult(r, "submit a copy"); err != nil {
		return 0, err
	}
	d.copies.submitted.Store(point)
	if writes || !o.beside {
		d.awaited = point
	}
	return point, nil
}

// Run submits recordings and waits for them.
func (d *Device) Run(ctx context.Context, recordings ...*Recording) error {
	p, err := d.Submit(recordings...)
	if err != nil {
		return err
	}
	return d.Wait(ctx, p)
}
