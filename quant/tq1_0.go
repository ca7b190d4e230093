package quant

import "github.com/vkc-go/vkc/internal/ceil"

// runsTQ1 are the consecutive parts of a block. Each byte of a part packs several base-3 digits, one for each element.
// Digit n of byte i is element n*bytes+i of the part.
var runsTQ1 = [...]struct{ bytes, digits int }{{32, 5}, {16, 5}, {4, 4}}

// dequantizeTQ1_0 decodes a block of tq1_0. A block has 256 elements in 54 bytes: qs[48]; qh[4]; float16 d. An element
// is d*(t-1) with a base-3 digit t. A byte q holds five digits (four in qh): digit k is floor(3*(q*3^k mod 256)/256).
func dequantizeTQ1_0(dst []float32, block []byte) {
	y, b := (*[256]float32)(dst)[:], (*[54]byte)(block)[:]
	d := halfAt(b[52:])
	for _, run := range runsTQ1 {
		power := byte(1)
		for range run.digits {
			for i, q := range b[:run.bytes] {
				t := uint16(q*power) * 3 >> 8
				y[i] = float32(int(t)-1) * d
			}
			y = y[run.bytes:]
			power *= 3
		}
		b = b[run.bytes:]
	}
}

// quantizeTQ1_0 divides the elements by the largest magnitude d, and rounds them to -1, 0 or 1. It ignores importance.
func quantizeTQ1_0(block []byte, src, _ []float32) {
	x, b := (*[256]float32)(src)[:], (*[54]byte)(block)[:]
	_, d := absMax(x)
	inv := inverse(d)
	putHalf(b[52:], d)
	for _, run := range runsTQ1 {
		for i := range run.bytes {
			var digits int32 // read in base 3
			for n := range 5 {
				digits *= 3
				if n < run.digits {
					digits += roundHalfAway(x[n*run.bytes+i]*inv) + 1
				}
			}
			const powers = 243 // 3^5, the number of values of five digits
			// The fraction digits/powers is rounded up. Decoding multiplies it by powers of 3 and truncates, and so
			// gets the same digits back.
			b[i] = byte(ceil.Div(int(digits)*256, powers))
		}
		x, b = x[run.bytes*run.digits:], b[run.bytes:]
	}
}
