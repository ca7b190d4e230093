package mailbox

import (
	"sync/atomic"
	"time"
)

// relaySpins is how often a relay polls without a pause before it sleeps between polls. That takes some milliseconds,
// longer than the time between two exchanges of a model's layers.
const relaySpins = 1 << 20

// Relay copies the flags of every device to the inboxes of the others, as the flags change, until over is true.
func (m *Mailbox) Relay(over *atomic.Bool) {
	type flag struct {
		at, rank int
		seen     uint32
	}
	var flags []flag
	for rank := range m.ranks {
		flags = append(flags, flag{at: givenAt + rank, rank: rank})
		for group := range MaxGroups {
			flags = append(flags, flag{at: groupAt + MaxGroups*rank + group, rank: rank})
		}
	}
	for spins := 1; ; spins++ { // spins counts the rounds since the last one that copied a flag
		for i := range flags {
			f := &flags[i]
			if now := atomic.LoadUint32(&m.words[f.at]); now != f.seen {
				f.seen, spins = now, 0
				for to, inbox := range m.inbox {
					if to != f.rank {
						inbox[f.at] = now
					}
				}
			}
		}
		switch {
		case spins == 0: // it copied a flag
			drain()
		case spins%1024 == 0 && over.Load(): // seldom: reading over costs time
			return
		case spins >= relaySpins && spins%1024 == 0:
			time.Sleep(20 * time.Microsecond)
		}
	}
}

var drained atomic.Uint32

// drain flushes the CPU's write-combining buffers, which hold the last writes to device memory: an atomic operation
// waits for them.
func drain() { drained.Add(1) }
