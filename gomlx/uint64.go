package gomlx

import (
	"math"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/support/sets"
	"github.com/pkg/errors"
	"github.com/vkc-go/vkc/ir"
)

// vkc has no unsigned integers of 64 bits. Those of GoMLX, which the state of its random numbers is made of, are i64
// of the same bits. So operations do for which the sign makes no difference, and conversions.
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
)

// checkUint64 refuses an operation on such numbers that would take them for signed ones.
func checkUint64(op *operation) error {
	for _, v := range append(append([]*value{}, op.args...), op.results...) {
		if v.shape.DType == dtypes.Uint64 && !signless.Has(op.kind) {
			return errors.Wrapf(compute.ErrNotImplemented, "%s of %s in backend %s", op.kind, dtypes.Uint64, Name)
		}
	}
	return nil
}

// floatOfUint64 converts the halves of a number, each of which is a float exactly in f64.
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
