package quant

import (
	"encoding/binary"
	"sync"
)

// dequantizeIQ3_XXS decodes a block of iq3_xxs. A block has 256 elements in 98 bytes: float16 d; qs[64]; u32 signs[8].
// Each byte of qs indexes a codebook entry of 4. The u32 of each group of 32 holds four 7-bit sign indices and a 4-bit
// scale s: the scale is d*(s+1/2)/2.
func dequantizeIQ3_XXS(dst []float32, block []byte) {
	y, b := (*[256]float32)(dst), (*[98]byte)(block)
	d := halfAt(b[:])
	for g := range 8 {
		bits := binary.LittleEndian.Uint32(b[66+4*g:])
		scale := d * (0.5 + float32(bits>>28)) * 0.5
		qs := (*[8]byte)(b[2+8*g:])
		for l := range 4 {
			grid := pairGrid(gridIQ3XXS[qs[2*l]], gridIQ3XXS[qs[2*l+1]])
			putGrid(y[g*32+l*8:][:8], scale, grid, signsOf7[bits>>(7*l)&127])
		}
	}
}

var gridFormatIQ3_XXS = gridFormat{
	book: sync.OnceValue(func() *codebook {
		return newCodebook4(gridIQ3XXS[:], [8]int8{4, 12, 20, 28, 36, 44, 52, 62})
	}),
	group: 32, steps: 16, unit: 1. / 4, window: 1, signs: signsEven,
}

// quantizeIQ3_XXS finds the best entries, signs and scales of a block, and packs them as dequantizeIQ3_XXS reads them.
func quantizeIQ3_XXS(block []byte, src, weights []float32) {
	b := (*[98]byte)(block)
	var a gridBlock
	gridFormatIQ3_XXS.quantize(&a, (*[256]float32)(src), weights)
	binary.LittleEndian.PutUint16(b[:], a.d)
	qs, signsAndScales := b[2:66], b[66:]
	for e, index := range a.index {
		qs[e] = byte(index)
	}
	for g := range 8 {
		bits := uint32(a.scales[g]) << 28
		for l := range 4 {
			bits |= uint32(a.signs[4*g+l]&127) << (7 * l) // the eighth sign follows: an even number is negative
		}
		binary.LittleEndian.PutUint32(signsAndScales[4*g:], bits)
	}
}
