// Package mailbox defines the shared memory through which the devices of a process group exchange values, and
// implements its protocol on the CPU. Package passes generates kernels that use the same protocol.
//
// In an exchange each device sends values and receives the values of all others. It writes its values, and then a flag
// with the epoch, the number of the exchange. A receiver waits for the flags of all senders. A line of 32 bytes holds
// seven values and the epoch, so that a receiver never accepts a line left from an earlier exchange. Exchanges use
// consecutive slots and wrap around at the end of the memory. That is safe: a device that sends in exchange e+2 has
// received everything of e+1, which the others sent after they had received e.
//
// Some devices cache host memory until a program ends, and never see later writes to it (M-two-cards). Their program
// reads each slot once and waits for flags in an inbox in device memory, to which [Mailbox.Relay] copies the flags.
// Alternatively the host ends the device's program at each exchange. Then the values may also be in memory of each
// device, and the host copies them between the devices.
package mailbox

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// LinkWords is the number of 32-bit words in a link. A link describes a mailbox and an exchange to the kernel of one
// device: the addresses of the mailbox, of the flags to wait for and of the slots (two words each), the epoch, the
// device's rank, the slot of the exchange, the size of the slot memory, the maximum number of polls for a flag, and the
// mailbox's number in this process.
const LinkWords = 12

// LinkRank is the index of the rank in a link.
const LinkRank = 7

// Indices in a link.
const (
	linkFlags = 2
	linkSlots = 4
	linkEpoch = 6
	linkRank  = LinkRank
	linkSlot  = 8
	linkSize  = 9
	linkTries = 10
	linkBox   = 11
)

// The maximum number of times that a kernel polls a flag. A kernel that waits for running devices polls for minutes
// before it gives up; the host usually stops it before. If the host ends programs at each exchange, kernels do not
// poll.
const (
	TriesWaiting = 1 << 28
	TriesNone    = 0
)

// Header is the number of words in a mailbox before its slots. An inbox has only a header. If word 0 is not 0, all
// devices must stop.
const Header = 2048

// Indices of the header's words. A word of 0 means that there is no flag or failure yet.
const (
	failedAt = 64   // plus the rank: the epoch of the exchange in which that device failed to receive, and staleBit
	givenAt  = 128  // plus the rank: the flag of that device
	groupAt  = 1024 // plus MaxGroups times the rank, plus the workgroup: the flag of that workgroup
)

// staleBit in a failure means that a flag had arrived before its values did.
const staleBit = 1 << 31

// MaxGroups is the maximum number of workgroups of a device with their own flags.
const MaxGroups = 16

// MaxRanks is how many devices a mailbox serves.
const MaxRanks = 64

// The number of values in a line; its last word is the epoch. Slots are multiples of units.
const (
	lineValues = 7
	lineWords  = 8
	unitWords  = 1024
)

// ErrStopped is wrapped by errors of exchanges in which another device did not take part.
var ErrStopped = errors.New("another device did not come to an exchange")

// Mailbox is memory that several devices share.
type Mailbox struct {
	words []uint32   // the shared memory: the header, and slots unless each device has its own
	ranks int        // number of devices
	id    uint32     // the key of this mailbox in boxes.open
	inbox [][]uint32 // by rank; nil if devices wait for flags in words

	size int // words for slots, of each device if devices have their own
}

var boxes struct {
	sync.Mutex
	last uint32
	open map[uint32]*Mailbox
}

// partWords returns the number of words that one device needs in a slot to give `values` values.
func partWords(values int) int {
	lines := (values + lineValues - 1) / lineValues
	return (lines*lineWords + unitWords - 1) / unitWords * unitWords
}

// SlotWords returns the number of words that the slots of a run need, given the number of values per device in each
// exchange. If once is true, every exchange has its own slot. Otherwise there is room for three of the largest slot,
// and a slot that does not fit after its predecessor goes to the beginning. The two do not overlap: the predecessor
// then begins after the first third.
func SlotWords(ranks int, exchanges []int, once bool) (words int) {
	most := 0
	for _, values := range exchanges {
		words += ranks * partWords(values)
		most = max(most, partWords(values))
	}
	if once {
		return words
	}
	return 3 * ranks * most
}

// Part is the range of words that a device writes in an exchange.
type Part struct{ At, Words int }

// Layout returns the memory of each exchange of a run: all[i][r] is the part that rank r writes in exchange i.
// exchanges[i] is the number of values that each rank gives. The first exchange begins at word from of the slot memory
// or, if it does not fit there, at word 0. The next run may begin at word next.
func (m *Mailbox) Layout(from int, exchanges []int) (all [][]Part, next int) {
	for _, values := range exchanges {
		from = m.slotOf(from, values)
		var parts []Part
		for range m.ranks {
			parts = append(parts, Part{from, partWords(values)})
			from += partWords(values)
		}
		all = append(all, parts)
	}
	return all, from
}

