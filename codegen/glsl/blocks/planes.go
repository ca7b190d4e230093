package blocks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/kernel"
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
