package quant

// dequantizeQ5_K decodes a block of q5_K. A block has 256 elements in 176 bytes: float16 d, dmin; scales[12]; qh[32];
// qs[128]. The format is q4_K with a fifth bit for each level: bit g of qh[i] for element i of group g.
func dequantizeQ5_K(dst []float32, block []byte) {
	y, b := (*[256]float32)(dst), (*[176]byte)(block)
	d, dmin := halfAt(b[0:]), halfAt(b[2:])
	qh := (*[32]byte)(b[16:])
	for g := range 8 {
		s6, m6 := scaleMinK4((*[12]byte)(b[4:]), g)
		s, m := d*float32(s6), float32(dmin*float32(m6))
		qs, shift := (*[32]byte)(b[48+g/2*32:]), g%2*4
		for i := range 32 {
			q := qs[i]>>shift&15 | qh[i]>>g&1<<4
			y[g*32+i] = float32(s*float32(q)) - m
		}
	}
}

var affineQ5_K = affineFormat{
	lineSearch: lineSearch{top: 31, first: -0.5, step: 0.1, tries: 15},
	group:      32,
	scaleTop:   63,
	weigh:      weighAboveRMS,
}

// quantizeQ5_K fits scales, minima and levels to a block, and packs them as dequantizeQ5_K reads them.
func quantizeQ5_K(block []byte, src, weights []float32) {
	b := (*[176]byte)(block)
	var a affineBlock
	affineQ5_K.quantize(&a, (*[256]float32)(src), weights)
	putHeadK4((*[16]byte)(b[:]), &a)
	qh := (*[32]byte)(b[16:])
	clear(qh[:])
	for i, q := range a.q {
		qh[i%32] |= q >> 4 << (i / 32)
	}
	packNibblesK((*[128]byte)(b[48:]), &a.q)
}
