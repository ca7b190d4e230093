package quant

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

// quantizeTQ1_0 maps the element of largest magnitude to 1 or -1, and rounds the others to -1, 0 or 1.
func quantizeTQ1_0(block []byte, src, _ []float32) {
	x, b := (*[256]float32)(src)[:], (*[54]byte)(block)[:]
	_, d := absMax(x)
	id := inverse(d)
	putHalf(b[52:], d)
	for _, run := range runsTQ1 {
		for i := range run.bytes {
			var digits int32 // read in base 3
			for n := range 5 {
				digits *= 3
				if n < run.digits {
					digits += roundHalfAway(x[n*run.bytes+i]*id) + 1
				}
			}
			// Round the fraction digits/243 up, so that decoding's products
			// truncate to the digits.
			b[i] = byte((digits*256 + 242) / 243)
		}
		x, b = x[run.bytes*run.digits:], b[run.bytes:]
	}
}
