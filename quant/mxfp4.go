package quant

import "math"

// dequantizeMXFP4 decodes a block of mxfp4. A block has 32 elements in 17 bytes: u8 e; qs[16], nibbles as in q4_0. An
// element is 2^(e-128)*valuesMXFP4[q]: an FP4 (E2M1) value with a shared E8M0 exponent, as in the OCP Microscaling
// Formats specification 1.0. The table has the values of FP4 times 2.
func dequantizeMXFP4(dst []float32, block []byte) {
	y, b := (*[32]float32)(dst), (*[17]byte)(block)
	d := scaleMXFP4(b[0])
	for i, q := range b[1:] {
		y[i] = d * float32(valuesMXFP4[q&15])
		y[i+16] = d * float32(valuesMXFP4[q>>4])
	}
}

// quantizeMXFP4 encodes 32 floats as a block. The largest magnitude determines the shared power of two. Then each
// element gets the code of the nearest FP4 value, whatever its importance weight.
func quantizeMXFP4(block []byte, src, _ []float32) {
	x, b := (*[32]float32)(src), (*[17]byte)(block)
	_, magnitude := absMax(x[:])
	b[0] = exponentMXFP4(magnitude)
	d := scaleMXFP4(b[0])
	var mids [7]uint32 // the block's midpoints as bits, because nearestMXFP4 compares them as integers
	for i, mid := range midpointsMXFP4 {
		mids[i] = math.Float32bits(mid * d)
	}
	for i := range 16 {
		b[1+i] = nearestMXFP4(x[i], &mids) | nearestMXFP4(x[i+16], &mids)<<4
	}
}

// scaleMXFP4 returns 2^(e-128); for e below 2 that is subnormal.
func scaleMXFP4(e byte) float32 {
	if e < 2 {
		return math.Float32frombits(0x00200000 << e) // 2^-128 or 2^-127
	}
	return math.Float32frombits(uint32(e-1) << 23)
}

// exponentMXFP4 returns the shared exponent of a block, with a bias of 127, from the largest magnitude in the block. It
// is the magnitude's exponent minus 2, the exponent of FP4's largest value. The logarithm is rounded to float32 as in
// ggml, so a magnitude just below a power of two counts as that power.
func exponentMXFP4(magnitude float32) byte {
	if magnitude == 0 {
		return 0
	}
	log := float32(math.Log2(float64(magnitude)))
	return byte(max(0, int(math.Floor(float64(log)))-2+127))
}

// midpointsMXFP4 lie halfway between successive magnitudes of valuesMXFP4.
var midpointsMXFP4 = [7]float32{0.5, 1.5, 2.5, 3.5, 5, 7, 10}

// nearestMXFP4 returns the code of the FP4 value nearest to x; of two equally near, the smaller magnitude. It never
// returns the negative zero. mids are the midpoints between neighbouring magnitudes, times the block's scale, as
// float32 bits. Positive floats are ordered like their bits. So nearestMXFP4 compares bits, and counts the midpoints
// below x's magnitude without branches.
func nearestMXFP4(x float32, mids *[7]uint32) byte {
	bits := math.Float32bits(x)
	sign, magnitude := bits>>31, bits&^(1<<31)
	var index uint32
	for _, mid := range mids {
		index += (mid - magnitude) >> 31 // 1 if mid < magnitude
	}
	nonzero := (-index) >> 31 // 0 for index 0, otherwise 1
	return byte(index | (sign&nonzero)<<3)
}
