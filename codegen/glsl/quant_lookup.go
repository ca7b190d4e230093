package glsl

import (
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// octetForm is the form of a format with quants as octets have them.
func octetForm(f *ir.BlockFormat) ir.BlockForm {
	form := f.BlockForm
	form.Levels, form.Signed, form.Halved = false, f.Octets.Signed, f.Octets.Halved
	if f.Octets.Masks == ir.OddMasks {
		form.Bias, form.Halved = -1, true
	}
	return form
}

// sorted returns even and odd levels of two planes by planes.
const sorted = "\nreturn uvec2(even & 0x00ff00ffu | (odd & 0x00ff00ffu) << 8, even >> 8 & 0x00ff00ffu | odd & " +
	"0xff00ff00u);"

// octetReader makes the text have the function that decodes an octet: whole, or,
// where less says how often products with masks are taken off, without them. paired
// leaves levels of two planes as they come.
func (e *emitter) octetReader(b *buffer, less int, paired bool) string {
	f := e.blockFormatOf(b)
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
	e.blockFunction(b, "uvec2 octet_NAME"+args+")", note+".", body)
	return "octet_" + b.base
}
