package ir

import (
	"fmt"
	"math"
)

// The types of scalar references, which compute in float64 or exact integers. GLSL forms compute in f64 for f64, and in
// f32 for all other floats.
type (
	f1 = func(float64) float64
	f2 = func(a, b float64) float64
	i2 = func(a, b int64) int64
)

func unaryF(f f1) func([]float64, Attrs) float64 {
	return func(x []float64, _ Attrs) float64 { return f(x[0]) }
}

func binaryF(f f2) func([]float64, Attrs) float64 {
	return func(x []float64, _ Attrs) float64 { return f(x[0], x[1]) }
}

func binaryI(f i2) func([]int64, Attrs) int64 {
	return func(x []int64, _ Attrs) int64 { return f(x[0], x[1]) }
}

func unaryI(f func(int64) int64) func([]int64, Attrs) int64 {
	return func(x []int64, _ Attrs) int64 { return f(x[0]) }
}

var (
	oneArg  = []ArgInfo{{Name: "x"}}
	twoArgs = []ArgInfo{{Name: "a"}, {Name: "b"}}
)

// floatUnary returns the row of a function of one float with reference f and a GLSL form. eps is the tolerance in units
// of the dtype's precision, see Tolerance.Eps.
func floatUnary(op Op, name string, eps float64, f f1, glsl, doc string) OpInfo {
	return OpInfo{Op: op, Name: name, Class: ClassElementwise, Args: oneArg, Infer: inferSame,
		Float: unaryF(f), GLSL: GLSL{Float: glsl}, Tol: Tolerance{Eps: eps, Abs: float64(eps * 1e-9)}, Doc: doc}
}

// Values of NoGrad: why ops have no gradient.
const (
	noSlope    = "constant in steps"
	noFloats   = "no float comes out"
	noIndices  = "indices come out"
	noFloatsIn = "its arguments are integers"
)

// step returns the row of a piecewise constant function.
func step(in OpInfo) OpInfo {
	in.NoGrad = noSlope
	return in
}

// within returns the row with abs added to its absolute tolerance.
func within(abs float64, in OpInfo) OpInfo {
	in.Tol.Abs += abs
	return in
}

