package ir

import "math"

// ByteGroup is how many neighbours of a row share a scale where the row is rounded to bytes.
const ByteGroup = 32

// LeastByteTop is the least that the largest magnitude of a group may be: groups of less are rounded to zeros. It is so
// large that neither scale nor steps depend on what a device makes of subnormal numbers, and that subnormal elements
// round to 0.
const LeastByteTop = 0x1p-118

// ByteSteps is the rule by which a group of floats becomes bytes wherever a product rounds its rows: the byte of x is
// round(x*steps), halves to even, and stands for byte*scale. top is the largest magnitude of the group, infinite or NaN
// where an element is; then all of the group stands for NaN.
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
	return 127 / top, top * (1.0 / 127)
}
