package kernel

import (
	"math/rand"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// windowRow is where tap of a window meets a row of width elements, for column
// col of a result as wide; limited to the row as all reads are.
func windowRow(col Index, tap, width int64) Index {
	_, at := col.DivMod(ir.D(int(width)))
	return Clamp(at.Plus(Const(tap)), Const(width-1))
}

func TestRunStride(t *testing.T) {
	col, tap, other := Axis(0, ir.D(96)), Axis(1, ir.D(3)), Axis(2, ir.D(5))
	quo, rem := col.DivMod(ir.D(16))
	oddQuo, oddRem := col.DivMod(ir.D(12))
	_, shifted := col.Plus(tap).DivMod(ir.D(16))
	_, strided := col.Times(2).DivMod(ir.D(16))
	half, which := quo.Plus(tap).DivMod(ir.D(2))
	_, oddWhich := oddQuo.DivMod(ir.D(3))
	tests := []struct {
		name   string
		x      Index
		stride int64
		ok     bool
	}{
		{"another axis", tap.Times(7), 0, true},
		{"the axis", col.Plus(tap), 1, true},
		{"twice the axis", col.Times(2), 2, true},
		{"lines of whole runs", quo.Times(100).Plus(rem), 1, true},
		{"number of a line", quo, 0, true},
		{"numbers made of that", half.Times(100).Plus(which.Times(16)).Plus(rem), 1, true},
		{"a number made of one that changes within a run", oddWhich, 0, false},
		{"clamped", windowRow(col, -1, 16), 1, true},
		{"clamped another axis", Clamp(tap.Minus(Const(1)), Const(2)), 0, true},
		{"by another axis", col.Mul(other), 0, false},
		{"lines that end within a run", oddRem, 0, false},
		{"number of such a line", oddQuo, 0, false},
		{"run that begins anywhere", shifted, 0, false},
		{"strided line", strided, 2, true},
		{"clamp that moves", Clamp(tap, col), 0, false},
	}
	for _, tt := range tests {
		if stride, ok := tt.x.RunStride(0, 8); stride != tt.stride || ok != tt.ok {
			t.Errorf("%s: %s has run stride %d, %t; want %d, %t", tt.name, tt.x, stride, ok, tt.stride, tt.ok)
		}
	}
}

// TestIsVector compares with the index itself: a vector of four is four numbers in a row, the first a multiple of four.
func TestIsVector(t *testing.T) {
	k, row := Axis(0, ir.D(96)), Axis(1, ir.D(5))
	head, place := k.DivMod(ir.D(24))
	oddHead, oddPlace := k.DivMod(ir.D(6))
	_, late := k.Plus(Const(2)).DivMod(ir.D(24))
	tests := []struct {
		name string
		x    Index
		want bool
	}{
		{"the axis", k.Plus(row.Times(96)), true},
		{"heads apart", head.Times(120).Plus(place).Plus(row.Times(24)), true},
		{"heads of six", oddHead.Times(120).Plus(oddPlace), false},
		{"heads that begin at 22", late.Plus(row.Times(24)), false},
		{"rows of odd length", head.Times(120).Plus(place).Plus(row.Times(25)), false},
		{"twice the axis", k.Times(2), false},
		{"a limited row", Clamp(row.Minus(Const(1)), Const(2)).Times(24).Plus(head.Times(120)).Plus(place), true},
		{"a limited place", Clamp(k.Minus(Const(3)), Const(90)), false},
	}
	for _, tt := range tests {
		holds := true
		for i := int64(0); i < 96; i += 4 {
			for r := range int64(5) {
				first := env{axes: []int64{i, r}}.eval(tt.x)
				for lane := range int64(4) {
					holds = holds && first%4 == 0 && env{axes: []int64{i + lane, r}}.eval(tt.x) == first+lane
				}
			}
		}
		if got := tt.x.IsVector(0, 4); got != tt.want || got != holds {
			t.Errorf("%s: %s is a vector: %t, want %t; its numbers say %t", tt.name, tt.x, got, tt.want, holds)
		}
	}
}

// TestUnclamped compares with the clamped index wherever its clamps are idle.
func TestUnclamped(t *testing.T) {
	const width = 16
	col, line := Axis(0, ir.D(64)), Axis(1, ir.D(9))
	row := Clamp(line.Minus(Const(2)), Const(4))
	x := row.Times(width).Plus(windowRow(col, -3, width)).Plus(Const(5))
	free := x.Unclamped(0, 8)
	rng := rand.New(rand.NewSource(1))
	for range 200 {
		at := env{axes: []int64{rng.Int63n(64), rng.Int63n(9)}}
		place := at.axes[0]%width - 3
		if want := min(max(at.axes[1]-2, 0), 4)*width + place + 5; at.eval(free) != want {
			t.Fatalf("at %v, %s = %d, want %d: the clamp of the line stays, that of the place goes", at.axes, free,
				at.eval(free), want)
		}
		if inside := place >= 0; inside != (at.eval(x) == at.eval(free)) {
			t.Fatalf("at %v, %s and %s are %d and %d", at.axes, x, free, at.eval(x), at.eval(free))
		}
	}
}

func TestRunAligned(t *testing.T) {
	k, col := Axis(0, ir.D(96)), Axis(1, ir.D(5))
	quo, rem := k.DivMod(ir.D(24))
	oddQuo, oddRem := k.DivMod(ir.D(12))
	tests := []struct {
		name string
		x    Index
		want bool
	}{
		{"the axis", k, true},
		{"lines of whole runs", quo.Times(80).Plus(rem).Plus(col.Times(16)), true},
		{"odd offset", k.Plus(Const(4)), false},
		{"lines at odd places", quo.Times(81).Plus(rem), false},
		{"other axis at odd places", k.Plus(col.Times(12)), false},
		{"lines that end within a run", oddQuo.Times(16).Plus(oddRem), false},
	}
	for _, tt := range tests {
		if have := tt.x.RunAligned(0, 8); have != tt.want {
			t.Errorf("%s: %s is aligned %t, want %t", tt.name, tt.x, have, tt.want)
		}
		for at := int64(0); at < 96 && tt.want; at += 8 {
			if v := (env{axes: []int64{at, at % 5}}).eval(tt.x); v%8 != 0 {
				t.Errorf("%s: %s is %d at %d", tt.name, tt.x, v, at)
			}
		}
	}
}

func TestUpper(t *testing.T) {
	i, j := Axis(0, ir.D(7)), Axis(1, ir.D(5))
	quo, rem := i.Plus(j).DivMod(ir.D(4))
	if up, ok := quo.Times(10).Minus(j).Plus(rem).Upper(); !ok || up != 23 {
		t.Errorf("upper bound %d, %t; want 23", up, ok)
	}
	if _, ok := Axis(0, ir.Symbol("T", 9)).Upper(); ok {
		t.Error("an axis of symbolic extent has a number for an upper bound")
	}
}
