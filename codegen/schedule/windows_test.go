package schedule

import (
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

func TestWindowsOf(t *testing.T) {
	for _, c := range []struct {
		name string
		k    *kernel.Kernel
		want Windows
	}{
		{"5x5", depthwise(8, 12, 80, 5), Windows{Axis: 1, Taps: 5, Inner: 5, PerTap: 5, RowStep: 1, TapStep: 1}},
		{"3x3", depthwise(8, 7, 9, 3), Windows{Axis: 1, Taps: 3, Inner: 3, PerTap: 3, RowStep: 1, TapStep: 1}},
		{"larger than 16x16", depthwise(8, 80, 80, 17), Windows{}},
		{"one row", depthwise(8, 1, 80, 3), Windows{}},
		{"rows apart", rowSum(ir.F32, ir.D(64), ir.D(64), false), Windows{}},
		{"columns", columnSum(ir.D(64), ir.D(64)), Windows{}},
		{"twice over the row", rowSum(ir.F32, ir.D(64), ir.D(64), true), Windows{}},
	} {
		have, ok := WindowsOf(c.k)
		if ok != (c.want != Windows{}) || ok && have != c.want {
			t.Errorf("%s: %+v (%t), want %+v", c.name, have, ok, c.want)
		}
	}
}

// TestWindowsShare counts the loads shared by a block of windows.
func TestWindowsShare(t *testing.T) {
	k := depthwise(8, 12, 80, 5)
	w, _ := WindowsOf(k)
	b := w.Blocked(k, 4)
	shared := w.Shared(b)
	if len(shared) != 1 || len(loadsAlong(shared, b.FoldAxis()+WindowTap)) != 1 || w.Positions(4) != 8 {
		t.Fatalf("%d values are shared at %d places, want what is padded of x at 8", len(shared), w.Positions(4))
	}
	at := w.AtPosition(b, 4, shared)[0]
	if !at.Uses(b.FoldAxis()+WindowPosition) || at.Uses(b.FoldAxis()+WindowTap) || at.Uses(b.FoldAxis()+WindowRow) {
		t.Errorf("the value at a place depends on rows or taps")
	}
}
