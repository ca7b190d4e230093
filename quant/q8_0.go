package quant

// dequantizeQ8_0 decodes a block of q8_0. A block has 32 elements in 34 bytes: float16 d; i8 qs[32]. An element is d*q.
func dequantizeQ8_0(dst []float32, block []byte) {
	y, b := (*[32]float32)(dst), (*[34]byte)(block)
	d := halfAt(b[:])
	for i, q := range b[2:] {
		y[i] = d * float32(int8(q))
	}
}

// quantizeQ8_0 maps the element of largest magnitude to level 127 or -127.
func quantizeQ8_0(block []byte, src, _ []float32) {
	x, b := (*[32]float32)(src), (*[34]byte)(block)
	_, magnitude := absMax(x[:])
	d := magnitude / 127
	inv := inverse(d)
	putHalf(b[:], d)
	for i, v := range x {
		b[2+i] = byte(roundHalfAway(v * inv))
	}
}
