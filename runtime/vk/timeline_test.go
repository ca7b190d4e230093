package vk

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// fakeQueue is a timeline with a device that reaches points when a test says so.
type fakeQueue struct {
	timeline
	asks map[uint64]chan error // the points that the timeline queries, and the device's answers
}

func newFakeQueue(points uint64) *fakeQueue {
	q := &fakeQueue{asks: map[uint64]chan error{}}
	for p := range points {
		q.asks[p+1] = make(chan error)
	}
	return q
}

// start begins to wait for a point, and returns once it is asked for or told of by another.
func (q *fakeQueue) start(ctx context.Context, point uint64) (done chan error) {
	done = make(chan error, 1)
	q.mu.Lock()
	before := len(q.inDriver) + len(q.waiting)
	q.mu.Unlock()
	go func() {
		done <- q.wait(ctx, point, func() error {
			err := <-q.asks[point]
			if err == nil {
				q.note(point)
			}
			return err
		})
	}()
	q.until(func(asked []uint64, waiting int) bool { return len(asked)+waiting > before })
	return done
}

// until waits for a condition.
func (q *fakeQueue) until(so func(asked []uint64, waiting int) bool) {
	for {
		q.mu.Lock()
		is := so(q.inDriver, len(q.waiting))
		q.mu.Unlock()
		if is {
			return
		}
		runtime.Gosched()
	}
}

// check compares the points queried now and the number of other waiters with the expected ones.
func (q *fakeQueue) check(t *testing.T, what string, waiting int, asked ...uint64) {
	t.Helper()
	q.until(func(have []uint64, n int) bool {
		return len(have)+n >= len(asked)+waiting && len(have) >= len(asked)
	})
	q.mu.Lock()
	defer q.mu.Unlock()
	if !slices.Equal(q.inDriver, asked) || len(q.waiting) != waiting {
		t.Errorf("%s: asked for %v, %d others wait; want %v, %d", what, q.inDriver, len(q.waiting), asked, waiting)
	}
}

// TestTimelineNote: a point that is noted late does not turn the timeline back.
func TestTimelineNote(t *testing.T) {
	var line timeline
	for _, point := range []uint64{3, 5, 4, 5, 1} {
		before := line.completed.Load()
		line.note(point)
		if after := line.completed.Load(); after != max(before, point) {
			t.Errorf("after point %d was noted, %d is known to be reached, and %d was before", point, after, before)
		}
	}
}

// TestOneAsks: only one of the waiters queries the device, the one with the earliest point.
func TestOneAsks(t *testing.T) {
	ctx := t.Context()
	q := newFakeQueue(9)
	five := q.start(ctx, 5)
	seven, six, again := q.start(ctx, 7), q.start(ctx, 6), q.start(ctx, 5)
	q.check(t, "later ones wait", 3, 5)
	three := q.start(ctx, 3) // the query for 5 would return too late for it
	four := q.start(ctx, 4)
	q.check(t, "an earlier one asks", 4, 5, 3)
	q.asks[3] <- nil
	if err := <-three; err != nil {
		t.Error(err)
	}
	q.check(t, "the next one asks", 3, 5, 4)
	q.asks[5] <- nil // which says the same of 4
	for _, done := range []chan error{five, again} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	q.check(t, "4 has yet to hear", 2, 4)
	q.asks[4] <- nil
	if err := <-four; err != nil {
		t.Error(err)
	}
	q.check(t, "6 goes ahead of 7", 1, 6)
	q.asks[6] <- nil
	q.asks[7] <- nil
	for _, done := range []chan error{six, seven} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := q.wait(ctx, 7, func() error { return errors.New("asked for what is known") }); err != nil {
		t.Error(err)
	}
}

