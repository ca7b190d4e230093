package blocks

import (
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/ir"
)

// OctetForm is the form of a format when its quants are decoded as octets (eight at a time).
func OctetForm(f *ir.BlockFormat) ir.BlockForm {
	form := f.BlockForm
	form.Levels, form.Signed, form.Halved = false, f.Octets.Signed, f.Octets.Halved
	if f.Octets.Masks == ir.OddMasks {
		form.Bias, form.Halved = -1, true
	}
	return form
}

// sorted is the end of a snippet that returns the levels of two planes. It puts them in order, because they come
// interleaved.
const sorted = "\nreturn uvec2(even & 0x00ff00ffu | (odd & 0x00ff00ffu) << 8, even >> 8 & 0x00ff00ffu | odd & " +
	"0xff00ff00u);"

// OctetReader adds the GLSL function that decodes an octet, and returns its name. If less is not 0, the function does
// not subtract the masks, but returns them in a second result. If paired is true, it leaves the levels of two planes
// interleaved.
func OctetReader(e *emit.Emitter, b *emit.Buffer, less int, paired bool) string {
	f := blockFormatOf(e, b)
	form := f.Octets
	body := strings.NewReplacer("entry_NAME", "octet_entry", "signs_NAME", "octet_signs").Replace(form.Quants)
	args, note := "(uint block, uint e", "// Eight quants, a byte each"
	if less > 0 {
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
	case form.Masks == ir.OddMasks || less > 0:
		body += "\nreturn quads ^ masks;"
	case form.Masks == ir.SignMasks:
		body += "\nreturn (quads ^ masks) + (masks & 0x01010101u);"
	}
	blockFunction(e, b, "uvec2 octet_NAME"+args+")", note+".", body)
	return "octet_" + b.Base
}
