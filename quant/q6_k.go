package quant

// q6_K: 256 elements in 210 bytes: ql[128]; qh[64]; i8 scales[16]; half d. In
// each of 16 groups of 16, an element is d*s*(q-32).
//
// Each half of the block (128 elements) is four runs of 32. Runs 0 and 2 have
// their low four bits in the nibbles of the half's first 32 bytes of ql, runs 1
// and 3 in the next 32; the high two bits of run r are bits 2r of qh.

func dequantizeQ6_K(dst []float32, block []byte) {
	y, b := (*[256]float32)(dst), (*[210]byte)(block)
	d := halfAt(b[208:])
	for g := range 16 {
		s := d * float32(int8(b[192+g]))
		half, run, odd := g/8, g/2%4, g%2*16
		ql := (*[16]byte)(b[half*64+run%2*32+odd:])
		qh := (*[16]byte)(b[128+half*32+odd:])
		for i := range 16 {
			q := ql[i]>>(run/2*4)&15 | qh[i]>>(run*2)&3<<4
			y[g*16+i] = s * float32(int(q)-32)
		}
	}
}
