package quant

import (
	"encoding/binary"
	"sync"
)

// dequantizeIQ3_S decodes a block of iq3_s. A block has 256 elements in 110 bytes: float16 d; qs[64]; qh[8]; signs[32];
// scales[4]. Each of 8 groups of 32 elements has eight codebook entries of 4 elements. The index of an entry has nine
// bits: a byte of qs, and a bit of qh, the highest. Bit j of signs is for element j. A group has a nibble s of scales,
// and its scale is d*(2s+1).
func dequantizeIQ3_S(dst []float32, block []byte) {
	y, b := (*[256]float32)(dst), (*[110]byte)(block)
	d := halfAt(b[:])
	for g := range 8 {
		s := b[106+g/2] >> (g % 2 * 4) & 15
		scale := d * float32(2*s+1)
		// The parts of the block begin at bytes 2 (qs), 66 (qh), 74 (signs) and 106 (scales).
		qs, qh := (*[8]byte)(b[2+8*g:]), b[66+g]
		index := func(e int) uint16 { return uint16(qs[e]) | uint16(qh>>e&1)<<8 }
		for l := range 4 {
			grid := pairGrid(gridIQ3S[index(2*l)], gridIQ3S[index(2*l+1)])
			putGrid(y[g*32+l*8:][:8], scale, grid, b[74+g*4+l])
		}
	}
}

var gridFormatIQ3_S = gridFormat{
	book: sync.OnceValue(func() *codebook {
		return newCodebook4(gridIQ3S[:], [8]int8{1, 3, 5, 7, 9, 11, 13, 15})
	}),
	group: 32, steps: 16, unit: 1, window: 1, signs: signsFree,
}

// quantizeIQ3_S finds the best entries, signs and scales of a block, and packs them as dequantizeIQ3_S reads them.
func quantizeIQ3_S(block []byte, src, weights []float32) {
	b := (*[110]byte)(block)
	var a gridBlock
	gridFormatIQ3_S.quantize(&a, (*[256]float32)(src), weights)
	binary.LittleEndian.PutUint16(b[:], a.d)
	qs, qh, signs, scales := b[2:66], b[66:74], b[74:106], b[106:]
	clear(qh)
	for e, index := range a.index {
		qs[e] = byte(index)
		qh[e/8] |= byte(index>>8) << (e % 8)
	}
	copy(signs, a.signs[:])
	for i := range scales {
		scales[i] = a.scales[2*i] | a.scales[2*i+1]<<4
	}
}
