package quant

// q5_K: 256 elements in 176 bytes: half d, dmin; scales[12]; qh[32]; qs[128]. As
// q4_K with a fifth bit: bit g of qh[i] for element i of group g.

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