// init adds the rows of the elementwise ops to the op table.
func init() {
	rows(
		OpInfo{Op: OpNeg, Name: "neg", Class: ClassElementwise, Args: oneArg, Infer: inferSame,
			Float: unaryF(func(x float64) float64 { return -x }), Int: unaryI(func(x int64) int64 { return -x }),
			GLSL: GLSL{Float: "-{0}", Int: "-{0}"}, Doc: "-x; integers wrap."},
		OpInfo{Op: OpAbs, Name: "abs", Class: ClassElementwise, Args: oneArg, Infer: inferSame,
			Float: unaryF(math.Abs), Int: unaryI(func(x int64) int64 { return max(x, -x) }),
			GLSL: GLSL{Float: "abs({0})", Int: "abs({0})"}, Doc: "Absolute value."},
		OpInfo{Op: OpSign, Name: "sign", Class: ClassElementwise, Args: oneArg, Infer: inferSame,
			Float: unaryF(sign), Int: unaryI(func(x int64) int64 { return int64(sign(float64(x))) }),
			GLSL: GLSL{Float: "sign({0})", Int: "sign({0})"}, NoGrad: noSlope, Doc: "-1, 0 or 1."},
		OpInfo{Op: OpSqr, Name: "sqr", Class: ClassElementwise, Args: oneArg, Infer: inferSame,
			Float: unaryF(func(x float64) float64 { return x * x }), Int: unaryI(func(x int64) int64 { return x * x }),
			GLSL: GLSL{Float: "{0} * {0}", Int: "{0} * {0}", Uint: "{0} * {0}"}, Tol: Tolerance{Eps: 2}, Doc: "x*x; integers wrap."},
		floatUnary(OpExp, "exp", 64, exp, "exp({0})", "e^x.").costs(6),
		floatUnary(OpExp2, "exp2", 64, math.Exp2, "exp2({0})", "2^x.").costs(6),
		floatUnary(OpExpm1, "expm1", 64, math.Expm1, "expm1({0})", "e^x-1, accurate near 0.").costs(6),
		floatUnary(OpLog, "log", 64, log, "log({0})", "Natural logarithm.").costs(6),
		floatUnary(OpLog2, "log2", 64, log2, "log2({0})", "Base-2 logarithm.").costs(6),
		floatUnary(OpLog1p, "log1p", 64, math.Log1p, "log1p({0})", "log(1+x), accurate near 0.").costs(6),
		floatUnary(OpSqrt, "sqrt", 8, math.Sqrt, "sqrt({0})", "Square root."),
		floatUnary(OpRsqrt, "rsqrt", 8, func(x float64) float64 {
			return 1 / math.Sqrt(x)
		}, "inversesqrt({0})", "1/sqrt(x)."),
		floatUnary(OpRecip, "recip", 8, func(x float64) float64 { return 1 / x }, "1.0 / {0}", "1/x."),
		floatUnary(OpSin, "sin", 64, math.Sin, "sin_accurate({0})",
			"Sine; the argument is reduced accurately.").costs(16),
		floatUnary(OpCos, "cos", 64, math.Cos, "cos_accurate({0})",
			"Cosine; the argument is reduced accurately.").costs(16),
		floatUnary(OpTan, "tan", 256, math.Tan, "(sin_accurate({0}) / cos_accurate({0}))", "Tangent.").costs(16),
		floatUnary(OpAsin, "asin", 16, math.Asin, "arcsin({0})", "Arc sine, NaN outside [-1,1]."),
		floatUnary(OpAcos, "acos", 16, acos, "arccos({0})", "Arc cosine, NaN outside [-1,1]."),
		floatUnary(OpAtan, "atan", 4096, math.Atan, "atan({0})", "Arc tangent."),
		floatUnary(OpAsinh, "asinh", 64, math.Asinh, "arsinh({0})", "Inverse hyperbolic sine.").costs(16),
		floatUnary(OpAcosh, "acosh", 64, math.Acosh, "arcosh({0})",
			"Inverse hyperbolic cosine, NaN below 1.").costs(16),
		floatUnary(OpAtanh, "atanh", 64, math.Atanh, "artanh({0})",
			"Inverse hyperbolic tangent, NaN outside [-1,1].").costs(16),
		floatUnary(OpSinh, "sinh", 256, sinh, "sinh_accurate({0})", "Hyperbolic sine.").costs(16),
		floatUnary(OpCosh, "cosh", 128, cosh, "cosh_accurate({0})", "Hyperbolic cosine.").costs(16),
		floatUnary(OpTanh, "tanh", 64, math.Tanh, "tanh_safe({0})", "Hyperbolic tangent.").costs(6),
		floatUnary(OpSigmoid, "sigmoid", 64, sigmoid, "1.0 / (1.0 + exp(-{0}))", "1/(1+e^-x).").costs(6),
		floatUnary(OpSilu, "silu", 64, func(x float64) float64 { return x * sigmoid(x) }, "{0} / (1.0 + exp(-{0}))",
			"x*sigmoid(x), also called swish.").costs(6),
		floatUnary(OpSelu, "selu", 128, selu, "selu({0})", "Self-normalizing ELU (Klambauer et al. 2017)."),
		floatUnary(OpGelu, "gelu", 256, geluTanh, "gelu_tanh({0})",
			"GELU by its tanh approximation (Hendrycks and Gimpel 2016).").costs(16),
		floatUnary(OpGeluErf, "gelu_erf", 256, geluErf, "0.5 * {0} * (1.0 + erf({0} * 0.70710678118654752))",
			"GELU by erf.").costs(16),
		floatUnary(OpErf, "erf", 64, math.Erf, "erf({0})", "Error function.").costs(16),
		floatUnary(OpSoftplus, "softplus", 128, softplus, "softplus({0})", "log(1+e^x).").costs(6),
		floatUnary(OpMish, "mish", 256, func(x float64) float64 { return x * math.Tanh(softplus(x)) },
			"{0} * tanh_safe(softplus({0}))", "x*tanh(softplus(x)) (Misra 2019).").costs(16),
		// Near x = -3 the sum cancels, and the rounding error of the multiplication (up to 2^-23 including the rounding
		// of 1/6) remains; hardswish multiplies it by 3.
		within(7.5e-7, floatUnary(OpHardswish, "hardswish", 8, func(x float64) float64 { return x * hardsigmoid(x) },
			"{0} * clamp({0} * (1.0 / 6.0) + 0.5, 0.0, 1.0)", "x*hardsigmoid(x).")),
		within(2.5e-7, floatUnary(OpHardsigmoid, "hardsigmoid", 8, hardsigmoid,
			"clamp({0} * (1.0 / 6.0) + 0.5, 0.0, 1.0)", "x/6+1/2 clamped to [0,1].")),
		step(floatUnary(OpFloor, "floor", 0, math.Floor, "floor({0})", "Largest integer not above x.")),
		step(floatUnary(OpCeil, "ceil", 0, math.Ceil, "ceil({0})", "Smallest integer not below x.")),
		step(floatUnary(OpRound, "round", 0, math.RoundToEven, "roundEven({0})", "Nearest integer, halves to even.")),
		step(floatUnary(OpTrunc, "trunc", 0, math.Trunc, "trunc({0})", "Integer part.")),
		OpInfo{Op: OpRelu, Name: "relu", Class: ClassElementwise, Args: oneArg, Infer: inferSame,
			Float: unaryF(func(x float64) float64 { return nanMax(x, 0) }), Int: unaryI(func(x int64) int64 { return max(x, 0) }),
			GLSL: GLSL{Float: "nan_max({0}, 0.0)", Int: "max({0}, 0)"}, Doc: "max(x, 0)."},
		OpInfo{Op: OpLeakyRelu, Name: "leaky_relu", Class: ClassElementwise, Args: oneArg, Infer: inferSame,
			Attrs: []AttrInfo{{Name: "alpha", Kind: AttrFloat, Default: 0.01, Doc: "slope below 0", Samples: []any{0.3}}},
			Float: func(x []float64, a Attrs) float64 {
				if x[0] < 0 {
					return a.Float("alpha") * x[0]
				}
				return x[0]
			}, GLSL: GLSL{Float: "({0} < 0.0 ? {alpha} * {0} : {0})"}, Tol: Tolerance{Eps: 2}, Doc: "x, or alpha*x below 0."},
		OpInfo{Op: OpElu, Name: "elu", Class: ClassElementwise, Args: oneArg, Infer: inferSame,
			Attrs: []AttrInfo{{Name: "alpha", Kind: AttrFloat, Default: 1.0, Doc: "the limit towards minus infinity is -alpha", Samples: []any{1.7}}},
			Float: func(x []float64, a Attrs) float64 {
				if x[0] < 0 {
					return a.Float("alpha") * math.Expm1(x[0])
				}
				return x[0]
			}, GLSL: GLSL{Float: "({0} < 0.0 ? {alpha} * expm1({0}) : {0})"}, Tol: Tolerance{Eps: 64, Abs: 1e-7}, Doc: "x, or alpha*(e^x-1) below 0."},
		OpInfo{Op: OpCelu, Name: "celu", Class: ClassElementwise, Args: oneArg, Infer: inferSame,
			Attrs: []AttrInfo{{Name: "alpha", Kind: AttrFloat, Default: 1.0,
				Doc: "the limit towards minus infinity is -alpha", Samples: []any{1.7, 0.5}}},
			Float: func(x []float64, a Attrs) float64 {
				if alpha := a.Float("alpha"); x[0] < 0 {
					return alpha * math.Expm1(x[0]/alpha)
				}
				return x[0]
			}, GLSL: GLSL{Float: "({0} < 0.0 ? {alpha} * expm1({0} / {alpha}) : {0})"}, Tol: Tolerance{Eps: 64, Abs: 1e-7},
			Cost: 6, Doc: "x, or alpha*(e^(x/alpha)-1) below 0 (Barron 2017)."},
		floatUnary(OpSoftsign, "softsign", 8, func(x float64) float64 { return x / (1 + math.Abs(x)) },
			"div_full({0}, 1.0 + abs({0}))", "x/(1+|x|)."),
		OpInfo{Op: OpNot, Name: "not", Class: ClassElementwise, Args: oneArg, Infer: inferBits,
			Int: unaryI(func(x int64) int64 { return ^x }), GLSL: GLSL{Int: "~{0}", Uint: "~{0}", Bool: "!{0}"}, NoGrad: noFloats, Doc: "Logical not of a bool, bitwise not of an integer."},
		OpInfo{Op: OpIsNaN, Name: "is_nan", Class: ClassElementwise, Args: oneArg, Infer: inferFloatTest,
			Float: unaryF(func(x float64) float64 { return b2f(math.IsNaN(x)) }), GLSL: GLSL{Float: "isnan({0})"}, NoGrad: noFloats, Doc: "Whether x is NaN."},
		OpInfo{Op: OpIsInf, Name: "is_inf", Class: ClassElementwise, Args: oneArg, Infer: inferFloatTest,
			Float: unaryF(func(x float64) float64 { return b2f(math.IsInf(x, 0)) }), GLSL: GLSL{Float: "isinf({0})"}, NoGrad: noFloats, Doc: "Whether x is infinite."},
	)
	initBinary()
	initCompare()
	initTernary()
}

