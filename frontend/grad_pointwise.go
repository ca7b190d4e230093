package frontend

import (
	"math"

	"github.com/vkc-go/vkc/ir"
)

// slope returns the rule of a function y of x. f(x, y) is its derivative.
func slope(f func(x, y Tensor) Tensor) gradRule {
	return first(func(c GradCall) Tensor { return c.Grad.Mul(f(c.Args[0], c.Result)) })
}

// slopes returns the rule of a function y of a and b. fs[0](a, b, y) is its derivative by a, and fs[1](a, b, y) by b.
func slopes(fs ...func(a, b, y Tensor) Tensor) gradRule {
	return each(func(c GradCall, i int) Tensor { return c.Grad.Mul(fs[i](c.Args[0], c.Args[1], c.Result)) })
}

// pass returns the gradient where cond is true, and 0 elsewhere.
func (c GradCall) pass(cond Tensor) Tensor { return cond.Where(c.Grad, c.Grad.Lit(0)) }

// recipSqrt1 is 1/sqrt(1-x^2).
func recipSqrt1(x Tensor) Tensor { return x.Sqr().Affine(-1, 1).Rsqrt() }

// elu returns the gradient of the function scale*x for x >= 0, and scale*alpha*(e^x-1) for x < 0. It clamps the
// exponent, so that the value that Where does not select stays finite, also in second derivatives.
func (c GradCall) elu(alpha, scale float64) Tensor {
	x := c.Args[0]
	below := x.Min(x.Lit(0)).Exp().MulScalar(scale * alpha)
	return c.Grad.Mul(x.Lt(x.Lit(0)).Where(below, x.Lit(scale)))
}

// share returns the fraction of the gradient that an operand of min or max gets: 1 if it is the result, half if both
// operands are equal, and otherwise 0. The dtype is the dtype of like.
func share(chosen, equal, like Tensor) Tensor {
	return chosen.Where(like.Lit(1), equal.Where(like.Lit(0.5), like.Lit(0)))
}

// itself returns the derivative of a+f(b) by a, which is 1.
func itself(a, _, _ Tensor) Tensor { return a.Lit(1) }

// init adds the gradient rules of functions of one variable.
func init() {
	gradRows(map[ir.Op]gradRule{
		ir.OpAfter: first(func(c GradCall) Tensor { return c.Grad }),
		ir.OpNeg:   first(func(c GradCall) Tensor { return c.Grad.Neg() }),
		ir.OpAbs:   slope(func(x, _ Tensor) Tensor { return x.Sign() }),
		ir.OpExp:   slope(func(_, y Tensor) Tensor { return y }),
		ir.OpExp2:  slope(func(_, y Tensor) Tensor { return y.MulScalar(math.Ln2) }),
		ir.OpExpm1: slope(func(x, _ Tensor) Tensor { return x.Exp() }),
		ir.OpLog:   first(func(c GradCall) Tensor { return c.Grad.Div(c.Args[0]) }),
		ir.OpLog2:  first(func(c GradCall) Tensor { return c.Grad.Div(c.Args[0].MulScalar(math.Ln2)) }),
		ir.OpLog1p: first(func(c GradCall) Tensor { return c.Grad.Div(c.Args[0].AddScalar(1)) }),
		ir.OpSqrt:  first(func(c GradCall) Tensor { return c.Grad.Div(c.Result.MulScalar(2)) }),
		ir.OpRsqrt: slope(func(x, y Tensor) Tensor { return y.Div(x).MulScalar(-0.5) }),
		ir.OpRecip: slope(func(_, y Tensor) Tensor { return y.Sqr().Neg() }),
		ir.OpSqr:   slope(func(x, _ Tensor) Tensor { return x.MulScalar(2) }),
		ir.OpSin:   slope(func(x, _ Tensor) Tensor { return x.Cos() }),
		ir.OpCos:   slope(func(x, _ Tensor) Tensor { return x.Sin().Neg() }),
		ir.OpTan:   slope(func(_, y Tensor) Tensor { return y.Sqr().AddScalar(1) }),
		ir.OpAsin:  slope(func(x, _ Tensor) Tensor { return recipSqrt1(x) }),
		ir.OpAcos:  slope(func(x, _ Tensor) Tensor { return recipSqrt1(x).Neg() }),
		ir.OpAtan:  first(func(c GradCall) Tensor { return c.Grad.Div(c.Args[0].Sqr().AddScalar(1)) }),
		ir.OpAsinh: slope(func(x, _ Tensor) Tensor { return x.Sqr().AddScalar(1).Rsqrt() }),
		ir.OpAcosh: slope(func(x, _ Tensor) Tensor { return x.Sqr().SubScalar(1).Rsqrt() }),
		ir.OpAtanh: slope(func(x, _ Tensor) Tensor { return x.Sqr().Affine(-1, 1).Recip() }),
		ir.OpSinh:  slope(func(x, _ Tensor) Tensor { return x.Cosh() }),
		ir.OpCosh:  slope(func(x, _ Tensor) Tensor { return x.Sinh() }),
		ir.OpTanh:  slope(func(_, y Tensor) Tensor { return y.Sqr().Affine(-1, 1) }),
		ir.OpErf: slope(func(x, _ Tensor) Tensor {
			return x.Sqr().Neg().Exp().MulScalar(2 / math.Sqrt(math.Pi))
		}),
	})
}

