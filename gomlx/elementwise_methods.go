package gomlx

import "github.com/gomlx/compute"

// The methods of compute.Function that are rows of the tables unaryOps, binaryOps and comparisons.

// Abs implements compute.Function.
func (f *Function) Abs(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeAbs, x)
}

// BitCount implements compute.Function.
func (f *Function) BitCount(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeBitCount, x)
}

// BitwiseNot implements compute.Function.
func (f *Function) BitwiseNot(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeBitwiseNot, x)
}

// Ceil implements compute.Function.
func (f *Function) Ceil(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeCeil, x)
}

// Clz implements compute.Function.
func (f *Function) Clz(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeClz, x)
}

// Cos implements compute.Function.
func (f *Function) Cos(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeCos, x)
}

// Erf implements compute.Function.
func (f *Function) Erf(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeErf, x)
}

// Exp implements compute.Function.
func (f *Function) Exp(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeExp, x)
}

// Expm1 implements compute.Function.
func (f *Function) Expm1(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeExpm1, x)
}

// Floor implements compute.Function.
func (f *Function) Floor(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeFloor, x)
}

// Log implements compute.Function.
func (f *Function) Log(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLog, x)
}

// Log1p implements compute.Function.
func (f *Function) Log1p(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLog1p, x)
}

// LogicalNot implements compute.Function.
func (f *Function) LogicalNot(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLogicalNot, x)
}

// Logistic implements compute.Function.
func (f *Function) Logistic(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLogistic, x)
}

// Neg implements compute.Function.
func (f *Function) Neg(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeNeg, x)
}

// Round implements compute.Function.
func (f *Function) Round(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeRound, x)
}

// Rsqrt implements compute.Function.
func (f *Function) Rsqrt(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeRsqrt, x)
}

// Sign implements compute.Function.
func (f *Function) Sign(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeSign, x)
}

// Sin implements compute.Function.
func (f *Function) Sin(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeSin, x)
}

// Sqrt implements compute.Function.
func (f *Function) Sqrt(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeSqrt, x)
}

// Tanh implements compute.Function.
func (f *Function) Tanh(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeTanh, x)
}

// Add implements compute.Function.
func (f *Function) Add(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeAdd, x, y)
}

// Atan2 implements compute.Function.
func (f *Function) Atan2(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeAtan2, x, y)
}

// BitwiseAnd implements compute.Function.
func (f *Function) BitwiseAnd(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeBitwiseAnd, x, y)
}

// BitwiseOr implements compute.Function.
func (f *Function) BitwiseOr(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeBitwiseOr, x, y)
}

// BitwiseXor implements compute.Function.
func (f *Function) BitwiseXor(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeBitwiseXor, x, y)
}

// Div implements compute.Function.
func (f *Function) Div(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeDiv, x, y)
}

// LogicalAnd implements compute.Function.
func (f *Function) LogicalAnd(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLogicalAnd, x, y)
}

// LogicalOr implements compute.Function.
func (f *Function) LogicalOr(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLogicalOr, x, y)
}

// LogicalXor implements compute.Function.
func (f *Function) LogicalXor(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLogicalXor, x, y)
}

// Max implements compute.Function.
func (f *Function) Max(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeMax, x, y)
}

// Min implements compute.Function.
func (f *Function) Min(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeMin, x, y)
}

// Mul implements compute.Function.
func (f *Function) Mul(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeMul, x, y)
}

// Pow implements compute.Function.
func (f *Function) Pow(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypePow, x, y)
}

// Rem implements compute.Function.
func (f *Function) Rem(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeRem, x, y)
}

// ShiftLeft implements compute.Function.
func (f *Function) ShiftLeft(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeShiftLeft, x, y)
}

// ShiftRightArithmetic implements compute.Function.
func (f *Function) ShiftRightArithmetic(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeShiftRightArithmetic, x, y)
}

// ShiftRightLogical implements compute.Function.
func (f *Function) ShiftRightLogical(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeShiftRightLogical, x, y)
}

// Sub implements compute.Function.
func (f *Function) Sub(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeSub, x, y)
}

// Equal implements compute.Function.
func (f *Function) Equal(x, y compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeEqual, x, y)
}

// NotEqual implements compute.Function.
func (f *Function) NotEqual(x, y compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeNotEqual, x, y)
}

// GreaterOrEqual implements compute.Function.
func (f *Function) GreaterOrEqual(x, y compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeGreaterOrEqual, x, y)
}

// GreaterThan implements compute.Function.
func (f *Function) GreaterThan(x, y compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeGreaterThan, x, y)
}

// LessOrEqual implements compute.Function.
func (f *Function) LessOrEqual(x, y compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeLessOrEqual, x, y)
}

// LessThan implements compute.Function.
func (f *Function) LessThan(x, y compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeLessThan, x, y)
}

// EqualTotalOrder implements compute.Function.
func (f *Function) EqualTotalOrder(x, y compute.Value) (compute.Value, error) {
	return f.compareInTotalOrder(compute.OpTypeEqualTotalOrder, compute.OpTypeEqual, x, y)
}

// GreaterOrEqualTotalOrder implements compute.Function.
func (f *Function) GreaterOrEqualTotalOrder(x, y compute.Value) (compute.Value, error) {
	return f.compareInTotalOrder(compute.OpTypeGreaterOrEqualTotalOrder, compute.OpTypeGreaterOrEqual, x, y)
}

// GreaterThanTotalOrder implements compute.Function.
func (f *Function) GreaterThanTotalOrder(x, y compute.Value) (compute.Value, error) {
	return f.compareInTotalOrder(compute.OpTypeGreaterThanTotalOrder, compute.OpTypeGreaterThan, x, y)
}

// LessOrEqualTotalOrder implements compute.Function.
func (f *Function) LessOrEqualTotalOrder(x, y compute.Value) (compute.Value, error) {
	return f.compareInTotalOrder(compute.OpTypeLessOrEqualTotalOrder, compute.OpTypeLessOrEqual, x, y)
}

// LessThanTotalOrder implements compute.Function.
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
