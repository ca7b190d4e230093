package vkc

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/internal/mailbox"
	"github.com/vkc-go/vkc/runtime/vk"
)

// way is a transport for exchanges between devices.
type way int

const (
	// Kernels wait for flags in memory that all devices write.
	wayShared way = iota
	// Kernels wait for flags in their own memory, to which the host copies them.
	wayRelayed
	// Programs end at each exchange, and the host continues them when all have arrived.
	wayStaged
	// As wayStaged, and the host copies the values from card to card in between. Kernels do not wait for a copy,
	// because CUDA is another context of the card, and nothing guarantees that it runs before they end (M-two-cards).
	wayCopied
)

// transports describe the ways.
var transports = [...]struct {
	text   string
	relays bool // whether the host copies flags, so that runs can be asynchronous
	once   bool // whether each exchange of a run has its own slot (M-two-cards)
	ends   bool // whether programs end at each exchange
	copies bool // whether each device sends from and receives in its own memory
	// A trial makes "times" exchanges of "values" values each.
	values, times int
}{
	// A model with 7e9 weights exchanges this many values per token.
	wayShared: {text: "kernels wait for one another", values: 4096, times: 64},
	wayRelayed: {text: "the host tells kernels of one another", relays: true, once: true, values: 4096,
		times: 64},
	wayStaged: {text: "the host takes programs on from one to the next", ends: true},
	wayCopied: {text: "programs end, and cards copy to one another", ends: true, copies: true, values: 1 << 17,
		times: 16},
}

func (w way) String() string { return transports[w].text }

// copies is a transport in which the host orders copies from device to device.
type copies interface {
	// newPlaces allocates words for each device; most is the maximum size of a copy.
	newPlaces(words, most int) (places, error)
	Close() error
}

// places is equally large memory on each device.
type places interface {
	Address(rank int) uint64
	// Copy starts to copy words at offset at from one device to the same offset on all the others.
	Copy(from, at, words int) error
	// Done reports whether all copies have completed.
	Done() (bool, error)
	Close() error
}

// peerCopies uses CUDA.
type peerCopies struct{ *vk.Peers }

func openPeers(d []*vk.Device) (copies, error) {
	p, err := vk.OpenPeers(d)
	return peerCopies{p}, err
}

func (p peerCopies) newPlaces(words, most int) (places, error) { return p.NewPlaces(words, most) }

// choices lists the transports available to a number of devices.
type choices struct {
	ranks  int
	ways   []wayPrice
	failed []error // reasons that transports are not available
}

// wayPrice is a transport and its cost per exchange.
type wayPrice struct {
	way
	device.Link
	untold bool // whether it has not been tried yet
}

// choicesOf returns the transports available to these devices.
func choicesOf(list []member) choices {
	c, machine := choices{ranks: len(list)}, device.MachineOf(list[0].caps)
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
	if slices.ContainsFunc(list, func(m member) bool { return device.MachineOf(m.caps).Copied == device.Link{} }) {
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

// without removes a transport and records the reason.
func (m *choices) without(w way, why error) {
	m.drop(w)
	m.failed = append(m.failed, fmt.Errorf("%v: %w", w, why))
}

// relayedWords limits the host memory of slots that a run uses only once.
const relayedWords = 64 << 20

// price returns the cost of these exchanges in nanoseconds. It is infinite if the room would be too large.
func (m *choices) price(w wayPrice, exchanges []int) (ns float64) {
	if transports[w.way].once && mailbox.Room(m.ranks, exchanges, true) > relayedWords {
		return math.Inf(1)
	}
	for _, values := range exchanges {
		ns += w.Time(4 * int64(values) * int64(m.ranks-1)) // a device reads the values of all others
	}
	return ns
}

// cheapest returns the transport with the lowest cost.
func (m *choices) cheapest(exchanges []int) wayPrice {
	return slices.MinFunc(m.ways, func(a, b wayPrice) int {
		return cmp.Compare(m.price(a, exchanges), m.price(b, exchanges))
	})
}

// how describes the transport of a run's exchanges and the reason for the choice.
func (m *choices) how(exchanges []int) string {
	text := m.cheapest(exchanges).String()
	for _, w := range m.ways {
		switch ns := m.price(w, exchanges); {
		case math.IsInf(ns, 1):
			text += fmt.Sprintf("; %v: places for all of them have more than %d MiB", w.way, relayedWords>>18)
		case w.Link != (device.Link{}):
			text += fmt.Sprintf("; %v: %v a run at most", w.way, digits(time.Duration(ns)))
		}
	}
	for _, why := range m.failed {
		text += fmt.Sprintf(", since another way fails: %v", why)
	}
	return text
}
