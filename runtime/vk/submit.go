package vk

import (
	"context"
	"fmt"
	"sync"
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

// submitter submits work to a device's queues, and knows how far they are.
type submitter struct {
	device *Device
	queues queues

	queue    sync.Mutex   // held while submitting
	gathered []*Recording // the next submission of kernels begins with these
	dropped  []*Recording // members of groups, to be closed once the queue is unlocked
	awaited  uint64       // the timeline point of copies that the next submission waits for; 0 for none
	kernels  timeline     // a Point refers to this timeline
	copies   timeline
}

func (s *submitter) init(d *Device, q queues) {
	s.device, s.queues = d, q
	s.kernels.queue, s.copies.queue = kernelQueue, copyQueue
}

// queues is a device's queues, by number. Tests replace the native ones.
type queues interface {
	// submit queues command buffers that begin once the other queue has reached wait. At their end this queue reaches
	// signal.
	submit(queue int, buffers []uint64, wait, signal uint64) Result
	// wait returns when a queue has reached a point, or after a timeout.
	wait(queue int, point, timeoutNS, spinNS uint64) Result
	// timeline returns the point that a queue has reached.
	timeline(queue int) (uint64, Result)
}

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
	return d.gatherLocked(more, recordings)
}

// unlockQueue ends a section that may have submitted. It closes the recordings of dropped groups, which needs the queue
// unlocked.
func (s *submitter) unlockQueue() {
	dropped := s.dropped
	s.dropped = nil
	s.queue.Unlock()
	for _, r := range dropped {
		_ = r.Close() // retires it, which cannot fail
	}
}

// gatherLocked is like submit. The caller holds queue.
func (s *submitter) gatherLocked(more bool, recordings []*Recording) (Point, error) {
	for _, r := range recordings {
		if err := r.ready(s.device); err != nil {
			return 0, err
		}
	}
	before := len(s.gathered)
	s.gathered = append(s.gathered, recordings...)
	if more && len(s.gathered) <= maxGathered {
		return s.latestLocked(), nil
	}
	p, err := s.submitLocked()
	if err != nil {
		s.gathered = s.gathered[:before]
	}
	return p, err
}

// submitLocked submits the gathered recordings and advances the timeline by one. The caller holds queue.
func (s *submitter) submitLocked() (Point, error) {
	point := s.kernels.submitted.Load() + 1
	buffers, err := s.groupedLocked(s.gathered)
	if err != nil {
		return 0, err
	}
	if err := s.device.checkResult(s.queues.submit(kernelQueue, buffers, s.awaited, point), "submit"); err != nil {
		return 0, err
	}
	clear(s.gathered)
	// The queue is in order, so later submissions need not wait for the copies again.
	s.gathered, s.awaited = s.gathered[:0], 0
	s.kernels.submitted.Store(point)
	return Point(point), nil
}

// submitUpTo submits the gathered recordings if they are needed to reach p.
func (s *submitter) submitUpTo(p Point) error {
	s.queue.Lock()
	defer s.unlockQueue()
	if uint64(p) <= s.kernels.submitted.Load() {
		return nil
	}
	if latest := s.latestLocked(); p > latest {
		return fmt.Errorf("vk: wait for point %d: only %d have been submitted", p, latest)
	}
	_, err := s.submitLocked()
	return err
}

// latestLocked is the point at which all submitted and gathered recordings are done. The caller holds queue.
func (s *submitter) latestLocked() Point {
	point := Point(s.kernels.submitted.Load())
	if len(s.gathered) > 0 {
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
func (s *submitter) knownDone(p Point) bool { return uint64(p) <= s.kernels.completed.Load() }

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
func (s *submitter) waitOn(ctx context.Context, t *timeline, point uint64) error {
	return t.wait(ctx, point, func() error { return s.ask(ctx, t, point) })
}

// ask waits for a point in the driver and then records it.
func (s *submitter) ask(ctx context.Context, t *timeline, point uint64) error {
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
		r := s.queues.wait(t.queue, point, uint64(slice), uint64(spin))
		if err := s.device.checkResult(r, "wait"); err != nil {
			return err
		}
		if r != Timeout {
			t.note(point)
			s.device.reap()
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
	overlaps bool  // begin as soon as point after is reached
	after    Point // 0 means at once
}

// submitCopy submits a command buffer of copies. It returns the point on the copies' timeline at which they are done.
// Later recordings wait for copies in order, and for copies that write memory that kernels read.
func (s *submitter) submitCopy(buffer uint64, o order, writes bool) (uint64, error) {
	s.queue.Lock()
	defer s.unlockQueue()
	if !o.overlaps {
		o.after = s.latestLocked()
	}
	if uint64(o.after) > s.kernels.submitted.Load() {
		if _, err := s.submitLocked(); err != nil {
			return 0, err
		}
	}
	point := s.copies.submitted.Load() + 1
	r := s.queues.submit(copyQueue, []uint64{buffer}, uint64(o.after), point)
	if err := s.device.checkResult(r, "submit a copy"); err != nil {
		return 0, err
	}
	s.copies.submitted.Store(point)
	if writes || !o.overlaps {
		s.awaited = point
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
