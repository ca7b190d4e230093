package gomlx

import "github.com/gomlx/compute"

// The methods of compute.Function that are rows of the tables unaryOps, binaryOps and comparisons.

// Abs implements compute.Function: |x|.
func (f *Function) Abs(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeAbs, x)
}

// BitCount implements compute.Function: the number of bits of x that are 1.
func (f *Function) BitCount(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeBitCount, x)
}

// BitwiseNot implements compute.Function: x with all bits inverted.
func (f *Function) BitwiseNot(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeBitwiseNot, x)
}

// Ceil implements compute.Function: the least integer that is not below x.
func (f *Function) Ceil(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeCeil, x)
}

// Clz implements compute.Function: the number of zero bits before the first bit of x that is 1. It is the dtype's width
// if x is 0.
func (f *Function) Clz(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeClz, x)
}

// Cos implements compute.Function: the cosine of x radians.
func (f *Function) Cos(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeCos, x)
}

// Erf implements compute.Function: the error function of x.
func (f *Function) Erf(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeErf, x)
}

// Exp implements compute.Function: e^x.
func (f *Function) Exp(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeExp, x)
}

// Expm1 implements compute.Function: e^x-1, also accurate for small x.
func (f *Function) Expm1(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeExpm1, x)
}

// Floor implements compute.Function: the greatest integer that is not above x.
func (f *Function) Floor(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeFloor, x)
}

// Log implements compute.Function: the natural logarithm of x.
func (f *Function) Log(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLog, x)
}

// Log1p implements compute.Function: log(1+x), also accurate for small x.
func (f *Function) Log1p(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLog1p, x)
}

// LogicalNot implements compute.Function: the negation of a bool.
func (f *Function) LogicalNot(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLogicalNot, x)
}

// Logistic implements compute.Function: 1/(1+e^-x).
func (f *Function) Logistic(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLogistic, x)
}

// Neg implements compute.Function: -x. Integers wrap.
func (f *Function) Neg(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeNeg, x)
}

// Round implements compute.Function: the nearest integer to x, with ties to even.
func (f *Function) Round(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeRound, x)
}

// Rsqrt implements compute.Function: 1/sqrt(x).
func (f *Function) Rsqrt(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeRsqrt, x)
}

// Sign implements compute.Function: -1, 0 or 1, the sign of x.
func (f *Function) Sign(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeSign, x)
}

// Sin implements compute.Function: the sine of x radians.
func (f *Function) Sin(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeSin, x)
}

// Sqrt implements compute.Function: the square root of x.
func (f *Function) Sqrt(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeSqrt, x)
}

// Tanh implements compute.Function: the hyperbolic tangent of x.
func (f *Function) Tanh(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeTanh, x)
}

// Add implements compute.Function: x+y. Integers wrap.
func (f *Function) Add(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeAdd, x, y)
}

// Atan2 implements compute.Function: the angle in radians of the point with abscissa y and ordinate x.
func (f *Function) Atan2(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeAtan2, x, y)
}

// BitwiseAnd implements compute.Function: the bits that are 1 in both x and y.
func (f *Function) BitwiseAnd(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeBitwiseAnd, x, y)
}

// BitwiseOr implements compute.Function: the bits that are 1 in x or y.
func (f *Function) BitwiseOr(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeBitwiseOr, x, y)
}

// BitwiseXor implements compute.Function: the bits that differ between x and y.
func (f *Function) BitwiseXor(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeBitwiseXor, x, y)
}

// Div implements compute.Function: x/y. Integers truncate, and division by 0 gives 0.
func (f *Function) Div(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeDiv, x, y)
}

// LogicalAnd implements compute.Function: whether both bools are true.
func (f *Function) LogicalAnd(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLogicalAnd, x, y)
}

// LogicalOr implements compute.Function: whether one of the bools is true, or both.
func (f *Function) LogicalOr(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLogicalOr, x, y)
}

// LogicalXor implements compute.Function: whether the bools differ.
func (f *Function) LogicalXor(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLogicalXor, x, y)
}

// Max implements compute.Function: the larger of x and y, or NaN if either is NaN.
func (f *Function) Max(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeMax, x, y)
}

// Min implements compute.Function: the smaller of x and y, or NaN if either is NaN.
func (f *Function) Min(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeMin, x, y)
}

