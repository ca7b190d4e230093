package gomlx

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapeinference"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

type tensor = frontend.Tensor

// operations lists the supported operations for Capabilities: the rows of the tables, and operations with their own
// method.
var operations = func() map[compute.OpType]bool {
	all := map[compute.OpType]bool{}
	for _, op := range []compute.OpType{
		compute.OpTypeParameter, compute.OpTypeConstant, compute.OpTypeIdentity, compute.OpTypeOptimizationBarrier,
		compute.OpTypeSchedulingBarrier, compute.OpTypeIsFinite, compute.OpTypeIsNaN, compute.OpTypeConvertDType,
		compute.OpTypeBitcast, compute.OpTypeWhere, compute.OpTypeClamp, compute.OpTypeNotEqualTotalOrder,
		compute.OpTypeReshape, compute.OpTypeTranspose, compute.OpTypeBroadcastInDim, compute.OpTypeIota,
		compute.OpTypeReverse, compute.OpTypeSlice, compute.OpTypeConcatenate, compute.OpTypePad,
		compute.OpTypeDynamicSlice,
		compute.OpTypeDynamicUpdateSlice, compute.OpTypeDynamicDimensionSize, compute.OpTypeDynamicShape,
		compute.OpTypeDynamicReshape,
		compute.OpTypeArgMinMax, compute.OpTypeReduceWindow, compute.OpTypeSelectAndScatterMax,
		compute.OpTypeSelectAndScatterMin,
		compute.OpTypeDot, compute.OpTypeDotGeneral, compute.OpTypeConvGeneral, compute.OpTypeGather,
		compute.OpTypeBatchNormForInference, compute.OpTypeBatchNormForTraining, compute.OpTypeBatchNormGradient,
		compute.OpTypeCall, compute.OpTypeWhile, compute.OpTypeIf, compute.OpTypeSort,
		compute.OpTypeFusedSoftmax, compute.OpTypeFusedLayerNorm, compute.OpTypeFusedGelu, compute.OpTypeFusedDense,
		compute.OpTypeFusedScaledDotProductAttention, compute.OpTypeFusedScaledDotProductAttentionVJP,
		compute.OpTypeFusedAttentionQKVProjection, compute.OpTypeRNGBitGenerator,
		compute.OpTypeFusedQuantizedDense, compute.OpTypeQuantizedEmbeddingLookup,
	} {
		all[op] = true
	}
	for _, table := range []map[compute.OpType]func(x, y tensor) tensor{binaryOps, comparisons} {
		for op := range table {
			all[op] = true
		}
	}
	for op := range unaryOps {
		all[op] = true
	}
	for op := range reductions {
		all[op] = true
	}
	for op := range scatters {
		all[op] = true
	}
	return all
}()

// unaryOps are the operations of one operand with a result of the same type.
var unaryOps = map[compute.OpType]func(tensor) tensor{
	compute.OpTypeAbs:        signed(tensor.Abs, identity),
	compute.OpTypeBitCount:   bitCount,
	compute.OpTypeBitwiseNot: tensor.Not,
	compute.OpTypeCeil:       tensor.Ceil,
	compute.OpTypeClz:        leadingZeros,
	compute.OpTypeCos:        tensor.Cos,
	compute.OpTypeErf:        tensor.Erf,
	compute.OpTypeExp:        tensor.Exp,
	compute.OpTypeExpm1:      tensor.Expm1,
	compute.OpTypeFloor:      tensor.Floor,
	compute.OpTypeLog:        tensor.Log,
	compute.OpTypeLog1p:      tensor.Log1p,
	compute.OpTypeLogicalNot: tensor.Not,
	compute.OpTypeLogistic:   tensor.Sigmoid,
	compute.OpTypeNeg:        signed(tensor.Neg, func(x tensor) tensor { return x.Lit(0).Sub(x) }),
	compute.OpTypeRound:      tensor.Round,
	compute.OpTypeRsqrt:      tensor.Rsqrt,
	compute.OpTypeSign:       signed(tensor.Sign, func(x tensor) tensor { return x.Ne(x.Lit(0)).Cast(x.DType()) }),
	compute.OpTypeSin:        tensor.Sin,
	compute.OpTypeSqrt:       tensor.Sqrt,
	compute.OpTypeTanh:       tensor.Tanh,
}

