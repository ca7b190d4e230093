package vkc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vkc-go/vkc/codegen/target"
	"github.com/vkc-go/vkc/internal/mailbox"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/runtime/vk"
)

// way is how devices take what others give.
type way int

const (
	// Kernels wait for flags in memory that all devices write.
	wayShared way = iota
	// Kernels wait for flags in memory of their own, to which the host copies them.
	wayRelayed
	// Programs end at each exchange, and the host takes them on when all are there.
	wayStaged
)

func (w way) String() string {
	return [...]string{"kernels wait for one another", "the host tells kernels of one another",
		"the host takes programs on from one to the next"}[w]
}

// meetingTime is how long a run on several devices takes at most: one that does not end by then has lost a device.
const meetingTime = 2 * time.Minute

// meetings are where devices exchange values. turn holds a token while a run is under way, so that all devices have
// runs in one order.
type meetings struct {
	devices Devices
	vulkan  []*vk.Device // the same, unless they are the processor
	limit   time.Duration
	turn    chan struct{}

	// With the turn.
	choices
	rooms [wayStaged + 1]room
}

// choices are the ways that so many devices can go.
type choices struct {
	ranks  int
	ways   []wayPrice
	untold bool  // whether wayRelayed is to be tried yet
	failed error // why it is not among the ways
}

// wayPrice is a way and what an exchange takes.
type wayPrice struct {
	way
	target.Link
}

func newMeetings(d Devices) (*meetings, error) {
	m := &meetings{devices: d, turn: make(chan struct{}, 1), limit: meetingTime, choices: choicesOf(d.members())}
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

// choicesOf are the ways of such devices.
func choicesOf(list []member) choices {
	c := choices{ranks: len(list)}
	for _, m := range list {
		c.untold = c.untold || m.gpu()
	}
	machine := target.MachineOf(list[0].caps)
	if c.ways = []wayPrice{{wayShared, machine.Relayed}}; c.untold {
		c.ways = []wayPrice{{wayRelayed, machine.Relayed}, {wayStaged, machine.Staged}}
	}
	lacks := func(m member) bool { return m.noInbox }
	if i := slices.IndexFunc(list, lacks); c.untold && i >= 0 {
		c.without(fmt.Errorf("the host does not reach memory of %s", list[i].caps.Name))
	}
	return c
}

// take waits for this caller's turn.
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
	var errs []error
	for i := range m.rooms {
		errs = append(errs, m.rooms[i].free())
	}
	return errors.Join(errs...)
}

// without leaves wayRelayed out, and why.
func (m *choices) without(why error) {
	m.failed, m.untold = why, false
	m.ways = slices.DeleteFunc(m.ways, func(w wayPrice) bool { return w.way == wayRelayed })
}

// relayedWords bounds the host's memory that places of wayRelayed take, which a run uses once.
const relayedWords = 64 << 20

// price is how many nanoseconds the exchanges of a run take, in which each device gives so many values; infinitely many
// where there is no room for them.
func (m *choices) price(w wayPrice, exchanges []int) (ns float64) {
	if w.way == wayRelayed && mailbox.Room(m.ranks, exchanges, true) > relayedWords {
		return math.Inf(1)
	}
	for _, values := range exchanges {
		ns += w.Time(4 * int64(values) * int64(m.ranks-1)) // a device reads what all others give
	}
	return ns
}

// cheapest is the way that takes least.
func (m *choices) cheapest(exchanges []int) wayPrice {
	return slices.MinFunc(m.ways, func(a, b wayPrice) int {
		return cmp.Compare(m.price(a, exchanges), m.price(b, exchanges))
	})
}

// reserve makes room for exchanges in which each device gives so many values.
func (m *meetings) reserve(ctx context.Context, exchanges []int) (*room, error) {
	if err := m.take(ctx); err != nil {
		return nil, err
	}
	defer m.give()
	w, err := m.choose(ctx, exchanges)
	if err != nil {
		return nil, err
	}
	return m.roomOf(w, exchanges)
}

// choose returns the way that takes least, of those that work. The turn is the caller's.
func (m *meetings) choose(ctx context.Context, exchanges []int) (way, error) {
	if m.untold && m.cheapest(exchanges).way == wayRelayed {
		if err := m.tell(ctx, tryTime); err != nil {
			return 0, err
		}
	}
	return m.cheapest(exchanges).way, nil
}

