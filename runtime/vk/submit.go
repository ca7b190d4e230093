package vk

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/vkc-go/vkc/runtime"
)

// The queues of a device. They are the same queue if the device has none for transfers only.
const (
	kernelQueue = iota // executes recordings
	copyQueue          // copies that overlap recordings
	queueCount
)

// Point is a position on a device's timeline: each submission of recordings advances it by one. When the device has
// reached a point, all submissions up to it are done. Point 0 is reached from the start.
type Point uint64

const (
	// spinTime is the time for which a wait polls before it sleeps. Waking up takes tens of microseconds, and a short
	// program finishes before that.
	spinTime = 50 * time.Microsecond
	// cancelTime is the longest time after which a wait notices that its context has ended.
	cancelTime = 2 * time.Millisecond
	// sleepTime is the longest sleep of a wait with a context that cannot end.
	sleepTime = 10 * time.Second
	// maxGathered is the largest number of recordings that wait for a later submission, see Gather.
	maxGathered = 64
)

// submitter submits work to a device's queues, and tracks their progress.
type submitter struct {
	device *Device
	queues queues

	queue    sync.Mutex   // held while submitting
	gathered []*Recording // the next submission of kernels begins with these
	dropped  []*Recording // recordings of groups, to be closed when queue is unlocked
	awaited  uint64       // point of the copies' timeline that the next submission of kernels waits for; 0 for none
	kernels  timeline     // the timeline of Points
	copies   timeline
}

// init prepares the zero value for use.
func (s *submitter) init(d *Device, q queues) {
	s.device, s.queues = d, q
	s.kernels.queue, s.copies.queue = kernelQueue, copyQueue
}

// queues are a device's queues, by number. Tests replace the native ones.
type queues interface {
	// submit queues command buffers that begin once the other queue has reached wait. At their end this queue reaches
	// signal.
	submit(queue int, buffers []uint64, wait, signal uint64) Result
	// wait returns when a queue has reached a point, or after a timeout.
	wait(queue int, point, timeoutNS, spinNS uint64) Result
	// timeline returns the point that a queue has reached.
	timeline(queue int) (uint64, Result)
}

// Submit queues recordings, which run in order after everything that was submitted before. It does not wait, and
// returns the point at which they are done. A recording may be submitted again while it is in flight.
func (d *Device) Submit(recordings ...*Recording) (Point, error) {
	return d.submit(false, recordings)
}

// Gather adds recordings to the next submission, for callers that submit more at once. They run in order after
// everything that was submitted before. They are submitted together with the next ones, or when a caller waits for the
// returned point. That avoids a gap between two submissions (M-token-gap).
func (d *Device) Gather(recordings ...*Recording) (Point, error) {
	return d.submit(true, recordings)
}

// submit is Gather if more is true and only a few recordings are gathered, else Submit.
func (d *Device) submit(more bool, recordings []*Recording) (Point, error) {
	if err := d.checkUsable("submit"); err != nil {
		return 0, err
	}
	d.reap()
	d.queue.Lock()
	defer d.unlockQueue()
	for _, r := range recordings {
		if err := r.checkReady(d); err != nil {
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
		// The failed recordings must not be submitted with later ones.
		d.gathered = d.gathered[:before]
	}
	return p, err
}

// unlockQueue unlocks s.queue and then closes the recordings in s.dropped, which takes the lock again.
func (s *submitter) unlockQueue() {
	dropped := s.dropped
	s.dropped = nil
	s.queue.Unlock()
	for _, r := range dropped {
		_ = r.Close() // retires it, which cannot fail
	}
}

// submitLocked submits the gathered recordings, which advances the timeline by one. The caller holds s.queue.
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
	// A queue executes submissions in order, so later ones need not wait for these copies again.
	s.gathered, s.awaited = s.gathered[:0], 0
	s.kernels.submitted.Store(point)
	return Point(point), nil
}

// submitUpTo submits the gathered recordings if point p is not reached without them. It returns an error if nothing
// submitted or gathered reaches p.
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

// latestLocked returns the point at which all submitted and gathered recordings are done. The caller holds s.queue.
func (s *submitter) latestLocked() Point {
	point := Point(s.kernels.submitted.Load())
	if len(s.gathered) > 0 {
		point++
	}
	return point
}

// Submitted returns the point at which everything submitted so far is done, including gathered recordings.
func (d *Device) Submitted() Point {
	if d == nil {
		return 0
	}
	d.queue.Lock()
	defer d.queue.Unlock()
	return d.latestLocked()
}

// Done reports whether the device has reached a point, without waiting.
func (d *Device) Done(p Point) bool {
	if d.checkUsable("look for a point") != nil {
		return p == 0
	}
	return d.knownDone(p) || uint64(p) <= d.reached(&d.kernels)
}

// knownDone reports whether it is known without asking the driver that the device has reached a point.
func (s *submitter) knownDone(p Point) bool { return uint64(p) <= s.kernels.completed.Load() }

