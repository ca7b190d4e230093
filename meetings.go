package vkc

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"sync"
	"time"

	"github.com/vkc-go/vkc/internal/mailbox"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/partition"
	"github.com/vkc-go/vkc/runtime/vk"
)

// meetingTime is the time limit of a run on several devices. A run that exceeds it has lost a device.
const meetingTime = 2 * time.Minute

// meetings coordinates the exchange of values among devices. turn holds a token during each run, so that all devices
// execute runs in the same order.
type meetings struct {
	devices Devices
	vulkan  []*vk.Device  // the same devices, unless they are the processor
	limit   time.Duration // time limit of a run
	trial   time.Duration // time limit of a run that tries a transport
	turn    chan struct{}

	open func([]*vk.Device) (copies, error)

	// With the turn.
	choices
	rooms  [len(transports)]room
	copies copies     // nil until needed
	under  []*meeting // asynchronous runs in flight, oldest first
}

func newMeetings(d Devices) (*meetings, error) {
	m := &meetings{devices: d, turn: make(chan struct{}, 1), limit: meetingTime, trial: tryTime, open: openPeers,
		choices: choicesOf(d.members())}
	for _, part := range d {
		if part.Vulkan() != nil {
			m.vulkan = append(m.vulkan, part.Vulkan())
		}
	}
	if len(m.vulkan) != 0 && len(m.vulkan) != len(d) {
		return nil, fmt.Errorf("devices: %d of %d are Vulkan devices and others are not: want one or the other to "+
			"share each op", len(m.vulkan), len(d))
	}
	return m, nil
}

// take waits for the caller's turn.
func (m *meetings) take(ctx context.Context) error {
	select {
	case m.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("another run is under way: %w", ctx.Err())
	}
}

func (m *meetings) give() { <-m.turn }

// idle waits until no device is at work.
func (m *meetings) idle() error {
	var errs []error
	for _, d := range m.vulkan {
		errs = append(errs, d.WaitIdle(context.Background()))
	}
	return errors.Join(errs...)
}

func (m *meetings) close() error {
	if m == nil {
		return nil
	}
	errs := []error{m.settle(0)}
	for i := range m.rooms {
		errs = append(errs, m.rooms[i].free())
	}
	if m.copies != nil {
		errs = append(errs, m.copies.Close())
	}
	return errors.Join(errs...)
}

// reserve allocates memory for exchanges, for the cheapest working transport.
func (m *meetings) reserve(ctx context.Context, exchanges []int) (*room, error) {
	for {
		w, err := m.choose(ctx, exchanges)
		if err != nil {
			return nil, err
		}
		r, err := m.roomOf(w, exchanges)
		if err == nil || !transports[w].copies {
			return r, err
		}
		m.without(w, err) // the cards have less memory than the host
	}
}

// choose returns the cheapest working transport. The caller holds the turn.
func (m *meetings) choose(ctx context.Context, exchanges []int) (way, error) {
	for {
		w := m.cheapest(exchanges)
		if !w.untold {
			return w.way, nil
		}
		if err := m.tell(ctx, w.way, m.trial); err != nil {
			return 0, err
		}
	}
}

// waits reports whether kernels wait for one another in the exchanges of a graph.
func (m *meetings) waits(ctx context.Context, g *ir.Graph) (bool, error) {
	s, err := partition.SplitTensor(g, len(m.devices), 0, true)
	if err != nil || !s.Waits {
		return false, err
	}
	exchanges, err := s.Exchanges(nil)
	if err != nil {
		return false, err
	}
	if err := m.take(ctx); err != nil {
		return false, err
	}
	defer m.give()
	w, err := m.choose(ctx, exchanges)
	return !transports[w].ends, err
}

