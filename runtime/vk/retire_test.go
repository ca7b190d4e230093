package vk

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// fakeQueues are two queues that reach points when a test says so. As in Vulkan, a submission ends only after the point
// of the other queue that it waits for. Real drivers in the tests have one queue, which hides errors that two would
// show.
type fakeQueues struct {
	mu      sync.Mutex
	reached [queueCount]uint64
	begins  [queueCount][]uint64 // by point minus one: the point of the other queue to wait for
	waits   [queueCount]int      // number of waiters
}

func (q *fakeQueues) submit(queue int, _ []uint64, wait, signal uint64) Result {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.begins[queue] = append(q.begins[queue], wait)
	if uint64(len(q.begins[queue])) != signal {
		panic(fmt.Sprintf("queue %d: submission %d is to reach point %d", queue, len(q.begins[queue]), signal))
	}
	return Success
}

func (q *fakeQueues) wait(queue int, point, _, _ uint64) Result {
	q.mu.Lock()
	q.waits[queue]++
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		q.waits[queue]--
		q.mu.Unlock()
	}()
	for {
		if at, _ := q.timeline(queue); at >= point {
			return Success
		}
		runtime.Gosched()
	}
}

func (q *fakeQueues) timeline(queue int) (uint64, Result) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.reached[queue], Success
}

// advance has a queue reach its next point, if there is one that may be reached.
func (q *fakeQueues) advance(queue int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	next := q.reached[queue]
	if next == uint64(len(q.begins[queue])) || q.begins[queue][next] > q.reached[1-queue] {
		return false
	}
	q.reached[queue]++
	return true
}

// fakeDevice is a device of such queues and nothing else.
func fakeDevice() (*Device, *fakeQueues) {
	q := &fakeQueues{}
	d := &Device{}
	d.submitter.init(d, q)
	d.lifetimes.init()
	return d, q
}

// fakeResource is used until points of both queues.
type fakeResource struct {
	object
	q        *fakeQueues
	used     [queueCount]uint64
	released bool
	early    string
}

func (*fakeResource) describe() string { return "a resource" }

func (r *fakeResource) release() {
	r.released = true
	for queue, until := range r.used {
		if at, _ := r.q.timeline(queue); at < until {
			r.early = fmt.Sprintf("released where queue %d is at %d, which uses it until %d", queue, at, until)
		}
	}
}

// use adds a resource that all that was submitted may use.
func (d *Device) use(q *fakeQueues) *fakeResource {
	r := &fakeResource{q: q, used: [queueCount]uint64{d.kernels.submitted.Load(), d.copies.submitted.Load()}}
	d.adopt(r)
	return r
}

// submitKernels and submitCopies submit nothing in particular.
func submitKernels(t *testing.T, d *Device) Point {
	t.Helper()
	p, err := d.Submit()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func submitCopies(t *testing.T, d *Device, o order, writes bool) uint64 {
	t.Helper()
	p, err := d.submitCopy(1, o, writes)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRetired: a closed resource is freed once both queues are done with it, whichever is last, and then at once when
// anything looks.
func TestRetired(t *testing.T) {
	for _, last := range []int{kernelQueue, copyQueue} {
		d, q := fakeDevice()
		submitKernels(t, d)
		submitCopies(t, d, order{overlaps: true}, false)
		r := d.use(q)
		d.retire(r)
		for _, queue := range []int{1 - last, last} {
			if r.released {
				t.Errorf("queue %d is last: %s", last, r.early)
			}
			if !q.advance(queue) {
				t.Fatalf("queue %d does not go on", queue)
			}
			d.reap()
		}
		if !r.released || r.early != "" || len(d.retired) != 0 {
			t.Errorf("queue %d is last: freed %v, %s; %d are retired", last, r.released, r.early, len(d.retired))
		}
		d.retire(r) // which is not live any more
		if len(d.retired) != 0 {
			t.Error("it was retired twice")
		}
	}
}

// TestWaitIdle: a device is idle when both of its queues are.
func TestWaitIdle(t *testing.T) {
	for _, last := range []int{kernelQueue, copyQueue} {
		d, q := fakeDevice()
		submitKernels(t, d)
		submitCopies(t, d, order{overlaps: true}, false)
		done := make(chan error, 1)
		go func() { done <- d.WaitIdle(context.Background()) }()
		q.advance(1 - last)
		for waits := 0; waits == 0; runtime.Gosched() {
			q.mu.Lock()
			waits = q.waits[last]
			q.mu.Unlock()
			select {
			case err := <-done:
				t.Fatalf("queue %d is last: the device is idle ahead of it, %v", last, err)
			default:
			}
		}
		q.advance(last)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestOrderOfQueues: ordered copies begin after the kernels before them, and kernels begin after the copies that they
// may read. Concurrent copies begin at the requested point, and kernels wait only for those that write.
func TestOrderOfQueues(t *testing.T) {
	d, q := fakeDevice()
	submitKernels(t, d)
	submitCopies(t, d, order{}, true)                // after kernels 1
	submitKernels(t, d)                              // after copies 1
	submitCopies(t, d, order{overlaps: true}, true)  // at once
	submitKernels(t, d)                              // after copies 2
	submitCopies(t, d, order{overlaps: true}, false) // at once; it only reads
	submitKernels(t, d)                              // at once
	submitCopies(t, d, order{overlaps: true, after: 3}, false)
	submitCopies(t, d, order{}, false) // ordered reads: later kernels must not overwrite the source
	submitKernels(t, d)
	wantKernels, wantCopies := []uint64{0, 1, 2, 0, 5}, []uint64{1, 0, 0, 3, 4}
	if have := q.begins[kernelQueue]; !slices.Equal(have, wantKernels) {
		t.Errorf("kernels begin after copies %v, want %v", have, wantKernels)
	}
	if have := q.begins[copyQueue]; !slices.Equal(have, wantCopies) {
		t.Errorf("copies begin after kernels %v, want %v", have, wantCopies)
	}
}

// TestRetiredRandom submits to two queues that progress in random order, and closes resources in use. Nothing may be
// freed before both queues are done with it, and everything is freed in the end.
func TestRetiredRandom(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		d, q := fakeDevice()
		var open, all []*fakeResource
		for range 60 {
			switch rng.IntN(6) {
			case 0:
				submitKernels(t, d)
			case 1:
				o := order{overlaps: rng.IntN(2) == 0}
				if o.overlaps {
					o.after = Point(rng.Uint64N(d.kernels.submitted.Load() + 1))
				}
				submitCopies(t, d, o, rng.IntN(2) == 0)
			case 2:
				open = append(open, d.use(q))
			case 3:
				if len(open) > 0 {
					i := rng.IntN(len(open))
					r := open[i]
					r.used = [queueCount]uint64{d.kernels.submitted.Load(), d.copies.submitted.Load()}
					open, all = slices.Delete(open, i, i+1), append(all, r)
					d.retire(r)
				}
			default:
				q.advance(rng.IntN(queueCount))
				d.reap()
			}
		}
		for q.advance(kernelQueue) || q.advance(copyQueue) {
		}
		d.reap()
		for _, r := range all {
			if !r.released || r.early != "" {
				t.Errorf("seed %d: freed %v, %s", seed, r.released, r.early)
			}
		}
		if len(q.begins[kernelQueue])+len(q.begins[copyQueue]) != int(q.reached[kernelQueue]+q.reached[copyQueue]) {
			t.Errorf("seed %d: the queues wait for one another", seed)
		}
	}
}
