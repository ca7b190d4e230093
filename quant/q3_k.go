package quant

// q3_K: 256 elements in 110 bytes: hmask[32]; qs[64]; scales[12]; half d. In
// each of 16 groups of 16, an element is d*(s-32)*(q-4) with s a 6-bit scale.
// The low two bits of q lie in qs as in q2_K; the third, for element i of the
// j-th run of 32, is bit j of hmask[i].

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

// scaleQ3_K returns the 6-bit scale of group g: the low four bits are nibbles of
// the first eight bytes, the high two bits lie in the last four.
func scaleQ3_K(scales *[12]byte, g int) int {
	low := scales[g%8] >> (g / 8 * 4) & 15
	high := scales[8+g%4] >> (g / 4 * 2) & 3
	return int(low | high<<4)
}
