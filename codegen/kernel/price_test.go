package kernel

import "testing"

// TestMargin: a rewrite gains where the time before is more than its margin times the time after. No margin is below 1.
func TestMargin(t *testing.T) {
	for _, tt := range []struct {
		before, margin float64
		gains          bool
	}{{104, 1.05, false}, {106, 1.05, true}, {124, 1.25, false}, {126, 1.25, true}, {99, 0, false}, {101, 0, true},
		{99, 0.5, false}, {101, 0.5, true}} {
		e := Estimate{Before: tt.before, After: 100, Margin: tt.margin}
		if got := e.Gain() > 0; got != tt.gains {
			t.Errorf("%v after %v, by a margin of %v: gains %v", e.After, e.Before, e.Margin, got)
		}
	}
}
