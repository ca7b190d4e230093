package glsl

import (
	"fmt"
	"strings"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// lookupForm is how a block format in planes is decoded by eight quants at once,
// which a table in shared memory holds ready: two quads, of neighbours or, where
// planes of quads lie apart, of the first and the second.
type lookupForm struct {
	// entry is entry n of the table, from CODEBOOK; empty where there is none.
	entry string
	// quants returns the bytes of the octet that begins at element e, by
	// entry_NAME(n). Where there are masks, it declares quads and masks instead,
	// the latter by signs_NAME(n).
	quants string
	masks  maskKind
	signed bool
	halved bool // quants are half of what the format's are
	planes bool // quants are of two planes: even and odd ones of both are declared
}

// maskKind says what the masks of an octet are.
type maskKind int

const (
	noMasks   maskKind = iota
	signMasks          // ones for each negative quant, whose other bits are of its absolute value
	// oddMasks are those where the format's quants are odd, and entries their
	// halves rounded down: all bits of those change with the sign.
	oddMasks
	// thirdMasks are bytes of which three times as much are to be taken off: the
	// digits in base 3 before those wanted.
	thirdMasks
)

// of is a format with quants as octets have them.
func (o lookupForm) of(f kernel.BlockForm) kernel.BlockForm {
	f.Levels, f.Signed, f.Halved = false, o.signed, o.halved
	if o.masks == oddMasks {
		f.Bias, f.Halved = -1, true
	}
	return f
}

const (
	// eightOf is an entry of two words of a codebook.
	eightOf = `uvec2(CODEBOOK[2u * n], CODEBOOK[2u * n + 1u])`
	// nibblesOf is one of iq1: half of each byte is a nibble.
	nibblesOf = `CODEBOOK[2u * n] >> 1 | CODEBOOK[2u * n + 1u] << 3`
	// levelsOf is the levels of a byte's nibbles.
	levelsOf = `uint(int(CODEBOOK[n & 15u])) & 0xffu | (uint(int(CODEBOOK[n >> 4])) & 0xffu) << 8`
)

// lookupForms is the table of formats of which eight quants are decoded at once.
var lookupForms = map[ir.DType]lookupForm{
	ir.IQ1_S: {entry: nibblesOf, halved: true, quants: `
uint high = SHORT(34u + e / 32u * 2u);
uint entry = WORD(2u + e / 32u * 4u) >> e % 32u & 255u | (high >> e % 32u / 8u * 3u & 7u) << 8;
uint nibbles = entry_NAME(entry) + ((high & 0x8000u) == 0u ? 0x11111111u : 0u);
return uvec2(nibbles & 0x0f0f0f0fu, nibbles >> 4 & 0x0f0f0f0fu);`},
	ir.IQ1_M: {entry: nibblesOf, halved: true, quants: `
uint high = WORD(32u + e / 64u * 4u) >> e % 64u / 2u;
uint entry = WORD(e / 32u * 4u) >> e % 32u & 255u | (high & 7u) << 8;
uint nibbles = entry_NAME(entry) + ((high & 8u) == 0u ? 0x11111111u : 0u);
return uvec2(nibbles & 0x0f0f0f0fu, nibbles >> 4 & 0x0f0f0f0fu);`},
	ir.IQ2_XXS: {entry: eightOf, masks: signMasks, signed: true, quants: `
uvec2 packed = PAIRS(2u + e / 32u * 8u);
uvec2 quads = entry_NAME(packed.x >> e % 32u & 255u);
uvec2 masks = signs_NAME(packed.y >> e % 32u / 8u * 7u & 127u);`},
	ir.IQ2_XS: {entry: eightOf, masks: signMasks, signed: true, quants: `
uint packed = PAIRS(2u + e / 32u * 8u)[e % 32u / 16u] >> e % 16u * 2u;
uvec2 quads = entry_NAME(packed & 511u);
uvec2 masks = signs_NAME(packed >> 9 & 127u);`},
	ir.IQ2_S: {entry: eightOf, masks: signMasks, signed: true, quants: `
uint high = BYTE(66u + e / 32u) >> e % 32u / 4u & 3u;
uvec2 quads = entry_NAME(WORD(2u + e / 32u * 4u) >> e % 32u & 255u | high << 8);
uint signs = WORD(34u + e / 32u * 4u) >> e % 32u;
uvec2 masks = uvec2(signs_NAME(signs & 15u), signs_NAME(signs >> 4 & 15u));`},
	ir.IQ3_XXS: {entry: `CODEBOOK[n]`, masks: signMasks, signed: true, quants: `
uint two = PAIRS(2u + e / 32u * 8u)[e % 32u / 16u] >> e % 16u * 2u;
uvec2 quads = uvec2(entry_NAME(two & 255u), entry_NAME(two >> 8 & 255u));
uvec2 masks = signs_NAME(WORD(66u + e / 32u * 4u) >> e % 32u / 8u * 7u & 127u);`},
	ir.IQ3_S: {entry: `CODEBOOK[n] >> 1 & 0x7f7f7f7fu`, signed: true, masks: oddMasks, quants: `
uint two = PAIRS(2u + e / 32u * 8u)[e % 32u / 16u] >> e % 16u * 2u;
uint high = BYTE(66u + e / 32u) >> e % 32u / 4u;
uvec2 quads = uvec2(entry_NAME(two & 255u | (high & 1u) << 8), entry_NAME(two >> 8 & 255u | (high & 2u) << 7));
uint signs = WORD(74u + e / 32u * 4u) >> e % 32u;
uvec2 masks = uvec2(signs_NAME(signs & 15u), signs_NAME(signs >> 4 & 15u));`},
	ir.TQ1_0: {masks: thirdMasks, quants: `
uint digit = e < 160u ? e / 32u : e < 240u ? (e - 160u) / 16u : (e - 240u) / 4u;
uvec2 power = uvec2(digit < 4u ? 0x1b090301u >> 8u * digit & 0xffu : 81u);
uvec2 bytes;
if (e < 240u) {
    bytes = PAIRS(e < 160u ? e % 32u : 32u + e % 16u);
} else {
    bytes = uvec2(WORD(48u));
    power.y *= 3u;
}
uvec2 quads = high_bytes(bytes, 3u * power);
uvec2 masks = high_bytes(bytes, power);`},
	ir.IQ4_NL: {entry: levelsOf, signed: true, planes: true, quants: fmt.Sprintf(twoPlanes, `WORDS(2u)[e % 16u / 4u]`)},
	ir.IQ4_XS: {entry: levelsOf, signed: true, planes: true, quants: fmt.Sprintf(twoPlanes, `WORDS(8u + e / 32u * 16u)[e % 16u / 4u]`)},
	ir.MXFP4:  {entry: levelsOf, signed: true, planes: true, quants: fmt.Sprintf(twoPlanes, `WORDS(1u)[e % 16u / 4u]`)},
}

// twoPlanes is the levels of four bytes, those of the nibbles of a byte next to
// each other: of bytes 0 and 2, and of 1 and 3.
const twoPlanes = `
uint four = %s;
uint even = entry_NAME(four & 255u) + (entry_NAME(four >> 16 & 255u) << 16);
uint odd = entry_NAME(four >> 8 & 255u) + (entry_NAME(four >> 24) << 16);`

// sorted returns the levels of twoPlanes by planes.
const sorted = "\nreturn uvec2(even & 0x00ff00ffu | (odd & 0x00ff00ffu) << 8, even >> 8 & 0x00ff00ffu | odd & " +
	"0xff00ff00u);"

// octetReader makes the text have the function that decodes an octet: whole, or,
// where less says how often products with masks are taken off, without them. paired
// leaves levels of two planes as they come.
func (e *emitter) octetReader(b *buffer, less int, paired bool) string {
	form := lookupForms[b.DType]
	body := strings.NewReplacer("entry_NAME", "octet_entry", "signs_NAME", "octet_signs").Replace(form.quants)
	args, note := "(uint block, uint e", "// Eight quants, a byte each"
	if less > 0 {
		args, note = args+", out uvec2 masks", note+", less the masks"
		body = strings.Replace(body, "uvec2 masks =", "masks =", 1)
	}
	switch {
	case paired:
		body += "\nreturn uvec2(even, odd);"
	case form.planes:
		body += sorted
	case form.masks == thirdMasks:
		body += "\nreturn quads;"
	case form.masks == oddMasks || less > 0:
		body += "\nreturn quads ^ masks;"
	case form.masks == signMasks:
		body += "\nreturn (quads ^ masks) + (masks & 0x01010101u);"
	}
	e.blockFunction(b, "uvec2 octet_NAME"+args+")", note+".", body)
	return "octet_" + b.base
}