// waits reports whether kernels wait for one another in the exchanges of a graph.
func (m *meetings) waits(ctx context.Context, g *ir.Graph) (bool, error) {
	s, err := passes.SplitTensor(g, len(m.devices), 0, true)
	if err != nil || !s.Waits {
		return false, err
	}
	if err := m.take(ctx); err != nil {
		return false, err
	}
	defer m.give()
	w, err := m.choose(ctx, s.Exchanges)
	return w != wayStaged, err
}

// tell finds out whether kernels see what the host writes while they are under way.
func (m *meetings) tell(ctx context.Context, limit time.Duration) error {
	r, err := m.roomOf(wayRelayed, triedExchanges)
	if err != nil {
		return err
	}
	failed := m.try(ctx, r, limit)
	if err := ctx.Err(); err != nil {
		return err
	}
	if failed != nil {
		m.without(failed)
		return r.free()
	}
	m.untold = false
	return nil
}

// how says how a run's exchanges go, and why so.
func (m *choices) how(exchanges []int) string {
	text := m.cheapest(exchanges).String()
	for _, w := range m.ways {
		switch ns := m.price(w, exchanges); {
		case math.IsInf(ns, 1):
			text += fmt.Sprintf("; %v: places for all of them have more than %d MiB", w.way, relayedWords>>18)
		case w.Link != (target.Link{}):
			text += fmt.Sprintf("; %v: %v a run at most", w.way, digits(time.Duration(ns)))
		}
	}
	if m.failed != nil {
		text += fmt.Sprintf(", since another way fails: %v", m.failed)
	}
	return text
}

// aheadRuns is how many runs the devices may have at a time where the host tells kernels of one another.
const aheadRuns = 8

// roomOf returns the room of a way, with room for those exchanges, of as many runs as the devices may have. The turn is
// the caller's.
func (m *meetings) roomOf(way way, exchanges []int) (*room, error) {
	r, words := &m.rooms[way], mailbox.Room(len(m.devices), exchanges, way == wayRelayed)
	if way == wayRelayed {
		words *= max(1, min(aheadRuns, relayedWords/max(words, 1)))
	}
	if r.box != nil && r.box.Room() >= words {
		return r, nil
	}
	if err := errors.Join(m.idle(), r.free()); err != nil {
		return nil, err
	}
	r.way = way
	if err := r.make(m, mailbox.Header+words); err != nil {
		return nil, errors.Join(err, r.free())
	}
	return r, nil
}

// room is memory where devices exchange values in one way.
type room struct {
	way     way
	memory  *vk.HostBuffer // nil for the processor
	inboxes []*vk.Buffer   // of wayRelayed, by rank
	box     *mailbox.Mailbox
	epoch   uint32     // of the next exchange
	next    int        // where the places of the next run begin
	under   []*meeting // runs that devices have and nobody waits for, the first one first
	relay   relay
}

func (r *room) make(m *meetings, words int) (err error) {
	memory := []uint32(nil)
	if m.vulkan == nil {
		memory = make([]uint32, words)
	} else {
		if r.memory, err = vk.NewHostBuffer(m.vulkan, words); err != nil {
			return err
		}
		memory = r.memory.Words()
	}
	var inboxes [][]uint32
	for _, d := range m.vulkan {
		if r.way != wayRelayed {
			break
		}
		b, err := d.NewInbox(mailbox.Header)
		if err != nil {
			return err
		}
		r.inboxes = append(r.inboxes, b)
		inboxes = append(inboxes, b.Words())
	}
	r.box, err = mailbox.New(memory, len(m.devices), inboxes...)
	r.epoch = 1
	return err
}

func (r *room) free() error {
	errs := []error{r.settle(0), r.box.Close(), r.memory.Close()}
	for _, b := range r.inboxes {
		errs = append(errs, b.Close())
	}
	*r = room{}
	return errors.Join(errs...)
}

// settle waits until devices have at most so many runs that nobody waits for. It returns why some have failed, if
// nobody was told.
func (r *room) settle(most int) error {
	var errs []error
	for len(r.under) > most {
		errs = append(errs, r.under[0].tell())
		r.under = r.under[1:]
	}
	return errors.Join(errs...)
}

// lastEpoch is where epochs begin anew.
const lastEpoch = 1 << 31