// TestWaitersEnd: who gives up, or hears of a failure, leaves it to the next to ask.
func TestWaitersEnd(t *testing.T) {
	q := newFakeQueue(9)
	ctx, cancel := context.WithCancel(t.Context())
	one := q.start(t.Context(), 1)
	two, three := q.start(ctx, 2), q.start(t.Context(), 3)
	cancel()
	if err := <-two; !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that was cancelled: %v", err)
	}
	q.check(t, "who has given up is forgotten", 1, 1)
	failed := errors.New("lost")
	q.asks[1] <- failed
	if err := <-one; err != failed {
		t.Errorf("who asked hears %v", err)
	}
	q.check(t, "the next one asks after a failure", 0, 3)
	q.asks[3] <- failed
	if err := <-three; err != failed {
		t.Errorf("the next one hears %v", err)
	}
	// One that is told to ask and gives up at the same time.
	w := &waiter{4, make(chan struct{})}
	later := &waiter{5, make(chan struct{})}
	q.inDriver, q.waiting = []uint64{4}, []*waiter{w, later}
	q.leave(4)
	<-w.woken
	q.drop(w)
	<-later.woken
	if len(q.waiting) != 0 {
		t.Errorf("%d wait for nobody", len(q.waiting))
	}
}

// heldContext is a context that blocks in Done. It signals when a waiter is about to wait, until it is released.
type heldContext struct {
	context.Context
	here, on chan struct{}
}

func (c heldContext) Done() <-chan struct{} {
	close(c.here)
	<-c.on
	return nil
}

// TestTimelineNotedMeanwhile: if a waiter was chosen to query the device, but its point is recorded as reached before
// it does, the next waiter queries.
func TestTimelineNotedMeanwhile(t *testing.T) {
	q := newFakeQueue(3)
	first := q.start(t.Context(), 1)
	held := heldContext{t.Context(), make(chan struct{}), make(chan struct{})}
	second := q.start(held, 2)
	<-held.here
	third := q.start(t.Context(), 3)
	q.asks[1] <- nil
	if err := <-first; err != nil {
		t.Error(err)
	}
	q.check(t, "the second is told to ask", 1)
	q.note(2) // as Device.Done does
	close(held.on)
	if err := <-second; err != nil {
		t.Error(err)
	}
	q.asks[3] <- nil // without end if it is not asked for
	if err := <-third; err != nil {
		t.Error(err)
	}
}

// TestTimelineRandom: several goroutines wait for points in random order while the device progresses. Some give up,
// others record points, and the device may be lost. Every wait must end, with a reached point or an error.
func TestTimelineRandom(t *testing.T) {
	const points = 12
	lost := errors.New("lost")
	idle := func(n int) {
		for range n {
			runtime.Gosched()
		}
	}
	for seed := range uint64(5000) {
		var (
			q       timeline
			reached atomic.Uint64
			ends    atomic.Bool
			all     sync.WaitGroup
		)
		rng := rand.New(rand.NewPCG(seed, 0))
		last := points - rng.Uint64N(points) // where the device is lost, unless it is at its end
		for i := range 1 + rng.Uint64N(10) {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(seed, i+1))
				for range 3 {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if n := rng.IntN(600); n < 200 {
						all.Go(func() { idle(n); cancel() })
					}
					point, late := 1+rng.Uint64N(points), rng.IntN(20)
					err := q.wait(ctx, point, func() error {
						for reached.Load() < point {
							if ctx.Err() != nil {
								return endedWait(ctx)
							}
							if ends.Load() && reached.Load() < point {
								return lost
							}
							runtime.Gosched()
						}
						idle(late)
						q.note(point)
						return nil
					})
					switch {
					case err == nil && reached.Load() < point:
						t.Errorf("seed %d: point %d has not been reached", seed, point)
					case errors.Is(err, lost) && point <= last, errors.Is(err, context.Canceled) && ctx.Err() == nil:
						t.Errorf("seed %d: wait for point %d of %d: %v", seed, point, last, err)
					}
				}
			})
		}
		for reached.Load() < last {
			idle(rng.IntN(15))
			if at := min(reached.Load()+1+rng.Uint64N(2), last); rng.IntN(2) == 0 {
				reached.Store(at)
				q.note(at) // as Device.Done does
			} else {
				reached.Store(at)
			}
		}
		ends.Store(true)
		all.Wait() // for ever if one is not told
		if len(q.inDriver)+len(q.waiting) != 0 {
			t.Errorf("seed %d: %v are asked for and %d wait at the end", seed, q.inDriver, len(q.waiting))
		}
	}
}
