package frontend

import (
	"fmt"
	"math"

	"github.com/vkc-go/vkc/ir"
)

// foldedAxes returns the axes that a reduction folds.
func (c GradCall) foldedAxes() []int {
	fold, _ := ir.ResolveAxes(c.Attrs.Ints("axes"), c.Args[0].Rank())
	var axes []int
	for i, in := range fold {
		if in {
			axes = append(axes, i)
		}
	}
	return axes
}

// keepFolded returns t, which has the shape of a reduction's result, with the folded axes inserted with extent 1.
func (c GradCall) keepFolded(t Tensor) Tensor {
	s := append(ir.Shape{}, c.Args[0].Shape()...)
	for _, i := range c.foldedAxes() {
		s[i] = ir.D(1)
	}
	return t.Reshape(s)
}

// spreadGrad broadcasts the gradient of a reduction to all elements that it folds.
func (c GradCall) spreadGrad() Tensor { return c.keepFolded(c.Grad).Broadcast(c.Args[0].Shape()) }

// count returns the product of the extents of some axes of t, as a scalar in the dtype of t. Symbolic extents are read
// when the program runs.
func (t Tensor) count(axes []int) Tensor {
	static, symbolic := 1.0, Tensor{} // the products of the static extents, and of the symbolic ones
	for _, i := range axes {
		d := t.Dim(i)
		if d.IsStatic() {
			static *= float64(d.Static())
			continue
		}
		symbolic = symbolic.join(Tensor.Mul, t.b.DimValue(d).Cast(t.DType()))
	}
	if symbolic.IsZero() {
		return t.Lit(static)
	}
	return symbolic.MulScalar(static)
}

// axis returns the axis attribute of the op.
func (c GradCall) axis() int { return c.Args[0].axis(c.Result.node.Op(), c.Attrs.Int("axis")) }

// extremum returns the gradient of reduce_max and reduce_min: elements equal to the result share it.
func extremum(c GradCall) Tensor {
	x := c.Args[0]
	is := x.Eq(c.keepFolded(c.Result)).Cast(x.DType())
	return c.spreadGrad().Mul(is.Div(is.SumKeep(c.foldedAxes()...)))
}

// prod returns the gradient of reduce_prod. For each element it is the product of the other elements, even if some are
// 0.
func prod(c GradCall) Tensor {
	x, axes := c.Args[0].wide(), c.foldedAxes()
	isZero := x.Eq(x.Lit(0))
	nonzero := isZero.Where(x.Lit(1), x) // a 0 does not change the product of these
	zeros, product := isZero.Cast(x.DType()).SumKeep(axes...), nonzero.ProdKeep(axes...)
	// The product of the others is 0 if one of them is 0, and else the product without the element itself.
	noOtherZero := zeros.Sub(isZero.Cast(x.DType())).Eq(x.Lit(0))
	others := noOtherZero.Where(product.Div(nonzero), x.Lit(0))
	return c.spreadGrad().as(x).Mul(others)
}

// normalized returns x*factor with factor = 1/sqrt(mean square + eps) along the innermost axis. If centred is set, it
// first subtracts the mean.
func normalized(x Tensor, centred bool, eps float64) (y, factor Tensor) {
	if centred {
		factor = x.VarianceKeep(0, -1).AddScalar(eps).Rsqrt()
		return x.LayerNorm(Tensor{}, Tensor{}, eps), factor
	}
	factor = x.Sqr().MeanKeep(-1).AddScalar(eps).Rsqrt()
	return x.Mul(factor), factor
}

