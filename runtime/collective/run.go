package collective

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"sync"
	"time"

	"github.com/vkc-go/vkc/internal/mailbox"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// Run is one run of a program on all devices of a group. A nil Run is the run of a program without collectives.
type Run struct {
	group    *Group
	channel  *Channel
	from, to int      // range of its slots in the channel, in words
	barrier  *barrier // of the goroutines that run the parts, if programs end at each exchange
	limit    time.Duration
	timeout  *time.Timer // stops the run after the limit
	points   []vk.Point  // of an asynchronous run: points of the devices' timelines at which it ends, by rank

	ending sync.Once // for end

	mu       sync.Mutex // guards the fields below, and the channel's mailbox until the run is over
	over     bool
	err      error // the reason that it has failed
	reported bool  // whether a caller has received err
}

// Begin prepares a run on channel c and starts its time limit. exchanges has the number of values that a device sends
// in each exchange. Begin also returns each rank's link: the input tensor through which kernels find the channel's
// memory. The caller holds the lock.
func (g *Group) Begin(c *Channel, exchanges []int) (*Run, []*ir.Data, error) {
	return g.begin(c, exchanges, g.Limit)
}

// begin prepares a run with these exchanges, as Begin does, and ends it after the given time limit.
func (g *Group) begin(c *Channel, exchanges []int, limit time.Duration) (*Run, []*ir.Data, error) {
	from, to, err := c.begin(g, exchanges)
	if err != nil {
		return nil, nil, err
	}
	links := c.links(g, from)
	r := &Run{group: g, channel: c, from: from, to: to, limit: limit, barrier: &barrier{ranks: len(links),
		next: make(chan struct{}), stopped: make(chan struct{})}}
	parts, next := c.box.Layout(from, exchanges)
	c.next = next
	if transports[c.transport].copies {
		r.barrier.between = func(i int) error { return r.copy(parts[i]) }
	}
	if transports[c.transport].relays {
		c.relay.begin(c.box)
	}
	c.epoch += uint32(len(exchanges))
	r.timeout = time.AfterFunc(limit, r.stop)
	return r, links, nil
}

// stepper is an executable that can run in parts: its program ends at each exchange. RunInParts then calls between, and
// starts the next part.
type stepper interface {
	RunInParts(ctx context.Context, in map[string]*ir.Data, between func() error,
		opt ...runtime.RunOptions) (*runtime.Result, error)
}

// Do runs one device's part of the program: exe, with its inputs and the device's link in `in`.
func (r *Run) Do(ctx context.Context, exe runtime.Executable, in map[string]*ir.Data,
	opt runtime.RunOptions) (*runtime.Result, error) {
	if r == nil || !r.channel.EndsPrograms() {
		return exe.Run(ctx, in, opt)
	}
	steps, ok := exe.(stepper)
	if !ok {
		return nil, fmt.Errorf("%s does not end a program at each exchange", exe.Device())
	}
	return steps.RunInParts(ctx, in, r.barrier.wait, opt)
}

// Asynchronous reports whether the devices finish the run, once it has been submitted, without help of the host.
func (r *Run) Asynchronous() bool { return r == nil || r.channel.Asynchronous() }

// copy copies the values that each rank sends in one exchange to all other ranks, and waits for the copies. parts has
// the locations of the values in the slots, by rank.
func (r *Run) copy(parts []mailbox.Part) error {
	for from, p := range parts {
		if err := r.channel.buffers.Copy(from, p.At, p.Words); err != nil {
			return err
		}
	}
	for {
		switch done, err := r.channel.buffers.Done(); {
		case done || err != nil:
			return err
		case r.barrier.over():
			return mailbox.ErrStopped
		}
		goruntime.Gosched()
	}
}

// Fail tells the other devices not to wait for a device whose part of the run has failed. It first waits for earlier
// runs, which it must not stop.
func (r *Run) Fail() {
	if r != nil {
		for _, before := range r.group.inFlight {
			before.end()
		}
		r.stop()
	}
}

// stop ends the waiting of kernels and of goroutines in this run.
func (r *Run) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.channel.box.Stop()
		r.barrier.stop()
	}
}

