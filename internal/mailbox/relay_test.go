package mailbox_test

import (
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vkc-go/vkc/internal/mailbox"
)

// office is a mailbox with an inbox for each device, and all their memory.
func office(t *testing.T, ranks, room int) (*mailbox.Mailbox, []uint32, [][]uint32) {
	t.Helper()
	memory := make([]uint32, mailbox.Header+room)
	var inboxes [][]uint32
	for range ranks {
		inboxes = append(inboxes, make([]uint32, mailbox.Header))
	}
	m, err := mailbox.New(memory, ranks, inboxes...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m, memory, inboxes
}

// TestExchanges makes three devices exchange values of varying sizes many times, with minimal memory. Each must receive
// the others' values.
func TestExchanges(t *testing.T) {
	const ranks, times = 3, 200
	sizes := make([]int, times)
	for i := range sizes {
		sizes[i] = 1 + 997*i%3000
	}
	m, _, _ := office(t, ranks, mailbox.SlotWords(ranks, sizes, false))
	value := func(rank, i, j int) uint32 { return uint32(rank<<28 + i<<16 + j) }
	var under sync.WaitGroup
	for rank := range ranks {
		under.Go(func() {
			link := m.Link(rank, 1, 0, mailbox.Addresses{}, 0)
			at := link[:]
			for i, size := range sizes {
				own := make([]uint32, size)
				for j := range own {
					own[j] = value(rank, i, j)
				}
				for range 2 { // as the reference does, once for each result of an op
					if err := mailbox.Give(at, own); err != nil {
						t.Error(err)
					}
				}
				all, err := mailbox.Take(at, own)
				if err != nil {
					t.Error(err)
					return
				}
				for r, values := range all {
					for j, v := range values {
						if v != value(r, i, j) {
							t.Errorf("exchange %d: value %d of device %d is %x for device %d", i, j, r, v, rank)
							return
						}
					}
				}
				if at, err = mailbox.Next(at, size); err != nil {
					t.Error(err)
				}
			}
		})
	}
	under.Wait()
}

// TestRoom: with separate slots the exchanges of a run are adjacent; otherwise there is room for three of the largest
// exchange.
func TestRoom(t *testing.T) {
	for _, c := range []struct {
		exchanges  []int
		once, room int
	}{
		{[]int{896}, 2 * 1024, 2 * 3072},
		{[]int{897}, 2 * 2048, 2 * 6144},
		{[]int{1, 1, 1, 1}, 2 * 4096, 2 * 3072},
		{[]int{1, 2000, 1, 2000, 3}, 2 * 9 * 1024, 2 * 9 * 1024},
		{nil, 0, 0},
	} {
		once, room := mailbox.SlotWords(2, c.exchanges, true), mailbox.SlotWords(2, c.exchanges, false)
		if once != c.once ||
			room != c.room {
			t.Errorf("%d: %d and %d words, want %d and %d", c.exchanges, once, room, c.once, c.room)
		}
	}
}

// TestLay: values lie at the offsets in the links, and a run's slots follow the slots of the previous run or wrap
// around.
func TestLay(t *testing.T) {
	sizes := []int{1, 2000, 1, 2000, 3}
	m, _, _ := office(t, 2, mailbox.SlotWords(2, sizes, false)) // 18 units
	all, next := m.Layout(8*1024, sizes)
	want := [][]mailbox.Part{{{At: 8 << 10, Words: 1 << 10}, {At: 9 << 10, Words: 1 << 10}},
		{{At: 10 << 10, Words: 3 << 10}, {At: 13 << 10, Words: 3 << 10}},
		{{At: 16 << 10, Words: 1 << 10}, {At: 17 << 10, Words: 1 << 10}},
		{{At: 0, Words: 3 << 10}, {At: 3 << 10, Words: 3 << 10}},
		{{At: 6 << 10, Words: 1 << 10}, {At: 7 << 10, Words: 1 << 10}}}
	if !reflect.DeepEqual(all, want) || next != 8<<10 {
		t.Errorf("%v, then %d", all, next)
	}
	link := m.Link(0, 1, 8<<10, mailbox.Addresses{}, 0)
	for at, i := link[:], 0; i < len(sizes); i++ {
		if slot := int(at[8]); slot != all[i][0].At && slot+2*all[i][0].Words <= m.SlotWords() {
			t.Errorf("exchange %d is at %d, by its link at %d", i, all[i][0].At, slot)
		}
		var err error
		if at, err = mailbox.Next(at, sizes[i]); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStale: data left by an earlier exchange is not mistaken for another device's values.
func TestStale(t *testing.T) {
	m, memory, _ := office(t, 2, mailbox.SlotWords(2, []int{20}, true))
	give, take := m.Link(0, 5, 0, mailbox.Addresses{}, 0), m.Link(1, 5, 0, mailbox.Addresses{}, 0)
	if err := mailbox.Give(give[:], make([]uint32, 20)); err != nil {
		t.Fatal(err)
	}
	memory[mailbox.Header+15]-- // the epoch of the second line
	if _, err := mailbox.Take(take[:], make([]uint32, 20)); err == nil {
		t.Error("a line of another exchange was taken")
	}
	if rank, stale := m.Failed(); rank != 1 || !stale {
		t.Errorf("device %d failed, stale %v", rank, stale)
	}
}

// TestGiveAgain: repeating a transfer has no effect, whether others are reading the values or the next exchange has
// happened.
func TestGiveAgain(t *testing.T) {
	m, memory, _ := office(t, 2, mailbox.SlotWords(2, []int{20, 20}, true))
	first := m.Link(0, 1, 0, mailbox.Addresses{}, 0)
	second, err := mailbox.Next(first[:], 20)
	if err != nil {
		t.Fatal(err)
	}
	given, other := slices.Repeat([]uint32{7}, 20), make([]uint32, 20)
	for _, link := range [][]uint32{first[:], second} {
		if err := mailbox.Give(link, given); err != nil {
			t.Fatal(err)
		}
	}
	var under sync.WaitGroup
	under.Go(func() {
		if err := mailbox.Give(first[:], other); err != nil {
			t.Error(err)
		}
	})
	take := m.Link(1, 1, 0, mailbox.Addresses{}, 0)
	all, err := mailbox.Take(take[:], other)
	if err != nil || !slices.Equal(all[0], given) {
		t.Errorf("%v, %v, want what was given first", all, err)
	}
	under.Wait()
	if memory[128] != 2 {
		t.Errorf("the flag is %d after 2 exchanges", memory[128])
	}
}

// TestRelay: flags come to the inboxes of all other devices, until the runs are over.
func TestRelay(t *testing.T) {
	const ranks = 3
	m, memory, inboxes := office(t, ranks, mailbox.SlotWords(ranks, []int{1}, true))
	for epoch := uint32(1); epoch < 20; epoch++ {
		var over atomic.Bool
		var under sync.WaitGroup
		for rank := range ranks {
			link := m.Link(rank, epoch, 0, mailbox.Addresses{}, 0)
			if err := mailbox.Give(link[:], []uint32{7}); err != nil {
				t.Fatal(err)
			}
		}
		under.Go(func() { m.Relay(&over) })
		runtime.Gosched()
		over.Store(true) // the relay has copied earlier flags
		under.Wait()
		for to, inbox := range inboxes {
			for rank, flag := range inbox[128 : 128+ranks] {
				if want := memory[128+rank]; rank != to && flag != want || rank == to && flag != 0 {
					t.Errorf("device %d sees flag %d of device %d, want %d", to, flag, rank, want)
				}
			}
		}
	}
}

// TestStop: everyone is told to stop until the mailbox is reset.
func TestStop(t *testing.T) {
	m, memory, inboxes := office(t, 2, mailbox.SlotWords(2, []int{1}, true))
	m.Stop()
	if memory[0] == 0 || inboxes[0][0] == 0 || inboxes[1][0] == 0 {
		t.Error("somebody is not told to stop")
	}
	link := m.Link(0, 1, 0, mailbox.Addresses{}, 0)
	if !m.HasFailed() {
		t.Error("the mailbox does not know that everyone was told to stop")
	}
	if _, err := mailbox.Take(link[:], []uint32{1}); err == nil {
		t.Error("values were taken that nobody gave")
	}
	if rank, stale := m.Failed(); rank != 0 || stale {
		t.Errorf("device %d failed, stale %v", rank, stale)
	}
	m.Reset()
	if m.HasFailed() || slices.Max(memory) != 0 || slices.Max(inboxes[0]) != 0 || slices.Max(inboxes[1]) != 0 {
		t.Error("a mailbox that is reset has words")
	}
}

// TestRefuses: each device needs an inbox, and the room of a link's mailbox must be large enough.
func TestRefuses(t *testing.T) {
	words := make([]uint32, mailbox.Header)
	for _, inboxes := range [][][]uint32{{words}, {words, words[1:]}, {words, words, words}} {
		if _, err := mailbox.New(words, 2, inboxes...); err == nil {
			t.Errorf("%d inboxes were taken", len(inboxes))
		}
	}
	if _, err := mailbox.New(words[1:], 2); err == nil {
		t.Error("a mailbox without a header was made")
	}
	m, _, _ := office(t, 2, mailbox.SlotWords(2, []int{1}, true))
	small, foreign := m.Link(0, 1, 0, mailbox.Addresses{}, 0), [mailbox.LinkWords]uint32{}
	if err := mailbox.Give(small[:], make([]uint32, 2000)); err == nil {
		t.Error("more was given than there is room for")
	}
	if err := mailbox.Give(foreign[:], nil); err == nil {
		t.Error("a link that names no mailbox was followed")
	}
}