// binaryOps are the operations of two operands, which broadcast.
var binaryOps = map[compute.OpType]func(x, y tensor) tensor{
	compute.OpTypeAdd:                  tensor.Add,
	compute.OpTypeAtan2:                tensor.Atan2,
	compute.OpTypeBitwiseAnd:           tensor.And,
	compute.OpTypeBitwiseOr:            tensor.Or,
	compute.OpTypeBitwiseXor:           tensor.Xor,
	compute.OpTypeDiv:                  tensor.Div,
	compute.OpTypeLogicalAnd:           tensor.And,
	compute.OpTypeLogicalOr:            tensor.Or,
	compute.OpTypeLogicalXor:           tensor.Xor,
	compute.OpTypeMax:                  tensor.Max,
	compute.OpTypeMin:                  tensor.Min,
	compute.OpTypeMul:                  tensor.Mul,
	compute.OpTypePow:                  power,
	compute.OpTypeRem:                  tensor.Rem,
	compute.OpTypeShiftLeft:            shift(bitsOf, tensor.Shl, nothing),
	compute.OpTypeShiftRightArithmetic: shift(signedWord, tensor.Shr, signOf),
	compute.OpTypeShiftRightLogical:    shift(bitsOf, tensor.Shr, nothing),
	compute.OpTypeSub:                  tensor.Sub,
}

// comparisons are the operations of two operands with bool results.
var comparisons = map[compute.OpType]func(x, y tensor) tensor{
	compute.OpTypeEqual:          tensor.Eq,
	compute.OpTypeNotEqual:       tensor.Ne,
	compute.OpTypeGreaterOrEqual: tensor.Ge,
	compute.OpTypeGreaterThan:    tensor.Gt,
	compute.OpTypeLessOrEqual:    tensor.Le,
	compute.OpTypeLessThan:       tensor.Lt,

	compute.OpTypeEqualTotalOrder:          inTotalOrder(tensor.Eq),
	compute.OpTypeGreaterOrEqualTotalOrder: inTotalOrder(tensor.Ge),
	compute.OpTypeGreaterThanTotalOrder:    inTotalOrder(tensor.Gt),
	compute.OpTypeLessOrEqualTotalOrder:    inTotalOrder(tensor.Le),
	compute.OpTypeLessThanTotalOrder:       inTotalOrder(tensor.Lt),
}

// inTotalOrder compares floats by their bits as integers. It reverses the order of the negative ones, because their
// bits grow with distance from 0. So 0 is above -0, and NaNs are at both ends.
func inTotalOrder(compare func(x, y tensor) tensor) func(x, y tensor) tensor {
	place := func(x tensor) tensor {
		words := map[int]ir.DType{2: ir.I16, 4: ir.I32, 8: ir.I64}
		n := x.Bitcast(words[x.DType().BlockBytes()])
		least, _ := ir.IntRange(n.DType())
		return n.Lt(n.Lit(0)).Where(n.Not().Add(n.Lit(float64(least))), n)
	}
	return func(x, y tensor) tensor { return compare(place(x), place(y)) }
}

func identity(x tensor) tensor { return x }

// signed chooses by whether numbers have a sign.
func signed(with, without func(tensor) tensor) func(tensor) tensor {
	return func(x tensor) tensor {
		if x.DType().Kind() == ir.KindUint {
			return without(x)
		}
		return with(x)
	}
}

// unary adds an elementwise op of one argument.
func (f *Function) unary(kind compute.OpType, x compute.Value) (compute.Value, error) {
	args, err := f.values(kind, x)
	if err != nil {
		return nil, err
	}
	shape, err := shapeinference.UnaryOp(kind, args[0].shape)
	return f.addOne(kind, args, shape, err, one(func(in []tensor) tensor { return unaryOps[kind](in[0]) }))
}

// binary adds an elementwise op of two arguments, which broadcast.
func (f *Function) binary(kind compute.OpType, x, y compute.Value) (compute.Value, error) {
	args, err := f.values(kind, x, y)
	if err != nil {
		return nil, err
	}
	shape, err := shapeinference.BinaryOp(kind, args[0].shape, args[1].shape)
	return f.addOne(kind, args, shape, err, pairwise(binaryOps, kind, args))
}

// pairwise returns the build function of a binary operation, by its row of a table.
func pairwise(table map[compute.OpType]func(x, y tensor) tensor, kind compute.OpType, args []*value) build {
	of := table[kind]
	if unsigned := unsignedOps[kind]; unsigned != nil && args[0].shape.DType == dtypes.Uint64 {
		of = unsigned
	}
	return one(func(in []tensor) tensor { return of(in[0], in[1]) })
}

// compare adds a comparison of two arguments, which broadcast. Its result is bool.
func (f *Function) compare(kind compute.OpType, x, y compute.Value) (compute.Value, error) {
	args, err := f.values(kind, x, y)
	if err != nil {
		return nil, err
	}
	shape, err := shapeinference.ComparisonOp(kind, args[0].shape, args[1].shape)
	return f.addOne(kind, args, shape, err, pairwise(comparisons, kind, args))
}

