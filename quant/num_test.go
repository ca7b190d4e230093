package quant

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/x448/float16"
)

// TestHalfAt compares all 65536 halves with an independent conversion.
func TestHalfAt(t *testing.T) {
	var b [2]byte
	for h := range 1 << 16 {
		binary.LittleEndian.PutUint16(b[:], uint16(h))
		got, want := halfAt(b[:]), float16.Frombits(uint16(h)).Float32()
		if math.IsNaN(float64(want)) {
			if !math.IsNaN(float64(got)) {
				t.Errorf("half %#04x is %g, want NaN", h, got)
			}
			continue
		}
		if math.Float32bits(got) != math.Float32bits(want) {
			t.Errorf("half %#04x is %g, want %g", h, got, want)
		}
	}
}

func TestRounding(t *testing.T) {
	below := math.Nextafter32(0.5, 0)
	for _, tc := range []struct {
		x          float32
		away, even int32
	}{
		{0, 0, 0},
		{below, 0, 0},
		{-below, 0, 0},
		{0.5, 1, 0},
		{-0.5, -1, 0},
		{1.5, 2, 2},
		{-1.5, -2, -2},
		{2.5, 3, 2},
		{-2.5, -3, -2},
		{126.5, 127, 126},
		{-127, -127, -127},
	} {
		if got := roundHalfAway(tc.x); got != tc.away {
			t.Errorf("roundHalfAway(%v) = %d, want %d", tc.x, got, tc.away)
		}
		if got := roundHalfEven(tc.x); got != tc.even {
			t.Errorf("roundHalfEven(%v) = %d, want %d", tc.x, got, tc.even)
		}
	}
}

func TestMinMaxKeepsFirstZero(t *testing.T) {
	negative := float32(math.Copysign(0, -1))
	for _, tc := range []struct {
		x      []float32
		lo, hi float32
	}{
		{[]float32{2, -1, 3}, -1, 3},
		{[]float32{0, negative}, 0, 0},
		{[]float32{negative, 0}, negative, negative},
	} {
		lo, hi := minMax(tc.x)
		compareBits(t, []float32{lo, hi}, []float32{tc.lo, tc.hi})
	}
}

func TestInverse(t *testing.T) {
	for _, tc := range []struct{ d, want float32 }{
		{4, 0.25},
		{-0.5, -2},
		{0, 0},
		{float32(math.Copysign(0, -1)), 0},
		{math.SmallestNonzeroFloat32, 0},
		{-1e-39, 0},
	} {
		if got := inverse(tc.d); got != tc.want {
			t.Errorf("inverse(%g) = %g, want %g", tc.d, got, tc.want)
		}
	}
}