// binaryOp returns the row of a function of two numbers of one dtype, with references f and i. Either may be nil.
func binaryOp(op Op, name string, eps float64, f f2, i i2, glsl GLSL, doc string) OpInfo {
	in := OpInfo{Op: op, Name: name, Class: ClassElementwise, Args: twoArgs, Infer: inferSame, GLSL: glsl,
		Tol: Tolerance{Eps: eps}, Doc: doc}
	if f != nil {
		in.Float = binaryF(f)
	}
	if i != nil {
		in.Int = binaryI(i)
	}
	return in
}

// initBinary adds the rows of functions of two numbers.
func initBinary() {
	infix := func(op string) GLSL { e := "{0} " + op + " {1}"; return GLSL{Float: e, Int: e, Uint: e} }
	rows(
		binaryOp(OpAdd, "add", 2, func(a, b float64) float64 { return a + b }, func(a, b int64) int64 { return a + b },
			infix("+"), "a+b; integers wrap."),
		binaryOp(OpSub, "sub", 2, func(a, b float64) float64 { return a - b }, func(a, b int64) int64 { return a - b },
			infix("-"), "a-b; integers wrap."),
		binaryOp(OpMul, "mul", 2, func(a, b float64) float64 { return a * b }, func(a, b int64) int64 { return a * b },
			infix("*"), "a*b; integers wrap."),
		binaryOp(OpDiv, "div", 8, func(a, b float64) float64 { return a / b }, divInt,
			GLSL{Float: "div_full({0}, {1})", Int: "div_int({0}, {1})", Uint: "div_uint({0}, {1})"},
			"a/b; integers truncate, and x/0 is 0."),
		binaryOp(OpMod, "mod", 64, modFloat, modInt,
			GLSL{Float: "mod_floor({0}, {1})", Int: "mod_int({0}, {1})", Uint: "rem_uint({0}, {1})"},
			"a-b*floor(a/b): has the sign of b, as in Python; integer x mod 0 is 0."),
		binaryOp(OpRem, "rem", 64, math.Mod, remInt,
			GLSL{Float: "rem_trunc({0}, {1})", Int: "rem_int({0}, {1})", Uint: "rem_uint({0}, {1})"},
			"a-b*trunc(a/b): has the sign of a, as in C; integer x rem 0 is 0."),
		binaryOp(OpPow, "pow", 512, math.Pow, powInt,
			GLSL{Float: "pow_full({0}, {1})", Int: "pow_int({0}, {1})", Uint: "pow_uint({0}, {1})"},
			"a^b; a negative float a needs an integral b. Integers wrap. If an integer b is negative, a^b "+
				"is truncated: 0 unless a is 1 or -1. A constant b counts as powf's exponent.").
			costs(16).with(powerByConstant),
		binaryOp(OpMin, "min", 0, nanMin, func(a, b int64) int64 {
			return min(a, b)
		}, GLSL{Float: "nan_min({0}, {1})", Int: "min({0}, {1})", Uint: "min({0}, {1})"}, "Smaller of a and b, NaN "+
			"if either is."),
		binaryOp(OpMax, "max", 0, nanMax, func(a, b int64) int64 {
			return max(a, b)
		}, GLSL{Float: "nan_max({0}, {1})", Int: "max({0}, {1})", Uint: "max({0}, {1})"}, "Larger of a and b, NaN "+
			"if either is."),
		binaryOp(OpAtan2, "atan2", 4096, atan2, nil, GLSL{Float: "atan2_full({0}, {1})"},
			"Angle of the point (b, a).").costs(16),
		logic(OpAnd, "and", func(a, b int64) int64 {
			return a & b
		}, GLSL{Int: "{0} & {1}", Uint: "{0} & {1}", Bool: "{0} && {1}"}, "Logical and of bools, bitwise and "+
			"of integers."),
		logic(OpOr, "or", func(a, b int64) int64 {
			return a | b
		}, GLSL{Int: "{0} | {1}", Uint: "{0} | {1}",
			Bool: "{0} || {1}"}, "Logical or of bools, bitwise or of integers."),
		logic(OpXor, "xor", func(a, b int64) int64 {
			return a ^ b
		}, GLSL{Int: "{0} ^ {1}", Uint: "{0} ^ {1}",
			Bool: "{0} != {1}"}, "Exclusive or of bools, bitwise of integers."),
		shift(OpShl, "shl", func(a, b int64) int64 { return a << uint64(b) },
			GLSL{Int: "shift_left({0}, {1})", Uint: "{1} < 32u ? {0} << {1} : 0u"},
			"a shifted left by b. If b is negative, or at least the width of the dtype, the result is 0."),
		shift(OpShr, "shr", func(a, b int64) int64 { return a >> uint64(b) },
			GLSL{Int: "shift_right({0}, {1})", Uint: "{1} < 32u ? {0} >> {1} : 0u"},
			"a shifted right by b; signed integers keep their sign. If b is negative, or at least the width of "+
				"the dtype, the result is 0, or -1 for negative a."),
	)
}

