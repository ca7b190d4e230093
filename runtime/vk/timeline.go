package vk

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// timeline tracks the progress of a queue, which reaches its points in order. Waiting in the driver costs a system
// thread that the driver must wake up. So only the waiter with the earliest point waits in the driver, and it wakes the
// others.
type timeline struct {
	queue     int
	submitted atomic.Uint64 // the last submitted point
	completed atomic.Uint64 // a point known to be reached

	mu      sync.Mutex
	asked   []uint64  // points that callers wait for in the driver; more than one if an earlier one joined later
	waiting []*waiter // callers that do not wait in the driver
}

// waiter waits until its point is reached, or until it must itself wait in the driver. woken is closed in both cases.
type waiter struct {
	point uint64
	woken chan struct{}
}

// note records that a point has been reached.
func (t *timeline) note(value uint64) {
	for {
		known := t.completed.Load()
		if value <= known || t.completed.CompareAndSwap(known, value) {
			return
		}
	}
}

// wait waits until a point has been reached. If ctx is done first, it returns the context's error, wrapped. If this
// caller must wait in the driver, wait calls ask, which returns nil once the point is recorded.
func (t *timeline) wait(ctx context.Context, point uint64, ask func() error) error {
	woken := false
	for point > t.completed.Load() {
		w := t.join(point)
		if w == nil {
			err := ask()
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
	if woken { // perhaps it was chosen to wait in the driver, but another caller recorded the point first
		t.mu.Lock()
		defer t.mu.Unlock()
		t.wakeLocked()
	}
	return nil
}

func endedWait(ctx context.Context) error { return fmt.Errorf("vk: wait: %w", ctx.Err()) }

// join returns nil if the caller must wait in the driver. The caller then calls leave.
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

// firstLocked reports whether no caller waits in the driver for a point as early as this one.
func (t *timeline) firstLocked(point uint64) bool {
	return len(t.asked) == 0 || point < slices.Min(t.asked)
}

// leave ends a wait in the driver.
func (t *timeline) leave(point uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.asked, point)
	t.asked = slices.Delete(t.asked, i, i+1)
	t.wakeLocked()
}

// wakeLocked wakes the waiters whose points are reached, and the earliest of the others if it must wait in the driver.
func (t *timeline) wakeLocked() {
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

// drop removes a waiter that gives up. If it had just been chosen to wait in the driver, another one is chosen.
func (t *timeline) drop(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, w); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	} else {
		t.wakeLocked()
	}
}
