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

// Ends reports whether devices end their programs at each exchange, so that the host must start the rest.
func (c *Channel) Ends() bool { return transports[c.transport].ends }

// GoesAhead reports whether the devices finish a run without further help from the host.
func (c *Channel) GoesAhead() bool { return transports[c.transport].relays }

// channel returns the channel of a transport. It is large enough for runs with these exchanges, as many as may be in
// flight. exchanges has the number of values that a device sends in each exchange of a run. The caller holds the lock.
func (g *Group) channel(t Transport, exchanges []int) (*Channel, error) {
	once := transports[t].once
	c, words := &g.channels[t], mailbox.SlotWords(len(g.names), exchanges, once)
	if once {
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

// allocate makes the channel's memory with slots of so many words in all.
func (c *Channel) allocate(g *Group, words int) (err error) {
	defer bailout.Caught(&err)
	memory, t, own := []uint32(nil), transports[c.transport], mailbox.Header
	if !t.copies {
		own += words
	}
	if len(g.vulkan) == 0 {
		memory = make([]uint32, own)
	} else {
		c.memory = bailout.Must(vk.NewHostBuffer(g.vulkan, own))
		memory = c.memory.Words()
	}
	var inboxes [][]uint32
	for _, d := range g.vulkan {
		if !t.relays {
			break
		}
		b := bailout.Must(d.NewInbox(mailbox.Header))
		c.inboxes = append(c.inboxes, b)
		inboxes = append(inboxes, b.Words())
	}
	c.box = bailout.Must(mailbox.New(memory, len(g.names), inboxes...))
	c.epoch = 1
	if !t.copies {
		return nil
	}
	if g.copier == nil {
		g.copier = bailout.Must(g.OpenCopier(g.vulkan))
	}
	c.buffers = bailout.Must(g.copier.NewBuffers(words, words/(3*len(g.names))))
	c.box.Own(words)
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

// lastEpoch is the epoch at which epochs restart from 1.
const lastEpoch = 1 << 31

// begin reserves slots for the exchanges of a run: words from up to to. With some transports each exchange of all runs
// in flight has slots of its own. With the others, runs reuse the same slots one after another. begin also returns the
// error of an earlier run that has failed, if no caller has received it yet.
func (c *Channel) begin(g *Group, exchanges []int) (from, to int, err error) {
	err, from = g.drain(maxInFlight-1), c.next
	if transports[c.transport].once {
		words := mailbox.SlotWords(len(g.names), exchanges, true)
		if from+words > c.box.SlotWords() {
			from = 0
		}
		to = from + words
		clash := func(r *Run) bool { return r.channel == c && r.from < to && from < r.to }
		for slices.ContainsFunc(g.inFlight, clash) {
			err = errors.Join(err, g.drain(len(g.inFlight)-1))
		}
	}
	last := int64(c.epoch)+int64(len(exchanges)) >= lastEpoch
	if last || c.box.Fails() {
		err = errors.Join(err, g.drain(0), g.Idle())
		c.box.Reset()
	}
	if last {
		c.epoch = 1
	}
	return from, to, lostStates(err)
}

// links returns each rank's link, the input tensor through which kernels find the channel's memory, for a run with
// slots from word `from` on.
func (c *Channel) links(g *Group, from int) (list []*ir.Data) {
	tries := uint32(mailbox.TriesWaiting)
	if c.Ends() {
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

// tensor returns a tensor with one axis.
func tensor[T uint32 | float32](t ir.DType, values []T) *ir.Data {
	bytes, _ := binary.Append(nil, binary.LittleEndian, values) // it takes slices of numbers
	return &ir.Data{DType: t, Dims: []int{len(values)}, Bytes: bytes}
}

// relay controls the goroutine that copies flags between devices. The goroutine exists while runs are in flight.
type relay struct {
	mu   sync.Mutex
	runs int          // runs in flight
	over *atomic.Bool // tells the goroutine to end
	wait sync.WaitGroup
}

// begin counts a run in flight. The first one starts the goroutine.
func (r *relay) begin(box *mailbox.Mailbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs++; r.runs == 1 {
		over := new(atomic.Bool)
		r.over = over
		r.wait.Go(func() { box.Relay(over) })
	}
}

// end counts a run as finished. The last one ends the goroutine.
func (r *relay) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs--; r.runs == 0 {
		r.over.Store(true)
		r.wait.Wait()
	}
}