func logic(op Op, name string, f i2, glsl GLSL, doc string) OpInfo {
	return OpInfo{Op: op, Name: name, Class: ClassElementwise, Args: twoArgs, Infer: inferBits, Int: binaryI(f),
		GLSL: glsl, NoGrad: noFloats, Doc: doc}
}

func shift(op Op, name string, f i2, glsl GLSL, doc string) OpInfo {
	return OpInfo{Op: op, Name: name, Class: ClassElementwise, Args: twoArgs, Infer: inferSame, Int: binaryI(f),
		GLSL: glsl, NoGrad: noFloats, Doc: doc}
}

// initCompare adds the rows of comparisons.
func initCompare() {
	cmp := func(op Op, name, glsl string, f func(a, b float64) bool, i func(a, b int64) bool, doc string) OpInfo {
		e := "{0} " + glsl + " {1}"
		in := OpInfo{Op: op, Name: name, Class: ClassElementwise, Args: twoArgs, Infer: inferCompare,
			Float: binaryF(func(a, b float64) float64 { return b2f(f(a, b)) }),
			Int:   binaryI(func(a, b int64) int64 { return int64(b2f(i(a, b))) }),
			GLSL:  GLSL{Float: e, Int: e, Uint: e}, NoGrad: noFloats, Doc: doc}
		if op == OpEq || op == OpNe {
			in.GLSL.Bool = e
		}
		return in
	}
	rows(
		cmp(OpEq, "eq", "==", func(a, b float64) bool { return a == b }, func(a, b int64) bool { return a == b },
			"Whether a equals b."),
		cmp(OpNe, "ne", "!=", func(a, b float64) bool { return a != b }, func(a, b int64) bool { return a != b },
			"Whether a differs from b."),
		cmp(OpLt, "lt", "<", func(a, b float64) bool { return a < b }, func(a, b int64) bool { return a < b },
			"Whether a is less than b."),
		cmp(OpLe, "le", "<=", func(a, b float64) bool { return a <= b }, func(a, b int64) bool { return a <= b },
			"Whether a is at most b."),
		cmp(OpGt, "gt", ">", func(a, b float64) bool { return a > b }, func(a, b int64) bool { return a > b },
			"Whether a is greater than b."),
		cmp(OpGe, "ge", ">=", func(a, b float64) bool { return a >= b }, func(a, b int64) bool { return a >= b },
			"Whether a is at least b."),
	)
}

