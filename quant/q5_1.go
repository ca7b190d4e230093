package quant

import "encoding/binary"

// dequantizeQ5_1 decodes a block of q5_1. A block has 32 elements in 24 bytes: float16 d, m; u32 qh; qs[16], levels as
// in q5_0. An element is d*q + m.
func dequantizeQ5_1(dst []float32, block []byte) {
	y, b := (*[32]float32)(dst), (*[24]byte)(block)
	d, m := halfAt(b[0:]), halfAt(b[2:])
	qh := binary.LittleEndian.Uint32(b[4:])
	for i, q := range b[8:] {
		lo := uint32(q&15) | qh>>i&1<<4
		hi := uint32(q>>4) | qh>>(i+16)&1<<4
		y[i] = float32(d*float32(lo)) + m
		y[i+16] = float32(d*float32(hi)) + m
	}
}

// quantizeQ5_1 maps the least element to level 0 and the greatest to level 31. With weights it searches for d and m.
func quantizeQ5_1(block []byte, src, weights []float32) {
	x, b := (*[32]float32)(src), (*[24]byte)(block)
	if weights != nil {
		d, m, q := fitWeightedLine(x, weights, 31)
		binary.LittleEndian.PutUint16(b[0:], d)
		binary.LittleEndian.PutUint16(b[2:], m)
		putFiveBits((*[20]byte)(b[4:]), &q)
		return
	}
	lo, hi := minMax(x[:])
	d := (hi - lo) / 31
	inv := inverse(d)
	putHalf(b[0:], d)
	putHalf(b[2:], lo)
	var q [32]byte
	for i, v := range x {
		q[i] = byte(min(int32(float32((v-lo)*inv)+0.5), 31))
	}
	putFiveBits((*[20]byte)(b[4:]), &q)
}
