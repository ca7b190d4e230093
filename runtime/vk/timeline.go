package vk

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// timeline is how far a queue has come, which reaches one point after the other. Of all who wait for it the one whose
// point comes first asks the device, which takes a thread of the system that the driver wakes up. It tells the others.
type timeline struct {
	queue     int
	submitted atomic.Uint64 // the last point that was submitted
	completed atomic.Uint64 // a point known to have been reached

	mu      sync.Mutex
	asked   []uint64  // the points that the device is asked for: more than one where an earlier one came later
	waiting []*waiter // who does not ask
}

// waiter waits until it is told that its point has been reached, or that nobody asks the device for an earlier one.
type waiter struct {
	point uint64
	told  chan struct{}
}

// note notes that a point has been reached.
func (t *timeline) note(value uint64) {
	for {
		known := t.completed.Load()
		if value <= known || t.completed.CompareAndSwap(known, value) {
			return
		}
	}
}

// wait waits until a point has been reached or ctx is done, whose error it then wraps. Where this caller is to ask
// the device, ask does, and returns nil once the point is noted.
func (t *timeline) wait(ctx context.Context, point uint64, ask func() error) error {
	told := false
	for point > t.completed.Load() {
		w := t.join(point)
		if w == nil {
			err := ask()
			t.leave(point)
			return err
		}
		select {
		case <-w.told:
			told = true
		case <-ctx.Done():
			t.drop(w)
			return endedWait(ctx)
		}
	}
	if told { // perhaps to ask, before somebody else noted the point
		t.mu.Lock()
		defer t.mu.Unlock()
		t.tellLocked()
	}
	return nil
}

func endedWait(ctx context.Context) error { return fmt.Errorf("vk: wait: %w", ctx.Err()) }

// join returns nil where the caller is to ask the device, whereupon leave is to be called.
func (t *timeline) join(point uint64) *waiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.firstLocked(point) {
		t.asked = append(t.asked, point)
		return nil
	}
	w := &waiter{point, make(chan struct{})}
	t.waiting = append(t.waiting, w)
	return w
}

// firstLocked reports whether the device is not asked for a point as early as this one.
func (t *timeline) firstLocked(point uint64) bool {
	return len(t.asked) == 0 || point < slices.Min(t.asked)
}

// leave ends what join began: the caller has asked the device for the point.
func (t *timeline) leave(point uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.asked, point)
	t.asked = slices.Delete(t.asked, i, i+1)
	t.tellLocked()
}

// tellLocked tells those whose points have been reached, and the first of the others where it is to ask the device.
func (t *timeline) tellLocked() {
	reached := t.completed.Load()
	var first *waiter
	for _, w := range t.waiting {
		if w.point > reached && (first == nil || w.point < first.point) {
			first = w
		}
	}
	t.waiting = slices.DeleteFunc(t.waiting, func(w *waiter) bool {
		if w.point > reached && (w != first || !t.firstLocked(w.point)) {
			return false
		}
		close(w.told)
		return true
	})
}

// drop removes a waiter that gives up. If it was just told to ask the device, another waiter is told to.
func (t *timeline) drop(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, w); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	} else {
		t.tellLocked()
	}
}