// initTernary adds the rows of ops with three arguments or with constants as attributes, and of casts.
func initTernary() {
	sel := "({0} ? {1} : {2})"
	rows(
		OpInfo{Op: OpWhere, Name: "where", Class: ClassElementwise,
			Args: []ArgInfo{{Name: "cond"}, {Name: "a"}, {Name: "b"}}, Infer: inferWhere,
			Float: func(x []float64, _ Attrs) float64 {
				if x[0] != 0 {
					return x[1]
				}
				return x[2]
			},
			Int: func(x []int64, _ Attrs) int64 {
				if x[0] != 0 {
					return x[1]
				}
				return x[2]
			},
			GLSL: GLSL{Float: sel, Int: sel, Uint: sel, Bool: sel}, Doc: "a if cond is true, else b. An integer cond is true if it is not 0."},
		OpInfo{Op: OpClamp, Name: "clamp", Class: ClassElementwise, Args: oneArg, Infer: inferNumbers,
			Attrs: []AttrInfo{{Name: "min", Kind: AttrFloat, Default: math.Inf(-1), Doc: "lower bound", Samples: []any{-0.5}}, {Name: "max", Kind: AttrFloat, Default: math.Inf(1), Doc: "upper bound", Samples: []any{1.0}}},
			Float: func(x []float64, a Attrs) float64 { return nanMin(nanMax(x[0], a.Float("min")), a.Float("max")) },
			Int: func(x []int64, a Attrs) int64 {
				y := x[0]
				if lo := a.Float("min"); !math.IsInf(lo, 0) {
					y = max(y, int64(lo))
				}
				if hi := a.Float("max"); !math.IsInf(hi, 0) {
					y = min(y, int64(hi))
				}
				return y
			},
			GLSL: GLSL{Float: "nan_min(nan_max({0}, {min}), {max})"},
			Doc:  "x limited to [min, max]; NaN stays. A bound for integers is a value of their dtype, or infinite for no limit."},
		OpInfo{Op: OpAffine, Name: "affine", Class: ClassElementwise, Args: oneArg, Infer: inferNumbers,
			Attrs: []AttrInfo{{Name: "mul", Kind: AttrFloat, Default: 1.0, Doc: "factor", Samples: []any{1.5, -0.75}}, {Name: "add", Kind: AttrFloat, Default: 0.0, Doc: "offset", Samples: []any{-0.25, 2.0}}},
			Float: func(x []float64, a Attrs) float64 { return float64(x[0]*a.Float("mul")) + a.Float("add") },
			Int:   func(x []int64, a Attrs) int64 { return x[0]*int64(a.Float("mul")) + int64(a.Float("add")) },
			// Where the sum cancels, the multiplication's rounding error of |add|*2^-24 remains.
			GLSL: GLSL{Float: "{0} * {mul} + {add}"}, Tol: Tolerance{Eps: 4, Abs: 1e-6}, Doc: "x*mul+add. For integers, mul and add are values of their dtype, and the result wraps."},
		OpInfo{Op: OpPowf, Cost: 16, Name: "powf", Class: ClassElementwise, Args: oneArg, Infer: inferSame,
			Attrs: []AttrInfo{{Name: "exponent", Kind: AttrFloat, Doc: "the power", Samples: []any{2.5, 2.0, 3.0, -1.0, 0.0, 0.5, 1.0}}},
			Float: func(x []float64, a Attrs) float64 { return math.Pow(x[0], a.Float("exponent")) },
			GLSL:  GLSL{Float: "pow_full({0}, {exponent})"}, Tol: Tolerance{Eps: 512},
			Doc: "x raised to a constant. Exponents -2 to 8, 0.5 and -0.5 use multiplications, divisions and square roots.",
			Known: func(a Attrs, _ func(int) (float64, bool)) GLSL {
				return GLSL{Float: powerForm(a.Float("exponent")).Float}
			}},
		OpInfo{Op: OpLerp, Name: "lerp", Class: ClassElementwise,
			Args: []ArgInfo{{Name: "a"}, {Name: "b"}, {Name: "t"}}, Infer: inferSame,
			Float: func(x []float64, _ Attrs) float64 { return x[0] + float64((x[1]-x[0])*x[2]) },
			GLSL:  GLSL{Float: "{0} + ({1} - {0}) * {2}"}, Tol: Tolerance{Eps: 8, Abs: 1e-6}, Doc: "a+(b-a)*t."},
		binaryOp(OpAfter, "after", 0, func(x, _ float64) float64 { return x }, func(x, _ int64) int64 { return x },
			GLSL{Float: "{0}", Int: "{0}", Uint: "{0}"},
			"a, computed after b. It orders computations, so that no pass merges a recomputation with the "+
				"first computation."),
		OpInfo{Op: OpCast, Name: "cast", Class: ClassElementwise, Moves: true, Args: oneArg, Infer: inferCast,
			Attrs: []AttrInfo{{Name: "dtype", Kind: AttrDType, Doc: "the new dtype"}},
			Float: func(x []float64, _ Attrs) float64 { return x[0] }, Int: func(x []int64, _ Attrs) int64 { return x[0] },
			GLSL: GLSL{Float: "{0}", Int: "{0}", Uint: "{0}", Bool: "{0}"}, Tol: Tolerance{Eps: 1},
			Doc: "The same value in another dtype, except block dtypes. A cast to float rounds to nearest, ties to even. Values past the largest finite one become infinite. Formats without infinities saturate, f8e4m3 to ±448. f8e8m0 has only powers of two: a tie goes to the larger, and numbers below the range give the smallest. NaN stays NaN, except that f4e2m1 has -0 for it. Float to integer truncates and saturates, and NaN gives 0. Integer to integer wraps (two's complement). To bool is x != 0, so NaN is true. From bool is 0 or 1."},
		OpInfo{Op: OpBitcast, Name: "bitcast", Class: ClassElementwise, Moves: true, Args: oneArg, Infer: inferBitcast,
			Attrs:  []AttrInfo{{Name: "dtype", Kind: AttrDType, Doc: "the new dtype, of as many bits"}},
			NoGrad: "no gradient passes through bits",
			Doc:    "The same bits as another float or integer dtype of equal size. The bits of a NaN may change."},
	)
}