// compareInTotalOrder adds a comparison of x and y in the total order of floats, in which NaN and signed zeros have
// their places. For other dtypes it is the operation plain.
func (f *Function) compareInTotalOrder(kind, plain compute.OpType, x, y compute.Value) (compute.Value, error) {
	args, err := f.values(kind, x, y)
	if err != nil {
		return nil, err
	}
	if !args[0].shape.DType.IsFloat() {
		kind = plain
	}
	return f.compare(kind, x, y)
}

// predicate adds an operation of one operand with a result of bools.
func (f *Function) predicate(kind compute.OpType, x compute.Value, of func(tensor) tensor) (compute.Value, error) {
	args, err := f.values(kind, x)
	if err != nil {
		return nil, err
	}
	shape := args[0].shape.Clone()
	shape.DType = dtypes.Bool
	return f.addOne(kind, args, shape, nil, one(func(in []tensor) tensor { return of(in[0]) }))
}

// IsFinite implements compute.Function: whether each element is neither infinite nor NaN.
func (f *Function) IsFinite(x compute.Value) (compute.Value, error) {
	return f.predicate(compute.OpTypeIsFinite, x, func(x tensor) tensor { return x.IsNaN().Or(x.IsInf()).Not() })
}

// IsNaN implements compute.Function: whether each element is NaN.
func (f *Function) IsNaN(x compute.Value) (compute.Value, error) {
	return f.predicate(compute.OpTypeIsNaN, x, tensor.IsNaN)
}

// Identity implements compute.Function: it returns x itself.
func (f *Function) Identity(x compute.Value) (compute.Value, error) {
	args, err := f.values(compute.OpTypeIdentity, x)
	if err != nil {
		return nil, err
	}
	return args[0], nil
}

// OptimizationBarrier implements compute.Function. vkc's fusion never changes results, so the barrier has no effect.
func (f *Function) OptimizationBarrier(operands ...compute.Value) ([]compute.Value, error) {
	args, err := f.values(compute.OpTypeOptimizationBarrier, operands...)
	if err != nil {
		return nil, err
	}
	return valuesOf(args), nil
}

// SchedulingBarrier implements compute.Function. It has no effect, because a run has no side effects to order.
func (f *Function) SchedulingBarrier(operand compute.Value, dependencies ...compute.Value) (compute.Value, error) {
	args, err := f.values(compute.OpTypeSchedulingBarrier, append([]compute.Value{operand}, dependencies...)...)
	if err != nil {
		return nil, err
	}
	return args[0], nil
}

// valuesOf converts values to GoMLX's interface type.
func valuesOf(values []*value) []compute.Value {
	out := make([]compute.Value, len(values))
	for i, v := range values {
		out[i] = v
	}
	return out
}

// ConvertDType implements compute.Function: x converted to another dtype. Floats become integers by truncation, and
// saturate.
func (f *Function) ConvertDType(x compute.Value, to dtypes.DType) (compute.Value, error) {
	args, err := f.values(compute.OpTypeConvertDType, x)
	if err != nil {
		return nil, err
	}
	t, err := elementType(to)
	shape := args[0].shape.Clone()
	shape.DType = to
	from := args[0].shape.DType
	return f.addOne(compute.OpTypeConvertDType, args, shape, err, one(func(in []tensor) tensor {
		switch {
		case from == dtypes.Uint64 && to.IsFloat():
			return floatOfUint64(in[0], t)
		case to == dtypes.Uint64 && from.IsFloat():
			return uint64OfFloat(in[0])
		}
		return cast(in[0], t)
	}))
}

// cast leaves a tensor alone that has the dtype.
func cast(t tensor, to ir.DType) tensor {
	if t.DType() == to {
		return t
	}
	return t.Cast(to)
}

// Where implements compute.Function: the elements of yes where the condition is true, and those of no elsewhere.
func (f *Function) Where(condition, yes, no compute.Value) (compute.Value, error) {
	args, err := f.values(compute.OpTypeWhere, condition, yes, no)
	if err != nil {
		return nil, err
	}
	shape, err := shapeinference.Where(args[0].shape, args[1].shape, args[2].shape)
	return f.addOne(compute.OpTypeWhere, args, shape, err,
		one(func(in []tensor) tensor { return in[0].Where(in[1], in[2]) }))
}

// Clamp implements compute.Function: min(max(x, low), high).
func (f *Function) Clamp(low, x, high compute.Value) (compute.Value, error) {
	args, err := f.values(compute.OpTypeClamp, low, x, high)
	if err != nil {
		return nil, err
	}
	return f.addOne(compute.OpTypeClamp, args, args[1].shape, nil,
		one(func(in []tensor) tensor { return in[1].Max(in[0]).Min(in[2]) }))
}

// word returns the bits of integers of at most 32 bits as u32. Higher bits are 0.
func word(x tensor) (w tensor, width int) {
	width = 8 * x.DType().BlockBytes()
	if width > 32 {
		x.Builder().Fail("shift", fmt.Errorf("the bits of %s are more than a word of 32", x.DType()))
	}
	w = cast(x, ir.U32)
	if width < 32 {
		w = w.And(w.Lit(float64(uint32(1)<<width - 1)))
	}
	return w, width
}

