package quant

import "encoding/binary"

// dequantizeIQ1_M decodes a block of iq1_m. A block has 256 elements in 56 bytes: qs[32]; qh[16]; u16 scales[4]. It has
// 32 entries of 8 elements. The index of an entry's codebook row has 8 bits in qs and the low three bits of a nibble of
// qh. The nibble's top bit is the sign of the offset. Two entries share a 3-bit scale s, and a u16 of scales has four
// such s. An element is d*(2s+1)*(v +- 1/8), for value v of the row. The top nibbles of the four u16 are d.
func dequantizeIQ1_M(dst []float32, block []byte) {
	y, b := (*[256]float32)(dst), (*[56]byte)(block)
	d := halfIQ1_M((*[8]byte)(b[48:]))
	for e := range 32 {
		pair := e / 2
		scales := binary.LittleEndian.Uint16(b[48+pair/4*2:])
		scale := d * float32(2*(scales>>(pair%4*3)&7)+1)
		qh := b[32+pair] >> (e % 2 * 4)
		index := uint16(b[e]) | uint16(qh&7)<<8
		putTernary(y[e*8:][:8], scale, deltaIQ1(qh&8 != 0), gridIQ1S[index])
	}
}

// halfIQ1_M collects d from the top nibbles of the four u16 of scales, the
// lowest nibble first.
func halfIQ1_M(scales *[8]byte) float32 {
	return halfAt([]byte{
		scales[1]>>4 | scales[3]&0xf0,
		scales[5]>>4 | scales[7]&0xf0,
	})
}

var gridFormatIQ1_M = gridFormat{book: bookIQ1, group: 16, steps: 8, unit: 1, window: 7, offsets: 8}

// quantizeIQ1_M finds the best entries and scales of a block, and packs them as dequantizeIQ1_M reads them.
func quantizeIQ1_M(block []byte, src, weights []float32) {
	b := (*[56]byte)(block)
	var a gridBlock
	gridFormatIQ1_M.quantize(&a, (*[256]float32)(src), weights)
	low, high, scales := b[:32], b[32:48], b[48:] // qs, qh and scales
	clear(high)
	for e := range 32 {
		nibble := byte(a.index[e] >> 8) // three bits of the index and the sign of the offset
		if a.minus[e] {
			nibble |= 8
		}
		low[e] = byte(a.index[e])
		high[e/2] |= nibble << (e % 2 * 4)
	}
	for i := range 4 {
		bits := a.d >> (4 * i) << 12 // the top nibble: four bits of d
		for j, k := range a.scales[4*i:][:4] {
			bits |= uint16(k) << (3 * j)
		}
		binary.LittleEndian.PutUint16(scales[2*i:], bits)
	}
}
