package lower

import (
	"cmp"
	"math"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/analysis"
)

// rope returns an element of a rope, which rotates each pair of innermost elements: x*cos - partner*sin for the first
// element of a pair, x*cos + partner*sin for the second. The angle of pair i is position*turns[i].
func (l *lowerer) rope(n *ir.Node, at []kernel.Index) *kernel.Expr {
	x := n.Arg(0)
	axis := analysis.Axis(n)
	inner := x.Shape()[n.Rank()-1].Static()
	dims := cmp.Or(n.Attrs().Int("dims"), inner)
	if dims == 0 { // rows of no elements
		return l.value(x, at)
	}
	j := at[len(at)-1]
	turning := j
	if dims < inner { // the elements from dims on are not rotated, but must not read beyond the table
		turning = kernel.Clamp(j, kernel.Const(int64(dims-1)))
	}
	pair, second, partner := ropePair(turning, dims, n.Attrs().String_("mode"))
	from := slices.Clone(at)
	from[len(at)-1] = partner
	self := l.value(x, at)
	other := l.value(x, from)
	pos := l.value(n.Arg(1), append(slices.Clone(at[:n.Arg(1).Rank()-1]), at[axis]))
	// The table of turns has two u32 for each pair, see sinCosTurns.
	high := l.value(n.Arg(2), []kernel.Index{pair, kernel.Const(0)})
	low := l.value(n.Arg(2), []kernel.Index{pair, kernel.Const(1)})
	t := kernel.AccType(n.DType())
	sin, cos := l.sinCosTurns(t, pos, high, low)
	isSecond := l.is(ir.OpNe, l.b.FromIndex(second), l.b.Integer(ir.I32, 0))
	signed := hinted("partner_sin", l.where(isSecond, sin, l.op(ir.OpNeg, t, sin), t))
	out := l.op(ir.OpAdd, t, l.op(ir.OpMul, t, self, cos), l.op(ir.OpMul, t, other, signed))
	out.Hint = "rope"
	if dims < inner {
		turns := l.is(ir.OpLt, l.b.FromIndex(j), l.b.Integer(ir.I32, int64(dims)))
		out = l.where(turns, out, self, t)
	}
	return out
}

// sinCosTurns returns the sine and cosine, in dtype t, of pos*turns, where turns = high/2^32 + low/2^64. It computes
// pos*turns modulo 1 in 32 bits. The upper 2 bits, rounded, are the quadrant. The rest is an angle of at most pi/4 from
// the quadrant's middle, for which sine and cosine need no range reduction. In f32, pos*low is rounded to multiples of
// 2^-32 turns: smaller parts do not matter, and could move the angle beyond pi/4. In f64 they are added to the angle.
func (l exprs) sinCosTurns(t ir.DType, pos, high, low *kernel.Expr) (sin, cos *kernel.Expr) {
	u32 := func(op ir.Op, a *kernel.Expr, b int64) *kernel.Expr {
		return l.op(op, ir.U32, a, l.b.Integer(ir.U32, b))
	}
	is := func(bit int64, of *kernel.Expr) *kernel.Expr {
		return l.is(ir.OpNe, u32(ir.OpAnd, of, bit), l.b.Integer(ir.U32, 0))
	}
	times := func(a, b *kernel.Expr) *kernel.Expr { return l.op(ir.OpMul, t, a, b) }
	carried := times(times(l.b.Cast(t, pos), l.b.Cast(t, low)), l.b.Float(t, 1.0/(1<<32)))
	carried.Hint = "carried"
	whole := l.b.Cast(ir.I32, carried)
	turn := l.op(ir.OpMul, ir.U32, l.b.Cast(ir.U32, pos), high)
	turn = hinted("turn", l.op(ir.OpAdd, ir.U32, turn, l.b.Cast(ir.U32, whole)))
	// The nearest multiple of a quarter turn: half of a quarter is added before the shift.
	quadrant := u32(ir.OpShr, u32(ir.OpAdd, turn, 1<<29), 30)
	quadrant.Hint = "quadrant"
	// The other 30 bits are the signed distance from it, in units of 2^-32 quarter turns.
	within := l.b.Cast(t, l.b.Cast(ir.I32, u32(ir.OpShl, turn, 2)))
	if t == ir.F64 {
		rest := l.op(ir.OpSub, t, carried, l.b.Cast(t, whole))
		within = l.op(ir.OpAdd, t, within, times(rest, l.b.Float(t, 4)))
	}
	angle := hinted("angle", times(within, l.b.Float(t, math.Pi/(1<<33))))
	s, c := l.op(ir.OpSin, t, angle), l.op(ir.OpCos, t, angle)
	odd := hinted("odd_quadrant", is(1, quadrant))
	// In odd quadrants sine and cosine trade places. The sine is negative in quadrants 2 and 3, the cosine in 1 and 2.
	sin, cos = l.where(odd, c, s, t), l.where(odd, s, c, t)
	sin.Hint, cos.Hint = "sin_size", "cos_size"
	sin = l.where(is(2, quadrant), l.op(ir.OpNeg, t, sin), sin, t)
	cos = l.where(is(2, u32(ir.OpAdd, quadrant, 1)), l.op(ir.OpNeg, t, cos), cos, t)
	sin.Hint, cos.Hint = "turn_sin", "turn_cos"
	return sin, cos
}

// ropePair returns the number of the pair that element j of a row belongs to, j's index in the pair (0 or 1), and the
// index in the row of the other element. dims is the number of rotated elements.
func ropePair(j kernel.Index, dims int, mode string) (pair, second, partner kernel.Index) {
	if mode == "half" {
		second, pair = j.DivMod(ir.D(dims / 2))
		return pair, second, pair.Plus(kernel.Const(1).Minus(second).Times(int64(dims / 2)))
	}
	pair, second = j.DivMod(ir.D(2))
	return pair, second, pair.Times(2).Plus(kernel.Const(1)).Minus(second)
}
