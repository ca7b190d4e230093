package quant

// putGrid writes eight elements of an IQ format: scale times the bytes of the
// codebook entry grid, the first in the least significant byte; bit j of signs
// negates element j.
func putGrid(dst []float32, scale float32, grid uint64, signs uint8) {
	y := (*[8]float32)(dst)
	for j := range y {
		y[j] = negateIf(scale*float32(uint8(grid>>(8*j))), signs>>j)
	}
}

// pairGrid joins two codebook entries of four elements into one of eight.
func pairGrid(first, second uint32) uint64 { return uint64(first) | uint64(second)<<32 }

// putTernary writes eight elements scale*(v+delta) of iq1_s and iq1_m, where the
// v in {-1, 0, 1} are the signed bytes of a codebook entry.
func putTernary(dst []float32, scale, delta float32, grid uint64) {
	y := (*[8]float32)(dst)
	for j := range y {
		y[j] = scale * (float32(int8(grid>>(8*j))) + delta)
	}
}

// deltaIQ1 returns the offset that iq1_s and iq1_m add to a group: -1/8 when bit
// is set, else 1/8.
func deltaIQ1(bit bool) float32 {
	if bit {
		return -0.125
	}
	return 0.125
}
