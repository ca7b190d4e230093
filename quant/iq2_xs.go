package quant

import (
	"encoding/binary"
	"sync"
)

// dequantizeIQ2_XS decodes a block of iq2_xs. A block has 256 elements in 74 bytes: float16 d; u16 qs[32]; scales[8].
// Each u16 is one entry of 8: a 9-bit codebook index and a 7-bit sign index. Each nibble of scales is the scale of two
// entries, as in iq2_xxs.
func dequantizeIQ2_XS(dst []float32, block []byte) {
	y, b := (*[256]float32)(dst), (*[74]byte)(block)
	d := halfAt(b[:])
	for e := range 32 {
		q := binary.LittleEndian.Uint16(b[2+2*e:])
		scale := scaleIQ2(d, b[66+e/4]>>(e/2%2*4)&15)
		putGrid(y[e*8:][:8], scale, gridIQ2XS[q&511], signsOf7[q>>9])
	}
}

var gridFormatIQ2_XS = gridFormat{
	book:  sync.OnceValue(func() *codebook { return newCodebook8(gridIQ2XS[:], levelsIQ2) }),
	group: 16, steps: 16, unit: 1. / 8, window: 1, signs: signsEven,
}

// quantizeIQ2_XS finds the best entries, signs and scales of a block, and packs them as dequantizeIQ2_XS reads them.
func quantizeIQ2_XS(block []byte, src, weights []float32) {
	b := (*[74]byte)(block)
	var a gridBlock
	gridFormatIQ2_XS.quantize(&a, (*[256]float32)(src), weights)
	binary.LittleEndian.PutUint16(b[:], a.d)
	qs, scales := b[2:66], (*[8]byte)(b[66:])
	for e := range 32 {
		binary.LittleEndian.PutUint16(qs[2*e:], a.index[e]|uint16(a.signs[e]&127)<<9)
	}
	putScalesIQ2(scales, &a)
}

// putScalesIQ2 stores the scales of 16 groups as nibbles.
func putScalesIQ2(b *[8]byte, a *gridBlock) {
	for i := range b {
		b[i] = a.scales[2*i] | a.scales[2*i+1]<<4
	}
}
