package blocks

import (
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/ir"
)

// OctetForm returns the form of a format's quants when they are decoded as octets, eight at a time.
func OctetForm(f *ir.BlockFormat) ir.BlockForm {
	form := f.BlockForm
	form.Levels, form.Signed, form.Halved = false, f.Octets.Signed, f.Octets.Halved
	if f.Octets.Masks == ir.OddMasks {
		form.Bias, form.Halved = -1, true
	}
	return form
}

// sorted ends the GLSL of a function that decodes eight quants from two bit fields. The bytes of the uint `even` are
// quant 0 of the first field, quant 0 of the second, quant 2 of the first and quant 2 of the second; `odd` has quants 1
// and 3 alike. The function returns four quants of the first field, and four of the second, in order.
const sorted = "\nreturn uvec2(even & 0x00ff00ffu | (odd & 0x00ff00ffu) << 8, even >> 8 & 0x00ff00ffu | odd & " +
	"0xff00ff00u);"

// OctetReader adds the GLSL function that decodes an octet, and returns its name. If masksApart, the function does not
// apply the masks (see ir.OctetMasks), but returns them in a second result. If paired, it leaves the quants of two
// fields interleaved.
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
