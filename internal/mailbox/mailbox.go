// Package mailbox is memory through which devices that run one program together exchange what each has computed, and
// the protocol of it as the processor speaks it. Kernels of package passes speak the same.
//
// To an exchange each device gives some values, and takes those of all others. It writes its values, and when all are
// written, a flag: the number of the exchange, its epoch. Who takes waits for the flags of the others. A line of 32
// bytes has seven values and the epoch, so that nobody takes what an earlier exchange has left there. Exchanges have
// places that follow one another, and begin anew where there is no more room: who gives to exchange e+2 has taken what
// all others gave to e+1, which they did after they had taken e.
//
// A device that keeps what it has once read of the host's memory sees nothing later there before its program ends
// (M-two-cards). Its program reads each place once, and waits for flags in an inbox, which is memory of its own:
// [Mailbox.Relay] copies flags there. Or the host has its program end at each exchange. Then values may also lie in
// places that each device has for itself, between which the host has them copied.
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

// LinkWords is how many words of 32 bits a link has, which tells kernels of a mailbox: its address, that of the flags
// to wait for and that of the places (two words each), the epoch, the rank of the device, the place of the exchange,
// the room for places, how often a kernel looks for a flag at most, where it does, and the mailbox's number in this
// process.
const LinkWords = 12

// LinkRank is where in a link the rank is.
const LinkRank = 7

// Indices in a link.
const (
	linkFlags  = 2
	linkPlaces = 4
	linkEpoch  = 6
	linkRank   = LinkRank
	linkPlace  = 8
	linkRoom   = 9
	linkTries  = 10
	linkBox    = 11
)

// How often a kernel looks for a flag: for minutes where it waits for other devices that are at work, after which it
// gives up by itself, though the host tells it to before that; and never where the host ends programs.
const (
	TriesWaiting = 1 << 28
	TriesNone    = 0
)

// Header is how many words a mailbox has before its places. An inbox has nothing else. Word 0 tells everyone to stop
// where it is not 0.
const Header = 2048

const (
	failedAt = 64   // and the rank: of what exchange the device could not take all; staleBit: it was not there
	givenAt  = 128  // and the rank: the flag
	groupAt  = 1024 // and MaxGroups times the rank, and the workgroup: the flag of what that has given
	staleBit = 1 << 31
)

// MaxGroups is how many workgroups of a device have flags of their own.
const MaxGroups = 16

// MaxRanks is how many devices a mailbox serves.
const MaxRanks = 64

// A line has so many values, and its last word is the epoch. Places are whole numbers of units.
const (
	lineValues = 7
	lineWords  = 8
	unitWords  = 1024
)

// ErrStopped is wrapped by errors of exchanges that others did not come to.
var ErrStopped = errors.New("another device did not come to an exchange")

// Mailbox is memory that several devices share.
type Mailbox struct {
	words []uint32
	ranks int
	id    uint32
	inbox [][]uint32 // by rank; nil where devices wait for flags in words

	room int // words for places, of each device where these are its own
}

var boxes struct {
	sync.Mutex
	last uint32
	open map[uint32]*Mailbox
}

// part is how many words a device's part of a place has.
func part(values int) int {
	lines := (values + lineValues - 1) / lineValues
	return (lines*lineWords + unitWords - 1) / unitWords * unitWords
}

// Room is how many words the places of a run have, to whose exchanges each device gives so many values. Once is where a
// run has each exchange at a place of its own. Else three of the largest have room: an exchange at the beginning, after
// one that begins in the last two thirds, does not touch that one.
func Room(ranks int, exchanges []int, once bool) (words int) {
	most := 0
	for _, values := range exchanges {
		words += ranks * part(values)
		most = max(most, part(values))
	}
	if once {
		return words
	}
	return 3 * ranks * most
}

// Part is what a device gives to an exchange: words at an offset among the places.
type Part struct{ At, Words int }

// Lay says where the exchanges of a run lie of which the first begins there: for each the parts by rank. The next run
// may begin at next.
func (m *Mailbox) Lay(from int, exchanges []int) (all [][]Part, next int) {
	for _, values := range exchanges {
		from = m.placeOf(from, values)
		var parts []Part
		for range m.ranks {
			parts = append(parts, Part{from, part(values)})
			from += part(values)
		}
		all = append(all, parts)
	}
	return all, from
}

// New makes a mailbox in memory of [Header] words, which are zero, and room for places. Inboxes, if there are any, are
// Header words that are zero for each device.
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
	m := &Mailbox{words: memory, ranks: ranks, inbox: inboxes, room: len(memory) - Header}
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

// Room is how many words there are for places.
func (m *Mailbox) Room() int { return m.room }

// Own says that each device has places in memory of its own, of so many words.
func (m *Mailbox) Own(words int) { m.room = words }

// Addresses are where a device finds the mailbox, the flags to wait for, which are its inbox or the mailbox, and the
// places, if they do not follow the mailbox's header.
type Addresses struct{ Memory, Flags, Places uint64 }

