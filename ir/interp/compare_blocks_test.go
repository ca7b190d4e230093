package interp

import (
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// TestCompareBlocks: a level that went to the other side of a tie passes, one
// that is further off does not, and neither does another shape.
func TestCompareBlocks(t *testing.T) {
	block := func(change func(x []float32)) *ir.Data {
		x := make([]float32, 64)
		for i := range x {
			x[i] = float32(i%17) - 8
		}
		change(x)
		d, err := ir.NewData(ir.Q4_0, 2, 32)
		if err != nil {
			t.Fatal(err)
		}
		if err := quant.Quantize(d.Bytes, ir.Q4_0, x, nil); err != nil {
			t.Fatal(err)
		}
		return d
	}
	want := block(func([]float32) {})
	for _, tt := range []struct {
		name   string
		change func(x []float32)
		ok     bool
	}{
		{"the same", func([]float32) {}, true},
		{"next level", func(x []float32) { x[40]++ }, true},
		{"two levels", func(x []float32) { x[40] += 2 }, false},
		{"another block", func(x []float32) { clear(x[32:]) }, false},
	} {
		if r := Compare(block(tt.change), want, ir.Tolerance{}); r.OK != tt.ok {
			t.Errorf("%s: %+v", tt.name, r)
		}
	}
	flat := *want
	flat.Dims = []int{64}
	if r := Compare(&flat, want, ir.Tolerance{}); r.OK || r.Mismatch == "" {
		t.Errorf("another shape: %+v", r)
	}
}
