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