// begin finds places for the exchanges of a run that no other run uses, and has the room ready for it. Where runs
// before it have failed, and nobody was told, it says so.
func (r *room) begin(m *meetings, exchanges []int) (from, to int, err error) {
	words := mailbox.Room(len(m.devices), exchanges, r.way == wayRelayed)
	if from = r.next; from+words > r.box.Room() {
		from = 0
	}
	to = from + words
	err = r.settle(aheadRuns - 1)
	for slices.ContainsFunc(r.under, func(x *meeting) bool { return x.from < to && from < x.to }) {
		err = errors.Join(err, r.settle(len(r.under)-1))
	}
	last := int64(r.epoch)+int64(len(exchanges)) >= lastEpoch
	if last || r.box.Fails() {
		err = errors.Join(err, r.settle(0), m.idle())
		r.box.Reset()
	}
	if last {
		r.epoch = 1
	}
	return from, to, lostStates(err)
}

// links are what the devices are given for a run whose places begin there.
func (r *room) links(m *meetings, from int) ([]*ir.Data, error) {
	var list []*ir.Data
	for rank := range m.devices {
		memory := r.memory.Address(rank)
		flags, tries := memory, uint32(mailbox.TriesWaiting)
		switch r.way {
		case wayRelayed:
			flags = r.inboxes[rank].Address()
		case wayStaged:
			tries = mailbox.TriesNone
		}
		link := r.box.Link(rank, r.epoch, from, memory, flags, tries)
		d, err := Of(link[:], len(link))
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, nil
}

// relay has a thread copy flags while there are runs.
type relay struct {
	mu    sync.Mutex
	runs  int
	over  *atomic.Bool
	under sync.WaitGroup
}

func (r *relay) begin(box *mailbox.Mailbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs++; r.runs == 1 {
		over := new(atomic.Bool)
		r.over = over
		r.under.Go(func() { box.Relay(over) })
	}
}

func (r *relay) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs--; r.runs == 0 {
		r.over.Store(true)
		r.under.Wait()
	}
}

// meeting is a run of devices that exchange values.
type meeting struct {
	of       *meetings
	room     *room
	from, to int // its places
	all      *rendezvous
	limit    time.Duration
	late     *time.Timer
	points   []vk.Point // where the devices have come to its end, by rank; nil for a run that somebody waits for

	once sync.Once // of its end

	mu   sync.Mutex // guards what follows, and the room's mailbox until the run is over
	over bool
	err  error // why it has failed
	told bool
}

// open begins a run with such exchanges, which takes as long at most, and returns what each device is given for it.
func (m *meetings) open(r *room, exchanges []int, limit time.Duration) (*meeting, []*ir.Data, error) {
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
	if r.way == wayRelayed {
		r.next = to
		r.relay.begin(r.box)
	}
	r.epoch += uint32(len(exchanges))
	x.late = time.AfterFunc(limit, x.stop)
	return x, links, nil
}

// between is what the host does at each exchange; nil for nothing.
func (x *meeting) between() func() error {
	if x == nil || x.room.way != wayStaged {
		return nil
	}
	return x.all.meet
}

// fail ends all waiting of a run that one of the devices does not have, once the runs before it have ended.
func (x *meeting) fail() {
	if x != nil {
		for _, before := range x.room.under {
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

// leave lets the devices, which have been given the run, come to its end by themselves.
func (x *meeting) leave() {
	if x == nil {
		return
	}
	for _, d := range x.of.vulkan {
		x.points = append(x.points, d.Submitted())
	}
	x.room.under = append(x.room.under, x)
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
	if x.room.way == wayRelayed {
		x.room.relay.end()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if failed, stale := x.room.box.Failed(); failed >= 0 {
		errs = append(errs, failedAs(x.of.devices[failed].Name(), stale, x.limit))
	}
	x.over, x.err = true, errors.Join(errs...)
}

// tell waits until the run has ended, and returns why it has failed, unless somebody was told.
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

// failed returns why a run has failed whose results somebody reads.
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

// lostStates adds to why a run has failed what follows of that.
func lostStates(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("a run on several devices has failed, and what its states hold is not known: reset them: %w", err)
}

// rendezvous is where those who take programs on wait for one another, again and again.
type rendezvous struct {
	ranks   int
	once    sync.Once
	stopped chan struct{}

	mu   sync.Mutex // guards what follows
	here int
	next chan struct{} // closed when all are here
}

// meet waits until all are here.
func (r *rendezvous) meet() error {
	r.mu.Lock()
	next := r.next
	if r.here++; r.here == r.ranks {
		r.here, r.next = 0, make(chan struct{})
		close(next)
	}
	r.mu.Unlock()
	select {
	case <-next:
		return nil
	case <-r.stopped:
		return mailbox.ErrStopped
	}
}

// stop ends all waiting.
func (r *rendezvous) stop() { r.once.Do(func() { close(r.stopped) }) }
