package quant

import "math"

// nvfp4: 64 elements in 36 bytes: u8 d[4]; qs[32]. In each of 4 groups of 16, an element is d*valuesMXFP4[q]: an FP4
// (E2M1) value with a UE4M3 scale. The table has doubled values, so d is half of the scale. A group has 8 bytes of qs:
// the low nibble of byte i is element i, the high one element i+8.

// maxUE4M3 is the largest scale that ggml stores: E4M3 has no infinities, and the next code up is NaN.
const maxUE4M3 = 448

// dequantizeNVFP4 decodes a block: each group has a scale and FP4 values.
func dequantizeNVFP4(dst []float32, block []byte) {
	y, b := (*[64]float32)(dst), (*[36]byte)(block)
	for g := range 4 {
		d := scaleNVFP4(b[g])
		ys := (*[16]float32)(y[16*g:])
		for i, q := range (*[8]byte)(b[4+8*g:]) {
			ys[i] = d * float32(valuesMXFP4[q&15])
			ys[i+8] = d * float32(valuesMXFP4[q>>4])
		}
	}
}

// quantizeNVFP4 gives each group the scale that maps its largest magnitude to 6, FP4's largest value, and then takes
// the nearest FP4 values.
func quantizeNVFP4(block []byte, src, _ []float32) {
	x, b := (*[64]float32)(src), (*[36]byte)(block)
	for g := range 4 {
		xs, qs := (*[16]float32)(x[16*g:]), (*[8]byte)(b[4+8*g:])
		_, magnitude := absMax(xs[:])
		b[g] = encodeUE4M3(magnitude / 6) // 6 is the largest value of FP4
		d := scaleNVFP4(b[g])
		if d == 0 {
			*qs = [8]byte{}
			continue
		}
		var mids [7]uint32
		for i, mid := range midpointsMXFP4 {
			mids[i] = math.Float32bits(mid * d)
		}
		for i := range qs {
			qs[i] = nearestMXFP4(xs[i], &mids) | nearestMXFP4(xs[i+8], &mids)<<4
		}
	}
}

// scaleNVFP4 returns half of the UE4M3 value of a byte. The first bit is ignored, and NaN gives 0, as in ggml.
func scaleNVFP4(code byte) float32 {
	exponent, fraction := code>>3&15, float32(code&7)
	switch {
	case code == 0x7f:
		return 0
	case exponent == 0:
		return fraction * 0x1p-10
	}
	return (8 + fraction) * math.Float32frombits((uint32(exponent)+127-11)<<23)
}

// encodeUE4M3 returns a nonnegative x in UE4M3, rounded to nearest, halves up. Values above 2^8 become 448, as in ggml.
func encodeUE4M3(x float32) byte {
	bits := math.Float32bits(x)
	if bits < 0x3c800000 { // 2^-6, the smallest normal number
		return byte(min(int(float32(x*512)+0.5), 7)) // subnormal numbers are multiples of 1/512
	}
	roundUp := bits >> 19 & 1               // the first of the 20 fraction bits that UE4M3 drops
	code := bits>>20 + roundUp - (127-7)<<3 // the exponent's bias is 7, not 127
	if code >= 15<<3 {
		return 0x7e // 448
	}
	return byte(code)
}