// tell finds out whether a transport works.
func (m *meetings) tell(ctx context.Context, w way, limit time.Duration) error {
	r, failed := m.roomOf(w, trialOf(w))
	if failed == nil {
		failed = m.try(ctx, r, limit)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if failed != nil {
		m.without(w, failed)
		return m.rooms[w].free()
	}
	i := slices.IndexFunc(m.ways, func(p wayPrice) bool { return p.way == w })
	m.ways[i].untold = false
	return nil
}

// settle waits until the devices have at most so many asynchronous runs. It returns the errors of failed runs that were
// not yet reported.
func (m *meetings) settle(most int) error {
	var errs []error
	for len(m.under) > most {
		errs = append(errs, m.under[0].tell())
		m.under = m.under[1:]
	}
	return errors.Join(errs...)
}

// meeting is a run of devices that exchange values.
type meeting struct {
	of       *meetings
	room     *room
	from, to int // its slots, which no other run uses
	all      *rendezvous
	limit    time.Duration
	late     *time.Timer
	points   []vk.Point // the points that the devices reach at its end, by rank; nil for a synchronous run

	once sync.Once // ends it once

	mu   sync.Mutex // guards the fields below, and the room's mailbox until the run is over
	over bool
	err  error // the reason that it has failed
	told bool
}

// begin starts a run with these exchanges and time limit, and returns the link for each device.
func (m *meetings) begin(r *room, exchanges []int, limit time.Duration) (*meeting, []*ir.Data, error) {
	from, to, err := r.begin(m, exchanges)
	if err != nil {
		return nil, nil, err
	}
	links, err := r.links(m, from)
	if err != nil {
		return nil, nil, err
	}
	x := &meeting{of: m, room: r, from: from, to: to, limit: limit, all: &rendezvous{ranks: len(links),
		next: make(chan struct{}), stopped: make(chan struct{})}}
	parts, next := r.box.Lay(from, exchanges)
	if r.next = next; r.places != nil {
		x.all.between = func(i int) error { return x.copy(parts[i]) }
	}
	if transports[r.way].relays {
		r.relay.begin(r.box)
	}
	r.epoch += uint32(len(exchanges))
	x.late = time.AfterFunc(limit, x.stop)
	return x, links, nil
}

// goesAhead reports whether the devices finish the run without further help from the host.
func (x *meeting) goesAhead() bool { return x == nil || transports[x.room.way].relays }

// between returns the host's action at each exchange; nil for none.
func (x *meeting) between() func() error {
	if x == nil || !transports[x.room.way].ends {
		return nil
	}
	return x.all.meet
}

// copy copies each device's part of an exchange to all other devices.
func (x *meeting) copy(parts []mailbox.Part) error {
	for from, p := range parts {
		if err := x.room.places.Copy(from, p.At, p.Words); err != nil {
			return err
		}
	}
	for {
		switch done, err := x.room.places.Done(); {
		case done || err != nil:
			return err
		case x.all.over():
			return mailbox.ErrStopped
		}
		goruntime.Gosched()
	}
}

// fail is called if one of the devices did not get the run. It lets the earlier runs finish, and then ends all waiting
// of this run.
func (x *meeting) fail() {
	if x != nil {
		for _, before := range x.of.under {
			before.end()
		}
		x.stop()
	}
}

// stop ends all waiting.
func (x *meeting) stop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.over {
		x.room.box.Stop()
		x.all.stop()
	}
}

// leave makes the run asynchronous: all devices have it and finish it by themselves.
func (x *meeting) leave() {
	if x == nil {
		return
	}
	for _, d := range x.of.vulkan {
		x.points = append(x.points, d.Submitted())
	}
	x.of.under = append(x.of.under, x)
	go x.end()
}

// end waits until no device is in the run any more.
func (x *meeting) end() {
	if x != nil {
		x.once.Do(x.close)
	}
}

func (x *meeting) close() {
	var errs []error
	for rank, p := range x.points {
		errs = append(errs, x.of.vulkan[rank].Wait(context.Background(), p))
	}
	x.late.Stop()
	if transports[x.room.way].relays {
		x.room.relay.end()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if failed, stale := x.room.box.Failed(); failed >= 0 {
		errs = append(errs, failedAs(x.of.devices[failed].Name(), stale, x.limit))
	}
	x.over, x.err = true, errors.Join(errs...)
}

// tell waits until the run has finished. It returns the run's error unless it was already reported.
func (x *meeting) tell() error {
	x.end()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.told {
		return nil
	}
	x.told = true
	return x.err
}

// failed returns the cause of a failed run, for reading its results.
func (x *meeting) failed() error {
	if x == nil {
		return nil
	}
	x.mu.Lock()
	fails := x.over && x.err != nil || !x.over && x.room.box.Fails()
	x.mu.Unlock()
	if !fails {
		return nil
	}
	x.end()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.told = true
	return lostStates(x.err)
}

// lostStates adds the consequence for states to a run's error.
func lostStates(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("a run on several devices has failed, and what its states hold is not known: reset them: %w", err)
}

// rendezvous is a reusable barrier for the goroutines that run the parts.
type rendezvous struct {
	ranks   int
	between func(i int) error // if not nil, runs when all have arrived for the i-th time
	once    sync.Once
	stopped chan struct{}

	mu   sync.Mutex // guards the fields below
	here int
	past int           // number of times that all have arrived
	next chan struct{} // closed when all have arrived
}

// meet waits until all goroutines have arrived and between has run.
func (r *rendezvous) meet() error {
	r.mu.Lock()
	next, i := r.next, r.past
	if r.here++; r.here < r.ranks {
		r.mu.Unlock()
		select {
		case <-next:
			return nil
		case <-r.stopped:
			return mailbox.ErrStopped
		}
	}
	r.here, r.past, r.next = 0, i+1, make(chan struct{})
	r.mu.Unlock()
	if r.between != nil {
		if err := r.between(i); err != nil {
			r.stop()
			return err
		}
	}
	close(next)
	return nil
}

// stop ends all waiting.
func (r *rendezvous) stop() { r.once.Do(func() { close(r.stopped) }) }

// over reports whether all waiting has ended.
func (r *rendezvous) over() bool {
	select {
	case <-r.stopped:
		return true
	default:
		return false
	}
}
