package kernel

import (
	"math/rand"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestIndexDivModFromAbove divides sums that subtract terms from a number, with a minimum that is not a multiple of the
// divisor. At every point the quotient and the remainder must be right, without dividing negative numbers.
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