// New makes a mailbox in memory, which must have [Header] words that are zero, and space for slots. Inboxes, if there
// are any, are Header zero words for each device.
func New(memory []uint32, ranks int, inboxes ...[]uint32) (*Mailbox, error) {
	short := func(inbox []uint32) bool { return len(inbox) < Header }
	switch {
	case ranks < 1 || ranks > MaxRanks || short(memory):
		return nil, fmt.Errorf("a mailbox of %d words for %d devices: want at most %d devices and at least %d words",
			len(memory), ranks, MaxRanks, Header)
	case len(inboxes) > 0 && (len(inboxes) != ranks || slices.ContainsFunc(inboxes, short)):
		return nil, fmt.Errorf("a mailbox for %d devices with %d inboxes: want one for each, of %d words", ranks,
			len(inboxes), Header)
	}
	m := &Mailbox{words: memory, ranks: ranks, inbox: inboxes, size: len(memory) - Header}
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

// SlotWords returns the number of words that the mailbox has for slots.
func (m *Mailbox) SlotWords() int { return m.size }

// SetSlotWords sets the number of words for slots, if the slots are in each device's own memory.
func (m *Mailbox) SetSlotWords(words int) { m.size = words }

// Addresses are the addresses that a device uses for a mailbox.
type Addresses struct {
	Memory uint64 // of the mailbox
	Flags  uint64 // of the flags that the device waits for: in its inbox, or in the mailbox
	Slots  uint64 // of the slots; 0: they follow the mailbox's header
}

// Link returns the link of a rank for a run that begins at the given epoch and slot. The epoch must not be 0 and must
// be larger than all earlier epochs since [Mailbox.Reset].
func (m *Mailbox) Link(rank int, epoch uint32, slot int, at Addresses, tries uint32) [LinkWords]uint32 {
	slots := at.Slots
	if slots == 0 && at.Memory != 0 {
		slots = at.Memory + 4*Header
	}
	return [LinkWords]uint32{0: uint32(at.Memory), 1: uint32(at.Memory >> 32), linkFlags: uint32(at.Flags),
		linkFlags + 1: uint32(at.Flags >> 32), linkSlots: uint32(slots), linkSlots + 1: uint32(slots >> 32),
		linkEpoch: epoch, linkRank: uint32(rank), linkSlot: uint32(slot), linkSize: uint32(m.SlotWords()),
		linkTries: tries, linkBox: m.id}
}

// Stop makes all devices that wait for a flag stop, now and later.
func (m *Mailbox) Stop() {
	atomic.StoreUint32(&m.words[0], 1)
	for _, inbox := range m.inbox {
		inbox[0] = 1
	}
	drain()
}

// Failed returns the rank of a device that failed to receive, or -1. stale means that a flag had arrived before its
// values did. stale is always false after Stop, because stopped devices continue without waiting, and overwrite values
// that others have not read.
func (m *Mailbox) Failed() (rank int, stale bool) {
	for r := range m.ranks {
		if epoch := atomic.LoadUint32(&m.words[failedAt+r]); epoch != 0 {
			return r, epoch&staleBit != 0 && atomic.LoadUint32(&m.words[0]) == 0
		}
	}
	return -1, false
}

// HasFailed reports whether a device failed to receive, or the devices were told to stop.
func (m *Mailbox) HasFailed() bool {
	rank, _ := m.Failed()
	return rank >= 0 || atomic.LoadUint32(&m.words[0]) != 0
}

// Reset clears all flags and failures, so that the devices can exchange again. No device may be using the mailbox.
func (m *Mailbox) Reset() {
	for i := range Header {
		atomic.StoreUint32(&m.words[i], 0)
	}
	for _, inbox := range m.inbox {
		clear(inbox)
	}
	drain()
}

// ops are the names of the collectives, the ops that receive from other devices.
var ops = []string{"vkc.all_reduce", "vkc.all_gather", "vkc.reduce_scatter"}

// HasCollective reports whether one of these ops is a collective.
func HasCollective(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(ops, name) })
}

// Follows reports whether one of these ops uses a link, to send or to receive values.
func Follows(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return name == "vkc.give" || slices.Contains(ops, strings.TrimSuffix(name, "_few"))
	})
}

// exchange is the exchange that a link describes.
type exchange struct {
	*Mailbox
	epoch  uint32 // number of the exchange
	rank   int    // of the device that the link is for
	slot   int    // offset of the slot of rank 0
	values int    // that each device sends
}

