package quant

import (
	"encoding/binary"
	"sync"
)

// dequantizeIQ2_S decodes a block of iq2_s. A block has 256 elements in 82 bytes: float16 d; qs[32]; signs[32]; qh[8];
// scales[8]. Each of 32 entries of 8 has the low eight bits of its codebook index in qs, two more in qh and its signs
// as a whole byte. Scales as in iq2_xs.
func dequantizeIQ2_S(dst []float32, block []byte) {
	y, b := (*[256]float32)(dst), (*[82]byte)(block)
	d := halfAt(b[:])
	for e := range 32 {
		high := b[66+e/4] >> (e % 4 * 2) & 3
		index := uint16(b[2+e]) | uint16(high)<<8
		scale := scaleIQ2(d, b[74+e/4]>>(e/2%2*4)&15)
		putGrid(y[e*8:][:8], scale, gridIQ2S[index], b[34+e])
	}
}

var gridFormatIQ2_S = gridFormat{
	book:  sync.OnceValue(func() *codebook { return newCodebook8(gridIQ2S[:], levelsIQ2) }),
	group: 16, steps: 16, unit: 1. / 8, window: 1, signs: signsFree,
}

// quantizeIQ2_S finds the best entries, signs and scales of a block, and packs them as dequantizeIQ2_S reads them.
func quantizeIQ2_S(block []byte, src, weights []float32) {
	b := (*[82]byte)(block)
	var a gridBlock
	gridFormatIQ2_S.quantize(&a, (*[256]float32)(src), weights)
	binary.LittleEndian.PutUint16(b[:], a.d)
	low, signs, high, scales := b[2:34], b[34:66], b[66:74], (*[8]byte)(b[74:])
	clear(high)
	for e := range 32 {
		low[e], signs[e] = byte(a.index[e]), a.signs[e]
		high[e/4] |= byte(a.index[e]>>8) << (e % 4 * 2)
	}
	putScalesIQ2(scales, &a)
}