// norm returns the rule of layer_norm (centred) or rms_norm: y = u*weight+bias, with u = (x-mean)*factor, and a mean of
// 0 for rms_norm. With h = g*weight, the gradient of x is factor * (h - mean(h) - u*mean(h*u)), without mean(h) for
// rms_norm.
func norm(centred bool) gradRule {
	return func(c GradCall, want []bool) []Tensor {
		x, g := c.Args[0].wide(), c.Grad.wide()
		u, factor := normalized(x, centred, c.Attrs.Float("eps"))
		out := make([]Tensor, len(c.Args))
		// g has the shape of x here. The caller sums the gradients of weight and bias over the rows.
		if len(want) > 2 && want[2] {
			out[2] = g
		}
		if len(want) > 1 && want[1] {
			out[1] = g.Mul(u)
		}
		if want[0] {
			if len(c.Args) > 1 {
				g = g.Mul(c.Args[1].as(g))
			}
			inner := g.Sub(u.Mul(g.Mul(u).MeanKeep(-1)))
			if centred {
				inner = inner.Sub(g.MeanKeep(-1))
			}
			out[0] = inner.Mul(factor)
		}
		return out
	}
}

// groupNorm defines group_norm by other ops.
func groupNorm(c GradCall) Tensor {
	x := c.Args[0].wide()
	s, groups := x.Shape(), c.Attrs.Int("groups")
	each := append(ir.Shape{ir.D(s[1].Static() / groups)}, s[2:]...)
	n, err := each.Numel()
	if err != nil {
		fail("grad", err, x)
	}
	// A group's elements become one row: n channels and positions.
	x = x.Reshape(s[0], groups, n).LayerNorm(Tensor{}, Tensor{}, c.Attrs.Float("eps"))
	return x.Reshape(s).scaled(c.Args[1:])
}

// scaled multiplies t [N, C, …] by a weight [C] and adds a bias [C]. params has both, the weight alone, or nothing.
func (t Tensor) scaled(params []Tensor) Tensor {
	for i, p := range params {
		p = p.as(t).withOnes(t.Rank() - 2)
		if i == 0 {
			t = t.Mul(p)
		} else {
			t = t.Add(p)
		}
	}
	return t
}

// batchNorm defines batch_norm by other ops.
func batchNorm(c GradCall) Tensor {
	x := c.Args[0].wide()
	mean, variance := c.Args[1].as(x).withOnes(x.Rank()-2), c.Args[2].as(x).withOnes(x.Rank()-2)
	return x.Sub(mean).Mul(variance.AddScalar(c.Attrs.Float("eps")).Rsqrt()).scaled(c.Args[3:])
}

// ropeTables defines rope_tables by other ops.
func ropeTables(c GradCall) Tensor {
	x := c.Args[0].wide()
	cos, sin := c.Args[1].as(x), c.Args[2].as(x)
	pairs := cos.Dim(-1).Static()
	turned, rest := x.Slice(-1, 0, 2*pairs), x.Slice(-1, 2*pairs, x.Dim(-1))
	half := c.Attrs.String_("mode") == "half"
	second, step := min(1, pairs), 2 // the first element of b; there may be no pairs
	if half {
		second, step = pairs, 1
	}
	a, b := turned.SliceStep(-1, 0, 2*pairs-second, step), turned.SliceStep(-1, second, 2*pairs, step)
	a, b = a.Mul(cos).Sub(b.Mul(sin)), a.Mul(sin).Add(b.Mul(cos))
	if half {
		return a.Concat(-1, b, rest)
	}
	return a.Stack(-1, b).Reshape(turned.Shape()).Concat(-1, rest)
}

// cumSum returns the gradient of a cumulative sum: the cumulative sum of the gradient from the other end.
func cumSum(c GradCall) Tensor {
	axis, restart, reverse := c.axis(), c.Attrs.Int("restart"), c.Attrs.Bool("reverse")
	g := c.Grad
	low, high := make([]int, g.Rank()), make([]int, g.Rank())
	if restart > 0 { // segments start at the end from which the sum runs, so pad the last one to whole length
		d := g.Dim(axis)
		if _, whole := d.Quo(int64(restart)); !whole && !d.IsStatic() {
			fail("grad", fmt.Errorf("cumsum that restarts every %d elements has no gradient along the extent %s: "+
				"want a multiple", restart, d), g)
		} else if !whole && reverse {
			low[axis] = restart - d.Static()%restart
		} else if !whole {
			high[axis] = restart - d.Static()%restart
		}
		g = g.Pad(low, high, 0)
	}
	g = g.unary(ir.OpCumSum, attr("axis", axis), attr("exclusive", c.Attrs.Bool("exclusive")),
		attr("reverse", !reverse), attr("restart", restart))
	return g.Slice(axis, low[axis], c.Grad.Dim(axis).Plus(int64(low[axis])))
}

