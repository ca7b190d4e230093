package quant

import "encoding/binary"

// dequantizeQ3_K decodes a block of q3_K. A block has 256 elements in 110 bytes: hmask[32]; qs[64]; scales[12]; float16
// d. In each of 16 groups of 16, an element is d*(s-32)*(q-4) with s a 6-bit scale. The low two bits of q lie in qs as
// in q2_K; the third, for element i of the j-th run of 32, is bit j of hmask[i].
func dequantizeQ3_K(dst []float32, block []byte) {
	y, b := (*[256]float32)(dst), (*[110]byte)(block)
	d := halfAt(b[108:])
	for g := range 16 {
		s := d * float32(scaleQ3_K((*[12]byte)(b[96:]), g)-32)
		qs, shift := twoBitGroup(b[32:96], g)
		hmask := (*[16]byte)(b[g%2*16:])
		for i := range 16 {
			q := int(qs[i]>>shift&3) | int(hmask[i]>>(g/2)&1)<<2
			y[g*16+i] = s * float32(q-4)
		}
	}
}

// scaleQ3_K returns the 6-bit scale of group g: the low four bits are in the nibbles of the first eight bytes, the high
// two bits in the last four.
func scaleQ3_K(scales *[12]byte, g int) int {
	low := scales[g%8] >> (g / 8 * 4) & 15
	high := scales[8+g%4] >> (g / 4 * 2) & 3
	return int(low | high<<4)
}

// levelsQ3_K are the levels of q3_K, stored with an offset of 4.
var levelsQ3_K = levelRange{-4, 3}

// quantizeQ3_K fits a scale to each group of 16 elements, rounds the scales to 6 bits, and then chooses the levels
// nearest to the elements for the rounded scales.
func quantizeQ3_K(block []byte, src, weights []float32) {
	x, b := (*[256]float32)(src), (*[110]byte)(block)
	var q [256]byte
	var scales [16]float32
	fitGroupsQ3_K(&q, &scales, x, weights)
	clear(b[:])
	if _, magnitude := absMax(scales[:]); magnitude == 0 {
		return
	}
	var rounded [16]int8
	half, d := roundHalf(roundSignedScales(&rounded, &scales, -32, 31))
	levelsQ3_K.requantize(&q, x, &rounded, d)

	hmask := b[:32]
	for i, v := range q {
		hmask[i%32] |= v >> 2 << (i / 32) // the third bit of the level
	}
	packTwoBits((*[64]byte)(b[32:]), &q)
	putScalesQ3_K((*[12]byte)(b[96:]), &rounded)
	binary.LittleEndian.PutUint16(b[108:], half)
}

// fitGroupsQ3_K sets the levels and the scale of each group of 16 elements. weights is their importance, or nil.
func fitGroupsQ3_K(q *[256]byte, scales *[16]float32, x *[256]float32, weights []float32) {
	var w [16]float32
	var spread float32
	if weights != nil {
		spread = meanSquare2(x[:])
	}
	for g := range scales {
		xs, qs := (*[16]float32)(x[16*g:]), (*[16]byte)(q[16*g:])
		if weights == nil {
			weighSquare(w[:], xs[:])
			scales[g] = descendQ3_K(qs, xs, &w)
		} else {
			weighImportance(w[:], xs[:], weights[16*g:], spread)
			scales[g] = fitScale(qs[:], xs[:], w[:], levelsQ3_K)
		}
	}
}

// putScalesQ3_K stores scales as scaleQ3_K reads them.
func putScalesQ3_K(packed *[12]byte, scales *[16]int8) {
	clear(packed[:])
	for g, s := range scales {
		bits := byte(s + 32)
		packed[g%8] |= bits & 15 << (g / 8 * 4)
		packed[8+g%4] |= bits >> 4 << (g / 4 * 2)
	}
}

// maxPassesQ3_K bounds the passes of descendQ3_K over a group.
const maxPassesQ3_K = 5

// descendQ3_K returns the scale that fits x best under the weights w, and sets q to the levels plus 4. It starts from
// the scale that maps the largest element to level -4. It then changes the level of one element at a time to the level
// that is nearest for the best scale of the other elements, if that lowers the error.
func descendQ3_K(q *[16]byte, x, w *[16]float32) (scale float32) {
	largest, magnitude := absMax(x[:])
	if magnitude < minGroup {
		clear(q[:])
		return 0
	}
	var levels [maxGroup]float32
	qx, qq := levelsQ3_K.sums(&levels, x[:], w[:], -4/largest)
	for range maxPassesQ3_K {
		moved := false
		for i, v := range x {
			wx, level := float32(w[i]*v), levels[i]
			restX := qx - float32(wx*level) // restX/restQ is the best scale for the other elements
			if !(restX > 0) {
				continue
			}
			restQ := qq - float32(float32(w[i]*level)*level)
			next := float32(levelsQ3_K.nearest(v * restQ / restX))
			if next == level {
				continue
			}
			restX += float32(wx * next)
			restQ += float32(float32(w[i]*next) * next)
			if restQ > 0 && restX*restX*qq > qx*qx*restQ { // qx*qx/qq grows, so the error falls
				levels[i], qx, qq, moved = next, restX, restQ, true
			}
		}
		if !moved {
			break
		}
	}
	levelsQ3_K.put(q[:], &levels)
	return qx / qq // qq is positive: the largest element has level and weight other than zero
}
