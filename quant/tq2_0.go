package quant

// dequantizeTQ2_0 decodes a block of tq2_0. A block has 256 elements in 66 bytes: qs[64]; float16 d. An element is
// d*(t-1) with t two bits. Each half of the block (128 elements) has 32 bytes of qs: byte i holds, from the lowest
// bits, elements i, i+32, i+64 and i+96.
func dequantizeTQ2_0(dst []float32, block []byte) {
	y, b := (*[256]float32)(dst), (*[66]byte)(block)
	d := halfAt(b[64:])
	for run := range 8 {
		qs, shift := (*[32]byte)(b[run/4*32:]), run%4*2
		for i, q := range qs {
			y[run*32+i] = float32(int(q>>shift&3)-1) * d
		}
	}
}

// quantizeTQ2_0 maps the element of largest magnitude to 1 or -1, and rounds the others to -1, 0 or 1.
func quantizeTQ2_0(block []byte, src, _ []float32) {
	x, b := (*[256]float32)(src), (*[66]byte)(block)
	_, d := absMax(x[:])
	inv := inverse(d)
	clear(b[:])
	putHalf(b[64:], d)
	for run := range 8 {
		qs, shift := (*[32]byte)(b[run/4*32:]), run%4*2
		for i := range qs {
			t := roundHalfAway(x[run*32+i]*inv) + 1
			qs[i] |= byte(t) << shift
		}
	}
}
