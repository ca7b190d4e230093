package vk

import (
	"context"
	"fmt"
	"time"

	"github.com/vkc-go/vkc/runtime"
)

// The queues of a device. Without a queue for copies alone, both are the same queue.
const (
	kernelQueue = iota // executes recordings
	copyQueue          // copies that overlap recordings
	queueCount
)

// Point is a position on a device's timeline. When it is reached, everything submitted up to it is done. Point 0 is
// reached from the start.
type Point uint64

const (
	// spinTime is how long a wait polls before it sleeps. Waking up costs tens of microseconds, and a short program
	// finishes before that.
	spinTime = 50 * time.Microsecond
	// cancelTime bounds the delay with which a wait notices that its context is done.
	cancelTime = 2 * time.Millisecond
	// sleepTime bounds one sleep of a wait that need not watch a context.
	sleepTime = 10 * time.Second
	// maxGathered bounds the recordings gathered for a later submission.
	maxGathered = 64
)

// Submit queues recordings, which run in order after everything submitted before. It returns the point at which they
// are done, without waiting. A recording may be submitted again while it is in flight.
func (d *Device) Submit(recordings ...*Recording) (Point, error) {
	return d.submit(false, recordings)
}

// Gather defers a submission that others follow at once. The recordings are submitted together with the next ones, or
// when a caller waits for their point. That avoids the gap between two submissions (M-token-gap).
func (d *Device) Gather(recordings ...*Recording) (Point, error) {
	return d.submit(true, recordings)
}

// submit submits recordings or, with more, defers them to the next submission.
func (d *Device) submit(more bool, recordings []*Recording) (Point, error) {
	if err := d.usable("submit"); err != nil {
		return 0, err
	}
	d.reap()
	d.queue.Lock()
	defer d.unlockQueue()
	return d.giveLocked(more, recordings)
}

// unlockQueue ends a section that may have submitted. It closes the recordings of dropped groups, which needs the queue
// unlocked.
func (d *Device) unlockQueue() {
	dropped := d.dropped
	d.dropped = nil
	d.queue.Unlock()
	for _, r := range dropped {
		_ = r.Close() // retires it, which cannot fail
	}
}

// giveLocked is like submit. The caller holds d.queue.
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

// submitLocked submits the gathered recordings and advances the timeline by one. The caller holds d.queue.
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
	// The queue is in order, so later submissions need not wait for the copies again.
	d.gathered, d.awaited = d.gathered[:0], 0
	d.kernels.submitted.Store(point)
	return Point(point), nil
}

// submitUpTo submits the gathered recordings if they are needed to reach p.
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

// latestLocked is the point at which all submitted and gathered recordings are done. The caller holds d.queue.
func (d *Device) latestLocked() Point {
	point := Point(d.kernels.submitted.Load())
	if len(d.gathered) > 0 {
		point++
	}
	return point
}

// Submitted is the latest point, counting gathered recordings as submitted.
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

// knownDone reports whether a caller has already waited for this point or a later one.
func (d *Device) knownDone(p Point) bool { return uint64(p) <= d.kernels.completed.Load() }

// Wait waits until a point is reached. If ctx is done first, it returns the context's error, wrapped; the device
// continues, and nothing in use is freed. On a lost device the error wraps [ErrDeviceLost].
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

// waitOn waits until a queue has reached a submitted point.
func (d *Device) waitOn(ctx context.Context, t *timeline, point uint64) error {
	return t.wait(ctx, point, func() error { return d.ask(ctx, t, point) })
}

// ask waits for a point in the driver and then records it.
func (d *Device) ask(ctx context.Context, t *timeline, point uint64) error {
	spin := spinTime
	if point < t.submitted.Load() {
		spin = 0 // more work is queued, so a late wake-up does not idle the device
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

// order is the order of a copy relative to recordings. The zero value means after all earlier submissions and before
// all later ones.
type order struct {
	beside bool  // overlap: begin as soon as point after is reached
	after  Point // 0 means at once
}

// submitCopy submits a command buffer of copies. It returns the point on the copies' timeline at which they are done.
// Later recordings wait for copies in order, and for copies that write memory that kernels read.
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
