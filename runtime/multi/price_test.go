package multi

import (
	"slices"
	"testing"
)

// TestSharesOf: devices share in proportion to their speeds. If one has no memory left, the rest goes to the others.
func TestSharesOf(t *testing.T) {
	for _, c := range []struct {
		stored         float64
		memory, speeds []float64
		want           []float64
	}{
		{80, []float64{100, 100}, []float64{1, 1}, []float64{40, 40}},
		{80, []float64{100, 100}, []float64{3, 1}, []float64{60, 20}},
		{80, []float64{30, 100}, []float64{3, 1}, []float64{30, 50}},
		{80, []float64{30, 20, 100}, []float64{4, 2, 2}, []float64{30, 20, 30}},
		{80, []float64{10, 20}, []float64{1, 1}, []float64{10, 20}}, // the devices will reject it
		{0, []float64{10, 20}, []float64{1, 1}, []float64{0, 0}},
	} {
		if have := sharesOf(c.stored, c.memory, c.speeds); !slices.Equal(have, c.want) {
			t.Errorf("%v of memory %v by speeds %v: %v, want %v", c.stored, c.memory, c.speeds, have, c.want)
		}
	}
}