// cumProd returns the gradient of a cumulative product. For element k it is the product of the elements before k, times
// s[k] = g[k] + x[k+1]*s[k+1]. s is computed in doubling steps (Hillis and Steele 1986). There is no division, so
// elements may be 0.
func cumProd(c GradCall) Tensor {
	x, g := c.Args[0].wide(), c.Grad.wide()
	axis, restart := c.axis(), c.Attrs.Int("restart")
	if c.Attrs.Bool("reverse") {
		x, g = x.Flip(axis), g.Flip(axis)
	}
	// later returns the elements `by` positions later, and 0 if that is beyond the end or a restart of the product.
	later := func(t Tensor, by int) Tensor {
		high := make([]int, t.Rank())
		high[axis] = by
		return t.Pad(make([]int, t.Rank()), high, 0).Slice(axis, by, t.Dim(axis).Plus(int64(by)))
	}
	next := func(t Tensor) Tensor {
		t = later(t, 1)
		if restart > 0 {
			at := t.b.Iota(ir.I32, axis, t.Shape()).AddScalar(1)
			t = at.Mod(at.Lit(float64(restart))).Eq(at.Lit(0)).Where(t.Lit(0), t)
		}
		return t
	}
	if c.Attrs.Bool("exclusive") {
		g = next(g)
	}
	between, sum := next(x), g
	for by := 1; int64(by) < x.Dim(axis).Max(); by *= 2 {
		sum = sum.Add(between.Mul(later(sum, by)))
		between = between.Mul(later(between, by))
	}
	before := x.unary(ir.OpCumProd, attr("axis", axis), attr("exclusive", true), attr("restart", restart))
	out := before.Mul(sum)
	if c.Attrs.Bool("reverse") {
		out = out.Flip(axis)
	}
	return out
}

// cumExtremum returns the gradient of a cumulative maximum or minimum. A result's gradient goes to the last element, up
// to the result's position, that equals the result.
func (c GradCall) cumExtremum() Tensor {
	x, axis, op := c.Args[0], c.axis(), c.Result.node.Op()
	along := func(op ir.Op, t Tensor, exclusive bool) Tensor {
		return t.unary(op, attr("axis", axis), attr("exclusive", exclusive), attr("reverse", c.Attrs.Bool("reverse")),
			attr("restart", c.Attrs.Int("restart")))
	}
	at := x.b.Iota(ir.I32, axis, x.Shape())
	last, none := ir.OpCumMax, at.Lit(-1)
	if c.Attrs.Bool("reverse") { // in reverse, later elements come before
		last, none = ir.OpCumMin, at.Lit(math.MaxInt32)
	}
	equals := x.Eq(along(op, x, false)) // whether an element is the extremum so far
	source := along(last, equals.Where(at, none), c.Attrs.Bool("exclusive"))
	return c.Grad.zeros().ScatterAdd(axis, source, c.Grad)
}

