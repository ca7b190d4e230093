package ir

import (
	"fmt"
	"math"
)

// RopeTurns returns the argument turns of op rope, u32[len(radians), 2], from the angle by which each pair of elements
// turns per position. A row is the angle as a 64-bit fraction of a full turn, high word first. Whole turns and bits
// below 2^-64 are dropped. The angles must be finite.
func RopeTurns(radians []float64) (*Data, error) {
	words := make([]int64, 0, 2*len(radians))
	for i, angle := range radians {
		turn := angle / (2 * math.Pi)
		if math.IsNaN(turn) || math.IsInf(turn, 0) {
			return nil, fmt.Errorf("rope: pair %d turns by %v a position: want a finite angle", i, angle)
		}
		high, low := math.Modf((turn - math.Floor(turn)) * (1 << 32))
		words = append(words, int64(high)&math.MaxUint32, int64(low*(1<<32)))
	}
	return FromInts(U32, words, len(radians), 2)
}