// follow returns the exchange that a link describes, in which each device gives that many values.
func follow(link []uint32, values int) (x exchange, err error) {
	if len(link) != LinkWords {
		return x, fmt.Errorf("a link of %d words: want %d", len(link), LinkWords)
	}
	boxes.Lock()
	x.Mailbox = boxes.open[link[linkBox]]
	boxes.Unlock()
	if x.Mailbox == nil {
		return x, errors.New("the link names no mailbox: several devices run such a program, which are opened together")
	}
	x.epoch, x.rank, x.slot, x.values = link[linkEpoch], int(link[linkRank]), int(link[linkSlot]), values
	size := x.ranks * partWords(values)
	if x.rank >= x.ranks || size > x.SlotWords() {
		return x, fmt.Errorf("%d values from device %d: the mailbox has %d words for %d devices", values, x.rank,
			x.SlotWords(), x.ranks)
	}
	x.slot = x.slotOf(x.slot, x.values)
	return x, nil
}

// slotOf returns the offset of an exchange with the given number of values: at, or 0 if the memory ends before.
func (m *Mailbox) slotOf(at, values int) int {
	if at+m.ranks*partWords(values) > m.SlotWords() {
		return 0
	}
	return at
}

// of returns the words of a rank's part, with values in lines.
func (x exchange) of(rank int) []uint32 {
	return x.words[Header+x.slot+rank*partWords(x.values):][:partWords(x.values)]
}

// wordIndex returns the index of a value's word.
func wordIndex(i int) int { return i/lineValues*lineWords + i%lineValues }

// epochIndex returns the index of the epoch in a value's line.
func epochIndex(i int) int { return i/lineValues*lineWords + lineValues }

// Next returns the link of the exchange after link's, in which each device gives that many values. The next exchange
// uses the memory after it.
func Next(link []uint32, values int) ([]uint32, error) {
	x, err := follow(link, values)
	if err != nil {
		return nil, err
	}
	next := slices.Clone(link)
	next[linkEpoch]++
	next[linkSlot] = uint32(x.slot + x.ranks*partWords(values))
	return next, nil
}

// isReached reports whether a flag has an epoch or a later one. Epochs wrap around.
func isReached(flag, epoch uint32) bool { return int32(flag-epoch) >= 0 }

// Give writes a device's values and flag to the mailbox of a link. If the device has already written this exchange,
// Give does nothing, because other devices may be reading the values. Such repeated calls occur: the reference
// interpreter runs an op once for each of its results.
func Give(link, values []uint32) error {
	x, err := follow(link, len(values))
	if err != nil {
		return err
	}
	flag := &x.words[givenAt+x.rank]
	if isReached(atomic.LoadUint32(flag), x.epoch) {
		return nil
	}
	own := x.of(x.rank)
	for i, v := range values {
		// The epoch at the end of each line tells a receiver that the line is new.
		own[wordIndex(i)] = v
		own[epochIndex(i)] = x.epoch
	}
	atomic.StoreUint32(flag, x.epoch)
	return nil
}

// Take returns the values of all ranks in the exchange of a link. own are the values of this device, which become its
// entry. Take waits until the others arrive or the mailbox is stopped.
func Take(link, own []uint32) ([][]uint32, error) {
	x, err := follow(link, len(own))
	if err != nil {
		return nil, err
	}
	all := make([][]uint32, x.ranks)
	for r := range all {
		if r == x.rank {
			all[r] = own
			continue
		}
		if all[r], err = x.take(r); err != nil {
			return nil, fmt.Errorf("device %d waits for device %d: %w", x.rank, r, err)
		}
	}
	return all, nil
}

// take waits for a rank's values. After the flag of the rank, it checks the epoch in each line: a device may see the
// flag before the values.
func (x exchange) take(rank int) ([]uint32, error) {
	for tries := 1; !isReached(atomic.LoadUint32(&x.words[givenAt+rank]), x.epoch); tries++ {
		switch {
		case atomic.LoadUint32(&x.words[0]) != 0: // the mailbox is stopped
			atomic.StoreUint32(&x.words[failedAt+x.rank], x.epoch)
			return nil, ErrStopped
		case tries%64 == 0:
			time.Sleep(20 * time.Microsecond)
		default:
			runtime.Gosched()
		}
	}
	from, values := x.of(rank), make([]uint32, x.values)
	for i := range values {
		if from[epochIndex(i)] != x.epoch {
			atomic.StoreUint32(&x.words[failedAt+x.rank], x.epoch|staleBit)
			return nil, ErrStopped
		}
		values[i] = from[wordIndex(i)]
	}
	return values, nil
}
