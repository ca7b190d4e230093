package quant

import (
	"encoding/binary"
	"sync"
)

// dequantizeIQ2_XXS decodes a block of iq2_xxs. A block has 256 elements in 66 bytes: float16 d; u16 qs[32]. Each of 8
// groups of 32 takes eight bytes: four codebook indices, then four 7-bit sign indices and a 4-bit scale s in a u32. The
// scale of an entry is d*(s+1/2)/4.
func dequantizeIQ2_XXS(dst []float32, block []byte) {
	y, b := (*[256]float32)(dst), (*[66]byte)(block)
	d := halfAt(b[:])
	for g := range 8 {
		group := (*[8]byte)(b[2+8*g:])
		bits := binary.LittleEndian.Uint32(group[4:])
		scale := scaleIQ2(d, byte(bits>>28))
		for l := range 4 {
			signs := signsOf7[bits>>(7*l)&127]
			putGrid(y[g*32+l*8:][:8], scale, gridIQ2XXS[group[l]], signs)
		}
	}
}

// scaleIQ2 returns the scale of a group of the iq2 formats from its 4-bit s.
func scaleIQ2(d float32, s byte) float32 { return d * (0.5 + float32(s)) * 0.25 }

// levelsIQ2 are the levels of the iq2 codebooks.
var levelsIQ2 = [3]int8{8, 25, 43}

var gridFormatIQ2_XXS = gridFormat{
	book:  sync.OnceValue(func() *codebook { return newCodebook8(gridIQ2XXS[:], levelsIQ2) }),
	group: 32, steps: 16, unit: 1. / 8, window: 1, signs: signsEven,
}

// quantizeIQ2_XXS finds the best entries, signs and scales of a block, and packs them as dequantizeIQ2_XXS reads them.
func quantizeIQ2_XXS(block []byte, src, weights []float32) {
	b := (*[66]byte)(block)
	var a gridBlock
	gridFormatIQ2_XXS.quantize(&a, (*[256]float32)(src), weights)
	binary.LittleEndian.PutUint16(b[:], a.d)
	for g := range 8 {
		group := b[2+8*g:][:8]
		bits := uint32(a.scales[g]) << 28
		for l := range 4 {
			group[l] = byte(a.index[4*g+l])
			bits |= uint32(a.signs[4*g+l]&127) << (7 * l) // the eighth sign follows: an even number is negative
		}
		binary.LittleEndian.PutUint32(group[4:], bits)
	}
}