// powerByConstant returns the form of pow if its exponent, argument 1, is a known constant.
func powerByConstant(_ Attrs, known func(arg int) (float64, bool)) GLSL {
	if e, ok := known(1); ok {
		return powerForm(e)
	}
	return GLSL{}
}

// powerForm returns the scalar form of {0} raised to an exponent that needs only a few operations: integers and roots.
// If an intermediate result is out of range, so is the power. Roots need special cases: a power of -0 must be 0 or
// infinite, and a power of -inf infinite or 0.
func powerForm(exponent float64) GLSL {
	switch exponent {
	case -2, -1:
		return GLSL{Float: wholePower("(1.0 / {0})", int(-exponent))}
	case 0.5:
		return GLSL{Float: "(isinf({0}) ? abs({0}) : {0} < 0.0 ? sqrt({0}) : sqrt(abs({0})))"}
	case -0.5:
		return GLSL{Float: "(isinf({0}) ? 0.0 : {0} < 0.0 ? sqrt({0}) : inversesqrt(abs({0})))"}
	case 1, 2, 3, 4, 5, 6, 7, 8:
		p := wholePower("{0}", int(exponent))
		return GLSL{Float: p, Int: p, Uint: p}
	}
	return GLSL{}
}

// wholePower returns GLSL for the n-th power of factor, by repeated squaring.
func wholePower(factor string, n int) string {
	switch {
	case n == 1:
		return factor
	case n%2 == 1:
		return wholePower(factor, n-1) + " * " + factor
	}
	half := wholePower(factor, n/2)
	if n > 2 {
		half = "(" + half + ")"
	}
	return half + " * " + half
}

