// Package mailbox is memory through which devices that run one program together exchange what each has computed, and
// the protocol of it as the processor speaks it. Kernels of package passes speak the same.
//
// Every word of 64 bits has 32 bits of a value, and 32 bits that say of which exchange: its epoch. A reader takes a
// word when it has the epoch that it waits for. A word is written and read at once, so values need neither flags nor
// fences of their own (the LL protocol of NCCL: Hu et al., "Demystifying NCCL", 2025, arXiv:2507.04786). Two slots take
// turns: who writes for epoch e+2 has read what all others wrote for e+1, and they wrote that after they had read e.
//
// A device that keeps what it has once read of the host's memory sees no later word there before its program ends
// (M-two-cards). Such devices take words from an inbox, memory of their own which the host writes: [Mailbox.Relay]
// copies to the inboxes of the others what a device has given.
package mailbox

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// LinkWords is how many words of 32 bits a link has, which tells kernels of a mailbox: the address where the device
// gives (two words), the epoch, the rank of the device, the words of a slot, the mailbox's number in this process, how
// often a kernel looks for a word at most, and the address where the device takes (two words).
const LinkWords = 9

// Indices in a link.
const (
	linkEpoch = 2
	linkRank  = 3
	linkSlot  = 4
	linkBox   = 5
	linkTries = 6
	linkTake  = 7
)

// How often a kernel looks for a word: for minutes where it waits for other devices that are at work, after which it
// gives up by itself, though the host tells it to before that; and a few times where all words are there.
const (
	TriesWaiting = 1 << 28
	TriesGiven   = 1 << 10
)

// Header is how many words a mailbox has before its slots: word 0 tells everyone to stop where it is not 0; word 1+r
// is set by the device of rank r that has waited in vain; word 64*(1+e%2)+r says how many values the device of rank r
// gives to exchange e.
const Header = 3 * headerPart

const headerPart = 64

// MaxRanks is how many devices a mailbox serves.
const MaxRanks = headerPart - 1

// ErrStopped is wrapped by errors of exchanges that others did not come to.
var ErrStopped = errors.New("another device did not come to an exchange")

// Mailbox is memory that several devices share.
type Mailbox struct {
	words []uint64
	ranks int
	slot  int
	id    uint32
	inbox [][]uint64 // by rank, as words; nil where devices take from words
}

var boxes struct {
	sync.Mutex
	last uint32
	open map[uint32]*Mailbox
}

// Words is how many words of 64 bits the memory has for so many devices, each of which gives slot values at most.
func Words(ranks, slot int) int { return Header + 2*ranks*slot }

// New makes a mailbox in memory of [Words] words, which are zero. Inboxes, if there are any, are such memory too, one
// for each device.
func New(memory []uint64, ranks, slot int, inboxes ...[]uint64) (*Mailbox, error) {
	if ranks < 1 || ranks > MaxRanks || slot < 0 || len(memory) < Words(ranks, slot) {
		return nil, fmt.Errorf("a mailbox of %d words for %d devices with %d values each: want at most %d devices and "+
			"at least %d words", len(memory), ranks, slot, MaxRanks, Words(ranks, slot))
	}
	short := func(inbox []uint64) bool { return len(inbox) < Words(ranks, slot) }
	if len(inboxes) > 0 && (len(inboxes) != ranks || slices.ContainsFunc(inboxes, short)) {
		return nil, fmt.Errorf("a mailbox for %d devices with %d inboxes: want one for each, of %d words", ranks,
			len(inboxes), Words(ranks, slot))
	}
	m := &Mailbox{words: memory, ranks: ranks, slot: slot, inbox: inboxes}
	boxes.Lock()
	defer boxes.Unlock()
	if boxes.open == nil {
		boxes.open = map[uint32]*Mailbox{}
	}
	boxes.last++
	m.id = boxes.last
	boxes.open[m.id] = m
	return m, nil
}

// Close ends the use of the mailbox. Its memory is the caller's to free.
func (m *Mailbox) Close() error {
	if m != nil {
		boxes.Lock()
		defer boxes.Unlock()
		delete(boxes.open, m.id)
	}
	return nil
}

// Slot is how many values a device gives at most.
func (m *Mailbox) Slot() int { return m.slot }

// Link is what a run on the device of a rank is given, whose first exchange has that epoch: not 0, and one that none
// before had since [Mailbox.Reset]. give and take are where the device finds the memory, and its inbox or the memory.
func (m *Mailbox) Link(rank int, epoch uint32, give, take uint64, tries uint32) [LinkWords]uint32 {
	return [LinkWords]uint32{0: uint32(give), 1: uint32(give >> 32), linkEpoch: epoch, linkRank: uint32(rank),
		linkSlot: uint32(m.slot), linkBox: m.id, linkTries: tries, linkTake: uint32(take),
		linkTake + 1: uint32(take >> 32)}
}

