package glsl

import (
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestBlockFormats checks that every block format has a row, and what kernels
// rely on: planes divide a block, and a quad has one scale.
func TestBlockFormats(t *testing.T) {
	for _, dt := range ir.DTypes() {
		f, ok := blockFormats[dt]
		switch n := dt.BlockElems(); {
		case ok != dt.IsBlock():
			t.Errorf("%s: a row %v, want %v", dt, ok, dt.IsBlock())
		case !ok:
		case f.Planes < 1 || f.Stride%4 != 0 || n%f.Superblock() != 0:
			t.Errorf("%s: %d planes %d apart in blocks of %d", dt, f.Planes, f.Stride, n)
		case f.Run%4 != 0 || n%f.Run != 0:
			t.Errorf("%s: scales of %d elements in blocks of %d", dt, f.Run, n)
		case (f.quants == "") == (f.levels == "") || f.levels != "" && (f.Signed || f.Bias != 0):
			t.Errorf("%s: want either quants or levels", dt)
		case f.Levels != (f.levels != "") || f.Digits != (lookupForms[dt].masks == thirdMasks) ||
			f.Packed != (packedForms[dt].quants != ""):
			t.Errorf("%s: snippets do not agree with %+v", dt, f.BlockForm)
		case f.Signed && f.Bias != 0:
			t.Errorf("%s: signed quants need no bias", dt)
		}
	}
}
