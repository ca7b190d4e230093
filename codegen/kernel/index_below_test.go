package kernel

import (
	"math/rand"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestIndexDivModFromAbove divides sums whose terms are taken off a number, and whose least value is no multiple of the
// divisor: at every point the quotient and the remainder are right, and neither divides a negative number.
func TestIndexDivModFromAbove(t *testing.T) {
	rng := rand.New(rand.NewSource(2))
	for range 1000 {
		extents := []ir.Dim{ir.D(1 + rng.Intn(9)), ir.D(1 + rng.Intn(5))}
		x, most := Const(int64(rng.Intn(12))), int64(0)
		for a, e := range extents {
			coef := int64(1 + rng.Intn(4))
			x = x.Minus(Axis(a, e).Times(coef))
			most += coef * (e.Add - 1)
		}
		x = x.Plus(Const(most)) // at least 0
		d := int64(2 + rng.Intn(9))
		q, r := x.DivMod(ir.D(int(d)))
		for i := range extents[0].Add {
			for j := range extents[1].Add {
				at := env{axes: []int64{i, j}}
				if at.negative(q)+at.negative(r) > 0 {
					t.Fatalf("(%s) by %d: %s and %s divide a negative number at %v", x, d, q, r, at.axes)
				}
				if v := at.eval(x); at.eval(q) != v/d || at.eval(r) != v%d {
					t.Fatalf("(%s) by %d: %s and %s at %v, where it is %d", x, d, q, r, at.axes, v)
				}
			}
		}
	}
}

// TestCheckRangeLimits: what is as large as a kernel counts is taken, and what is larger by 1 is refused.
func TestCheckRangeLimits(t *testing.T) {
	b := NewBuilder()
	for name, tt := range map[string]struct {
		most int64
		k    func(n int64) *Kernel
	}{
		"elements along an axis": {maxSigned, func(n int64) *Kernel { return &Kernel{Parallel: []ir.Dim{{Add: n}}} }},
		"elements of a row":      {maxSigned, func(n int64) *Kernel { return &Kernel{Fold: ir.Dim{Add: n}} }},
		"elements of a binding": {maxWide, func(n int64) *Kernel {
			return &Kernel{Bindings: []Binding{{Name: "x", DType: ir.F32, Elems: n}}}
		}},
		"elements of a custom kernel's binding": {maxPosition, func(n int64) *Kernel {
			return &Kernel{Family: FamilyCustom, Bindings: []Binding{{Name: "x", DType: ir.F32, Elems: n}}}
		}},
		"a coordinate used as a number": {maxSigned, func(n int64) *Kernel {
			return &Kernel{Stores: []Store{{Value: b.FromIndex(Axis(0, ir.D(2)).Times(n))}},
				Bindings: []Binding{{Name: "y", DType: ir.I32, Elems: 2}}}
		}},
	} {
		if err := tt.k(tt.most).CheckRange(); err != nil {
			t.Errorf("%s: %d: %v", name, tt.most, err)
		}
		if err := tt.k(tt.most + 1).CheckRange(); err == nil {
			t.Errorf("%s: %d is accepted, and the most is %d", name, tt.most+1, tt.most)
		}
	}
}
