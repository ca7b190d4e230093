package glsl

import (
	"slices"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestBlockFormats checks the rules that kernels rely on in the rows of block formats: planes divide a block, a quad
// has one scale, and parts follow one another from the first byte on.
func TestBlockFormats(t *testing.T) {
	for _, dt := range ir.BlockFormats() {
		f, _ := ir.BlockFormatOf(dt)
		d, levels := f.Decode, f.Levels
		rising := slices.IsSortedFunc(f.Parts, func(a, b ir.BlockPart) int { return a.At - b.At })
		switch n := dt.BlockElems(); {
		case f.Fields < 1 || f.Stride%4 != 0 || n%f.Superblock() != 0:
			t.Errorf("%s: %d fields %d apart in blocks of %d", dt, f.Fields, f.Stride, n)
		case f.Run%4 != 0 || n%f.Run != 0:
			t.Errorf("%s: scales of %d elements in blocks of %d", dt, f.Run, n)
		case d.Scale == "" || (d.Quants == "") == (d.Levels == "") || levels && (f.Signed || f.Bias != 0):
			t.Errorf("%s: want a scale, and either quants or levels", dt)
		case f.Signed && f.Bias != 0:
			t.Errorf("%s: signed quants need no bias", dt)
		case len(f.Parts) == 0 || f.Parts[0].At != 0 || !rising || f.Parts[len(f.Parts)-1].At >= f.Bytes:
			t.Errorf("%s: parts %v of %d bytes", dt, f.Parts, f.Bytes)
		case f.Octets != nil && (f.Octets.Entries == 0) != (f.Octets.Entry == "" && f.Octets.Masks == ir.ThirdMasks):
			t.Errorf("%s: a table of %d entries %q", dt, f.Octets.Entries, f.Octets.Entry)
		}
	}
}
