package collective

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/internal/mailbox"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// maxInFlight is the largest number of asynchronous runs in flight on a group.
const maxInFlight = 8

// Channel is the memory in which the devices of a group exchange values by one transport. It is divided into slots: in
// an exchange, each rank writes its values to a slot, and the other ranks read them there.
type Channel struct {
	transport Transport
	memory    *vk.HostBuffer   // host memory that all devices import; nil for the CPU
	inboxes   []*vk.Buffer     // device memory to which the host relays flags, by rank; nil for other transports
	buffers   Buffers          // device memory for the slots of transport Copied; nil for other transports
	box       *mailbox.Mailbox // the flags and slots in this memory
	epoch     uint32           // number of the next exchange, by which kernels recognize its flags
	next      int              // offset of the next run's slots, in words
	relay     relay
}

// EndsPrograms reports whether a program ends at each exchange, and the host starts its next part.
func (c *Channel) EndsPrograms() bool { return transports[c.transport].ends }

// Asynchronous reports whether the devices finish a run, once it has been submitted, without help of the host.
func (c *Channel) Asynchronous() bool { return transports[c.transport].relays }

// channel returns the channel of a transport, with enough memory for runs with these exchanges: if it is too small, the
// group waits for all runs and allocates a larger one. exchanges has the number of values that a device sends in each
// exchange of a run. The caller holds the lock.
func (g *Group) channel(t Transport, exchanges []int) (*Channel, error) {
	ownSlots := transports[t].ownSlots
	c, words := &g.channels[t], mailbox.SlotWords(len(g.names), exchanges, ownSlots)
	if ownSlots { // room for as many runs as may be in flight, within a limit of memory
		words *= max(1, min(maxInFlight, relayedWords/max(words, 1)))
	}
	if c.box != nil && c.box.SlotWords() >= words {
		return c, nil
	}
	if err := errors.Join(lostStates(g.drain(0)), g.Idle(), c.free()); err != nil {
		return nil, err
	}
	c.transport = t
	if err := c.allocate(g, words); err != nil {
		return nil, errors.Join(err, c.free())
	}
	return c, nil
}

// allocate allocates the channel's memory: flags, and the given number of words for slots.
func (c *Channel) allocate(g *Group, words int) (err error) {
	defer bailout.Caught(&err)
	t := transports[c.transport]
	size := mailbox.Header // of host memory, in words
	if !t.copies {
		size += words
	}
	var memory []uint32
	if len(g.vulkan) == 0 {
		memory = make([]uint32, size)
	} else {
		c.memory = bailout.Must(vk.NewHostBuffer(g.vulkan, size))
		memory = c.memory.Words()
	}
	var inboxes [][]uint32
	if t.relays {
		for _, d := range g.vulkan {
			b := bailout.Must(d.NewInbox(mailbox.Header))
			c.inboxes = append(c.inboxes, b)
			inboxes = append(inboxes, b.Words())
		}
	}
	c.box = bailout.Must(mailbox.New(memory, len(g.names), inboxes...))
	c.epoch = 1
	if !t.copies {
		return nil
	}
	if g.copier == nil {
		g.copier = bailout.Must(g.OpenCopier(g.vulkan))
	}
	// There is room for three exchanges of the largest size (see [mailbox.SlotWords]), each with a part per rank.
	c.buffers = bailout.Must(g.copier.NewBuffers(words, words/(3*len(g.names))))
	c.box.SetSlotWords(words)
	return nil
}

// free frees the channel's memory and resets it to the zero value.
func (c *Channel) free() error {
	err := errors.Join(c.box.Close(), c.memory.Close(), runtime.Each(c.inboxes, (*vk.Buffer).Close))
	if c.buffers != nil {
		err = errors.Join(err, c.buffers.Close())
	}
	*c = Channel{}
	return err
}

// lastEpoch is the epoch at which epochs, the numbers of exchanges, restart from 1.
const lastEpoch = 1 << 31

// begin reserves slots for the exchanges of a run: words [from, to). With some transports each exchange of all runs in
// flight has slots of its own. With the others, runs reuse the same slots one after another. begin also returns the
// error of an earlier run that has failed, if no caller has received it yet.
func (c *Channel) begin(g *Group, exchanges []int) (from, to int, err error) {
	err = g.drain(maxInFlight - 1)
	from = c.next
	if transports[c.transport].ownSlots {
		words := mailbox.SlotWords(len(g.names), exchanges, true)
		if from+words > c.box.SlotWords() {
			from = 0
		}
		to = from + words
		overlaps := func(r *Run) bool { return r.channel == c && r.from < to && from < r.to }
		for slices.ContainsFunc(g.inFlight, overlaps) {
			err = errors.Join(err, g.drain(len(g.inFlight)-1)) // waits for the earliest run
		}
	}
	// Flags are compared as numbers, so the epochs begin again only when no run is in flight.
	epochsEnd := int64(c.epoch)+int64(len(exchanges)) >= lastEpoch
	if epochsEnd || c.box.HasFailed() {
		err = errors.Join(err, g.drain(0), g.Idle())
		c.box.Reset()
	}
	if epochsEnd {
		c.epoch = 1
	}
	return from, to, lostStates(err)
}

// links returns each rank's link, the input tensor through which kernels find the channel's memory, for a run with
// slots from word `from` on.
func (c *Channel) links(g *Group, from int) (list []*ir.Data) {
	tries := uint32(mailbox.TriesWaiting)
	if c.EndsPrograms() {
		tries = mailbox.TriesNone
	}
	for rank := range g.names {
		memory := c.memory.Address(rank)
		at := mailbox.Addresses{Memory: memory, Flags: memory}
		if transports[c.transport].relays {
			at.Flags = c.inboxes[rank].Address()
		}
		if transports[c.transport].copies {
			at.Slots = c.buffers.Address(rank)
		}
		link := c.box.Link(rank, c.epoch, from, at, tries)
		list = append(list, tensor(ir.U32, link[:]))
	}
	return list
}

// tensor returns a tensor with one axis and the given elements.
func tensor[T uint32 | float32](t ir.DType, values []T) *ir.Data {
	bytes, _ := binary.Append(nil, binary.LittleEndian, values) // it takes slices of numbers
	return &ir.Data{DType: t, Dims: []int{len(values)}, Bytes: bytes}
}

// relay controls the goroutine that copies flags between devices. The goroutine exists while runs are in flight.
type relay struct {
	mu   sync.Mutex
	runs int            // runs in flight
	over *atomic.Bool   // tells the goroutine to end
	wait sync.WaitGroup // of the goroutine
}

// begin counts a run in flight. The first one starts the goroutine.
func (r *relay) begin(box *mailbox.Mailbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs++
	if r.runs == 1 {
		over := new(atomic.Bool)
		r.over = over
		r.wait.Go(func() { box.Relay(over) })
	}
}

// end counts a run as finished. The last one ends the goroutine.
func (r *relay) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs--
	if r.runs == 0 {
		r.over.Store(true)
		r.wait.Wait()
	}
}