// init adds the gradient rules of reductions.
func init() {
	gradRows(map[ir.Op]gradRule{
		ir.OpSum:       first(GradCall.spreadGrad),
		ir.OpMean:      first(func(c GradCall) Tensor { return c.spreadGrad().Div(c.Args[0].count(c.foldedAxes())) }),
		ir.OpProd:      first(prod),
		ir.OpReduceMax: first(extremum),
		ir.OpReduceMin: first(extremum),
		ir.OpNorm1:     first(func(c GradCall) Tensor { return c.spreadGrad().Mul(c.Args[0].Sign()) }),
		ir.OpNorm2: first(func(c GradCall) Tensor { // 0 at 0, where the norm has a corner
			y := c.keepFolded(c.Result)
			return c.spreadGrad().Mul(c.Args[0].Div(y.Eq(y.Lit(0)).Where(y.Lit(1), y)))
		}),
		ir.OpNormP: first(func(c GradCall) Tensor { // 0 at 0, where the norm may have a corner
			x, y, p := c.Args[0], c.keepFolded(c.Result), c.Attrs.Float("p")
			ratio := x.Abs().Div(y.Eq(y.Lit(0)).Where(y.Lit(1), y))
			slope := x.Eq(x.Lit(0)).Where(x.Lit(0), ratio.Powf(p-1).Mul(x.Sign()))
			return c.spreadGrad().Mul(slope)
		}),
		ir.OpLogSumExp: first(func(c GradCall) Tensor {
			return c.spreadGrad().Mul(c.Args[0].Sub(c.keepFolded(c.Result)).Exp())
		}),
		ir.OpVariance: first(func(c GradCall) Tensor {
			x, axes := c.Args[0].wide(), c.foldedAxes()
			n := x.count(axes).SubScalar(float64(c.Attrs.Int("correction")))
			dev := x.Deviations(axes...).MulScalar(2)
			return c.spreadGrad().as(x).Mul(dev.Div(n.Max(n.Lit(0))))
		}),
	})
}

// init adds the gradient rules of scans and sorts.
func init() {
	gradRows(map[ir.Op]gradRule{
		ir.OpCumSum:  first(cumSum),
		ir.OpCumProd: first(cumProd),
		ir.OpCumMax:  first(GradCall.cumExtremum),
		ir.OpCumMin:  first(GradCall.cumExtremum),
		ir.OpSort: first(func(c GradCall) Tensor {
			order := c.Args[0].unary(ir.OpArgsort, c.Attrs...)
			return c.Grad.zeros().ScatterDistinct(c.axis(), order, c.Grad)
		}),
	})
}

// init adds the gradient rules of ops on rows.
func init() {
	gradRows(map[ir.Op]gradRule{
		ir.OpSoftmax: first(func(c GradCall) Tensor {
			y, g := c.Result.wide(), c.Grad.wide()
			return y.Mul(g.Sub(g.Mul(y).SumKeep(c.axis())))
		}),
		ir.OpLogSoftmax: first(func(c GradCall) Tensor {
			y, g := c.Result.wide(), c.Grad.wide()
			return g.Sub(y.Exp().Mul(g.SumKeep(c.axis())))
		}),
		ir.OpRMSNorm:   norm(false),
		ir.OpLayerNorm: norm(true),
		ir.OpGroupNorm: definedBy(groupNorm),
		ir.OpBatchNorm: definedBy(batchNorm),
		ir.OpL2Normalize: definedBy(func(c GradCall) Tensor {
			x := c.Args[0].wide()
			return x.Div(x.Norm2Keep(c.axis()).Max(x.Lit(c.Attrs.Float("eps"))))
		}),
		ir.OpRopeTables: definedBy(ropeTables),
		ir.OpRope: first(func(c GradCall) Tensor { // rotate back, by the angles of negative positions
			args := append([]Tensor{c.Args[1].signed().Neg()}, c.Args[2:]...)
			return c.Grad.apply(ir.OpRope, args, c.Attrs...)
		}),
	})
}

// signed returns t in a signed integer dtype that represents its values and their negatives.
func (t Tensor) signed() Tensor {
	switch t.DType() {
	case ir.I32, ir.I64:
		return t
	case ir.U32:
		return t.Cast(ir.I64)
	}
	return t.Cast(ir.I32)
}