// Detach makes the run asynchronous. It has been submitted to all devices, which finish it without the host.
func (r *Run) Detach() {
	if r == nil {
		return
	}
	for _, d := range r.group.vulkan {
		r.points = append(r.points, d.Submitted())
	}
	r.group.inFlight = append(r.group.inFlight, r)
	go r.end()
}

// Finish waits until the devices have finished a synchronous run and all earlier ones. devices has the error of each
// rank. Finish returns these errors, or else the error of the run's exchanges or of an earlier run.
func (g *Group) Finish(r *Run, devices []error) error {
	var err error
	stopped := -1 // a rank that was stopped while it waited for the others
	for rank, e := range devices {
		if errors.Is(e, mailbox.ErrStopped) {
			stopped = rank
		} else {
			err = errors.Join(err, e)
		}
	}
	err = errors.Join(err, g.Idle())
	if r == nil {
		return err
	}
	failed := errors.Join(g.drain(0), r.wait())
	if err == nil { // a device's own error says more
		err = failed
	}
	if err == nil && stopped >= 0 {
		err = notReceived(g.names[stopped], false, r.limit)
	}
	return lostStates(err)
}

// end calls close unless an earlier call did.
func (r *Run) end() { r.ending.Do(r.close) }

// close waits until all devices have finished the run. It then stops the run's timer, counts the run as finished in the
// relay, if the channel has one, and sets the run's error. Only end calls it.
func (r *Run) close() {
	var errs []error
	for rank, end := range r.points {
		errs = append(errs, r.group.vulkan[rank].Wait(context.Background(), end))
	}
	r.timeout.Stop()
	if transports[r.channel.transport].relays {
		r.channel.relay.end()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if rank, stale := r.channel.box.Failed(); rank >= 0 {
		errs = append(errs, notReceived(r.group.names[rank], stale, r.limit))
	}
	r.over, r.err = true, errors.Join(errs...)
}

// wait waits until the run has finished. It returns the run's error unless a caller has received it already.
func (r *Run) wait() error {
	r.end()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reported {
		return nil
	}
	r.reported = true
	return r.err
}

// Failed returns the error of a failed run, for callers that have read its results. It returns nil, without waiting, if
// there is no failure so far.
func (r *Run) Failed() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	fails := r.over && r.err != nil || !r.over && r.channel.box.HasFailed()
	r.mu.Unlock()
	if !fails {
		return nil
	}
	r.wait()
	return lostStates(r.err) // r.err does not change after wait
}

// lostStates adds to a run's error that the states are undefined.
func lostStates(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("a run on several devices has failed, and its states are undefined: reset them: %w", err)
}

// notReceived returns the error of a run in which a device did not receive a value. stale means that another device had
// written the value and the device read old memory.
func notReceived(device string, stale bool, limit time.Duration) error {
	if stale {
		return fmt.Errorf("%s did not see a value that another device had written to host memory", device)
	}
	return fmt.Errorf("%s timed out after %v waiting for the other devices: one of them has stopped", device, limit)
}

// barrier is a reusable barrier for the goroutines that each run the part of one rank.
type barrier struct {
	ranks   int
	between func(i int) error // if set, runs when all have arrived for the i-th time
	once    sync.Once
	stopped chan struct{}

	mu      sync.Mutex    // guards the fields below
	arrived int           // goroutines that wait for the others
	rounds  int           // number of times that all have arrived
	next    chan struct{} // closed when all have arrived
}

// wait waits until all goroutines have arrived and between has run. The last one to arrive runs between.
func (b *barrier) wait() error {
	b.mu.Lock()
	next, i := b.next, b.rounds // the channel that ends this round, and its number
	b.arrived++
	if b.arrived < b.ranks {
		b.mu.Unlock()
		select {
		case <-next:
			return nil
		case <-b.stopped:
			return mailbox.ErrStopped
		}
	}
	b.arrived, b.rounds, b.next = 0, i+1, make(chan struct{})
	b.mu.Unlock()
	if b.between != nil {
		if err := b.between(i); err != nil {
			b.stop()
			return err
		}
	}
	close(next)
	return nil
}

// stop makes all calls of wait return mailbox.ErrStopped.
func (b *barrier) stop() { b.once.Do(func() { close(b.stopped) }) }

// over reports whether stop was called.
func (b *barrier) over() bool {
	select {
	case <-b.stopped:
		return true
	default:
		return false
	}
}
