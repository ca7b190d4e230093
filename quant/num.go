package quant

import "math"

// absMax returns the element of x with the largest magnitude, the first of
// equals, and that magnitude.
func absMax(x []float32) (v, magnitude float32) {
	for _, e := range x {
		if a := abs32(e); a > magnitude {
			v, magnitude = e, a
		}
	}
	return v, magnitude
}

// minMax returns the least and greatest elements of x. Of a negative and a positive zero it keeps the first, unlike the
// built-ins, because the sign of a stored minimum must equal ggml's.
func minMax(x []float32) (lo, hi float32) {
	lo, hi = x[0], x[0]
	for _, e := range x[1:] {
		if e < lo {
			lo = e
		}
		if e > hi {
			hi = e
		}
	}
	return lo, hi
}

// inverse returns 1/d, or zero if that is not finite. A scale d that small is zero as a float16, so every element of
// its block decodes to zero anyway.
func inverse(d float32) float32 {
	inv := 1 / d
	if abs32(inv) > math.MaxFloat32 {
		return 0
	}
	return inv
}

func abs32(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// roundHalfAway rounds to the nearest integer, halves away from zero, as C's roundf does. The sum is exact in float64;
// in float32 the value just below one half would round up to one.
func roundHalfAway(x float32) int32 {
	return int32(float64(x) + math.Copysign(0.5, float64(x)))
}

// toInteger is 1.5*2^23. Adding it to a small float32 rounds off the fraction.
const toInteger = 3 << 22

// roundHalfEven rounds to the nearest integer, halves to even. x must be within 2^22 of zero. It adds 1.5*2^23: float32
// numbers of that size are integers, so the sum is rounded, and its low 23 bits are the result plus 2^22. The
// conversion prevents fusing a multiplication passed as x with the sum after inlining.
func roundHalfEven(x float32) int32 {
	return int32(math.Float32bits(float32(x)+toInteger)&0x7fffff) - 1<<22
}

// roundLevel rounds to the nearest integer, halves to even, and returns it as float32. x must be within 2^22 of zero.
// See roundHalfEven.
func roundLevel(x float32) float32 {
	return float32(x) + toInteger - toInteger
}

// negateIf returns -v when the lowest bit of s is set, else v.
func negateIf(v float32, s uint8) float32 {
	return math.Float32frombits(math.Float32bits(v) ^ uint32(s)<<31)
}
