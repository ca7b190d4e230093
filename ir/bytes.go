package ir

import "math"

// ByteGroup is how many neighbours of a row share a scale where the row is rounded to bytes.
const ByteGroup = 32

// LeastByteTop is the least that the largest magnitude of a group may be: groups of less are rounded to zeros. It is so
// large that neither scale nor steps depend on what a device makes of subnormal numbers, and that subnormal elements
// round to 0.
const LeastByteTop = 0x1p-118

// ByteSteps is the rule by which a group of floats becomes bytes wherever a product rounds its rows: the byte of x is
// round(x*steps), both rounded to the nearest, halves to even, and stands for byte*scale. top is the largest magnitude
// of the group, infinite or NaN where an element is; then all of the group stands for NaN.
//
// steps is 127/top within 2^-15 of it. It is a quotient of integers, the first 16 bits of the mantissa below 127*2^25,
// since only those have the same bits everywhere: Vulkan lets a quotient of floats be 2.5 units of its last place off,
// and a row of halves of its largest element, 63.5 steps each, would become other bytes on each device.
//
// It is the definition for what computes the same in other words: a graph (round_rows), GLSL (byte_steps) and
// assembly of the processor.
func ByteSteps(top float32) (steps, scale float32) {
	switch {
	case !(top <= math.MaxFloat32):
		return 0, float32(math.NaN())
	case top < LeastByteTop:
		return 0, 0
	}
	bits := math.Float32bits(top)
	quotient := float32(127 << 25 / (bits>>8&0x7fff | 0x8000))
	return math.Float32frombits(math.Float32bits(quotient) + 117<<23 - bits&0x7f800000), top * (1.0 / 127)
}
