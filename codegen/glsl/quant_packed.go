package glsl

import (
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// packedForm is how a format with four quants of two bits to a byte is multiplied
// by rows of bytes as it stands: the quants of plane p are masked, not shifted,
// so that integer dot products with them are 4^p times what they should be, which
// the scales of the rows make up for. One invocation takes sixteen bytes, the
// same sixteen places of four planes.
type packedForm struct {
	// quants and high return the sixteen bytes that hold the quants of element e of
	// plane 0 and its neighbours, and those whose bit p is 4 more for plane p; high
	// is empty where there are none.
	quants, high string
	// result returns the products of a run with a row, added up and scaled: of dots,
	// the scaled dot products of every plane, and sums, the scaled sums of the row.
	result string
	bias   int // of a quant; sums are so many times as large
}

// packedForms is the table of formats whose packed quants are multiplied so. Pairs of scales,
// one in each half of a word x, become floats at once: SMALL(x) returns both, divided
// by UNIT; UNIT_16 and PER_UNIT are that by 16, and 32 by that.
var packedForms = map[ir.DType]packedForm{
	ir.Q2_K: {bias: 1,
		quants: `return WORDS(16u + e / 128u * 32u + e % 32u);`,
		result: `
uvec2 packed = PAIRS(e / 128u * 8u) >> e % 32u / 16u * 8u;
vec2 d = unpackHalf2x16(WORD(80u));
vec4 scales = vec4(SMALL(packed.x & 0x000f000fu), SMALL(packed.y & 0x000f000fu));
vec4 mins = vec4(SMALL(packed.x & 0x00f000f0u), SMALL(packed.y & 0x00f000f0u));
return d.x * UNIT * dot(scales, dots) - d.y * UNIT_16 * dot(mins, sums);`},
	ir.Q3_K: {bias: 4,
		quants: `return WORDS(32u + e / 128u * 32u + e % 32u);`,
		high:   `return WORDS(e % 32u) >> e / 128u * 4u;`,
		result: `
uint shift = e / 128u * 4u + e % 32u / 16u * 8u;
uint high = WORD(104u) >> shift;
uint first = WORD(96u) >> shift & 0x000f000fu | (high & 0x00030003u) << 4;
uint second = WORD(100u) >> shift & 0x000f000fu | (high & 0x000c000cu) << 2;
vec4 scales = vec4(SMALL(first), SMALL(second)) - PER_UNIT;
return HALF(108u) * UNIT * dot(scales, dots - sums);`},
	ir.TQ2_0: {bias: 1,
		quants: `return WORDS(e / 128u * 32u + e % 32u);`,
		result: `return HALF(64u) * (dots.x + dots.y + dots.z + dots.w - (sums.x + sums.y + sums.z + sums.w));`},
}

// packedFunctions makes the text have the functions of a buffer's packed quants.
func (e *emitter) packedFunctions(b *buffer, subnormals bool) {
	form := packedForms[b.DType]
	e.blockFunction(b, "uvec4 fields_NAME(uint block, uint e)",
		"// The bytes of sixteen neighbours from element e on, and of those 32, 64, 96 further.", form.quants)
	if form.high != "" {
		e.blockFunction(b, "uvec4 high_fields_NAME(uint block, uint e)", "// The same of their high bits.", form.high)
	}
	small, unit := "shorts_unsigned(", 1.0
	if subnormals { // halves of a byte in the last bits are 2^-24 of it
		small, unit = "unpackHalf2x16(", 1<<24
	}
	body := strings.NewReplacer("SMALL(", small, "UNIT_16", floatText(unit/16), "PER_UNIT", floatText(32/unit),
		"UNIT", floatText(unit)).Replace(form.result)
	e.blockFunction(b, "float scaled_NAME(uint block, uint e, vec4 dots, vec4 sums)",
		"// Products of a run, added up, with their scales.", body)
}

func floatText(x float64) string { return finiteLit(x, 32, "").s }
