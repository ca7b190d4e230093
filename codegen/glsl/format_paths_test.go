package glsl

import (
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// lacking lists the fast paths that a format has no row for. Kernels then take the general path.
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
iq3_xxs: wide packed
iq3_s: wide packed
iq4_nl: wide packed
iq4_xs: wide packed
tq1_0: packed
tq2_0: lookup
mxfp4: wide packed
nvfp4: wide packed
`

// TestFastPaths: every row of a block format has the fast paths for decoding and quantizing blocks, or the list names
// the missing ones. So the author of a format sees the missing parts.
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