// Mul implements compute.Function: x*y. Integers wrap.
func (f *Function) Mul(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeMul, x, y)
}

// Pow implements compute.Function: x^y. Integers wrap. For a negative integer y the result is 1/x^-y, truncated.
func (f *Function) Pow(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypePow, x, y)
}

// Rem implements compute.Function: the remainder of x/y, with the sign of x. An integer remainder of division by 0 is
// 0.
func (f *Function) Rem(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeRem, x, y)
}

// ShiftLeft implements compute.Function: x shifted left by y bits. The result is 0 if y is negative, or not below the
// dtype's width.
func (f *Function) ShiftLeft(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeShiftLeft, x, y)
}

// ShiftRightArithmetic implements compute.Function: x shifted right by y bits, with copies of the sign bit at the top
// (zeros for unsigned integers). If y is negative, or not below the dtype's width, all bits are such copies.
func (f *Function) ShiftRightArithmetic(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeShiftRightArithmetic, x, y)
}

// ShiftRightLogical implements compute.Function: x shifted right by y bits, with zeros at the top. The result is 0 if y
// is negative, or not below the dtype's width.
func (f *Function) ShiftRightLogical(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeShiftRightLogical, x, y)
}

// Sub implements compute.Function: x-y. Integers wrap.
func (f *Function) Sub(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeSub, x, y)
}

// Equal implements compute.Function: whether x and y are equal. NaN equals nothing.
func (f *Function) Equal(x, y compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeEqual, x, y)
}

// NotEqual implements compute.Function: whether x and y differ. NaN differs from everything.
func (f *Function) NotEqual(x, y compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeNotEqual, x, y)
}

// GreaterOrEqual implements compute.Function: whether x >= y.
func (f *Function) GreaterOrEqual(x, y compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeGreaterOrEqual, x, y)
}

// GreaterThan implements compute.Function: whether x > y.
func (f *Function) GreaterThan(x, y compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeGreaterThan, x, y)
}

// LessOrEqual implements compute.Function: whether x <= y.
func (f *Function) LessOrEqual(x, y compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeLessOrEqual, x, y)
}

// LessThan implements compute.Function: whether x < y.
func (f *Function) LessThan(x, y compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeLessThan, x, y)
}

// EqualTotalOrder implements compute.Function: whether x and y have the same place in the total order of floats. In
// that order -0 is before 0, and NaNs are at both ends. Other dtypes have their usual order.
func (f *Function) EqualTotalOrder(x, y compute.Value) (compute.Value, error) {
	return f.compareInTotalOrder(compute.OpTypeEqualTotalOrder, compute.OpTypeEqual, x, y)
}

// GreaterOrEqualTotalOrder implements compute.Function: whether x is not before y in the order of EqualTotalOrder.
func (f *Function) GreaterOrEqualTotalOrder(x, y compute.Value) (compute.Value, error) {
	return f.compareInTotalOrder(compute.OpTypeGreaterOrEqualTotalOrder, compute.OpTypeGreaterOrEqual, x, y)
}

// GreaterThanTotalOrder implements compute.Function: whether x is after y in the order of EqualTotalOrder.
func (f *Function) GreaterThanTotalOrder(x, y compute.Value) (compute.Value, error) {
	return f.compareInTotalOrder(compute.OpTypeGreaterThanTotalOrder, compute.OpTypeGreaterThan, x, y)
}

// LessOrEqualTotalOrder implements compute.Function: whether x is not after y in the order of EqualTotalOrder.
func (f *Function) LessOrEqualTotalOrder(x, y compute.Value) (compute.Value, error) {
	return f.compareInTotalOrder(compute.OpTypeLessOrEqualTotalOrder, compute.OpTypeLessOrEqual, x, y)
}

// LessThanTotalOrder implements compute.Function: whether x is before y in the order of EqualTotalOrder.
func (f *Function) LessThanTotalOrder(x, y compute.Value) (compute.Value, error) {
	return f.compareInTotalOrder(compute.OpTypeLessThanTotalOrder, compute.OpTypeLessThan, x, y)
}

// NotEqualTotalOrder implements compute.Function. GoMLX infers no shape for it.
func (f *Function) NotEqualTotalOrder(x, y compute.Value) (compute.Value, error) {
	equal, err := f.EqualTotalOrder(x, y)
	if err != nil {
		return nil, err
	}
	return f.LogicalNot(equal)
}
