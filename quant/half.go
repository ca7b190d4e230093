package quant

import (
	"encoding/binary"
	"math"

	"github.com/x448/float16"
)

// halfAt returns the float16 at the start of b as a float32. It moves exponent and mantissa into position and
// multiplies by 2^112, which rebiases normals and normalizes subnormals exactly. Only infinities and NaNs need a
// separate case, because their exponent must become all ones.
func halfAt(b []byte) float32 {
	h := uint32(binary.LittleEndian.Uint16(b))
	bits := h & 0x7fff << 13
	if bits >= 0x7c00<<13 {
		return math.Float32frombits(h&0x8000<<16 | 0x7f800000 | bits)
	}
	mag := math.Float32frombits(bits) * 0x1p112
	return math.Float32frombits(h&0x8000<<16 | math.Float32bits(mag))
}

// roundHalf returns the finite float16 nearest to v, and its value. A fitted scale may be slightly above float16's
// range.
func roundHalf(v float32) (bits uint16, value float32) {
	h := float16.Fromfloat32(max(-maxHalf, min(v, maxHalf)))
	return h.Bits(), h.Float32()
}

// putHalf stores v at the start of b as a float16, rounded to nearest even.
func putHalf(b []byte, v float32) {
	binary.LittleEndian.PutUint16(b, float16.Fromfloat32(v).Bits())
}
