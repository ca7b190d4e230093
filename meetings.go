package vkc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	goruntime "runtime"
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
	// So they do, and the host has values copied from card to card in between. Kernels do not wait for a copy, since
	// CUDA is another context of the card, and nothing promises that it has its turn before they end (M-two-cards).
	wayCopied
)

// transports describe the ways.
var transports = [...]struct {
	text   string
	relays bool // whether the host copies flags, so that runs need not be waited for
	once   bool // whether a run has each exchange at a place of its own (M-two-cards)
	ends   bool // whether programs end at each exchange
	copies bool // whether each device gives to and takes from memory of its own
	// What a trial exchanges: so many values, so many times.
	values, times int
}{
	// As many as a model of 7e9 weights gives for a token.
	wayShared: {text: "kernels wait for one another", values: 4096, times: 64},
	wayRelayed: {text: "the host tells kernels of one another", relays: true, once: true, values: 4096,
		times: 64},
	wayStaged: {text: "the host takes programs on from one to the next", ends: true},
	wayCopied: {text: "programs end, and cards copy to one another", ends: true, copies: true, values: 1 << 17,
		times: 16},
}

func (w way) String() string { return transports[w].text }

// meetingTime is how long a run on several devices takes at most: one that does not end by then has lost a device.
const meetingTime = 2 * time.Minute

// meetings are where devices exchange values. turn holds a token while a run is under way, so that all devices have
// runs in one order.
type meetings struct {
	devices Devices
	vulkan  []*vk.Device  // the same, unless they are the processor
	limit   time.Duration // of a run
	trial   time.Duration // of one that finds out whether a way works
	turn    chan struct{}

	open func([]*vk.Device) (copies, error)

	// With the turn.
	choices
	rooms  [len(transports)]room
	copies copies     // nil until they are wanted
	under  []*meeting // runs that devices have and nobody waits for, the first one first
}

// copies are how values come from one device to another where the host has them copied.
type copies interface {
	// newPlaces makes so many words of each device, of which so many are copied at once at most.
	newPlaces(words, most int) (places, error)
	Close() error
}

// places are as much memory of each device.
type places interface {
	Address(rank int) uint64
	// Copy begins to copy words of one device's places, the first of which is at, to the same place of all others'.
	Copy(from, at, words int) error
	// Done reports whether all is copied that was to be.
	Done() (bool, error)
	Close() error
}

// peerCopies are those of CUDA.
type peerCopies struct{ *vk.Peers }

func openPeers(d []*vk.Device) (copies, error) {
	p, err := vk.OpenPeers(d)
	return peerCopies{p}, err
}

func (p peerCopies) newPlaces(words, most int) (places, error) { return p.NewPlaces(words, most) }

// choices are the ways that so many devices can go.
type choices struct {
	ranks  int
	ways   []wayPrice
	failed []error // why others are not among them
}

// wayPrice is a way and what an exchange takes.
type wayPrice struct {
	way
	target.Link
	untold bool // whether it is to be tried yet
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

// choicesOf are the ways of such devices.
func choicesOf(list []member) choices {
	c, machine := choices{ranks: len(list)}, target.MachineOf(list[0].caps)
	software := !slices.ContainsFunc(list, member.gpu)
	switch {
	case software && list[0].processor:
		c.ways = []wayPrice{{way: wayShared, Link: machine.Relayed}}
		return c
	case software: // some have too few threads for kernels that wait for one another
		c.ways = []wayPrice{{wayShared, machine.Relayed, true}, {wayStaged, machine.Staged, false}}
		return c
	}
	c.ways = []wayPrice{{wayRelayed, machine.Relayed, true}, {wayStaged, machine.Staged, false},
		{wayCopied, machine.Copied, true}}
	if slices.ContainsFunc(list, func(m member) bool { return target.MachineOf(m.caps).Copied == target.Link{} }) {
		c.drop(wayCopied)
	}
	if i := slices.IndexFunc(list, func(m member) bool { return m.noInbox }); i >= 0 {
		c.drop(wayRelayed)
		c.failed = append(c.failed, fmt.Errorf("the host does not reach memory of %s", list[i].caps.Name))
	}
	return c
}

func (m *choices) drop(w way) {
	m.ways = slices.DeleteFunc(m.ways, func(p wayPrice) bool { return p.way == w })
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
	errs := []error{m.settle(0)}
	for i := range m.rooms {
		errs = append(errs, m.rooms[i].free())
	}
	if m.copies != nil {
		errs = append(errs, m.copies.Close())
	}
	return errors.Join(errs...)
}

// without leaves a way out, and why.
func (m *choices) without(w way, why error) {
	m.drop(w)
	m.failed = append(m.failed, fmt.Errorf("%v: %w", w, why))
}

// relayedWords bounds the host's memory that places take which a run uses once.
const relayedWords = 64 << 20

// price is how many nanoseconds such exchanges take; infinitely many where there is no room for them.
func (m *choices) price(w wayPrice, exchanges []int) (ns float64) {
	if transports[w.way].once && mailbox.Room(m.ranks, exchanges, true) > relayedWords {
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

// reserve makes room for such exchanges, in the way that takes least of those that work.
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
		m.without(w, err) // there is less memory of the cards than of the host
	}
}

// choose returns the way that takes least, of those that work. The turn is the caller's.
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
	s, err := passes.SplitTensor(g, len(m.devices), 0, true)
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

// tell finds out whether a way works.
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
	for _, why := range m.failed {
		text += fmt.Sprintf(", since another way fails: %v", why)
	}
	return text
}

