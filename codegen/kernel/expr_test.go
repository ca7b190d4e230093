package kernel

import (
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestComparisonsAreDecidedOnlyWhenProven compares a builder's conclusions about two coordinates with all their
// possible values.
func TestComparisonsAreDecidedOnlyWhenProven(t *testing.T) {
	const extent = 5
	b := NewBuilder()
	outcomes := map[ir.Op]func(x, y int64) bool{
		ir.OpLt: func(x, y int64) bool { return x < y }, ir.OpLe: func(x, y int64) bool { return x <= y },
		ir.OpGt: func(x, y int64) bool { return x > y }, ir.OpGe: func(x, y int64) bool { return x >= y },
		ir.OpEq: func(x, y int64) bool { return x == y }, ir.OpNe: func(x, y int64) bool { return x != y },
	}
	col := Axis(0, ir.D(extent))
	for op, holds := range outcomes {
		for y := int64(-2); y < extent+2; y++ {
			var seen [2]bool
			for x := range int64(extent) {
				if holds(x, y) {
					seen[1] = true
				} else {
					seen[0] = true
				}
			}
			e := b.Apply(op, ir.Bool, nil, b.FromIndex(col), b.FromIndex(Const(y)))
			decided := e.Kind == ExprConst
			if sure := seen[0] != seen[1]; decided != sure || sure && (e.Int != 0) != seen[1] {
				t.Errorf("col %s %d for col 0 to %d is decided %v as %d", op, y, extent-1, decided, e.Int)
			}
		}
	}
	loaded := b.Load(0, ir.I32, col, "x")
	open := b.Apply(ir.OpLt, ir.Bool, nil, loaded, b.FromIndex(Const(0)))
	yes, no := b.Integer(ir.Bool, 1), b.Integer(ir.Bool, 0)
	zero := b.Integer(ir.I32, 0)
	for _, tt := range []struct {
		what      string
		got, want *Expr
	}{
		{"open and yes", b.Apply(ir.OpAnd, ir.Bool, nil, open, yes), open},
		{"no and open", b.Apply(ir.OpAnd, ir.Bool, nil, no, open), no},
		{"no or open", b.Apply(ir.OpOr, ir.Bool, nil, no, open), open},
		{"open or yes", b.Apply(ir.OpOr, ir.Bool, nil, open, yes), yes},
		{"where yes", b.Apply(ir.OpWhere, ir.I32, nil, yes, loaded, zero), loaded},
		{"where no", b.Apply(ir.OpWhere, ir.I32, nil, no, loaded, zero), zero},
		{"where open, of one value", b.Apply(ir.OpWhere, ir.I32, nil, open, loaded, loaded), loaded},
		{"min of a byte and 0", b.Apply(ir.OpMin, ir.I32, nil, b.Cast(ir.I32, b.Load(1, ir.U8, col, "u")), zero), zero},
		{"max of -1 and a byte", b.Apply(ir.OpMax, ir.I32, nil, b.Integer(ir.I32, -1),
			b.Cast(ir.I32, b.Load(1, ir.U8, col, "u"))), b.Cast(ir.I32, b.Load(1, ir.U8, col, "u"))},
		{"loaded - 0", b.Apply(ir.OpSub, ir.I32, nil, loaded, zero), loaded},
	} {
		if tt.got != tt.want {
			t.Errorf("%s is %v, want %v", tt.what, tt.got, tt.want)
		}
	}
	wraps := b.Cast(ir.I32, b.Load(2, ir.U32, col, "w"))
	if open.Kind != ExprApply || b.Apply(ir.OpMin, ir.I32, nil, wraps, zero) == zero ||
		b.Apply(ir.OpMin, ir.I32, nil, b.Cast(ir.I32, b.Load(3, ir.I8, col, "s")), zero) == zero {
		t.Error("the sign of a loaded value is decided")
	}
}
