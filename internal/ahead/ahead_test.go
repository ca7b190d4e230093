package ahead

import (
	"testing"
	"time"
)

func TestDepth(t *testing.T) {
	for pace, want := range map[time.Duration]int{
		0: few, 100 * time.Microsecond: few, 2 * time.Millisecond: 5, First: least, time.Second: least,
	} {
		if got := Depth(pace, 10); got != want {
			t.Errorf("steps of %v: %d at a time, want %d", pace, got, want)
		}
	}
	for landed, want := range map[int]int{0: few, 2*most - 1: few, 2 * most: most, 1000: most} {
		if got := Depth(0, landed); got != want {
			t.Errorf("%d have landed: %d at a time, want %d", landed, got, want)
		}
	}
	for pace, want := range map[time.Duration]int{0: most, time.Millisecond: 10, 2 * time.Millisecond: 5} {
		if got := Depth(pace, 100); got != want {
			t.Errorf("steps of %v, of which many have landed: %d at a time, want %d", pace, got, want)
		}
	}
}

// TestGathers: from none on, and whenever the first half is landed, the device is given the steps in these groups.
func TestGathers(t *testing.T) {
	for depth, want := range map[int][]int{
		1: {1, 1, 1}, 2: {1, 1, 1}, 3: {1, 2, 1}, 4: {1, 1, 2, 2}, 5: {1, 1, 3, 2}, 8: {1, 3, 4, 4, 4},
		16: {1, 7, 8, 8}, 32: {1, 15, 16, 16},
	} {
		flying, given := 0, 0
		for _, group := range want {
			if flying == depth {
				flying -= Landing(flying)
			}
			given = 1
			for ; Gathers(flying, depth); flying++ {
				given++
			}
			if flying++; given != group || flying > depth {
				t.Errorf("%d at a time: %d steps together, up to %d, want %d", depth, given, flying, group)
			}
		}
	}
}