// aheadRuns is how many runs the devices may have at a time where the host tells kernels of one another.
const aheadRuns = 8

// roomOf returns the room of a way, with room for such exchanges, of as many runs as the devices may have. The turn is
// the caller's.
func (m *meetings) roomOf(way way, exchanges []int) (*room, error) {
	once := transports[way].once
	r, words := &m.rooms[way], mailbox.Room(len(m.devices), exchanges, once)
	if once {
		words *= max(1, min(aheadRuns, relayedWords/max(words, 1)))
	}
	if r.box != nil && r.box.Room() >= words {
		return r, nil
	}
	if err := errors.Join(lostStates(m.settle(0)), m.idle(), r.free()); err != nil {
		return nil, err
	}
	r.way = way
	if err := r.make(m, words); err != nil {
		return nil, errors.Join(err, r.free())
	}
	return r, nil
}

// room is memory where devices exchange values in one way.
type room struct {
	way     way
	memory  *vk.HostBuffer // nil for the processor
	inboxes []*vk.Buffer   // by rank, where the host passes flags on
	places  places         // where values are copied
	box     *mailbox.Mailbox
	epoch   uint32 // of the next exchange
	next    int    // where the places of the next run begin
	relay   relay
}

func (r *room) make(m *meetings, words int) (err error) {
	memory, t, own := []uint32(nil), transports[r.way], mailbox.Header
	if !t.copies {
		own += words
	}
	if m.vulkan == nil {
		memory = make([]uint32, own)
	} else {
		if r.memory, err = vk.NewHostBuffer(m.vulkan, own); err != nil {
			return err
		}
		memory = r.memory.Words()
	}
	var inboxes [][]uint32
	for _, d := range m.vulkan {
		if !t.relays {
			break
		}
		b, err := d.NewInbox(mailbox.Header)
		if err != nil {
			return err
		}
		r.inboxes = append(r.inboxes, b)
		inboxes = append(inboxes, b.Words())
	}
	if r.box, err = mailbox.New(memory, len(m.devices), inboxes...); err != nil {
		return err
	}
	r.epoch = 1
	if !t.copies {
		return nil
	}
	if m.copies == nil {
		if m.copies, err = m.open(m.vulkan); err != nil {
			m.copies = nil
			return err
		}
	}
	if r.places, err = m.copies.newPlaces(words, words/(3*len(m.devices))); err != nil {
		r.places = nil
		return err
	}
	r.box.Own(words)
	return nil
}

func (r *room) free() error {
	errs := []error{r.box.Close(), r.memory.Close()}
	if r.places != nil {
		errs = append(errs, r.places.Close())
	}
	for _, b := range r.inboxes {
		errs = append(errs, b.Close())
	}
	*r = room{}
	return errors.Join(errs...)
}

// settle waits until devices have at most so many runs that nobody waits for. It returns why some have failed, if
// nobody was told.
func (m *meetings) settle(most int) error {
	var errs []error
	for len(m.under) > most {
		errs = append(errs, m.under[0].tell())
		m.under = m.under[1:]
	}
	return errors.Join(errs...)
}

// lastEpoch is where epochs begin anew.
const lastEpoch = 1 << 31

// begin finds places for the exchanges of a run, and has the room ready for it. Where exchanges have places of their
// own, no other run uses them; else runs go on from each other's. Where runs before it have failed, and nobody was
// told, it says so.
func (r *room) begin(m *meetings, exchanges []int) (from, to int, err error) {
	err, from = m.settle(aheadRuns-1), r.next
	if transports[r.way].once {
		words := mailbox.Room(len(m.devices), exchanges, true)
		if from+words > r.box.Room() {
			from = 0
		}
		to = from + words
		clash := func(x *meeting) bool { return x.room == r && x.from < to && from < x.to }
		for slices.ContainsFunc(m.under, clash) {
			err = errors.Join(err, m.settle(len(m.under)-1))
		}
	}
	last := int64(r.epoch)+int64(len(exchanges)) >= lastEpoch
	if last || r.box.Fails() {
		err = errors.Join(err, m.settle(0), m.idle())
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
		at, tries := mailbox.Addresses{Memory: memory, Flags: memory}, uint32(mailbox.TriesWaiting)
		if r.inboxes != nil {
			at.Flags = r.inboxes[rank].Address()
		}
		if r.places != nil {
			at.Places = r.places.Address(rank)
		}
		if transports[r.way].ends {
			tries = mailbox.TriesNone
		}
		link := r.box.Link(rank, r.epoch, from, at, tries)
		d, err := Of(link[:], len(link))
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, nil
}

// relay has a thread pass flags on while there are runs.
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
	from, to int // its places, where no other run uses them
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

// begin begins a run with such exchanges, which takes as long at most, and returns what each device is given for it.
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

// goesAhead reports whether the devices come to its end by themselves.
func (x *meeting) goesAhead() bool { return x == nil || transports[x.room.way].relays }

// between is what the host does at each exchange; nil for nothing.
func (x *meeting) between() func() error {
	if x == nil || !transports[x.room.way].ends {
		return nil
	}
	return x.all.meet
}

// copy has each device's part of an exchange copied to all others.
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

// fail ends all waiting of a run that one of the devices does not have, once the runs before it have ended.
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

// leave lets the devices, which have been given the run, come to its end by themselves.
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
	between func(i int) error // what is done when all have come for the i-th time, if not nil
	once    sync.Once
	stopped chan struct{}

	mu   sync.Mutex // guards what follows
	here int
	past int           // how often all have come
	next chan struct{} // closed when all are here
}

// meet waits until all are here and what is to be done between is done.
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
