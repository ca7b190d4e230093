package passes

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// The largest finite bf16, and what may be left of an f32 less that without
// their sum rounding to infinity.
const largestHigh, largestLow = 0x1.fep127, 0x1.fep119

// splitOperands makes products of f32 in precision bf16x3 products of bf16
// where the device wants that. An operand x is high + low, high being x rounded
// to bf16 and low what is left of it, rounded too. Of the four products of the
// parts of a and b three are summed,
//
//	low(a)*high(b) + high(a)*low(b) + high(a)*high(b)
//
// as one product of a contraction three times as long, smallest first, since
// matrix units cut sums off. What is lost is low(a)*low(b), at most 2^-16 of a*b,
// and twice 2^-17 for what two bf16 leave of an f32. An operand that is loaded as
// bf16 has no low part: then two products are summed, or there is only one, of
// the operands as they are.
func splitOperands(s *State) error {
	s.beforeProducts(func(k *kernel.Kernel) (stores []*kernel.Kernel, rest *kernel.Kernel) {
		if !slices.ContainsFunc(k.Products, func(p kernel.Product) bool { return p.BF16x3 }) {
			return nil, k
		}
		var list []kernel.StoredOperand
		if terms, _, _ := k.BF16Terms(); terms == 1 && canSplit(k) {
			return nil, decided(k, true)
		}
		if canSplit(k) {
			list = s.pricer.SplitOperands(k)
		}
		stores, out := s.storeOperandsOf(k, list, true)
		return stores, decided(out, len(stores) > 0)
	})
	return nil
}

// canSplit reports whether all products of a kernel allow it.
func canSplit(k *kernel.Kernel) bool {
	return k.Guard == nil && !slices.ContainsFunc(k.Products, func(p kernel.Product) bool { return !p.BF16x3 })
}

// decided is k with its products either split, of bf16 then, or as exact as any.
func decided(k *kernel.Kernel, split bool) *kernel.Kernel {
	out := *k
	out.Products = slices.Clone(k.Products)
	for i := range out.Products {
		p := &out.Products[i]
		if p.BF16x3 = false; split {
			p.Operands = ir.BF16
		}
	}
	return &out
}

// bf16Parts is what stands one after the other along the contraction for x, a
// left or a right operand of k. An infinity or NaN counts in the product of the high
// parts alone: anywhere else it could meet a 0 or another sign. What would round
// to infinity does not.
func bf16Parts(b *kernel.Builder, k *kernel.Kernel, x *kernel.Expr, right bool) []*kernel.Expr {
	f32 := func(op ir.Op, args ...*kernel.Expr) *kernel.Expr { return b.Apply(op, ir.F32, nil, args...) }
	is := func(op ir.Op, args ...*kernel.Expr) *kernel.Expr { return b.Apply(op, ir.Bool, nil, args...) }
	rounded := func(x *kernel.Expr, most float64) *kernel.Expr {
		return b.Cast(ir.BF16, f32(ir.OpMin, f32(ir.OpMax, x, b.Float(ir.F32, -most)), b.Float(ir.F32, most)))
	}
	special := is(ir.OpOr, is(ir.OpIsNaN, x), is(ir.OpIsInf, x))
	finite := f32(ir.OpWhere, special, b.Float(ir.F32, 0), x)
	high := rounded(finite, largestHigh)
	low := rounded(f32(ir.OpSub, finite, b.Cast(ir.F32, high)), largestLow)
	all := b.Apply(ir.OpWhere, ir.BF16, nil, special, b.Cast(ir.BF16, x), high)
	special.Hint, finite.Hint, high.Hint, low.Hint = "special", "finite", "high", "low"
	_, exactA, exactB := k.BF16Terms()
	exact, other := exactA, exactB
	if right {
		exact, other = exactB, exactA
	}
	switch {
	case exact:
		return []*kernel.Expr{high, all}
	case other:
		return []*kernel.Expr{low, all}
	case right:
		return []*kernel.Expr{high, low, all}
	}
	return []*kernel.Expr{low, high, all}
}
