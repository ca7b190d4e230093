package lower

import (
	"math"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// random returns an element of a random op. Random words are a function of seed and position (a counter-based
// generator), so any kernel can compute an element, and random ops are fused like elementwise ops.
func (l *lowerer) random(n *ir.Node, at []kernel.Index) *kernel.Expr {
	streams := n.Arg(0).Rank() // axes along which each element has its own stream
	seed := l.value(n.Arg(0), at[:streams])
	offset := l.value(n.Arg(1), at[:streams])
	element := kernel.Linear(n.Shape()[streams:], at[streams:])
	word := func(w kernel.Word) *kernel.Expr { return l.b.Random(seed, offset, element, w) }
	switch n.Op() {
	case ir.OpRandomNormal:
		return l.normal(n.DType(), element, word(kernel.WordFirst), word(kernel.WordSecond))
	case ir.OpRandomBernoulli:
		below := int64(math.Ceil(n.Attrs().Float("p") * (1 << 24)))
		return l.is(ir.OpLt, l.top(word(kernel.WordOwn), 24), l.b.Integer(ir.U32, below))
	}
	return l.uniform(n.DType(), word(kernel.WordOwn), uniformBits(n.DType()))
}

// uniformBits returns the number of random bits in a uniform number: the size of t's significand, so that no number
// rounds up to 1.
func uniformBits(t ir.DType) int {
	switch t {
	case ir.F16:
		return 11
	case ir.BF16:
		return 8
	}
	return 24
}

// top returns the highest `bits` bits of a word.
func (l exprs) top(word *kernel.Expr, bits int) *kernel.Expr {
	return l.op(ir.OpShr, ir.U32, word, l.b.Integer(ir.U32, int64(32-bits)))
}

// uniform returns a number of dtype t in [0, 1) made of the highest bits of a word.
func (l exprs) uniform(t ir.DType, word *kernel.Expr, bits int) *kernel.Expr {
	wide := kernel.AccType(t)
	x := l.op(ir.OpMul, wide, l.b.Cast(wide, l.top(word, bits)), l.b.Float(wide, math.Ldexp(1, -bits)))
	x.Hint = "uniform"
	return l.b.Cast(t, x)
}

// normal returns a normally distributed number by the Box-Muller method: r*cos(a) for even and r*sin(a) for odd
// elements, with r = sqrt(-2*log1p(-u)) and a = 2*pi*v for uniform u and v. It computes the cosine as the sine of an
// angle a quarter turn larger, in [-1/4, 3/4) turns, where adding the quarter turn is exact.
func (l exprs) normal(t ir.DType, element kernel.Index, first, second *kernel.Expr) *kernel.Expr {
	wide := kernel.AccType(t)
	f := func(op ir.Op, args ...*kernel.Expr) *kernel.Expr { return l.op(op, wide, args...) }
	num := func(v float64) *kernel.Expr { return l.b.Float(wide, v) }
	u, v := l.uniform(wide, first, 24), l.uniform(wide, second, 24)
	radius := hinted("radius", f(ir.OpSqrt, f(ir.OpMul, num(-2), f(ir.OpLog1p, f(ir.OpNeg, u)))))

	_, place := element.DivMod(ir.D(2))
	odd := l.is(ir.OpNe, l.b.FromIndex(place), l.b.Integer(ir.I32, 0))
	early := l.is(ir.OpLt, v, num(0.5))
	ahead := l.where(early, num(0.25), num(-0.75), wide)
	turns := hinted("turns", l.where(odd, v, f(ir.OpAdd, v, ahead), wide))
	return l.b.Cast(t, f(ir.OpMul, radius, f(ir.OpSin, f(ir.OpMul, num(2*math.Pi), turns))))
}
