package quant

// dequantizeQ8_1 decodes a block of q8_1. A block has 32 elements in 36 bytes: float16 d, s; i8 qs[32]. An element is
// d*q. s is d times the sum of the levels; a dot product with a format that has a minimum needs it. The format is
// used for activations.
func dequantizeQ8_1(dst []float32, block []byte) {
	y, b := (*[32]float32)(dst), (*[36]byte)(block)
	d := halfAt(b[:])
	for i, q := range b[4:] {
		y[i] = d * float32(int8(q))
	}
}

// quantizeQ8_1 maps the element of largest magnitude to level 127 or -127. The block also stores the sum of the levels
// times the scale.
func quantizeQ8_1(block []byte, src, _ []float32) {
	x, b := (*[32]float32)(src), (*[36]byte)(block)
	_, magnitude := absMax(x[:])
	d := magnitude / 127
	inv := inverse(d)
	var sum int32
	for i, v := range x {
		q := roundHalfAway(v * inv)
		b[4+i] = byte(q)
		sum += q
	}
	putHalf(b[0:], d)
	putHalf(b[2:], float32(sum)*d)
}
