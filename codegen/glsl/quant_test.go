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
		case f.planes < 1 || f.stride%4 != 0 || n%f.superblock() != 0:
			t.Errorf("%s: %d planes %d apart in blocks of %d", dt, f.planes, f.stride, n)
		case f.run%4 != 0 || n%f.run != 0:
			t.Errorf("%s: scales of %d elements in blocks of %d", dt, f.run, n)
		case (f.quants == "") == (f.levels == "") || f.levels != "" && (f.signed || f.bias != 0):
			t.Errorf("%s: want either quants or levels", dt)
		case f.signed && f.bias != 0:
			t.Errorf("%s: signed quants need no bias", dt)
		}
	}
}
