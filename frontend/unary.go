package frontend

import (
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// Neg returns -x; integers wrap.
func (t Tensor) Neg() Tensor { return t.unary(ir.OpNeg) }

// Abs returns |x|.
func (t Tensor) Abs() Tensor { return t.unary(ir.OpAbs) }

// Sign returns -1, 0 or 1.
func (t Tensor) Sign() Tensor { return t.unary(ir.OpSign) }

// Exp returns e^x.
func (t Tensor) Exp() Tensor { return t.unary(ir.OpExp) }

// Exp2 returns 2^x.
func (t Tensor) Exp2() Tensor { return t.unary(ir.OpExp2) }

// Expm1 returns e^x-1, accurate near 0.
func (t Tensor) Expm1() Tensor { return t.unary(ir.OpExpm1) }

// Log returns the natural logarithm.
func (t Tensor) Log() Tensor { return t.unary(ir.OpLog) }

// Log2 returns the base-2 logarithm.
func (t Tensor) Log2() Tensor { return t.unary(ir.OpLog2) }

// Log1p returns log(1+x), accurate near 0.
func (t Tensor) Log1p() Tensor { return t.unary(ir.OpLog1p) }

// Sqrt returns the square root.
func (t Tensor) Sqrt() Tensor { return t.unary(ir.OpSqrt) }

// Rsqrt returns 1/sqrt(x).
func (t Tensor) Rsqrt() Tensor { return t.unary(ir.OpRsqrt) }

// Recip returns 1/x.
func (t Tensor) Recip() Tensor { return t.unary(ir.OpRecip) }

// Sqr returns x*x; integers wrap.
func (t Tensor) Sqr() Tensor { return t.unary(ir.OpSqr) }

// Sin returns the sine; x is in radians.
func (t Tensor) Sin() Tensor { return t.unary(ir.OpSin) }

// Cos returns the cosine; x is in radians.
func (t Tensor) Cos() Tensor { return t.unary(ir.OpCos) }

// Tan returns the tangent; x is in radians.
func (t Tensor) Tan() Tensor { return t.unary(ir.OpTan) }

// Asin returns the arc sine in radians.
func (t Tensor) Asin() Tensor { return t.unary(ir.OpAsin) }

// Acos returns the arc cosine in radians.
func (t Tensor) Acos() Tensor { return t.unary(ir.OpAcos) }

// Atan returns the arc tangent in radians.
func (t Tensor) Atan() Tensor { return t.unary(ir.OpAtan) }

// Sinh returns the hyperbolic sine.
func (t Tensor) Sinh() Tensor { return t.unary(ir.OpSinh) }

// Cosh returns the hyperbolic cosine.
func (t Tensor) Cosh() Tensor { return t.unary(ir.OpCosh) }

// Tanh returns the hyperbolic tangent.
func (t Tensor) Tanh() Tensor { return t.unary(ir.OpTanh) }

// Sigmoid returns 1/(1+e^-x).
func (t Tensor) Sigmoid() Tensor { return t.unary(ir.OpSigmoid) }

// Silu returns x*sigmoid(x), also called swish.
func (t Tensor) Silu() Tensor { return t.unary(ir.OpSilu) }

// Relu returns max(x, 0).
func (t Tensor) Relu() Tensor { return t.unary(ir.OpRelu) }

// LeakyRelu returns x, or alpha*x below 0.
func (t Tensor) LeakyRelu(alpha float64) Tensor {
	return t.unary(ir.OpLeakyRelu, attr("alpha", alpha))
}

// Asinh is the inverse hyperbolic sine.
func (t Tensor) Asinh() Tensor { return t.unary(ir.OpAsinh) }

// Acosh is the inverse hyperbolic cosine, NaN below 1.
func (t Tensor) Acosh() Tensor { return t.unary(ir.OpAcosh) }

// Atanh is the inverse hyperbolic tangent, NaN outside [-1,1].
func (t Tensor) Atanh() Tensor { return t.unary(ir.OpAtanh) }

// Softsign returns x/(1+|x|).
func (t Tensor) Softsign() Tensor { return t.unary(ir.OpSoftsign) }

// Celu returns x, or alpha*(e^(x/alpha)-1) below 0 (Barron 2017).
func (t Tensor) Celu(alpha float64) Tensor { return t.unary(ir.OpCelu, attr("alpha", alpha)) }

// Elu returns x, or alpha*(e^x-1) below 0.
func (t Tensor) Elu(alpha float64) Tensor { return t.unary(ir.OpElu, attr("alpha", alpha)) }

// Selu returns the self-normalizing ELU (Klambauer et al. 2017).
func (t Tensor) Selu() Tensor { return t.unary(ir.OpSelu) }

// Gelu returns the GELU in its tanh approximation (Hendrycks and Gimpel 2016).
func (t Tensor) Gelu() Tensor { return t.unary(ir.OpGelu) }

// GeluErf returns the GELU in its definition with erf.
func (t Tensor) GeluErf() Tensor { return t.unary(ir.OpGeluErf) }

// Erf returns the error function.
func (t Tensor) Erf() Tensor { return t.unary(ir.OpErf) }

// Softplus returns log(1+e^x).
func (t Tensor) Softplus() Tensor { return t.unary(ir.OpSoftplus) }

// Mish returns x*tanh(softplus(x)) (Misra 2019).
func (t Tensor) Mish() Tensor { return t.unary(ir.OpMish) }

// Hardswish returns x*hardsigmoid(x).
func (t Tensor) Hardswish() Tensor { return t.unary(ir.OpHardswish) }

// Hardsigmoid returns x/6+1/2 limited to [0, 1].
func (t Tensor) Hardsigmoid() Tensor { return t.unary(ir.OpHardsigmoid) }

// Floor returns the largest integer not above x.
func (t Tensor) Floor() Tensor { return t.unary(ir.OpFloor) }

// Ceil returns the smallest integer not below x.
func (t Tensor) Ceil() Tensor { return t.unary(ir.OpCeil) }

// Round returns the nearest integer, halves to even.
func (t Tensor) Round() Tensor { return t.unary(ir.OpRound) }

// Trunc returns the integer part.
func (t Tensor) Trunc() Tensor { return t.unary(ir.OpTrunc) }

// Not returns the logical not of bools, the bitwise not of integers.
func (t Tensor) Not() Tensor { return t.unary(ir.OpNot) }

// IsNaN returns, as bools, whether x is NaN.
func (t Tensor) IsNaN() Tensor { return t.unary(ir.OpIsNaN) }

// IsInf returns, as bools, whether x is infinite.
func (t Tensor) IsInf() Tensor { return t.unary(ir.OpIsInf) }

// Clamp clamps x to [lo, hi]; NaN stays NaN. A bound may be infinite. Finite bounds for integers must be values of
// their dtype.
func (t Tensor) Clamp(lo, hi float64) Tensor {
	return t.unary(ir.OpClamp, attr("min", lo), attr("max", hi))
}

// Affine returns x*mul+add. For integers, mul and add must be values of their dtype, and the result wraps.
func (t Tensor) Affine(mul, add float64) Tensor {
	return t.unary(ir.OpAffine, attr("mul", mul), attr("add", add))
}

// Powf returns x raised to a constant power.
func (t Tensor) Powf(exponent float64) Tensor {
	return t.unary(ir.OpPowf, attr("exponent", exponent))
}

// Cast returns x in another dtype. To a float it rounds to nearest even. From float to integer it truncates and
// saturates, and NaN gives 0. From integer to integer it wraps. To bool it is x != 0.
func (t Tensor) Cast(to ir.DType) Tensor { return t.unary(ir.OpCast, attr("dtype", to)) }

// Bitcast returns the bits of x as elements of another float or integer dtype. If the new elements are narrower, a new
// innermost axis has the parts of each element, lowest bits first. If they are wider, the innermost axis must have the
// parts of one element, and disappears (StableHLO's bitcast_convert). The payload of a NaN may change. A bool is a byte
// that is 0 or 1, and any other byte than 0 is true.
func (t Tensor) Bitcast(to ir.DType) Tensor {
	from := t.DType()
	switch {
	case from == to:
		return t
	case from == ir.Bool:
		return t.Cast(ir.U8).Bitcast(to)
	case to == ir.Bool:
		bytes := t.Bitcast(ir.U8)
		return bytes.Ne(bytes.Lit(0))
	}
	size, wide := from.BlockBytes(), to.BlockBytes() // bytes of an element before and after
	word, part := words[max(size, wide)], words[min(size, wide)]
	if size == wide || word == ir.Invalid || part == ir.Invalid || from.IsBlock() || to.IsBlock() {
		// The op does this itself, or refuses it with an error.
		return t.unary(ir.OpBitcast, attr("dtype", to))
	}
	bits := float64(8 * part.BlockBytes())
	if size > wide {
		shifts := t.b.Arange(word, 0, bits, size/wide)
		return t.bits(word).Unsqueeze(-1).Shr(shifts).Cast(part).bits(to) // to narrower elements
	}
	n := wide / size
	if t.Rank() == 0 || !t.Dim(-1).Is(n) {
		fail("bitcast", fmt.Errorf("to %s: want an innermost axis of %d parts", to, n), t)
	}
	// To wider elements: part i is shifted to its place, and all are combined.
	parts := t.bits(part).Cast(word)
	all := parts.Index(-1, 0)
	for i := 1; i < n; i++ {
		p := parts.Index(-1, i)
		all = all.Or(p.Shl(p.Lit(bits * float64(i))))
	}
	return all.bits(to)
}

// words are the integer dtypes, by size in bytes, into which Bitcast splits elements. For 64 bits, the sign bit of i64
// counts as a normal bit.
var words = map[int]ir.DType{1: ir.U8, 2: ir.U16, 4: ir.U32, 8: ir.I64}

// bits is Bitcast to a dtype of equal width.
func (t Tensor) bits(to ir.DType) Tensor {
	if t.DType() == to {
		return t
	}
	return t.unary(ir.OpBitcast, attr("dtype", to))
}