// init adds the gradient rules of activation functions.
func init() {
	gradRows(map[ir.Op]gradRule{
		ir.OpSigmoid: slope(func(_, y Tensor) Tensor { return y.Sub(y.Sqr()) }),
		ir.OpSilu: slope(func(x, y Tensor) Tensor { // s + y*(1-s), because y = x*s
			s := x.Sigmoid()
			return s.Add(y.Mul(s.Affine(-1, 1)))
		}),
		ir.OpRelu: first(func(c GradCall) Tensor { return c.pass(c.Args[0].Gt(c.Args[0].Lit(0))) }),
		ir.OpLeakyRelu: first(func(c GradCall) Tensor {
			return c.Args[0].Lt(c.Args[0].Lit(0)).Where(c.Grad.MulScalar(c.Attrs.Float("alpha")), c.Grad)
		}),
		ir.OpElu: first(func(c GradCall) Tensor { return c.elu(c.Attrs.Float("alpha"), 1) }),
		ir.OpCelu: first(func(c GradCall) Tensor {
			x := c.Args[0]
			return c.Grad.Mul(x.Min(x.Lit(0)).MulScalar(1 / c.Attrs.Float("alpha")).Exp())
		}),
		ir.OpSoftsign: slope(func(x, _ Tensor) Tensor { return x.Abs().AddScalar(1).Sqr().Recip() }),
		ir.OpSelu: first(func(c GradCall) Tensor {
			const alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
			return c.elu(alpha, scale)
		}),
		ir.OpGelu: slope(func(x, _ Tensor) Tensor { // y = x*(1+t)/2, t = tanh(u)
			k, cube := math.Sqrt(2/math.Pi), 0.044715
			square := x.Sqr()
			t := x.Mul(square.Affine(k*cube, k)).Tanh()
			u := x.Mul(square.Affine(3*k*cube, k)) // x*u'
			return t.Affine(0.5, 0.5).Add(u.Mul(t.Sqr().Affine(-0.5, 0.5)))
		}),
		ir.OpGeluErf: slope(func(x, _ Tensor) Tensor { // the normal distribution, and x times its density
			density := x.Sqr().MulScalar(-0.5).Exp().MulScalar(1 / math.Sqrt(2*math.Pi))
			return x.MulScalar(math.Sqrt2/2).Erf().Affine(0.5, 0.5).Add(x.Mul(density))
		}),
		ir.OpSoftplus: slope(func(x, _ Tensor) Tensor { return x.Sigmoid() }),
		ir.OpMish: slope(func(x, _ Tensor) Tensor {
			t := x.Softplus().Tanh()
			return t.Add(x.Mul(x.Sigmoid()).Mul(t.Sqr().Affine(-1, 1)))
		}),
		ir.OpHardswish: first(func(c GradCall) Tensor {
			x := c.Args[0]
			inside := c.Grad.Mul(x.Affine(1.0/3, 0.5))
			return x.Lt(x.Lit(3)).Where(x.Gt(x.Lit(-3)).Where(inside, c.Grad.Lit(0)), c.Grad)
		}),
		ir.OpHardsigmoid: first(func(c GradCall) Tensor {
			return c.pass(c.Args[0].Abs().Lt(c.Args[0].Lit(3))).MulScalar(1.0 / 6)
		}),
	})
}