// Link is what a run on the device of a rank is given, whose first exchange has that epoch and place: the epoch is not
// 0, and larger than all that were since [Mailbox.Reset].
func (m *Mailbox) Link(rank int, epoch uint32, place int, at Addresses, tries uint32) [LinkWords]uint32 {
	places := at.Places
	if places == 0 && at.Memory != 0 {
		places = at.Memory + 4*Header
	}
	return [LinkWords]uint32{0: uint32(at.Memory), 1: uint32(at.Memory >> 32), linkFlags: uint32(at.Flags),
		linkFlags + 1: uint32(at.Flags >> 32), linkPlaces: uint32(places), linkPlaces + 1: uint32(places >> 32),
		linkEpoch: epoch, linkRank: uint32(rank), linkPlace: uint32(place), linkRoom: uint32(m.Room()),
		linkTries: tries, linkBox: m.id}
}

// Stop ends all waiting.
func (m *Mailbox) Stop() {
	atomic.StoreUint32(&m.words[0], 1)
	for _, inbox := range m.inbox {
		inbox[0] = 1
	}
	drain()
}

// Failed returns the rank of a device that could not take what it should, and whether what it should take was not
// there; or -1. Once everyone was told to stop, that says nothing: who goes on without waiting writes over what others
// have not read.
func (m *Mailbox) Failed() (rank int, stale bool) {
	for r := range m.ranks {
		if epoch := atomic.LoadUint32(&m.words[failedAt+r]); epoch != 0 {
			return r, epoch&staleBit != 0 && atomic.LoadUint32(&m.words[0]) == 0
		}
	}
	return -1, false
}

// Fails reports whether somebody could not take what it should, or was told to stop.
func (m *Mailbox) Fails() bool {
	rank, _ := m.Failed()
	return rank >= 0 || atomic.LoadUint32(&m.words[0]) != 0
}

// Reset has everyone go on. No device may be using the mailbox.
func (m *Mailbox) Reset() {
	for i := range Header {
		atomic.StoreUint32(&m.words[i], 0)
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
func Follows(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return name == "vkc.give" || slices.Contains(ops, strings.TrimSuffix(name, "_few"))
	})
}

// exchange is an exchange that a link tells of.
type exchange struct {
	*Mailbox
	epoch  uint32
	rank   int
	place  int // where that of rank 0 begins
	values int
}

// follow returns the exchange that a link tells of, of so many values.
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
	x.epoch, x.rank, x.place, x.values = link[linkEpoch], int(link[linkRank]), int(link[linkPlace]), values
	size := x.ranks * part(values)
	if x.rank >= x.ranks || size > x.Room() {
		return x, fmt.Errorf("%d values from device %d: the mailbox has %d words for %d devices", values, x.rank,
			x.Room(), x.ranks)
	}
	x.place = x.placeOf(x.place, x.values)
	return x, nil
}

// placeOf is where an exchange of so many values lies that begins there, or where there is no more room.
func (m *Mailbox) placeOf(at, values int) int {
	if at+m.ranks*part(values) > m.Room() {
		return 0
	}
	return at
}

// of returns the words of a rank, where values lie in lines.
func (x exchange) of(rank int) []uint32 {
	return x.words[Header+x.place+rank*part(x.values):][:part(x.values)]
}

// wordOf is where a value lies.
func wordOf(i int) int { return i/lineValues*lineWords + i%lineValues }

// Next is the link of the exchange after one of so many values.
func Next(link []uint32, values int) ([]uint32, error) {
	x, err := follow(link, values)
	if err != nil {
		return nil, err
	}
	next := slices.Clone(link)
	next[linkEpoch]++
	next[linkPlace] = uint32(x.place + x.ranks*part(values))
	return next, nil
}

// Give writes the part of a device to the mailbox that a link names, and its flag. What was given already stays as it
// is, since others may be reading it: the reference computes an op once for each of its results.
func Give(link, values []uint32) error {
	x, err := follow(link, len(values))
	if err != nil {
		return err
	}
	flag := &x.words[givenAt+x.rank]
	if int32(atomic.LoadUint32(flag)-x.epoch) >= 0 {
		return nil
	}
	own := x.of(x.rank)
	for i, v := range values {
		own[wordOf(i)] = v
		own[i/lineValues*lineWords+lineValues] = x.epoch
	}
	atomic.StoreUint32(flag, x.epoch)
	return nil
}

// Take returns the values of all ranks, of which own are the device's. It waits until they are there or somebody stops
// the mailbox.
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

// take waits for the values of a rank.
func (x exchange) take(rank int) ([]uint32, error) {
	for tries := 1; int32(atomic.LoadUint32(&x.words[givenAt+rank])-x.epoch) < 0; tries++ {
		switch {
		case atomic.LoadUint32(&x.words[0]) != 0:
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
		if from[i/lineValues*lineWords+lineValues] != x.epoch {
			atomic.StoreUint32(&x.words[failedAt+x.rank], x.epoch|staleBit)
			return nil, ErrStopped
		}
		values[i] = from[wordOf(i)]
	}
	return values, nil
}
