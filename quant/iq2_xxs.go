package quant

import "encoding/binary"

// iq2_xxs: 256 elements in 66 bytes: half d; u16 qs[32]. Each of 8 groups of 32
// takes eight bytes: four codebook indices, then four 7-bit sign indices and a
// 4-bit scale s in a u32. The scale of an entry is d*(s+1/2)/4.

func dequantizeIQ2_XXS(dst []float32, block []byte) {
	y, b := (*[256]float32)(dst), (*[66]byte)(block)
	d := halfAt(b[:])
	for g := range 8 {
		group := (*[8]byte)(b[2+8*g:])
		bits := binary.LittleEndian.Uint32(group[4:])
		scale := scaleIQ2(d, byte(bits>>28))
		for l := range 4 {
			signs := signsOf7[bits>>(7*l)&127]
			putGrid(y[g*32+l*8:][:8], scale, gridIQ2XXS[group[l]], signs)
		}
	}
}

// scaleIQ2 returns the scale of a group of the iq2 formats from its 4-bit s.
func scaleIQ2(d float32, s byte) float32 { return d * (0.5 + float32(s)) * 0.25 }
