package quant

import "encoding/binary"

// dequantizeIQ4_XS decodes a block of iq4_xs. A block has 256 elements in 136 bytes: float16 d; u16 scales_h;
// scales_l[4]; qs[128]. In each of 8 groups of 32, an element is d*(s-32)*valuesIQ4NL[q] with nibbles as in iq4_nl. The
// low four bits of the 6-bit s are nibbles of scales_l, the high two lie in scales_h.
func dequantizeIQ4_XS(dst []float32, block []byte) {
	y, b := (*[256]float32)(dst), (*[136]byte)(block)
	d := halfAt(b[:])
	high := binary.LittleEndian.Uint16(b[2:])
	for g := range 8 {
		s := int(b[4+g/2]>>(g%2*4)&15) | int(high>>(2*g)&3)<<4
		putIQ4((*[32]float32)(y[32*g:]), d*float32(s-32), (*[16]byte)(b[8+16*g:]))
	}
}

// quantizeIQ4_XS fits a scale to each group, rounds the scales to 6 bits so that the largest becomes -32, and then
// chooses the levels for the rounded scales.
func quantizeIQ4_XS(block []byte, src, weights []float32) {
	x, b := (*[256]float32)(src), (*[136]byte)(block)
	clear(b[:8])
	spread := meanSquare2(src)
	var scales [8]float32
	for g := range scales {
		var w []float32
		if weights != nil {
			w = weights[32*g:]
		}
		scales[g] = fitIQ4((*[32]float32)(x[32*g:]), w, spread)
	}
	largest, _ := absMax(scales[:])
	d := -largest / 32
	putHalf(b[:], d)
	inv := inverse(d)
	var high uint16
	for g, scale := range scales {
		s := max(-32, min(roundHalfEven(inv*scale), 31))
		packIQ4((*[16]byte)(b[8+16*g:]), (*[32]float32)(x[32*g:]), inverse(d*float32(s)))
		bits := uint16(s + 32) // stored without a sign; the low four bits and the high two are apart
		b[4+g/2] |= byte(bits&15) << (g % 2 * 4)
		high |= bits >> 4 << (2 * g)
	}
	binary.LittleEndian.PutUint16(b[2:], high)
}
