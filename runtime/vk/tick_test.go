package vk

import (
	"testing"
	"time"
)

func TestTickDuration(t *testing.T) {
	tests := []struct {
		from, to uint64
		bits     uint32
		period   float32
		want     time.Duration
	}{
		{100, 350, 64, 1, 250},
		{100, 350, 36, 52.5, 13125},
		{1<<36 - 10, 20, 36, 1, 30}, // wrapped
		{^uint64(0), 4, 64, 1, 5},
		{50, 40, 64, 1, -10},
		{50, 40, 36, 1, -10},
		{0, 3, 64, 0.5, 2}, // rounded
	}
	for _, test := range tests {
		if got := tickDuration(test.from, test.to, test.bits, test.period); got != test.want {
			t.Errorf("from %d to %d in %d bits at %v ns: %v; want %v", test.from, test.to, test.bits,
				test.period, got, test.want)
		}
	}
}
