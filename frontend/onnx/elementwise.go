package onnx

import (
	"math"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

type tensor = frontend.Tensor

var elementwiseOps = table{
	"Abs":        unary(func(x tensor) tensor { return signedOnly(x, tensor.Abs) }),
	"Acos":       unary(tensor.Acos),
	"Acosh":      unary(tensor.Acosh),
	"Asin":       unary(tensor.Asin),
	"Asinh":      unary(tensor.Asinh),
	"Atan":       unary(tensor.Atan),
	"Atanh":      unary(tensor.Atanh),
	"BitCast":    tensorOp(bitcast),
	"BitwiseNot": unary(tensor.Not),
	"Ceil":       unary(tensor.Ceil),
	"Cos":        unary(tensor.Cos),
	"Cosh":       unary(tensor.Cosh),
	"Erf":        unary(tensor.Erf),
	"Exp":        unary(tensor.Exp),
	"Floor":      unary(tensor.Floor),
	"HardSwish":  unary(tensor.Hardswish),
	"IsNaN":      unary(tensor.IsNaN),
	"Log":        unary(tensor.Log),
	"Mish":       unary(tensor.Mish),
	"Neg":        unary(tensor.Neg),
	"Not":        unary(tensor.Not),
	"Reciprocal": unary(tensor.Recip),
	"Relu":       unary(tensor.Relu),
	"Round":      unary(tensor.Round),
	"Sigmoid":    unary(tensor.Sigmoid),
	"Sign":       unary(sign),
	"Sin":        unary(tensor.Sin),
	"Sinh":       unary(tensor.Sinh),
	"Softplus":   unary(tensor.Softplus),
	"Softsign":   unary(tensor.Softsign),
	"Sqrt":       unary(tensor.Sqrt),
	"Tan":        unary(tensor.Tan),
	"Tanh":       unary(tensor.Tanh),
	"Affine":     tensorOp(affine),
	"ScaledTanh": tensorOp(scaledTanh),
	"Scale":      tensorOp(func(c *call) tensor { return c.x(0).Affine(c.floatAttr("scale", 1), 0) }),
	"ParametricSoftplus": tensorOp(func(c *call) tensor {
		x := c.x(0)
		return x.MulScalar(c.floatAttr("beta", 1)).Softplus().MulScalar(c.floatAttr("alpha", 1))
	}),

	"Celu":            tensorOp(func(c *call) tensor { return c.x(0).Celu(c.floatAttr("alpha", 1)) }),
	"Elu":             tensorOp(func(c *call) tensor { return c.x(0).Elu(c.floatAttr("alpha", 1)) }),
	"Gelu":            tensorOp(gelu),
	"HardSigmoid":     tensorOp(hardSigmoid),
	"IsInf":           tensorOp(isInf),
	"LeakyRelu":       tensorOp(func(c *call) tensor { return c.x(0).LeakyRelu(c.floatAttr("alpha", 0.01)) }),
	"PRelu":           tensorOp(prelu),
	"Selu":            tensorOp(selu),
	"Shrink":          tensorOp(shrink),
	"Swish":           tensorOp(swish),
	"SwiGLU":          tensorOp(func(c *call) tensor { return swish(c).Mul(c.x(1)) }),
	"ThresholdedRelu": tensorOp(thresholdedRelu),
	"Clip":            tensorOp(clip),
	"Cast": {fold: sameDims, build: func(c *call) []*value {
		c.must("to", AttrInt)
		return []*value{c.converted(c.x(0), c.typeAttr("to"))}
	}},
	"CastLike": manyOp(func(c *call) []*value {
		return []*value{c.converted(c.x(0), c.typeOf(c.input(1)))}
	}),

	"Add":            arithmetic(tensor.Add, addDims),
	"Sub":            arithmetic(tensor.Sub, subDims),
	"Mul":            arithmetic(tensor.Mul, mulDims),
	"Div":            arithmetic(tensor.Div, divDims),
	"Max":            foldedOp(foldDims(maxDims), fold(tensor.Max)),
	"Min":            foldedOp(foldDims(minDims), fold(tensor.Min)),
	"Sum":            tensorOp(fold(tensor.Add)),
	"Mean":           tensorOp(mean),
	"Mod":            tensorOp(mod),
	"Pow":            tensorOp(pow),
	"And":            arithmetic(tensor.And, nil),
	"Or":             arithmetic(tensor.Or, nil),
	"Xor":            arithmetic(tensor.Xor, nil),
	"BitwiseAnd":     arithmetic(tensor.And, nil),
	"BitwiseOr":      arithmetic(tensor.Or, nil),
	"BitwiseXor":     arithmetic(tensor.Xor, nil),
	"BitShift":       tensorOp(bitShift),
	"Equal":          arithmetic(tensor.Eq, nil),
	"Greater":        arithmetic(tensor.Gt, nil),
	"GreaterOrEqual": arithmetic(tensor.Ge, nil),
	"Less":           arithmetic(tensor.Lt, nil),
	"LessOrEqual":    arithmetic(tensor.Le, nil),
	"Where":          foldedOp(whereDims, func(c *call) tensor { return c.x(0).Where(c.x(1), c.x(2)) }),
}

// unary returns the row of an op on one tensor.
func unary(f func(tensor) tensor) row {
	return tensorOp(func(c *call) tensor { return f(c.x(0)) })
}

// arithmetic returns the row of a broadcasting op on two tensors. dims, if not nil, computes the op on two integers
// that depend on symbols.
func arithmetic(f func(x, y tensor) tensor, dims func(c *call, a, b ir.Dim) (ir.Dim, bool)) row {
	build := func(c *call) tensor { return f(c.x(0), c.x(1)) }
	if dims == nil {
		return tensorOp(build)
	}
	return foldedOp(foldDims(dims), build)
}

// fold returns the builder of an op that combines any number of operands by f, from left to right.
func fold(f func(x, y tensor) tensor) func(c *call) tensor {
	return func(c *call) tensor {
		list := c.all()
		y := list[0]
		for _, t := range list[1:] {
			y = f(y, t)
		}
		return y
	}
}

// signedOnly returns f(x), or x itself if it is unsigned.
func signedOnly(x tensor, f func(tensor) tensor) tensor {
	if x.DType().Kind() == ir.KindUint {
		return x
	}
	return f(x)
}

// sign builds Sign. The sign of an unsigned integer is 0 or 1.
func sign(x tensor) tensor {
	if x.DType().Kind() == ir.KindUint {
		return x.Min(x.Lit(1))
	}
	return x.Sign()
}

func affine(c *call) tensor { return c.x(0).Affine(c.floatAttr("alpha", 1), c.floatAttr("beta", 0)) }

func scaledTanh(c *call) tensor {
	return c.x(0).MulScalar(c.floatAttr("beta", 1)).Tanh().MulScalar(c.floatAttr("alpha", 1))
}

// gelu builds Gelu, with the exact error function or the approximation by tanh.
func gelu(c *call) tensor {
	if c.choice("approximate", "none", "tanh") == "tanh" {
		return c.x(0).Gelu()
	}
	return c.x(0).GeluErf()
}

func hardSigmoid(c *call) tensor {
	return c.x(0).Affine(c.floatAttr("alpha", 0.2), c.floatAttr("beta", 0.5)).Clamp(0, 1)
}

// isInf builds IsInf. Attributes say which signs of infinity it detects.
func isInf(c *call) tensor {
	x := c.x(0)
	negative, positive := c.flag("detect_negative", true), c.flag("detect_positive", true)
	switch {
	case negative && positive:
		return x.IsInf()
	case negative:
		return x.Eq(x.Lit(math.Inf(-1)))
	case positive:
		return x.Eq(x.Lit(math.Inf(1)))
	}
	return x.Ne(x).And(x.Eq(x)) // false everywhere
}

func prelu(c *call) tensor {
	x, slope := c.x(0), c.x(1)
	return x.Lt(x.Lit(0)).Where(x.Mul(slope), x)
}

// selu builds Selu. With the usual constants it is one op, and otherwise a scaled Elu.
func selu(c *call) tensor {
	const usualAlpha, usualGamma = 1.67326319217681884765625, 1.05070102214813232421875
	alpha, gamma := c.floatAttr("alpha", usualAlpha), c.floatAttr("gamma", usualGamma)
	if alpha == usualAlpha && gamma == usualGamma {
		return c.x(0).Selu()
	}
	return wide(c.x(0), func(x tensor) tensor { return x.Elu(alpha).MulScalar(gamma) })
}

// shrink builds Shrink: elements from -lambd to lambd become 0, and bias moves the others towards 0.
func shrink(c *call) tensor {
	bias, limit := c.floatAttr("bias", 0), c.floatAttr("lambd", 0.5)
	x := c.x(0)
	inner := x.Gt(x.Lit(limit)).Where(x.SubScalar(bias), x.Lit(0))
	return x.Lt(x.Lit(-limit)).Where(x.AddScalar(bias), inner)
}

// swish builds Swish: x * sigmoid(alpha*x).
func swish(c *call) tensor {
	alpha := c.floatAttr("alpha", 1)
	if alpha == 1 {
		return c.x(0).Silu()
	}
	return wide(c.x(0), func(x tensor) tensor { return x.Mul(x.MulScalar(alpha).Sigmoid()) })
}

func thresholdedRelu(c *call) tensor {
	x := c.x(0)
	return x.Gt(x.Lit(c.floatAttr("alpha", 1))).Where(x, x.Lit(0))
}

// clip builds Clip: one clamp for floats with constant limits, and otherwise a max and a min.
func clip(c *call) tensor {
	x := c.x(0)
	limits, canClamp := [2]float64{math.Inf(-1), math.Inf(1)}, x.DType().IsFloat()
	for i := range limits {
		if !c.has(1 + i) {
			continue
		}
		if d := constant(c.in[1+i]); d != nil && d.Elems() == 1 {
			limits[i] = c.number(1 + i)
		} else {
			canClamp = false
		}
	}
	if canClamp {
		return x.Clamp(limits[0], limits[1])
	}
	if c.has(1) {
		x = x.Max(castTo(c.x(1), x.DType()))
	}
	if c.has(2) {
		x = x.Min(castTo(c.x(2), x.DType()))
	}
	return x
}

// bitcast reinterprets the bits as a dtype of the same width.
func bitcast(c *call) tensor {
	c.must("to", AttrInt)
	x, to := c.x(0), c.typeAttr("to").DType()
	if to.Bits() != x.DType().Bits() {
		c.fail("it reads the bits of %s as %s: want types with as many bits", x.DType(), to)
	}
	return x.Bitcast(to)
}

// castTo returns x in dtype t.
func castTo(x tensor, t ir.DType) tensor {
	if x.DType() == t {
		return x
	}
	return x.Cast(t)
}

func mean(c *call) tensor {
	return wide(fold(tensor.Add)(c), func(x tensor) tensor { return x.DivScalar(float64(len(c.in))) })
}

// mod builds Mod. With fmod the result has the sign of the dividend, and otherwise of the divisor.
func mod(c *call) tensor {
	if c.intAttr("fmod", 0) != 0 {
		return c.x(0).Rem(c.x(1))
	}
	return c.x(0).Mod(c.x(1))
}

// pow builds Pow. The result has the base's dtype, and the exponent may have another one.
func pow(c *call) tensor {
	x, y := c.x(0), c.x(1)
	t := x.DType()
	if !t.IsFloat() && y.DType().IsFloat() {
		return x.Cast(ir.F64).Pow(castTo(y, ir.F64)).Round().Cast(t)
	}
	if n := constant(c.in[1]); t.IsFloat() && n != nil && n.Elems() == 1 && len(n.Dims) <= x.Rank() {
		if f, err := n.Floats(); err == nil && f[0] == 2 {
			return x.Sqr() // exact, and cheaper
		}
	}
	return x.Pow(castTo(y, t))
}

// bitShift builds BitShift.
func bitShift(c *call) tensor {
	x, y := c.x(0), c.x(1)
	c.must("direction", AttrString)
	if c.choice("direction", "LEFT", "RIGHT") == "RIGHT" {
		return x.Shr(y)
	}
	return x.Shl(y)
}
