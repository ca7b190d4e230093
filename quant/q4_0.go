package quant

import "encoding/binary"

// dequantizeQ4_0 decodes a block of q4_0. A block has 32 elements in 18 bytes: float16 d; qs[16]. An element is
// d*(q-8). The low nibble of qs[i] is element i, the high one element i+16.
func dequantizeQ4_0(dst []float32, block []byte) {
	y, b := (*[32]float32)(dst), (*[18]byte)(block)
	d := halfAt(b[:])
	for i, q := range b[2:] {
		y[i] = d * float32(int(q&15)-8)
		y[i+16] = d * float32(int(q>>4)-8)
	}
}

// quantizeQ4_0 maps the element of largest magnitude to level -8, because the negative levels reach further.
func quantizeQ4_0(block []byte, src, weights []float32) {
	x, b := (*[32]float32)(src), (*[18]byte)(block)
	if weights != nil {
		half, q := fitWeighted(x, weights, levelRange{-8, 7})
		binary.LittleEndian.PutUint16(b[:], half)
		packNibbles((*[16]byte)(b[2:]), &q)
		return
	}
	largest, _ := absMax(x[:])
	d := largest / -8
	inv := inverse(d)
	putHalf(b[:], d)
	for i := range 16 {
		lo := nibble(float32(x[i]*inv) + 8.5) // truncation after adding 8.5 rounds to -8..7, stored as 0..15
		hi := nibble(float32(x[i+16]*inv) + 8.5)
		b[2+i] = lo | hi<<4
	}
}

// packNibbles stores levels of four bits.
func packNibbles(b *[16]byte, q *[32]byte) {
	for i := range b {
		b[i] = q[i] | q[i+16]<<4
	}
}

// nibble truncates a level that is at least zero to an integer of at most 15.
func nibble(level float32) byte { return byte(min(int32(level), 15)) }
