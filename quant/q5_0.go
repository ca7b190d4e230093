package quant

import "encoding/binary"

// dequantizeQ5_0 decodes a block of q5_0. A block has 32 elements in 22 bytes: float16 d; u32 qh; qs[16]. An element is
// d*(q-16); nibbles of qs as in q4_0, bit i of qh is the fifth bit of element i.
func dequantizeQ5_0(dst []float32, block []byte) {
	y, b := (*[32]float32)(dst), (*[22]byte)(block)
	d := halfAt(b[:])
	qh := binary.LittleEndian.Uint32(b[2:])
	for i, q := range b[6:] {
		lo := int(q&15) | int(qh>>i&1)<<4
		hi := int(q>>4) | int(qh>>(i+16)&1)<<4
		y[i] = d * float32(lo-16)
		y[i+16] = d * float32(hi-16)
	}
}

// quantizeQ5_0 maps the element of largest magnitude to level -16, because the negative levels reach further.
func quantizeQ5_0(block []byte, src, weights []float32) {
	x, b := (*[32]float32)(src), (*[22]byte)(block)
	if weights != nil {
		half, q := fitWeighted(x, weights, levelRange{-16, 15})
		binary.LittleEndian.PutUint16(b[:], half)
		putFiveBits((*[20]byte)(b[2:]), &q)
		return
	}
	largest, _ := absMax(x[:])
	d := largest / -16
	inv := inverse(d)
	putHalf(b[:], d)
	var q [32]byte
	for i, v := range x {
		// Truncation after adding 16.5 rounds; levels are stored from 0 on.
		q[i] = byte(min(int32(float32(v*inv)+16.5), 31))
	}
	putFiveBits((*[20]byte)(b[2:]), &q)
}

// putFiveBits stores 32 five-bit levels: their fifth bits in four bytes, then
// their nibbles.
func putFiveBits(b *[20]byte, q *[32]byte) {
	var qh uint32
	for i, v := range q {
		qh |= uint32(v>>4) << i
	}
	binary.LittleEndian.PutUint32(b[:], qh)
	for i := range 16 {
		b[4+i] = q[i]&15 | q[i+16]<<4
	}
}
