package quant

import (
	"encoding/binary"
	"sync"
)

// dequantizeIQ1_S decodes a block of iq1_s. A block has 256 elements in 50 bytes: float16 d; qs[32]; u16 qh[8]. Each of
// 8 groups of 32 is four codebook entries of 8. qh[g] holds three more index bits for each entry, then a 3-bit scale s
// and the sign of the offset: d*(2s+1)*(v +- 1/8).
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

// bookIQ1 is the codebook of iq1_s and iq1_m.
var bookIQ1 = sync.OnceValue(func() *codebook { return newCodebook8(gridIQ1S[:], [3]int8{-1, 0, 1}) })

var gridFormatIQ1_S = gridFormat{book: bookIQ1, group: 32, steps: 8, unit: 1, window: 7, offsets: 32}

// quantizeIQ1_S finds the best entries and scales of a block, and packs them as dequantizeIQ1_S reads them.
func quantizeIQ1_S(block []byte, src, weights []float32) {
	b := (*[50]byte)(block)
	var a gridBlock
	gridFormatIQ1_S.quantize(&a, (*[256]float32)(src), weights)
	binary.LittleEndian.PutUint16(b[:], a.d)
	low, high := b[2:34], b[34:] // qs and qh
	for g := range 8 {
		bits := uint16(a.scales[g]) << 12 // bits 12 to 14: the scale; bit 15: the sign of the offset
		if a.minus[4*g] {
			bits |= 1 << 15
		}
		for l := range 4 {
			low[4*g+l] = byte(a.index[4*g+l])
			bits |= a.index[4*g+l] >> 8 << (3 * l) // the high three bits of the index
		}
		binary.LittleEndian.PutUint16(high[2*g:], bits)
	}
}