// init adds the gradient rules of arithmetic on two tensors.
func init() {
	gradRows(map[ir.Op]gradRule{
		ir.OpAdd: each(func(c GradCall, _ int) Tensor { return c.Grad }),
		ir.OpSub: each(func(c GradCall, i int) Tensor {
			if i == 1 {
				return c.Grad.Neg()
			}
			return c.Grad
		}),
		ir.OpMul: each(func(c GradCall, i int) Tensor { return c.Grad.Mul(c.Args[1-i]) }),
		ir.OpDiv: each(func(c GradCall, i int) Tensor {
			g := c.Grad.Div(c.Args[1])
			if i == 1 {
				return g.Mul(c.Result).Neg()
			}
			return g
		}),
		ir.OpMod: slopes(itself, func(a, b, _ Tensor) Tensor { return a.Div(b).Floor().Neg() }),
		ir.OpRem: slopes(itself, func(a, b, _ Tensor) Tensor { return a.Div(b).Trunc().Neg() }),
		ir.OpPow: slopes(
			// b*a^(b-1) is NaN for a = b = 0.
			func(a, b, _ Tensor) Tensor { return b.Eq(b.Lit(0)).Where(b.Lit(0), b.Mul(a.Pow(b.SubScalar(1)))) },
			// y*log(a), or 0 if a has no logarithm.
			func(a, _, y Tensor) Tensor { return y.Mul(a.Gt(a.Lit(0)).Where(a, a.Lit(1)).Log()) }),
		ir.OpMin: slopes(func(a, b, _ Tensor) Tensor { return share(a.Lt(b), a.Eq(b), a) },
			func(a, b, _ Tensor) Tensor { return share(b.Lt(a), a.Eq(b), a) }),
		ir.OpMax: slopes(func(a, b, _ Tensor) Tensor { return share(a.Gt(b), a.Eq(b), a) },
			func(a, b, _ Tensor) Tensor { return share(b.Gt(a), a.Eq(b), a) }),
		ir.OpAtan2: slopes(func(a, b, _ Tensor) Tensor { return b.Div(a.Sqr().Add(b.Sqr())) },
			func(a, b, _ Tensor) Tensor { return a.Neg().Div(a.Sqr().Add(b.Sqr())) }),
	})
}

// init adds the gradient rules of choices, ops with attributes, and casts.
func init() {
	gradRows(map[ir.Op]gradRule{
		ir.OpWhere: each(func(c GradCall, i int) Tensor {
			yes, no := c.Grad, c.Grad.Lit(0)
			if i == 2 {
				yes, no = no, yes
			}
			return c.Args[0].Where(yes, no)
		}),
		ir.OpClamp: first(func(c GradCall) Tensor {
			x := c.Args[0]
			return c.pass(x.Ge(x.Lit(c.Attrs.Float("min"))).And(x.Le(x.Lit(c.Attrs.Float("max")))))
		}),
		ir.OpAffine: first(func(c GradCall) Tensor { return c.Grad.MulScalar(c.Attrs.Float("mul")) }),
		ir.OpPowf: first(func(c GradCall) Tensor {
			e := c.Attrs.Float("exponent")
			if e == 0 {
				return c.Grad.zeros()
			}
			return c.Grad.Mul(c.Args[0].Powf(e - 1).MulScalar(e))
		}),
		ir.OpLerp: each(func(c GradCall, i int) Tensor {
			a, b, t := c.Args[0], c.Args[1], c.Args[2]
			return c.Grad.Mul([]func() Tensor{
				func() Tensor { return t.Affine(-1, 1) },
				func() Tensor { return t },
				func() Tensor { return b.Sub(a) },
			}[i]())
		}),
		ir.OpCast: first(func(c GradCall) Tensor { return c.Grad }),
	})
}
