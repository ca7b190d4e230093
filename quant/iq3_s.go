package quant

// iq3_s: 256 elements in 110 bytes: half d; qs[64]; qh[8]; signs[32]; scales[4].
// In each of 8 groups of 32, eight codebook entries of 4 have the low bits of
// their index in qs and the ninth in qh; bit j of the signs is element j's. Each
// nibble of scales is the s of one group: the scale is d*(2s+1).

func dequantizeIQ3_S(dst []float32, block []byte) {
	y, b := (*[256]float32)(dst), (*[110]byte)(block)
	d := halfAt(b[:])
	for g := range 8 {
		s := b[106+g/2] >> (g % 2 * 4) & 15
		scale := d * float32(2*s+1)
		qs, qh := (*[8]byte)(b[2+8*g:]), b[66+g]
		index := func(e int) uint16 { return uint16(qs[e]) | uint16(qh>>e&1)<<8 }
		for l := range 4 {
			grid := pairGrid(gridIQ3S[index(2*l)], gridIQ3S[index(2*l+1)])
			putGrid(y[g*32+l*8:][:8], scale, grid, b[74+g*4+l])
		}
	}
}
