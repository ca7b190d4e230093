package ir

import "math"

// ByteGroup is the number of adjacent row elements that share a scale when the row is quantized to int8.
const ByteGroup = 32

// Groups with a largest magnitude below LeastByteTop are quantized to zeros. The limit is large enough that neither
// scale nor steps depend on how a device treats subnormal numbers, and that subnormal elements round to 0.
const LeastByteTop = 0x1p-118

// ByteSteps defines how a group of floats is quantized to int8 wherever a matmul quantizes its rows. The int8 value of
// x is q = round(x*steps), rounded half to even, and represents q*scale. top is the largest magnitude of the group. If
// an element is infinite or NaN, top is too, and the whole group represents NaN.
//
// steps is 127/top with a relative error of at most 2^-15. It is the integer quotient of 127*2^25 and the first 16 bits
// of top's mantissa, because only integer division has the same bits everywhere. Vulkan allows a float quotient an
// error of 2.5 ulp: an element at half of the largest one, 63.5 steps, would then be rounded up on some devices only.
//
// It is the specification for the equivalent implementations: a graph (round_rows), GLSL (byte_steps) and CPU assembly.
func ByteSteps(top float32) (steps, scale float32) {
	switch {
	case !(top <= math.MaxFloat32):
		return 0, float32(math.NaN())
	case top < LeastByteTop:
		return 0, 0
	}
	bits := math.Float32bits(top)
	mantissa := bits>>8&0x7fff | 0x8000 // the first 16 bits, with the implicit one: top is about mantissa/2^15 * 2^e
	quotient := float32(127 << 25 / mantissa)
	// steps is quotient * 2^(-10-e). The sum of exponents adds -10-e to quotient's: top's exponent field has 127+e.
	const exponent = 0x7f800000
	return math.Float32frombits(math.Float32bits(quotient) + (127-10)<<23 - bits&exponent), top * (1.0 / 127)
}
