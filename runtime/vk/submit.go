package vk

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/vkc-go/vkc/runtime"
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
	defer d.queue.Unlock()
	handles := make([]uint64, 0, 8)
	for _, r := range recordings {
		if err := r.ready(d); err != nil {
			return 0, err
		}
		handles = append(handles, r.buffer)
	}
	if more && len(d.gathered)+len(handles) <= maxGathered {
		d.gathered = append(d.gathered, handles...)
		return d.latestLocked(), nil
	}
	return d.submitLocked(handles)
}

// submitLocked submits command buffers, after those that were gathered, and advances the timeline by one. d.queue is
// held.
func (d *Device) submitLocked(buffers []uint64) (Point, error) {
	point := d.submitted.Load() + 1
	if len(d.gathered) > 0 {
		buffers = slices.Concat(d.gathered, buffers)
	}
	if err := d.checkResult(d.native.submit(buffers, point), "submit"); err != nil {
		return 0, err
	}
	d.gathered = d.gathered[:0]
	d.submitted.Store(point)
	return Point(point), nil
}

// submitUpTo submits what was gathered, if a point needs it.
func (d *Device) submitUpTo(p Point) error {
	d.queue.Lock()
	defer d.queue.Unlock()
	if uint64(p) <= d.submitted.Load() {
		return nil
	}
	if latest := d.latestLocked(); p > latest {
		return fmt.Errorf("vk: wait for point %d: only %d have been submitted", p, latest)
	}
	_, err := d.submitLocked(nil)
	return err
}

// latestLocked is the point at which all is done that was submitted or gathered. d.queue is held.
func (d *Device) latestLocked() Point {
	point := Point(d.submitted.Load())
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
	return uint64(p) <= d.completed.Load() || p <= d.reached()
}

// Wait waits until a point is reached or ctx is done, whose error it then returns, wrapped; the device goes on
// undisturbed, and nothing it uses is freed. On a lost device the error wraps [ErrDeviceLost].
func (d *Device) Wait(ctx context.Context, p Point) error {
	if d == nil {
		return d.usable("wait")
	}
	if err := runtime.CheckContext(ctx); err != nil {
		return fmt.Errorf("vk: wait: %w", err)
	}
	if uint64(p) <= d.completed.Load() {
		return nil
	}
	if err := d.enter("wait"); err != nil {
		return err
	}
	defer d.leave()
	if err := d.submitUpTo(p); err != nil {
		return err
	}
	spin := spinTime
	if uint64(p) < d.submitted.Load() {
		spin = 0 // the device has more to do, so that it does not wait for whoever wakes up late
	}
	slice := sleepTime
	if ctx.Done() != nil {
		slice = cancelTime
	}
	for ; ; spin = 0 {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("vk: wait: %w", err)
		}
		r := d.native.wait(uint64(p), uint64(slice), uint64(spin))
		if err := d.checkResult(r, "wait"); err != nil {
			return err
		}
		if r != Timeout {
			d.noteReached(uint64(p))
			d.reap()
			return nil
		}
	}
}

// WaitIdle waits for everything submitted so far.
func (d *Device) WaitIdle(ctx context.Context) error { return d.Wait(ctx, d.Submitted()) }

// Run submits recordings and waits for them.
func (d *Device) Run(ctx context.Context, recordings ...*Recording) error {
	p, err := d.Submit(recordings...)
	if err != nil {
		return err
	}
	return d.Wait(ctx, p)
}