// Wait waits until the device has reached a point. If ctx ends first, it returns an error that wraps the context's
// error; the device continues, and nothing in use is freed. If the device is lost the error wraps [ErrDeviceLost].
func (d *Device) Wait(ctx context.Context, p Point) error {
	if d == nil {
		return d.checkUsable("wait")
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

// waitOn waits until a timeline has reached a submitted point.
func (s *submitter) waitOn(ctx context.Context, t *timeline, point uint64) error {
	return t.wait(ctx, point, func() error { return s.waitInDriver(ctx, t, point) })
}

// waitInDriver waits in the driver for a submitted point of a timeline, and then records that it is reached.
func (s *submitter) waitInDriver(ctx context.Context, t *timeline, point uint64) error {
	spin := spinTime
	if point < t.submitted.Load() {
		spin = 0 // more work is queued, so a late wake-up does not idle the device
	}
	slice := sleepTime
	if ctx.Done() != nil {
		slice = cancelTime
	}
	// Only the first wait spins.
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

// order is the order in which a copy runs relative to recordings. The zero value means that the copy begins after all
// earlier submissions, and later ones begin after it.
type order struct {
	overlaps bool  // whether it begins as soon as point `after` is reached, and may overlap with later recordings
	after    Point // the point for overlaps; 0 means at once
}

// submitCopy submits a command buffer of copies with order o. writes means that the copies write memory that kernels
// read. It returns the point on the copies' timeline at which they are done. Later recordings wait for them if they
// write such memory, or if o does not allow overlapping.
func (s *submitter) submitCopy(buffer uint64, o order, writes bool) (uint64, error) {
	s.queue.Lock()
	defer s.unlockQueue()
	if !o.overlaps {
		o.after = s.latestLocked()
	}
	// The copy must wait for recordings that are only gathered so far, so they are submitted first.
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
	// Later recordings wait for this point.
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

// group is a list of recordings that were submitted together, such as several decoding steps. When the same list is
// submitted again, the group is recorded as one command buffer, because the device is idle for microseconds between
// command buffers (M-token-gap).
type group struct {
	members []*Recording
	version int        // sum of the members' versions, which changes if one is recorded again
	whole   *Recording // the command buffer of all members; nil before the second submission of these versions
}

const (
	// maxGroups is the maximum number of groups kept that end with the same recording.
	maxGroups = 8
	// maxGroupWords is the largest number of words of commands in a recording that may be part of a group.
	maxGroupWords = 1 << 14
)

// groupedLocked returns the command buffers of a list of recordings or, if the list was submitted before, the single
// command buffer of its group. The caller holds s.queue.
func (s *submitter) groupedLocked(list []*Recording) ([]uint64, error) {
	if g := s.groupLocked(list); g != nil {
		if g.whole == nil {
			if err := g.record(s.device); err != nil {
				return nil, err
			}
		}
		return []uint64{g.whole.buffer}, nil
	}
	var handles []uint64
	for _, r := range list {
		handles = append(handles, r.buffer)
	}
	return handles, nil
}

// groupLocked returns the group of a list of recordings, if the list was submitted before and none of them has been
// recorded again since. Otherwise it returns nil, and makes a group of the list for the next submission, unless a
// recording cannot be in a group. The caller holds s.queue.
func (s *submitter) groupLocked(list []*Recording) *group {
	ungroupable := func(r *Recording) bool { return r.words == nil || r.closed.Load() }
	if len(list) < 2 || slices.ContainsFunc(list, ungroupable) {
		return nil
	}
	last, version := list[len(list)-1], 0
	for _, r := range list {
		version += r.version
	}
	i := slices.IndexFunc(last.groups, func(g *group) bool { return slices.Equal(g.members, list) })
	if i >= 0 && last.groups[i].version == version {
		return last.groups[i]
	}
	if i < 0 && len(last.groups) == maxGroups {
		i = 0 // the oldest one
	}
	if i >= 0 {
		s.dropped = append(s.dropped, last.groups[i].whole)
		last.groups = slices.Delete(last.groups, i, i+1)
	}
	last.groups = append(last.groups, &group{members: slices.Clone(list), version: version})
	return nil
}

// record records all members in order as one command buffer. The barrier between two members orders only the stages
// that they use, which a barrier of separate recordings does not know. The barrier that makes results visible to the
// host comes only once, at the end.
func (g *group) record(d *Device) (err error) {
	c := d.NewCommandList()
	for _, r := range g.members {
		if c.stages != 0 && r.stages != 0 {
			c.Barrier(c.stages, r.stages)
		}
		c.words = append(c.words, r.words...)
		c.stages |= r.stages
		c.writesReadback = c.writesReadback || r.writesReadback
	}
	g.whole, err = d.Record(fmt.Sprintf("%d recordings as one", len(g.members)), c)
	return err
}
