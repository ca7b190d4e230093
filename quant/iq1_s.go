package quant

import "encoding/binary"

// iq1_s: 256 elements in 50 bytes: half d; qs[32]; u16 qh[8]. Each of 8 groups
// of 32 is four codebook entries of 8. qh[g] holds three more index bits for each
// entry, then a 3-bit scale s and the sign of the offset: d*(2s+1)*(v +- 1/8).

func dequantizeIQ1_S(dst []float32, block []byte) {
	y, b := (*[256]float32)(dst), (*[50]byte)(block)
	d := halfAt(b[:])
	for g := range 8 {
		qh := binary.LittleEndian.Uint16(b[34+2*g:])
		scale := d * float32(2*(qh>>12&7)+1)
		delta := deltaIQ1(qh&0x8000 != 0)
		for l := range 4 {
			index := uint16(b[2+g*4+l]) | qh>>(3*l)&7<<8
			putTernary(y[g*32+l*8:][:8], scale, delta, gridIQ1S[index])
		}
	}
}
