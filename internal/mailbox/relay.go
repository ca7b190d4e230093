package mailbox

import (
	"sync/atomic"
	"time"
)

// relaySpins is how often a relay looks for a word before it begins to sleep between looks: some milliseconds, longer
// than a layer of a model takes from one exchange to the next.
const relaySpins = 1 << 20

// lineWords is how many words are copied at a time: a line of a cache, which goes over the bus as one.
const lineWords = 8

// Relay copies what the device of a rank gives in so many exchanges to the inboxes of all others, a line of words as
// soon as all of it is there. It returns when all is copied, when the mailbox is stopped, or when the runs are over.
func (m *Mailbox) Relay(rank int, epoch uint32, exchanges int, over *atomic.Bool) {
	r := relay{m: m, over: over}
	for r.epoch = epoch; r.epoch != epoch+uint32(exchanges); r.epoch++ {
		head := &m.words[headerOf(r.epoch, rank)]
		for goes := r.goesOn(); uint32(atomic.LoadUint64(head)>>32) != r.epoch; goes = r.wait() {
			if !goes {
				return
			}
		}
		values := min(int(uint32(atomic.LoadUint64(head))), m.slot)
		first := m.first(r.epoch, rank)
		for at := first; at < first+values; at += lineWords {
			if !r.copy(rank, at, min(lineWords, first+values-at)) {
				return
			}
		}
		drain()
	}
}

type relay struct {
	m     *Mailbox
	over  *atomic.Bool
	epoch uint32
	spins int // since the last word came
}

// wait reports whether to look again.
func (r *relay) wait() bool {
	if r.spins++; r.spins%1024 != 0 {
		return true
	}
	if r.spins >= relaySpins {
		time.Sleep(20 * time.Microsecond)
	}
	return r.goesOn()
}

func (r *relay) goesOn() bool { return !r.over.Load() && atomic.LoadUint64(&r.m.words[0]) == 0 }

// copy copies some words once all of them are there.
func (r *relay) copy(rank, at, n int) bool {
	var line [lineWords]uint64
	from := r.m.words[at : at+n]
	for {
		other := uint64(0)
		for i := range from {
			line[i] = atomic.LoadUint64(&from[i])
			other |= line[i]>>32 ^ uint64(r.epoch)
		}
		if other == 0 {
			break
		}
		if !r.wait() {
			return false
		}
	}
	r.spins = 0
	for to, inbox := range r.m.inbox {
		if to != rank {
			copy(inbox[at:at+n], line[:n])
		}
	}
	return true
}

var drained atomic.Uint32

// drain has memory that the processor writes in whole lines, as it does a device's, get what was written last: an
// atomic operation waits for that.
func drain() { drained.Add(1) }