// halves returns the lower and upper 32 bits of i64.
func halves(x tensor) (low, high tensor) {
	below := x.And(x.Lit(math.MaxUint32))
	return below.Cast(ir.U32), x.Sub(below).Div(x.Lit(1 << 32)).Cast(ir.U32)
}

// bitCount counts the bits that are 1 (Warren, Hacker's Delight, section 5-1).
func bitCount(x tensor) tensor {
	if x.DType() == ir.I64 {
		low, high := halves(x)
		return bitCount(low).Add(bitCount(high)).Cast(ir.I64)
	}
	w, _ := word(x)
	lit := func(v uint32) tensor { return w.Lit(float64(v)) }
	// Adds up pairs of bits, then groups of 4 and 8 bits, and at last all bytes in the top byte.
	w = w.Sub(w.Shr(lit(1)).And(lit(0x55555555)))
	w = w.And(lit(0x33333333)).Add(w.Shr(lit(2)).And(lit(0x33333333)))
	w = w.Add(w.Shr(lit(4))).And(lit(0x0f0f0f0f))
	return cast(w.Mul(lit(0x01010101)).Shr(lit(24)), x.DType())
}

// leadingZeros counts the bits before the first one (Hacker's Delight, section 5-3).
func leadingZeros(x tensor) tensor {
	if x.DType() == ir.I64 {
		low, high := halves(x)
		none := high.Eq(high.Lit(0))
		return none.Where(leadingZeros(low).AddScalar(32), leadingZeros(high)).Cast(ir.I64)
	}
	w, width := word(x)
	// Sets all bits after the first one.
	for s := 1; s < 32; s *= 2 {
		w = w.Or(w.Shr(w.Lit(float64(s))))
	}
	return cast(w.Lit(float64(width)).Sub(bitCount(w)), x.DType())
}

// shift returns a function that shifts integers x, of at most 32 bits, by n bits. widen converts x to a 32-bit word,
// shiftWord shifts such a word, and beyond returns the result for a distance that is negative or at least x's width.
func shift(widen func(x tensor) tensor, shiftWord func(x, n tensor) tensor, beyond func(x tensor) tensor) func(x,
	n tensor) tensor {
	return func(x, n tensor) tensor {
		width := float64(8 * x.DType().BlockBytes())
		fits := n.Lt(n.Lit(width))
		if n.DType().Kind() == ir.KindInt {
			fits = fits.And(n.Ge(n.Lit(0)))
		}
		w := widen(x)
		distance := cast(fits.Where(n, n.Lit(0)), w.DType()) // 0 if it does not fit: that result is not used
		shifted := cast(shiftWord(w, distance), x.DType())
		return fits.Where(shifted, beyond(x))
	}
}

// bitsOf returns a number's bits as an unsigned integer that may be wider, with zeros before them.
func bitsOf(x tensor) tensor {
	w, _ := word(x)
	return w
}

// signedWord returns a number with its sign, if it has one.
func signedWord(x tensor) tensor {
	if x.DType().Kind() == ir.KindUint {
		return bitsOf(x)
	}
	return cast(x, ir.I32)
}

func nothing(x tensor) tensor { return x.Lit(0) }

// signOf returns -1, which has all bits set, for negative numbers, and 0 otherwise.
func signOf(x tensor) tensor {
	if x.DType().Kind() == ir.KindUint {
		return x.Lit(0)
	}
	return x.Lt(x.Lit(0)).Where(x.Lit(-1), x.Lit(0))
}

// power returns x^y. For integers it wraps; for negative y it truncates 1/x^|y|, which is 0 except for x = 1 and -1.
func power(x, y tensor) tensor {
	if x.DType().IsFloat() {
		return x.Pow(y)
	}
	one, two := x.Lit(1), x.Lit(2)
	magnitude, invertible := y, tensor{}
	if y.DType().Kind() == ir.KindInt {
		negative := y.Lt(y.Lit(0))
		magnitude = negative.Where(y.Neg(), y)
		invertible = negative.Not().Or(x.Eq(one)).Or(x.Eq(x.Lit(-1)))
	}
	result, square := one, x
	// Square and multiply: a magnitude has as many binary digits as the dtype at most.
	for range bits.Len64(1<<(8*x.DType().BlockBytes()-1) - 1) {
		result = result.Mul(magnitude.Rem(two).Ne(y.Lit(0)).Where(square, one))
		magnitude, square = magnitude.Div(two), square.Mul(square)
	}
	if !invertible.IsZero() {
		result = invertible.Where(result, x.Lit(0))
	}
	return result
}
