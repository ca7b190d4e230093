package gomlx

import (
	"math"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/support/sets"
	"github.com/pkg/errors"
	"github.com/vkc-go/vkc/ir"
)

// vkc has no 64-bit unsigned integers. GoMLX uses them for the state of its random numbers. vkc represents them as i64
// with the same bits. signless lists the operations that do not depend on the sign, and conversions.
var signless = sets.MakeWith(
	compute.OpTypeReshape, compute.OpTypeTranspose, compute.OpTypeBroadcastInDim, compute.OpTypeIota,
	compute.OpTypeReverse,
	compute.OpTypeSlice, compute.OpTypeConcatenate, compute.OpTypePad, compute.OpTypeDynamicSlice,
	compute.OpTypeDynamicUpdateSlice, compute.OpTypeDynamicReshape, compute.OpTypeConvertDType, compute.OpTypeWhere,
	compute.OpTypeAdd, compute.OpTypeSub, compute.OpTypeMul, compute.OpTypeBitwiseAnd, compute.OpTypeBitwiseOr,
	compute.OpTypeBitwiseXor, compute.OpTypeBitwiseNot, compute.OpTypeEqual, compute.OpTypeNotEqual,
	compute.OpTypeReduceSum, compute.OpTypeReduceProduct, compute.OpTypeReduceBitwiseAnd, compute.OpTypeReduceBitwiseOr,
	compute.OpTypeReduceBitwiseXor, compute.OpTypeDotGeneral, compute.OpTypeConvGeneral, compute.OpTypeGather,
	compute.OpTypeScatterSum, compute.OpTypeRNGBitGenerator, compute.OpTypeBitCount, compute.OpTypeClz,
	compute.OpTypeBitcast,
)

// unsignedOps maps the binary operations that depend on the sign to implementations for unsigned numbers.
var unsignedOps = map[compute.OpType]func(x, y tensor) tensor{
	compute.OpTypeDiv:            divideUnsigned,
	compute.OpTypeRem:            func(x, y tensor) tensor { return x.Sub(divideUnsigned(x, y).Mul(y)) },
	compute.OpTypeMax:            func(x, y tensor) tensor { return inOrder(x).Max(inOrder(y)).Add(x.Lit(math.MinInt64)) },
	compute.OpTypeMin:            func(x, y tensor) tensor { return inOrder(x).Min(inOrder(y)).Add(x.Lit(math.MinInt64)) },
	compute.OpTypeGreaterOrEqual: func(x, y tensor) tensor { return inOrder(x).Ge(inOrder(y)) },
	compute.OpTypeGreaterThan:    func(x, y tensor) tensor { return inOrder(x).Gt(inOrder(y)) },
	compute.OpTypeLessOrEqual:    func(x, y tensor) tensor { return inOrder(x).Le(inOrder(y)) },
	compute.OpTypeLessThan:       func(x, y tensor) tensor { return inOrder(x).Lt(inOrder(y)) },
}

// inOrder maps unsigned order to signed order by flipping the sign bit. Applied twice, it returns the original number.
func inOrder(x tensor) tensor { return x.Add(x.Lit(math.MinInt64)) }

// divideUnsigned divides by signed division (Warren, Hacker's Delight, section 9-3); x/0 is 0.
func divideUnsigned(x, y tensor) tensor {
	// half is x/2 without a sign. For x from 2^63 on, the signed division gives 2^63 less, which inOrder adds.
	half := x.And(x.Lit(-2)).Div(x.Lit(2))
	half = x.Lt(x.Lit(0)).Where(inOrder(half), half)
	quotient := half.Div(y).Mul(x.Lit(2)) // or one less than the quotient
	rest := x.Sub(quotient.Mul(y))
	quotient = quotient.Add(inOrder(rest).Ge(inOrder(y)).Cast(ir.I64))
	large := inOrder(x).Ge(inOrder(y)).Cast(ir.I64) // by 2^63 and more
	zero := y.Lit(0)
	return y.Eq(zero).Where(zero, y.Lt(zero).Where(large, quotient))
}

// checkUint64 rejects an operation on u64 that would interpret the values as signed.
func checkUint64(op *operation) error {
	for _, v := range append(append([]*value{}, op.args...), op.results...) {
		if v.shape.DType == dtypes.Uint64 && !signless.Has(op.kind) && unsignedOps[op.kind] == nil {
			return errors.Wrapf(compute.ErrNotImplemented, "%s of %s in backend %s", op.kind, dtypes.Uint64, Name)
		}
	}
	return nil
}

// floatOfUint64 converts the two 32-bit halves of a number separately; f64 represents each exactly.
func floatOfUint64(x tensor, to ir.DType) tensor {
	wide := ir.F32
	if to == ir.F64 {
		wide = to
	}
	low, high := halves(x)
	return cast(high.Cast(wide).MulScalar(1<<32).Add(low.Cast(wide)), to)
}

// uint64OfFloat truncates and saturates.
func uint64OfFloat(x tensor) tensor {
	if x.DType().BlockBytes() < 4 {
		x = x.Cast(ir.F32)
	}
	half := x.Lit(1 << 63)
	upper := x.Sub(half).Cast(ir.I64)
	upper = upper.Add(upper.Lit(math.MinInt64))
	upper = x.Ge(half.Add(half)).Where(upper.Lit(-1), upper)
	return x.Ge(half).Where(upper, x.Max(x.Lit(0)).Cast(ir.I64))
}
