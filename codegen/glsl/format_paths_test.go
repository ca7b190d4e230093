package glsl

import (
	"strings"
	"testing"

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
nvfp4: wide packed
`

// TestFastPaths: every row of a block format has what speeds up reading or making blocks, or the format is listed as
// lacking it. So the author of a format sees the missing parts.
func TestFastPaths(t *testing.T) {
	var have []string
	for _, dt := range ir.BlockFormats() {
		f, _ := ir.BlockFormatOf(dt)
		line := dt.String() + ":"
		for _, path := range []struct {
			name string
			has  bool
		}{{"wide", f.Wide}, {"packed", f.Packed != nil}, {"lookup", f.Octets != nil}, {"quantize", f.Encode != ""}} {
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
