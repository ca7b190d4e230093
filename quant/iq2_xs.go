package quant

import "encoding/binary"

// iq2_xs: 256 elements in 74 bytes: half d; u16 qs[32]; scales[8]. Each u16 is
// one entry of 8: a 9-bit codebook index and a 7-bit sign index. Each nibble of
// scales is the scale of two entries, as in iq2_xxs.

func dequantizeIQ2_XS(dst []float32, block []byte) {
	y, b := (*[256]float32)(dst), (*[74]byte)(block)
	d := halfAt(b[:])
	for e := range 32 {
		q := binary.LittleEndian.Uint16(b[2+2*e:])
		scale := scaleIQ2(d, b[66+e/4]>>(e/2%2*4)&15)
		putGrid(y[e*8:][:8], scale, gridIQ2XS[q&511], signsOf7[q>>9])
	}
}
