package quant

import "encoding/binary"

// dequantizeQ6_K decodes a block of q6_K. A block has 256 elements in 210 bytes: ql[128]; qh[64]; i8 scales[16];
// float16 d. In each of 16 groups of 16, an element is d*s*(q-32).
//
// Each half of the block (128 elements) is four runs of 32. Runs 0 and 2 have their low four bits in the nibbles of the
// half's first 32 bytes of ql, runs 1 and 3 in the next 32; the high two bits of run r are bits 2r of qh.
func dequantizeQ6_K(dst []float32, block []byte) {
	y, b := (*[256]float32)(dst), (*[210]byte)(block)
	d := halfAt(b[208:])
	for g := range 16 {
		s := d * float32(int8(b[192+g]))
		// A run of 32 elements is two groups; odd is the offset of the second one.
		half, run, odd := g/8, g/2%4, g%2*16
		ql := (*[16]byte)(b[half*64+run%2*32+odd:])
		qh := (*[16]byte)(b[128+half*32+odd:])
		for i := range 16 {
			q := ql[i]>>(run/2*4)&15 | qh[i]>>(run*2)&3<<4
			y[g*16+i] = s * float32(int(q)-32)
		}
	}
}

// levelsQ6_K are the levels of q6_K, stored with an offset of 32.
var levelsQ6_K = levelRange{-32, 31}

// quantizeQ6_K fits a scale to each group of 16 elements, rounds the scales to 8 bits, and then chooses the levels
// nearest to the elements for the rounded scales.
func quantizeQ6_K(block []byte, src, weights []float32) {
	x, b := (*[256]float32)(src), (*[210]byte)(block)
	var q [256]byte
	var scales [16]float32
	var w [16]float32
	var spread float32
	if weights != nil {
		spread = meanSquare2(src)
	}
	for g := range scales {
		xs := x[16*g:][:16]
		if weights == nil {
			weighSquare(w[:], xs)
		} else {
			weighImportance(w[:], xs, weights[16*g:], spread)
		}
		scales[g] = fitScale(q[16*g:][:16], xs, w[:], levelsQ6_K)
	}
	clear(b[:])
	if _, magnitude := absMax(scales[:]); magnitude < minGroup {
		return
	}
	var rounded [16]int8
	half, d := roundHalf(roundSignedScales(&rounded, &scales, -128, 127))
	levelsQ6_K.requantize(&q, x, &rounded, d)
	packSixBits((*[192]byte)(b[:]), &q)
	for g, s := range rounded {
		b[192+g] = byte(s)
	}
	binary.LittleEndian.PutUint16(b[208:], half)
}

// packSixBits adds the levels q to the zeroed ql and qh of a block, in the layout that dequantizeQ6_K describes.
func packSixBits(b *[192]byte, q *[256]byte) {
	ql, qh := b[:128], b[128:]
	for i, v := range q {
		half, run := i/128, i/32%4
		ql[half*64+run%2*32+i%32] |= v & 15 << (run / 2 * 4)
		qh[half*32+i%32] |= v >> 4 << (2 * run)
	}
}
