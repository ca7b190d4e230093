package blocks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// planeReaders are the bodies of the functions that read a plane (an array with one part of every block, see
// kernel.Plane), by unit size in bytes and by reader. A part is a whole number of units. UNIT is the array, FIRST the
// first unit of the block's part, and at - START the number of a byte in the part.
var planeReaders = map[int]map[string]string{
	16: {"words": "return UNIT[FIRST + (at - START) / 16u];"},
	8:  {"pairs": "return UNIT[FIRST + (at - START) / 8u];"},
	4: {
		"word":  "return UNIT[FIRST + (at - START) / 4u];",
		"short": "return UNIT[FIRST + (at - START) / 4u] >> (at - START) % 4u * 8u & 0xffffu;",
		"byte":  "return UNIT[FIRST + (at - START) / 4u] >> (at - START) % 4u * 8u & 0xffu;",
	},
	2: {
		"short": "return uint(UNIT[FIRST + (at - START) / 2u]);",
		"byte":  "return uint(UNIT[FIRST + (at - START) / 2u]) >> (at - START) % 2u * 8u & 0xffu;",
	},
	1: {"byte": "return uint(UNIT[FIRST + at - START]);"},
}

// planeReader adds the function that reads from the plane that contains byte at of every block, and returns its name.
// reader says how much it reads: "words" (16 bytes), "pairs" (8), "word", "short", "byte", or "half" (an f16).
func planeReader(e *emit.Emitter, b *emit.Buffer, reader string, at int) string {
	planes := kernel.PlanesOf(b.DType)
	i := slices.IndexFunc(planes, func(p kernel.Plane) bool { return at >= p.At && at < p.At+p.Bytes })
	if i < 0 {
		e.Fail("byte %d of %s is in no plane", at, b.DType)
		return "unknown"
	}
	name := reader + "_" + b.Base + "_" + planes[i].Name
	if !e.Once(name) {
		return name
	}
	// x & -x is the largest power of two that divides x. A unit is at most a word, unless the reader needs more.
	unit := min(planes[i].Bytes&-planes[i].Bytes, 4)
	switch reader {
	case "words":
		unit = 16
	case "pairs":
		unit = 8
	}
	typ := cmp.Or(map[string]string{"words": "uvec4", "pairs": "uvec2", "half": "float"}[reader], "uint")
	body := ""
	if reader == "half" {
		body = "return unpackHalf2x16(" + planeReader(e, b, "short", at) + "(block, at)).x;"
	} else {
		body = planeBody(e, b, reader, i, unit)
	}
	e.AddFunction(fmt.Sprintf("%s %s(uint block, uint at)", typ, name), "    "+body+"\n")
	return name
}

// planeBody returns the body of a reader of plane i, which loads units of the given size in bytes.
func planeBody(e *emit.Emitter, b *emit.Buffer, reader string, i, unit int) string {
	p := kernel.PlanesOf(b.DType)[i]
	body, ok := planeReaders[unit][reader]
	if !ok || p.Bytes%unit != 0 {
		e.Fail("parts of %d bytes have no reader %q", p.Bytes, reader)
		return ""
	}
	base := kernel.PlaneBase(b.DType, i, b.Elems/int64(b.DType.BlockElems()))
	if unit < 4 && e.InWords(b) {
		b.Units[4] = true
		return planeInWords(p, reader, b.Name+"_"+emit.PlaneUnits[4].View, base)
	}
	b.Units[unit] = true
	if unit < 4 {
		e.Need(emit.BlockUnits[unit].Need)
	}
	first := expr.Plus(expr.Uint(base/int64(unit)), expr.Times(expr.Of("block"), p.Bytes/unit)).String()
	// Simplify the text.
	if p.At == 0 {
		body = strings.NewReplacer("(at - START)", "at", " - START", "").Replace(body)
	}
	if p.Bytes == unit { // the part is one unit
		body = strings.NewReplacer(" + (at - START) / 16u", "", " + at / 16u", "", " + (at - START) / 8u", "",
			" + at / 8u", "",
			" + (at - START) / 4u", "", " + at / 4u", "", " + (at - START) / 2u", "", " + at / 2u", "",
			" + at - START", "", " + at", "").Replace(body)
	}
	return strings.NewReplacer("UNIT", b.Name+"_"+emit.PlaneUnits[unit].View, "FIRST", first,
		"START", fmt.Sprintf("%du", p.At)).Replace(body)
}

// OctetForm returns the form of a format's quants when they are decoded as octets, eight at a time.
func OctetForm(f *ir.BlockFormat) ir.BlockForm {
	form := f.BlockForm
	form.Levels, form.Signed, form.Halved = false, f.Octets.Signed, f.Octets.Halved
	if f.Octets.Masks == ir.OddMasks {
		form.Bias, form.Halved = -1, true
	}
	return form
}

// sorted ends the GLSL of a function that decodes four quants of each of two bit fields, a0 to a3 and b0 to b3. The
// bytes of the uint `even` are a0, b0, a2, b2, and the bytes of `odd` are a1, b1, a3, b3. The function returns the
// words a0 a1 a2 a3 and b0 b1 b2 b3.
const sorted = "\nreturn uvec2(even & 0x00ff00ffu | (odd & 0x00ff00ffu) << 8, even >> 8 & 0x00ff00ffu | odd & " +
	"0xff00ff00u);"

// OctetReader adds the GLSL function that decodes an octet, and returns its name. If masksApart, the function does not
// apply the masks (see ir.OctetMasks), but returns them in an out parameter. If paired, the function leaves the quants
// of two fields interleaved (see sorted).
func OctetReader(e *emit.Emitter, b *emit.Buffer, masksApart, paired bool) string {
	f := blockFormatOf(e, b)
	form := f.Octets
	// These functions have variants for octets.
	body := strings.NewReplacer("entry_NAME", "octet_entry", "signs_NAME", "octet_signs").Replace(form.Quants)
	args, note := "(uint block, uint e", "// Eight quants, a byte each"
	if masksApart {
		args, note = args+", out uvec2 masks", note+", less the masks"
		body = strings.Replace(body, "uvec2 masks =", "masks =", 1)
	}
	switch {
	case paired:
		body += "\nreturn uvec2(even, odd);"
	case f.Levels:
		body += sorted
	case form.Masks == ir.ThirdMasks:
		body += "\nreturn quads;"
	case form.Masks == ir.OddMasks || masksApart:
		body += "\nreturn quads ^ masks;"
	// Negate bytes with an all-ones mask: flip the bits and add 1.
	case form.Masks == ir.SignMasks:
		body += "\nreturn (quads ^ masks) + (masks & 0x01010101u);"
	}
	blockFunction(e, b, "uvec2 octet_NAME"+args+")", note+".", body)
	return "octet_" + b.Base
}

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
