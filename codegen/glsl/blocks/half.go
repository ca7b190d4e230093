package blocks

import (
	"fmt"
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
)

// LoadsOctets reports whether an OctetDecoder can decode eight neighbours of an operand along an axis together: they
// are in one block and share a scale.
func LoadsOctets(e *emit.Emitter, v *kernel.Expr, a emit.Along) bool {
	f, blocks := ir.BlockFormatOf(e.K.Bindings[v.Bind].DType)
	return v.Kind == kernel.ExprLoad && blocks && f.Run%schedule.OctetElems == 0 &&
		schedule.DivisibleBy(a.Extent, schedule.OctetElems) && v.Index.Adjacent(a.Axis, schedule.OctetElems)
}

// OctetDecoder adds the GLSL function that decodes eight neighbours (an octet) of a buffer to f16, and returns its
// name. If quants are bytes, the function decodes them in pairs of f16. With a byte in its low mantissa bits, the f16
// number 1024 becomes 1024 plus the byte, exactly. The multiplication by the scale rounds once, as in f32. Offsets, and
// scales that are not f16, are rounded too.
func OctetDecoder(e *emit.Emitter, b *emit.Buffer) string {
	f := blockFormatOf(e, b)
	if e.Err != nil {
		return "unknown"
	}
	if f.Levels {
		return levelsOctet(e, b)
	}
	pairs := b.ReadsPairs() // one call returns two quads
	if pairs {
		Scale(e, b)
	} else {
		Parts(e, b)
	}
	e.Need(emit.NeedFloat16)
	value, flip := "scale", ""
	if f.Signed {
		flip = " ^ 0x80808080u" // adds 128 to each of four signed bytes; halvesOfWord subtracts it again
	}
	lines := []string{"uint block = i / ELEMSu, first = i % ELEMSu;"}
	if f.Affine {
		lines = append(lines, "f16vec2 scale = f16vec2(scale_NAME(block, first));")
		value = "scale.x"
	} else {
		lines = append(lines, "float16_t scale = float16_t(scale_NAME(block, first));")
	}
	of := f.firstOf(b.DType, wholeQuads) + f.fieldArg("e / STRIDEu % FIELDSu") + ")" + flip + ";"
	if pairs {
		PairQuants(e, b)
		lines = append(lines, "uint e = first;", "uvec2 quads = quants2_NAME(block, "+of, "uvec4 octet;",
			"[[unroll]] for (uint n = 0u; n < 2u; ++n) {", "    uint q = quads[n];")
	} else {
		lines = append(lines, "uvec4 octet;", "[[unroll]] for (uint n = 0u; n < 2u; ++n) {",
			"    uint e = first + 4u * n;", "    uint q = quants_NAME(block, "+of)
	}
	return octetFunction(e, b, append(append(lines, halvesOfWord(f, value)...), "}", "return octet;"))
}

// halvesOfWord returns the lines that decode the four quants in word q to f16, as half n of an octet. scale is the GLSL
// of the factor of the quants.
func halvesOfWord(f blockFormat, scale string) []string {
	// base is the difference between an f16 with a byte in its lowest bits and the quant.
	base := 1024 + f.Bias
	if f.Signed {
		base += 128
	}
	// 0x6400 is 1024 in f16. even has bytes 0 and 2 of q, odd has bytes 1 and 3.
	lines := []string{
		fmt.Sprintf("    f16vec2 even = (unpackFloat2x16(q & 0x00ff00ffu | 0x64006400u) - float16_t(%d)) * %s;", base,
			scale),
		fmt.Sprintf("    f16vec2 odd = (unpackFloat2x16(q >> 8 & 0x00ff00ffu | 0x64006400u) - float16_t(%d)) * %s;",
			base, scale)}
	if f.Affine {
		lines = append(lines, "    even += scale.y;", "    odd += scale.y;")
	}
	return append(lines, "    octet[2u * n] = packFloat2x16(f16vec2(even.x, odd.x));",
		"    octet[2u * n + 1u] = packFloat2x16(f16vec2(even.y, odd.y));")
}

// octetFunction adds an OctetDecoder with the given lines as its body, and returns its name.
func octetFunction(e *emit.Emitter, b *emit.Buffer, lines []string) string {
	name := "octet_" + b.Base
	blockFunction(e, b, "uvec4 "+name+"(uint i)", "// Elements i to i+7 in f16, i being a multiple of 8.",
		strings.Join(lines, "\n"))
	return name
}

// levelsOctet adds the GLSL function that decodes eight neighbours of a buffer to f16, and returns its name. It is for
// formats with quants that stand for floats (levels). The function computes level times scale in f32 and rounds the
// result to f16.
func levelsOctet(e *emit.Emitter, b *emit.Buffer) string {
	f := blockFormatOf(e, b)
	Parts(e, b) // adds scale_NAME and levels_NAME, which the lines below call
	quad := "    vec4 quad = scale * levels_NAME(block, " + f.firstOf(b.DType, wholeQuads) +
		f.fieldArg("e / STRIDEu % FIELDSu") + ");"
	lines := []string{"uint block = i / ELEMSu, first = i % ELEMSu;", "float scale = scale_NAME(block, first);",
		"uvec4 octet;",
		"[[unroll]] for (uint n = 0u; n < 2u; ++n) {", "    uint e = first + 4u * n;", quad,
		"    octet[2u * n] = packHalf2x16(quad.xy);", "    octet[2u * n + 1u] = packHalf2x16(quad.zw);", "}",
		"return octet;"}
	return octetFunction(e, b, lines)
}
