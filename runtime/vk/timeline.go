package vk

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// timeline tracks the progress of a queue, which reaches points 1, 2, 3 and so on in order. A caller that waits in the
// driver blocks a system thread. So only the caller with the earliest point waits in the driver, and it wakes the
// others.
type timeline struct {
	queue     int
	submitted atomic.Uint64 // the last submitted point
	completed atomic.Uint64 // a point known to be reached

	mu       sync.Mutex
	inDriver []uint64  // points that callers wait for in the driver; several if an earlier point was added later
	waiting  []*waiter // callers that do not wait in the driver
}

// waiter is a caller that waits for a channel, while another caller waits in the driver on behalf of all.
type waiter struct {
	point uint64
	woken chan struct{} // closed when the point is reached, or when it is this caller's turn to wait in the driver
}

// note records that the queue has reached a point.
func (t *timeline) note(value uint64) {
	for {
		known := t.completed.Load()
		if value <= known || t.completed.CompareAndSwap(known, value) {
			return
		}
	}
}

// wait waits until the queue has reached a point. If ctx ends first, it returns an error that wraps the context's
// error. If this caller must wait in the driver, wait calls waitInDriver, which also records the point.
func (t *timeline) wait(ctx context.Context, point uint64, waitInDriver func() error) error {
	woken := false
	for point > t.completed.Load() {
		w := t.join(point)
		if w == nil {
			err := waitInDriver()
			t.leave(point)
			return err
		}
		select {
		case <-w.woken:
			woken = true
		case <-ctx.Done():
			t.drop(w)
			return endedWait(ctx)
		}
	}
	if woken { // it may have been chosen to wait in the driver, but another caller has recorded the point: choose again
		t.mu.Lock()
		defer t.mu.Unlock()
		t.wakeLocked()
	}
	return nil
}

// endedWait returns the error of a wait whose context has ended.
func endedWait(ctx context.Context) error { return fmt.Errorf("vk: wait: %w", ctx.Err()) }

// join begins a wait for a point. It returns nil if the caller must wait in the driver and then call leave. Otherwise
// it returns the caller's waiter.
func (t *timeline) join(point uint64) *waiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.firstLocked(point) {
		t.inDriver = append(t.inDriver, point)
		return nil
	}
	w := &waiter{point, make(chan struct{})}
	t.waiting = append(t.waiting, w)
	return w
}

// firstLocked reports whether no caller waits in the driver for a point as early as this one.
func (t *timeline) firstLocked(point uint64) bool {
	return len(t.inDriver) == 0 || point < slices.Min(t.inDriver)
}

// leave ends a wait in the driver for a point.
func (t *timeline) leave(point uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.inDriver, point)
	t.inDriver = slices.Delete(t.inDriver, i, i+1)
	t.wakeLocked()
}

// wakeLocked wakes the waiters if their points are reached, and the earliest of the others if it must wait in the
// driver.
func (t *timeline) wakeLocked() {
	// first is the waiter with the earliest point that is not reached. It may have to take over waiting in the driver.
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
		close(w.woken)
		return true
	})
}

// drop removes a waiter that gives up. If it has been chosen to wait in the driver, another one is chosen.
func (t *timeline) drop(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, w); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	} else { // w has been woken
		t.wakeLocked()
	}
}