// Stop ends all waiting.
func (m *Mailbox) Stop() {
	atomic.StoreUint64(&m.words[0], 1)
	for _, inbox := range m.inbox {
		inbox[0] = 1
	}
	drain()
}

// Failed returns the rank of a device that waited in vain, or -1.
func (m *Mailbox) Failed() int {
	for r := range m.ranks {
		if atomic.LoadUint64(&m.words[1+r]) != 0 {
			return r
		}
	}
	return -1
}

// Reset makes the mailbox as it was at first. No device may be using it.
func (m *Mailbox) Reset() {
	for i := range m.words {
		atomic.StoreUint64(&m.words[i], 0)
	}
	for _, inbox := range m.inbox {
		clear(inbox)
	}
	drain()
}

// ops are those that read what other devices have given.
var ops = []string{"vkc.all_reduce", "vkc.all_gather", "vkc.reduce_scatter"}

// Meets reports whether one of these ops reads what other devices have given before it.
func Meets(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(ops, name) })
}

// Follows reports whether one of these ops follows a link to a mailbox, to read or to write there.
func Follows(names []string) bool { return Meets(names) || slices.Contains(names, "vkc.give") }

// headerOf is where it says how many values a rank gives.
func headerOf(epoch uint32, rank int) int { return headerPart*(1+int(epoch&1)) + rank }

// first is where the values of a rank are.
func (m *Mailbox) first(epoch uint32, rank int) int {
	return Header + (int(epoch&1)*m.ranks+rank)*m.slot
}

// at returns the mailbox that a link names, and where the values of a rank are.
func at(link []uint32, values int) (*Mailbox, func(rank int) []uint64, error) {
	if len(link) != LinkWords {
		return nil, nil, fmt.Errorf("a link of %d words: want %d", len(link), LinkWords)
	}
	boxes.Lock()
	m := boxes.open[link[linkBox]]
	boxes.Unlock()
	switch rank := int(link[linkRank]); {
	case m == nil:
		return nil, nil, errors.New("the link names no mailbox: several devices run such a program, which are opened " +
			"together")
	case rank >= m.ranks || values > m.slot || int(link[linkSlot]) != m.slot:
		return nil, nil, fmt.Errorf("%d values from device %d: the mailbox is for %d from each of %d", values, rank,
			m.slot, m.ranks)
	}
	return m, func(r int) []uint64 {
		return m.words[m.first(link[linkEpoch], r):][:values]
	}, nil
}

// Give writes the part of a device to the mailbox that a link names.
func Give(link, part []uint32) error {
	m, of, err := at(link, len(part))
	if err != nil {
		return err
	}
	epoch, rank := link[linkEpoch], int(link[linkRank])
	atomic.StoreUint64(&m.words[headerOf(epoch, rank)], uint64(len(part))|uint64(epoch)<<32)
	own := of(rank)
	for i, v := range part {
		atomic.StoreUint64(&own[i], uint64(v)|uint64(epoch)<<32)
	}
	return nil
}

// Take returns the parts of all ranks, of which part is the device's own. It waits until they are there or somebody
// stops the mailbox.
func Take(link, part []uint32) ([][]uint32, error) {
	m, of, err := at(link, len(part))
	if err != nil {
		return nil, err
	}
	rank := int(link[linkRank])
	all := make([][]uint32, m.ranks)
	for r := range all {
		if r == rank {
			all[r] = part
			continue
		}
		all[r] = make([]uint32, len(part))
		for i := range part {
			if all[r][i], err = m.wait(&of(r)[i], link[linkEpoch]); err != nil {
				atomic.StoreUint64(&m.words[1+rank], 1)
				return nil, fmt.Errorf("device %d waits for device %d: %w", rank, r, err)
			}
		}
	}
	return all, nil
}

// wait returns the value of a word once it has that epoch.
func (m *Mailbox) wait(word *uint64, epoch uint32) (uint32, error) {
	for tries := 1; ; tries++ {
		if w := atomic.LoadUint64(word); uint32(w>>32) == epoch {
			return uint32(w), nil
		}
		switch {
		case atomic.LoadUint64(&m.words[0]) != 0:
			return 0, ErrStopped
		case tries%64 == 0:
			time.Sleep(20 * time.Microsecond)
		default:
			runtime.Gosched()
		}
	}
}