// Shape and dtype rules.

// kinds lists the kinds of dtype with a GLSL form in an elementwise row.
func (in *OpInfo) kinds() []Kind {
	var ks []Kind
	for _, k := range []struct {
		form string
		kind Kind
	}{{in.GLSL.Float, KindFloat}, {in.GLSL.Int, KindInt}, {in.GLSL.Uint, KindUint}, {in.GLSL.Bool, KindBool}} {
		if k.form != "" {
			ks = append(ks, k.kind)
		}
	}
	return ks
}

// inferSame is the type rule of ops on arguments of one dtype, which broadcast. The result has the same dtype.
func inferSame(c *Call) (Type, error) {
	for i := range c.Args {
		if err := c.wantKinds(i, c.Op.Info().kinds()...); err != nil {
			return Type{}, err
		}
		if err := c.wantSame(0, i); err != nil {
			return Type{}, err
		}
	}
	s, err := c.broadcastArgs()
	return Type{c.DType(0), s}, err
}

// inferNumbers is the rule for one float or integer argument with numeric attributes of its dtype. Integers are limited
// to 2^53, since attributes would lose the low bits of larger ones. An attribute with an infinite default, such as
// clamp's, may be infinite: then there is no limit.
func inferNumbers(c *Call) (Type, error) {
	if err := c.wantKinds(0, KindFloat, KindInt, KindUint); err != nil {
		return Type{}, err
	}
	t := Type{c.DType(0), c.Shape(0)}
	if !t.DType.IsInteger() {
		return t, nil
	}
	lo, hi := IntRange(t.DType)
	for _, a := range c.Op.Info().Attrs {
		v, mayBeInfinite := c.Attrs.Float(a.Name), math.IsInf(a.Default.(float64), 0)
		if mayBeInfinite && math.IsInf(v, 0) {
			continue
		}
		if v != math.Trunc(v) || math.Abs(v) > 1<<53 || v < float64(lo) || v > float64(hi) {
			return Type{}, fmt.Errorf("%s is %v, which %s cannot hold: want a whole number from %d to "+
				"%d", a.Name, v, t.DType,
				max(lo, -1<<53), min(hi, 1<<53))
		}
	}
	return t, nil
}

func inferBits(c *Call) (Type, error) { return inferSame(c) }

func inferFloatTest(c *Call) (Type, error) {
	err := c.wantKinds(0, KindFloat)
	return Type{Bool, c.Shape(0)}, err
}

func inferCompare(c *Call) (Type, error) {
	t, err := inferSame(c)
	t.DType = Bool
	return t, err
}

// inferWhere is the type rule of where.
func inferWhere(c *Call) (Type, error) {
	if err := c.wantKinds(0, KindBool, KindInt, KindUint); err != nil {
		return Type{}, err
	}
	if err := c.wantSame(1, 2); err != nil {
		return Type{}, err
	}
	if err := c.wantKinds(1, KindFloat, KindInt, KindUint, KindBool); err != nil {
		return Type{}, err
	}
	s, err := c.broadcastArgs()
	return Type{c.DType(1), s}, err
}

// inferCast is the type rule of cast.
func inferCast(c *Call) (Type, error) {
	to := c.Attrs.DType("dtype")
	if to.IsBlock() {
		return Type{}, fmt.Errorf("cannot cast to %s: quantize weights ahead of time", to)
	}
	err := c.wantKinds(0, KindFloat, KindInt, KindUint, KindBool)
	return Type{to, c.Shape(0)}, err
}

// inferBitcast is the type rule of bitcast: both dtypes must have the same size.
func inferBitcast(c *Call) (Type, error) {
	from, to := c.DType(0), c.Attrs.DType("dtype")
	if err := c.wantKinds(0, KindFloat, KindInt, KindUint); err != nil {
		return Type{}, err
	}
	if to.IsBlock() || to == Bool || to.Bits() != from.Bits() {
		return Type{}, fmt.Errorf("cannot read the bits of %s as %s: want floats or integers of %d bits", from, to,
			from.Bits())
	}
	return Type{to, c.Shape(0)}, nil
}

