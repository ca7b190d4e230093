package quant

import "encoding/binary"

// dequantizeQ2_K decodes a block of q2_K. A block has 256 elements in 84 bytes: scales[16]; qs[64]; float16 d, dmin. In
// each of 16 groups of 16, an element is d*s*q - dmin*m with s the low and m the high nibble of the group's scale byte.
//
// Each half of the block (128 elements) has 32 bytes of qs: byte i holds, two bits each from the lowest, the levels of
// elements i, i+32, i+64 and i+96.
func dequantizeQ2_K(dst []float32, block []byte) {
	y, b := (*[256]float32)(dst), (*[84]byte)(block)
	d, dmin := halfAt(b[80:]), halfAt(b[82:])
	for g, scale := range b[:16] {
		s, m := d*float32(scale&15), float32(dmin*float32(scale>>4))
		qs, shift := twoBitGroup(b[16:80], g)
		for i := range 16 {
			y[g*16+i] = float32(s*float32(qs[i]>>shift&3)) - m
		}
	}
}

// twoBitGroup returns the 16 bytes of the q2_K and q3_K layout that hold group
// g of 16 elements, and the position of its bits in them.
func twoBitGroup(qs []byte, g int) (group *[16]byte, shift int) {
	half, inHalf := g/8, g%8
	return (*[16]byte)(qs[half*32+inHalf%2*16:]), inHalf / 2 * 2
}

var affineQ2_K = affineFormat{
	lineSearch: lineSearch{top: 3, first: -0.5, step: 0.1, tries: 15, absolute: true},
	group:      16,
	scaleTop:   15,
	weigh:      weighMagnitude,
}

// quantizeQ2_K fits scales, minima and levels to a block, and packs them as dequantizeQ2_K reads them.
func quantizeQ2_K(block []byte, src, weights []float32) {
	b := (*[84]byte)(block)
	var a affineBlock
	affineQ2_K.quantize(&a, (*[256]float32)(src), weights)
	for g := range 16 {
		b[g] = a.scales[g] | a.mins[g]<<4
	}
	packTwoBits((*[64]byte)(b[16:]), &a.q)
	binary.LittleEndian.PutUint16(b[80:], a.d)
	binary.LittleEndian.PutUint16(b[82:], a.dmin)
}

// packTwoBits stores the low two bits of the levels q in the q2_K and q3_K layout.
func packTwoBits(qs *[64]byte, q *[256]byte) {
	for i := range qs {
		run := (*[97]byte)(q[i/32*128+i%32:]) // element i of the half's four runs of 32
		qs[i] = run[0]&3 | run[32]&3<<2 | run[64]&3<<4 | run[96]<<6
	}
}
