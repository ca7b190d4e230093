package quant

import (
	"encoding/binary"
	"math"
)

// dequantizeQ8_K decodes a block of q8_K. A block has 256 elements in 292 bytes: f32 d; i8 qs[256]; i16 bsums[16]. An
// element is d*q. The bsums are the sums of each 16 levels; a dot product with a format that has a minimum needs
// them. The format is used for activations.
func dequantizeQ8_K(dst []float32, block []byte) {
	y, b := (*[256]float32)(dst), (*[292]byte)(block)
	d := math.Float32frombits(binary.LittleEndian.Uint32(b[:]))
	for i, q := range b[4:260] {
		y[i] = d * float32(int8(q))
	}
}

// quantizeQ8_K maps the element of largest magnitude to level -127.
func quantizeQ8_K(block []byte, src, _ []float32) {
	x, b := (*[256]float32)(src), (*[292]byte)(block)
	largest, _ := absMax(x[:])
	clear(b[:])
	inv := -127 / largest // the inverse of d
	if abs32(inv) > math.MaxFloat32 {
		return // zero, or too small for a finite inverse scale
	}
	binary.LittleEndian.PutUint32(b[:], math.Float32bits(1/inv))
	for g := range 16 {
		var sum int32
		for i := g * 16; i < g*16+16; i++ {
			q := min(roundHalfEven(inv*x[i]), 127)
			b[4+i] = byte(q)
			sum += q
		}
		binary.LittleEndian.PutUint16(b[260+2*g:], uint16(sum))
	}
}