// Scalar references.

// b2f returns 1 for true and 0 for false.
func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// sign returns 1 for positive numbers, -1 for negative ones, and 0 for zeros and NaN.
func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}

// nanMax and nanMin are the built-in max and min. They return NaN if an argument is NaN; math.Max(Inf, NaN) is Inf.
func nanMax(a, b float64) float64 { return max(a, b) }
func nanMin(a, b float64) float64 { return min(a, b) }

// overflowing bounds the arguments at which math.Exp of some processors gives infinity too early: on amd64 it does from
// 709.44 on, and e^x overflows above 709.78.
const overflowing = 709

// exp is e^x.
func exp(x float64) float64 {
	if x > overflowing {
		root := math.Exp(x / 2)
		return float64(root * root)
	}
	return math.Exp(x)
}

// log is the natural logarithm. math.Log of amd64 takes all positive numbers below 2^-1022 for that number.
func log(x float64) float64 {
	const least, scale, logScale = 0x1p-1022, 1 << 54, 54 * math.Ln2
	if x > 0 && x < least {
		return math.Log(x*scale) - logScale
	}
	return math.Log(x)
}

// cosh and sinh are the hyperbolic functions. They overflow above 710.47.
func cosh(x float64) float64 {
	if math.Abs(x) > overflowing {
		root := math.Exp(math.Abs(x) / 2)
		return 0.5 * root * root
	}
	return math.Cosh(x)
}

func sinh(x float64) float64 {
	if math.Abs(x) > overflowing {
		return math.Copysign(cosh(x), x)
	}
	return math.Sinh(x)
}

// log2 is the logarithm to base 2. math.Log2 loses digits near 1.
func log2(x float64) float64 {
	if x > 0.7 && x < 1.4 {
		return math.Log1p(x-1) * math.Log2E
	}
	return math.Log2(x)
}

// acos is the arc cosine. math.Acos loses digits near 1.
func acos(x float64) float64 { return 2 * math.Atan2(math.Sqrt(1-x), math.Sqrt(1+x)) }

// atan2 is the angle of the point (x, y). math.Atan2 loses the sign of y if y/x underflows and x is negative.
func atan2(y, x float64) float64 { return math.Copysign(math.Atan2(math.Abs(y), x), y) }

func sigmoid(x float64) float64 { return 1 / (1 + exp(-x)) }

func softplus(x float64) float64 { return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

func hardsigmoid(x float64) float64 { return math.Min(math.Max(x/6+0.5, 0), 1) }

// selu is the scaled exponential linear unit (Klambauer et al. 2017).
func selu(x float64) float64 {
	const alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
	if x < 0 {
		return scale * alpha * math.Expm1(x)
	}
	return scale * x
}

func geluTanh(x float64) float64 {
	return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+float64(0.044715*x*x*x))))
}

func geluErf(x float64) float64 { return 0.5 * x * (1 + math.Erf(x/math.Sqrt2)) }

// modFloat returns the remainder of a/b with the sign of b.
func modFloat(a, b float64) float64 {
	r := math.Mod(a, b)
	if r != 0 && (r < 0) != (b < 0) {
		r += b
	}
	return r
}

// divInt returns the truncated quotient. A division by 0 gives 0.
func divInt(a, b int64) int64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// remInt returns the remainder of a/b with the sign of a. A division by 0 gives 0.
func remInt(a, b int64) int64 {
	if b == 0 {
		return 0
	}
	return a % b
}

// modInt returns the remainder of a/b with the sign of b. A division by 0 gives 0.
func modInt(a, b int64) int64 {
	r := remInt(a, b)
	if r != 0 && (r < 0) != (b < 0) {
		r += b
	}
	return r
}

// powInt returns a^b, wrapped to 64 bits and truncated towards zero for a negative b.
func powInt(a, b int64) int64 {
	switch {
	case b < 0 && a == 1, b < 0 && a == -1 && b%2 == 0:
		return 1
	case b < 0 && a == -1:
		return -1
	case b < 0:
		return 0
	}
	y := int64(1)
	for ; b > 0; b >>= 1 { // a is the number to the power 1, 2, 4 and so on
		if b&1 != 0 {
			y *= a
		}
		a *= a
	}
	return y
}

// Wrap reduces an exact integer to the range of an integer or bool dtype, as
// two's complement arithmetic does.
func Wrap(x int64, t DType) int64 {
	switch shift := 64 - t.Bits(); t.Kind() {
	case KindInt:
		return x << shift >> shift
	case KindUint:
		return int64(uint64(x) << shift >> shift)
	case KindBool:
		return x & 1
	}
	return x
}
