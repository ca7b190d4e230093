package collective

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/internal/mailbox"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// Transport is a way to move values between devices.
type Transport int

const (
	// Shared: kernels wait for flags in memory that all devices write.
	Shared Transport = iota
	// Relayed: kernels wait for flags in their own memory, to which the host copies them.
	Relayed
	// Staged: programs end at each exchange, and the host continues them when all have arrived.
	Staged
	// Copied: like Staged, and at each exchange the host copies the values from card to card with CUDA. Kernels do not
	// wait for a copy: CUDA has a context of its own on the card, and the card may not run it before the kernels end
	// (M-two-cards).
	Copied
)

// transports has a row per Transport.
var transports = [...]struct {
	text     string // for String
	relays   bool   // whether the host copies flags, so that runs can be asynchronous
	ownSlots bool   // whether each exchange of a run has slots of its own (M-two-cards)
	ends     bool   // whether programs end at each exchange
	copies   bool   // whether the slots are in each device's own memory, not in host memory
	// A probe makes `times` exchanges of `values` values each.
	values, times int
}{
	// A model with 7e9 weights exchanges 4096 values per token and layer.
	Shared: {text: "kernels wait for one another", values: 4096, times: 64},
	Relayed: {text: "the host tells kernels of one another", relays: true, ownSlots: true, values: 4096,
		times: 64},
	Staged: {text: "the host takes programs on from one to the next", ends: true},
	Copied: {text: "programs end, and cards copy to one another", ends: true, copies: true, values: 1 << 17,
		times: 16},
}

// String describes the transport, for people.
func (t Transport) String() string { return transports[t].text }

// Copier makes memory that the host can copy from device to device.
type Copier interface {
	// NewBuffers allocates memory on each device. words is its size, and most the largest size of a copy, in 32-bit
	// words.
	NewBuffers(words, most int) (Buffers, error)
	Close() error
}

// Buffers is memory of the same size on each device. Offsets and sizes are in 32-bit words.
type Buffers interface {
	Address(rank int) uint64 // the device address of a rank's memory
	// Copy starts to copy words at offset `at`, from the memory of rank `from` to the same offset of all others.
	Copy(from, at, words int) error
	// Done reports whether all copies have completed.
	Done() (bool, error)
	Close() error
}

// peerCopier copies with CUDA.
type peerCopier struct{ *vk.Peers }

// openPeers returns the Copier of devices that CUDA can copy between.
func openPeers(d []*vk.Device) (Copier, error) {
	p, err := vk.OpenPeers(d)
	return peerCopier{p}, err
}

// NewBuffers implements Copier.
func (p peerCopier) NewBuffers(words, most int) (Buffers, error) {
	return p.Peers.NewBuffers(words, most)
}

// Traits has the properties of a device that decide which transports its group can use and what they cost.
type Traits struct {
	Caps      device.Caps // with the speeds that vkc tune measured
	Processor bool        // whether programs run on the CPU without Vulkan
	NoInbox   bool        // whether the host cannot write the device's memory
}

// cachesHost reports whether the device may cache host memory, so that a running program does not see writes of the
// host or of another device.
func (t Traits) cachesHost() bool { return !t.Processor && t.Caps.Type != device.DeviceCPU }

// Choices has the transports that a group of devices may use.
type Choices struct {
	Ranks  int
	List   []Choice
	Failed []error // why the other transports are not available
}

// Choice is a transport and its latency and bandwidth in an exchange.
type Choice struct {
	Transport
	device.Link
	Unprobed bool // whether it must be probed before use
}

// Available returns the transports that these devices may use, before any is probed.
func Available(list []Traits) Choices {
	c, machine := Choices{Ranks: len(list)}, device.MachineOf(list[0].Caps)
	software := !slices.ContainsFunc(list, Traits.cachesHost)
	switch {
	case software && list[0].Processor:
		c.List = []Choice{{Transport: Shared, Link: machine.Relayed}}
		return c
	case software: // Shared must be probed: kernels that wait for one another need enough threads
		c.List = []Choice{{Shared, machine.Relayed, true}, {Staged, machine.Staged, false}}
		return c
	}
	c.List = []Choice{{Relayed, machine.Relayed, true}, {Staged, machine.Staged, false},
		{Copied, machine.Copied, true}}
	if slices.ContainsFunc(list, func(t Traits) bool { return device.MachineOf(t.Caps).Copied == device.Link{} }) {
		c.drop(Copied)
	}
	if i := slices.IndexFunc(list, func(t Traits) bool { return t.NoInbox }); i >= 0 {
		c.drop(Relayed)
		c.Failed = append(c.Failed, fmt.Errorf("the host does not reach memory of %s", list[i].Caps.Name))
	}
	return c
}

// drop removes a transport.
func (c *Choices) drop(t Transport) {
	c.List = slices.DeleteFunc(c.List, func(one Choice) bool { return one.Transport == t })
}

// exclude removes a transport and records the reason.
func (c *Choices) exclude(t Transport, why error) {
	c.drop(t)
	c.Failed = append(c.Failed, fmt.Errorf("%v: %w", t, why))
}

// relayedWords is the maximum size of all slots, in words of host memory, if each exchange has slots of its own.
const relayedWords = 64 << 20

// price estimates the time of these exchanges by one transport, in nanoseconds. It returns +Inf if the slots would need
// too much memory.
func (c *Choices) price(one Choice, exchanges []int) (ns float64) {
	if transports[one.Transport].ownSlots && mailbox.SlotWords(c.Ranks, exchanges, true) > relayedWords {
		return math.Inf(1)
	}
	for _, values := range exchanges {
		ns += one.Time(4 * int64(values) * int64(c.Ranks-1)) // a device reads the values of all others
	}
	return ns
}

// cheapest returns the transport with the lowest price for these exchanges.
func (c *Choices) cheapest(exchanges []int) Choice {
	return slices.MinFunc(c.List, func(a, b Choice) int {
		return cmp.Compare(c.price(a, exchanges), c.price(b, exchanges))
	})
}

// Price estimates the time of a run's exchanges by the cheapest transport, in nanoseconds. exchanges has the number of
// values that a device sends in each.
func (c *Choices) Price(exchanges []int) float64 { return c.price(c.cheapest(exchanges), exchanges) }

// Describe says for people which transport is the cheapest for a run's exchanges, what each costs, and why others are
// not available.
func (c *Choices) Describe(exchanges []int) string {
	text := c.cheapest(exchanges).String()
	for _, one := range c.List {
		switch ns := c.price(one, exchanges); {
		case math.IsInf(ns, 1):
			text += fmt.Sprintf("; %v: slots for all of them have more than %d MiB", one.Transport, relayedWords>>18)
		case one.Link != (device.Link{}):
			text += fmt.Sprintf("; %v: %v a run at most", one.Transport, runtime.Brief(time.Duration(ns)))
		}
	}
	for _, why := range c.Failed {
		text += fmt.Sprintf(", since another transport fails: %v", why)
	}
	return text
}
