package glsl

import (
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/target"
	"github.com/vkc-go/vkc/ir"
)

// lacking lists, by format, the fast paths that it has no row for: kernels then take the general way.
const lacking = `
q4_0: packed lookup
q4_1: packed lookup
q5_0: wide packed lookup
q5_1: wide packed lookup
q8_0: packed lookup
q8_1: wide packed lookup
q2_K: lookup
q3_K: lookup
q4_K: packed lookup
q5_K: packed lookup
q6_K: packed lookup
q8_K: wide packed lookup
iq1_s: wide packed quantize
iq1_m: wide packed quantize
iq2_xxs: wide packed quantize
iq2_xs: wide packed quantize
iq2_s: wide packed quantize
iq3_xxs: wide packed quantize
iq3_s: wide packed quantize
iq4_nl: wide packed
iq4_xs: wide packed
tq1_0: packed
tq2_0: lookup
mxfp4: wide packed
`

// TestFastPaths: every table that speeds up reading or making blocks has a row for a format, or the format is listed as
// lacking it. So whoever adds a format sees what is left to do, and no row stands in one table of a pair alone.
func TestFastPaths(t *testing.T) {
	var have []string
	for _, dt := range ir.DTypes() {
		if !dt.IsBlock() {
			continue
		}
		f, ok := blockFormats[dt]
		_, packed := packedForms[dt]
		_, lookup := lookupForms[dt]
		if _, table := target.LookupTableOf(dt); !ok || lookup != (table || f.Digits) || packed != f.Packed {
			t.Errorf("%s: read %v, lookup %v but table or digits %v, packed %v but form %v", dt, ok, lookup,
				table || f.Digits, packed, f.Packed)
		}
		quantize := slices.ContainsFunc(library, func(h helper) bool { return h.name == "quantize_"+dt.String() })
		if quantize != slices.Contains(ir.QuantizeFormats(), dt) {
			t.Errorf("%s: kernels make it: %v, op quantize: %v", dt, quantize, !quantize)
		}
		line := dt.String() + ":"
		for _, path := range []struct {
			name string
			has  bool
		}{{"wide", f.Wide}, {"packed", packed}, {"lookup", lookup}, {"quantize", quantize}} {
			if !path.has {
				line += " " + path.name
			}
		}
		have = append(have, line)
	}
	if text := strings.Join(have, "\n"); text != strings.TrimSpace(lacking) {
		t.Errorf("formats lack\n%s", text)
	}
}
