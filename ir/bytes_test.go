package ir

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestByteSteps compares the steps with 127/top, which they are within 2^-15 of, and exactly where the mantissa of top
// is short and divides 127 times a power of two. No element becomes more than 127 steps, nor fewer where it is the
// largest, and half of that is a tie wherever the steps are exact.
func TestByteSteps(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 26))
	tops := []float32{LeastByteTop, 0x1.000002p-118, 1, 2, 127, 0x1.fcp120, 0x1p126, 0x1.000002p126, 1e38, 0x1p127,
		0x1.0000fep0, 0x1.fffffep0, 0x1.fffep0, math.MaxFloat32}
	for range 20000 {
		if top := math.Float32frombits(rng.Uint32() >> 1); top >= LeastByteTop && top <= math.MaxFloat32 {
			tops = append(tops, top)
		}
	}
	for _, top := range tops {
		steps, scale := ByteSteps(top)
		product := new(big.Rat).Mul(ratOf(steps), ratOf(top))
		off, _ := product.Sub(product, big.NewRat(127, 1)).Float64()
		if off = math.Abs(off / 127); off > 0x1p-15 {
			t.Errorf("steps of %g are %g, off by %g of it", top, steps, off)
		}
		if fraction, _ := math.Frexp(float64(top)); (fraction == 0.5 || fraction == 127.0/128) && off != 0 {
			t.Errorf("steps of %g are %g, want exactly 127 of them", top, steps)
		}
		if most := math.RoundToEven(float64(top * steps)); most != 127 {
			t.Errorf("%g becomes %g steps, want 127", top, most)
		}
		if scale != top*(1.0/127) || steps < 0x1p-126 {
			t.Errorf("%g has steps %g and scale %g", top, steps, scale)
		}
	}
	for _, top := range []float32{0, 0x1p-149, 0x1.fffffep-119} {
		if steps, scale := ByteSteps(top); steps != 0 || scale != 0 {
			t.Errorf("%g has steps %g and scale %g, want zeros", top, steps, scale)
		}
	}
	for _, top := range []float32{float32(math.Inf(1)), float32(math.NaN())} {
		if steps, scale := ByteSteps(top); steps != 0 || scale == scale {
			t.Errorf("%g has steps %g and scale %g, want 0 and NaN", top, steps, scale)
		}
	}
}

// ratOf is x exactly.
func ratOf(x float32) *big.Rat { return new(big.Rat).SetFloat64(float64(x)) }
