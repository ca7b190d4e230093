package blocks

import (
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
)

// PackedFunctions adds the functions with which a kernel multiplies a buffer's packed 2-bit quants without unpacking
// them. fields_NAME and high_fields_NAME read the quants, and scaled_NAME applies the scales to dot products of quants.
// subnormals says that the device preserves f16 subnormals, so that a byte in the low bits of an f16 has the value
// byte * 2^-24.
func PackedFunctions(e *emit.Emitter, b *emit.Buffer, subnormals bool) {
	form := blockFormatOf(e, b).Packed
	blockFunction(e, b, "uvec4 fields_NAME(uint block, uint e)",
		"// The bytes of sixteen neighbours from element e on, and of those 32, 64, 96 further.", form.Quants)
	if form.High != "" {
		blockFunction(e, b, "uvec4 high_fields_NAME(uint block, uint e)", "// The same of their high bits.", form.High)
	}
	small, unit := "shorts_unsigned(", 1.0
	if subnormals { // an f16 whose low bits are a byte is 2^-24 times the byte
		small, unit = "unpackHalf2x16(", 1<<24
	}
	body := strings.NewReplacer("SMALL(", small, "UNIT_16", floatText(unit/16), "PER_UNIT", floatText(32/unit),
		"UNIT", floatText(unit)).Replace(form.Result)
	blockFunction(e, b, "float scaled_NAME(uint block, uint e, vec4 dots, vec4 sums)",
		"// Products of a run, added up, with their scales.", body)
}

func floatText(x float64) string { return expr.Float(x, 32, "").String() }
