package ahead

import (
	"testing"
	"time"
)

func TestDepth(t *testing.T) {
	for pace, want := range map[time.Duration]int{
		0: earlySteps, 100 * time.Microsecond: earlySteps, 2 * time.Millisecond: 5, First: minSteps, time.Second: minSteps,
	} {
		if got := Depth(pace, 10); got != want {
			t.Errorf("steps of %v: %d at a time, want %d", pace, got, want)
		}
	}
	steps := map[int]int{0: earlySteps, 2*maxSteps - 1: earlySteps, 2 * maxSteps: maxSteps, 1000: maxSteps}
	for collected, want := range steps {
		if got := Depth(0, collected); got != want {
			t.Errorf("%d steps collected: %d at a time, want %d", collected, got, want)
		}
	}
	for pace, want := range map[time.Duration]int{0: maxSteps, time.Millisecond: 10, 2 * time.Millisecond: 5} {
		if got := Depth(pace, 100); got != want {
			t.Errorf("steps of %v, many collected: %d at a time, want %d", pace, got, want)
		}
	}
}

// TestSubmitsTogether checks the sizes of the groups in which steps are submitted, from none in flight on, and after
// each time that the first half is collected.
func TestSubmitsTogether(t *testing.T) {
	for depth, want := range map[int][]int{
		1: {1, 1, 1}, 2: {1, 1, 1}, 3: {1, 2, 1}, 4: {1, 1, 2, 2}, 5: {1, 1, 3, 2}, 8: {1, 3, 4, 4, 4},
		16: {1, 7, 8, 8}, 32: {1, 15, 16, 16},
	} {
		inFlight, given := 0, 0
		for _, group := range want {
			if inFlight == depth {
				inFlight -= CollectAtOnce(inFlight)
			}
			given = 1
			for ; SubmitsTogether(inFlight, depth); inFlight++ {
				given++
			}
			if inFlight++; given != group || inFlight > depth {
				t.Errorf("%d at a time: %d steps together, up to %d, want %d", depth, given, inFlight, group)
			}
		}
	}
}
