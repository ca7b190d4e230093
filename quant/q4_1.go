package quant

import "encoding/binary"

// dequantizeQ4_1 decodes a block of q4_1. A block has 32 elements in 20 bytes: float16 d, m; qs[16], nibbles as in
// q4_0. An element is d*q + m.
func dequantizeQ4_1(dst []float32, block []byte) {
	y, b := (*[32]float32)(dst), (*[20]byte)(block)
	d, m := halfAt(b[0:]), halfAt(b[2:])
	for i, q := range b[4:] {
		y[i] = float32(d*float32(q&15)) + m
		y[i+16] = float32(d*float32(q>>4)) + m
	}
}

// quantizeQ4_1 maps the least element to level 0 and the greatest to level 15. With weights it searches for d and m.
func quantizeQ4_1(block []byte, src, weights []float32) {
	x, b := (*[32]float32)(src), (*[20]byte)(block)
	if weights != nil {
		d, m, q := fitWeightedLine(x, weights, 15)
		binary.LittleEndian.PutUint16(b[0:], d)
		binary.LittleEndian.PutUint16(b[2:], m)
		packNibbles((*[16]byte)(b[4:]), &q)
		return
	}
	lo, hi := minMax(x[:])
	d := (hi - lo) / 15
	inv := inverse(d)
	putHalf(b[0:], d)
	putHalf(b[2:], lo)
	for i := range 16 {
		q0 := nibble(float32((x[i]-lo)*inv) + 0.5)
		q1 := nibble(float32((x[i+16]-lo)*inv) + 0.5)
		b[4+i] = q0 | q1<<4
	}
}
