package mailbox_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vkc-go/vkc/internal/mailbox"
)

// office is a mailbox with an inbox for each device, and all their memory.
func office(t *testing.T, ranks, slot int) (*mailbox.Mailbox, []uint64, [][]uint64) {
	t.Helper()
	memory := make([]uint64, mailbox.Words(ranks, slot))
	var inboxes [][]uint64
	for range ranks {
		inboxes = append(inboxes, make([]uint64, len(memory)))
	}
	m, err := mailbox.New(memory, ranks, slot, inboxes...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m, memory, inboxes
}

// TestRelay: what a device gives comes to the inboxes of all others, in whole lines and in parts of them.
func TestRelay(t *testing.T) {
	const ranks, slot, rank = 3, 20, 1
	m, memory, inboxes := office(t, ranks, slot)
	for i, values := range []int{0, 1, 7, 8, 9, 16, 20, 3} {
		epoch := uint32(1 + i)
		var under sync.WaitGroup
		under.Go(func() { m.Relay(rank, epoch, 1, new(atomic.Bool)) })
		part := make([]uint32, values)
		for j := range part {
			part[j] = uint32(100*i + j)
		}
		link := m.Link(rank, epoch, 0, 0, 0)
		if err := mailbox.Give(link[:], part); err != nil {
			t.Fatal(err)
		}
		under.Wait()
		at := mailbox.Header + (int(epoch&1)*ranks+rank)*slot
		for to, inbox := range inboxes {
			if want := memory[at : at+values]; to != rank && !slices.Equal(inbox[at:at+values], want) {
				t.Errorf("%d values: device %d has %x, want %x", values, to, inbox[at:at+values], want)
			}
		}
	}
	if slices.Max(inboxes[rank]) != 0 {
		t.Error("a device has got what it gave")
	}
	if err := mailbox.Give(make([]uint32, mailbox.LinkWords), nil); err == nil {
		t.Error("a link that names no mailbox was followed")
	}
}

// TestRelayEnds: a relay that waits ends when the mailbox is stopped, and when the runs are over; until it is reset, a
// stopped mailbox has nothing copied.
func TestRelayEnds(t *testing.T) {
	m, memory, inboxes := office(t, 2, 8)
	var over atomic.Bool
	var under sync.WaitGroup
	under.Go(func() { m.Relay(0, 1, 1, &over) })
	over.Store(true)
	under.Wait()
	under.Go(func() { m.Relay(0, 1, 1, new(atomic.Bool)) })
	m.Stop()
	under.Wait()
	if memory[0] == 0 || inboxes[0][0] == 0 || inboxes[1][0] == 0 {
		t.Error("somebody is not told to stop")
	}
	m.Reset()
	if slices.Max(memory) != 0 || slices.Max(inboxes[0]) != 0 || slices.Max(inboxes[1]) != 0 {
		t.Error("a mailbox that is reset has words")
	}
}

// TestInboxes: each device has one, as large as the mailbox.
func TestInboxes(t *testing.T) {
	words := make([]uint64, mailbox.Words(2, 8))
	for _, inboxes := range [][][]uint64{{words}, {words, words[1:]}, {words, words, words}} {
		if _, err := mailbox.New(words, 2, 8, inboxes...); err == nil {
			t.Errorf("%d inboxes of unequal sizes were taken", len(inboxes))
		}
	}
}
