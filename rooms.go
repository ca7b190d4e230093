package vkc

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/vkc-go/vkc/internal/mailbox"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/vk"
)

// aheadRuns is the number of runs that the devices may have in flight when the host relays the flags between kernels.
const aheadRuns = 8

// roomOf returns the room of a transport, large enough for these exchanges for every run that may be in flight. The
// caller must have the turn.
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

// room is the memory in which devices exchange values through one transport.
type room struct {
	way     way
	memory  *vk.HostBuffer // nil for the CPU
	inboxes []*vk.Buffer   // by rank; the host relays flags to them
	places  places         // memory for copied values
	box     *mailbox.Mailbox
	epoch   uint32 // epoch of the next exchange
	next    int    // offset of the next run's slots
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

// lastEpoch is the epoch after which epochs restart.
const lastEpoch = 1 << 31

// begin assigns slots to the exchanges of a run and prepares the room. Some transports give each exchange a slot that
// no other run in flight uses; with the others, runs reuse the same slots one after another. begin returns the error of
// an earlier run that has failed, if it was not yet reported.
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

// links returns the link of each device for a run whose slots begin at from.
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

// relay is a thread that copies flags between devices while there are runs in flight.
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
