package quant

import "encoding/binary"

// dequantizeQ4_K decodes a block of q4_K. A block has 256 elements in 144 bytes: float16 d, dmin; scales[12]; qs[128].
// In each of 8 groups of 32, an element is d*s*q - dmin*m with 6-bit s and m. Each 32 bytes of qs hold two groups, the
// first in the low nibbles.
func dequantizeQ4_K(dst []float32, block []byte) {
	y, b := (*[256]float32)(dst), (*[144]byte)(block)
	d, dmin := halfAt(b[0:]), halfAt(b[2:])
	for g := range 8 {
		s6, m6 := scaleMinK4((*[12]byte)(b[4:]), g)
		s, m := d*float32(s6), float32(dmin*float32(m6))
		qs, shift := (*[32]byte)(b[16+g/2*32:]), g%2*4
		for i := range 32 {
			y[g*32+i] = float32(s*float32(qs[i]>>shift&15)) - m
		}
	}
}

// scaleMinK4 returns the 6-bit scale s and minimum m of group g of q4_K and q5_K. For groups 0 to 3, s is the low six
// bits of byte g, and m of byte g+4. For groups 4 to 7, byte g+4 has the low four bits of s and then of m. The high two
// bits of s are the high bits of byte g-4, and the high two bits of m the high bits of byte g.
func scaleMinK4(scales *[12]byte, g int) (s, m byte) {
	if g < 4 {
		return scales[g] & 63, scales[g+4] & 63
	}
	s = scales[g+4]&15 | scales[g-4]>>6<<4
	m = scales[g+4]>>4 | scales[g]>>6<<4
	return s, m
}

var affineQ4_K = affineFormat{
	lineSearch: lineSearch{top: 15, first: -1, step: 0.1, tries: 20},
	group:      32,
	scaleTop:   63,
	weigh:      weighAboveRMS,
}

// quantizeQ4_K fits scales, minima and levels to a block, and packs them as dequantizeQ4_K reads them.
func quantizeQ4_K(block []byte, src, weights []float32) {
	b := (*[144]byte)(block)
	var a affineBlock
	affineQ4_K.quantize(&a, (*[256]float32)(src), weights)
	putHeadK4((*[16]byte)(b[:]), &a)
	packNibblesK((*[128]byte)(b[16:]), &a.q)
}

// putHeadK4 stores d, dmin and, as scaleMinK4 reads them, scales and minima.
func putHeadK4(b *[16]byte, a *affineBlock) {
	binary.LittleEndian.PutUint16(b[0:], a.d)
	binary.LittleEndian.PutUint16(b[2:], a.dmin)
	packed := (*[12]byte)(b[4:])
	for g := range 4 {
		s, m := a.scales[g+4], a.mins[g+4]
		packed[g] = a.scales[g] | s>>4<<6
		packed[g+4] = a.mins[g] | m>>4<<6
		packed[g+8] = s&15 | m<<4
	}
}

// packNibblesK stores the low four bits of the levels q in the q4_K layout.
func packNibblesK(qs *[128]byte, q *[256]byte) {
	for i := range qs {
		pair := (*[33]byte)(q[i/32*64+i%32:]) // an element and the one 32 further
		qs[i] = pair[0]&15 | pair[32]<<4
	}
}
