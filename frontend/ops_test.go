package frontend_test

import (
	"math"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// operands are tensors of each kind for the methods under test.
type operands struct {
	b                 *frontend.Builder
	x, y, row         frontend.Tensor // f32[2,4], f32[2,4], f32[4]
	i, ivec, one      frontend.Tensor // i32[2,4], i32[2], i32[]
	cond, q8          frontend.Tensor // bool[2,4], q8_0[4,32]
	heads, keys, mask frontend.Tensor // f32[4,3,8], f32[2,5,8], f32[3,5]
	n                 ir.Dim          // N <= 16
	seq               frontend.Tensor // f32[N,4]
	img, chans        frontend.Tensor // f32[1,4,6,5], f32[4]
	filter            frontend.Tensor // f32[2,4,3,2]
	seed              frontend.Tensor // u32[]
}

func newOperands(b *frontend.Builder) *operands {
	n := b.Sym("N", 16)
	return &operands{b: b, n: n,
		x: b.Input("x", ir.F32, 2, 4), y: b.Input("y", ir.F32, 2, 4), row: b.Input("row", ir.F32, 4),
		i: b.Input("i", ir.I32, 2, 4), ivec: b.Input("ivec", ir.I32, 2), one: b.Input("one", ir.I32),
		cond: b.Input("cond", ir.Bool, 2, 4), q8: b.Weight("q8", ir.Q8_0, 4, 32),
		heads: b.Input("heads", ir.F32, 4, 3, 8), keys: b.Input("keys", ir.F32, 2, 5, 8), mask: b.Input("mask", ir.F32, 3, 5),
		seq: b.Input("seq", ir.F32, n, 4),
		img: b.Input("img", ir.F32, 1, 4, 6, 5), chans: b.Input("chans", ir.F32, 4),
		filter: b.Input("filter", ir.F32, 2, 4, 3, 2), seed: b.Input("seed", ir.U32),
	}
}

// methodCase is one call of the API and the node, as text IR without its own
// name, that it must make. In it %0 is x, %1 y, and so on in field order.
type methodCase struct {
	op   ir.Op
	call func(o *operands) frontend.Tensor
	want string
}

var methodCases = []methodCase{
	{ir.OpInput, func(o *operands) frontend.Tensor { return o.b.Input("in", ir.F16, o.n.Times(2), 8) }, `input {name="in", dtype=f16, shape=[2*N,8]} : f16[2*N,8]`},
	{ir.OpWeight, func(o *operands) frontend.Tensor { return o.b.Weight("w", ir.Q8_0, 2, 32) }, `weight {name="w", dtype=q8_0, shape=[2,32]} : q8_0[2,32]`},
	{ir.OpConst, func(o *operands) frontend.Tensor { return o.b.Const([]int32{1, 2}) }, `const {data=i32[2](1, 2)} : i32[2]`},
	{ir.OpState, func(o *operands) frontend.Tensor { return o.b.State("s", ir.F32, 3) }, `state {name="s", dtype=f32, shape=[3]} : f32[3]`},
	{ir.OpIota, func(o *operands) frontend.Tensor { return o.b.Iota(ir.F32, -1, 2, o.n) }, `iota {dtype=f32, shape=[2,N], axis=-1} : f32[2,N]`},
	{ir.OpDimValue, func(o *operands) frontend.Tensor { return o.b.DimValue(o.n) }, `dim_value {dim=[N]} : i32[]`},

	{ir.OpNeg, func(o *operands) frontend.Tensor { return o.x.Neg() }, `neg %0 : f32[2,4]`},
	{ir.OpAbs, func(o *operands) frontend.Tensor { return o.x.Abs() }, `abs %0 : f32[2,4]`},
	{ir.OpSign, func(o *operands) frontend.Tensor { return o.x.Sign() }, `sign %0 : f32[2,4]`},
	{ir.OpExp, func(o *operands) frontend.Tensor { return o.x.Exp() }, `exp %0 : f32[2,4]`},
	{ir.OpExp2, func(o *operands) frontend.Tensor { return o.x.Exp2() }, `exp2 %0 : f32[2,4]`},
	{ir.OpExpm1, func(o *operands) frontend.Tensor { return o.x.Expm1() }, `expm1 %0 : f32[2,4]`},
	{ir.OpLog, func(o *operands) frontend.Tensor { return o.x.Log() }, `log %0 : f32[2,4]`},
	{ir.OpLog2, func(o *operands) frontend.Tensor { return o.x.Log2() }, `log2 %0 : f32[2,4]`},
	{ir.OpLog1p, func(o *operands) frontend.Tensor { return o.x.Log1p() }, `log1p %0 : f32[2,4]`},
	{ir.OpSqrt, func(o *operands) frontend.Tensor { return o.x.Sqrt() }, `sqrt %0 : f32[2,4]`},
	{ir.OpRsqrt, func(o *operands) frontend.Tensor { return o.x.Rsqrt() }, `rsqrt %0 : f32[2,4]`},
	{ir.OpRecip, func(o *operands) frontend.Tensor { return o.x.Recip() }, `recip %0 : f32[2,4]`},
	{ir.OpSqr, func(o *operands) frontend.Tensor { return o.i.Sqr() }, `sqr %3 : i32[2,4]`},
	{ir.OpSin, func(o *operands) frontend.Tensor { return o.x.Sin() }, `sin %0 : f32[2,4]`},
	{ir.OpCos, func(o *operands) frontend.Tensor { return o.x.Cos() }, `cos %0 : f32[2,4]`},
	{ir.OpTan, func(o *operands) frontend.Tensor { return o.x.Tan() }, `tan %0 : f32[2,4]`},
	{ir.OpAsin, func(o *operands) frontend.Tensor { return o.x.Asin() }, `asin %0 : f32[2,4]`},
	{ir.OpAcos, func(o *operands) frontend.Tensor { return o.x.Acos() }, `acos %0 : f32[2,4]`},
	{ir.OpAtan, func(o *operands) frontend.Tensor { return o.x.Atan() }, `atan %0 : f32[2,4]`},
	{ir.OpSinh, func(o *operands) frontend.Tensor { return o.x.Sinh() }, `sinh %0 : f32[2,4]`},
	{ir.OpCosh, func(o *operands) frontend.Tensor { return o.x.Cosh() }, `cosh %0 : f32[2,4]`},
	{ir.OpTanh, func(o *operands) frontend.Tensor { return o.x.Tanh() }, `tanh %0 : f32[2,4]`},
	{ir.OpSigmoid, func(o *operands) frontend.Tensor { return o.x.Sigmoid() }, `sigmoid %0 : f32[2,4]`},
	{ir.OpSilu, func(o *operands) frontend.Tensor { return o.x.Silu() }, `silu %0 : f32[2,4]`},
	{ir.OpRelu, func(o *operands) frontend.Tensor { return o.x.Relu() }, `relu %0 : f32[2,4]`},
	{ir.OpLeakyRelu, func(o *operands) frontend.Tensor { return o.x.LeakyRelu(0.2) }, `leaky_relu %0 {alpha=0.2} : f32[2,4]`},
	{ir.OpAsinh, func(o *operands) frontend.Tensor { return o.x.Asinh() }, `asinh %0 : f32[2,4]`},
	{ir.OpAcosh, func(o *operands) frontend.Tensor { return o.x.Acosh() }, `acosh %0 : f32[2,4]`},
	{ir.OpAtanh, func(o *operands) frontend.Tensor { return o.x.Atanh() }, `atanh %0 : f32[2,4]`},
	{ir.OpSoftsign, func(o *operands) frontend.Tensor { return o.x.Softsign() }, `softsign %0 : f32[2,4]`},
	{ir.OpCelu, func(o *operands) frontend.Tensor { return o.x.Celu(2) }, `celu %0 {alpha=2.0} : f32[2,4]`},
	{ir.OpElu, func(o *operands) frontend.Tensor { return o.x.Elu(2) }, `elu %0 {alpha=2.0} : f32[2,4]`},
	{ir.OpSelu, func(o *operands) frontend.Tensor { return o.x.Selu() }, `selu %0 : f32[2,4]`},
	{ir.OpGelu, func(o *operands) frontend.Tensor { return o.x.Gelu() }, `gelu %0 : f32[2,4]`},
	{ir.OpGeluErf, func(o *operands) frontend.Tensor { return o.x.GeluErf() }, `gelu_erf %0 : f32[2,4]`},
	{ir.OpErf, func(o *operands) frontend.Tensor { return o.x.Erf() }, `erf %0 : f32[2,4]`},
	{ir.OpSoftplus, func(o *operands) frontend.Tensor { return o.x.Softplus() }, `softplus %0 : f32[2,4]`},
	{ir.OpMish, func(o *operands) frontend.Tensor { return o.x.Mish() }, `mish %0 : f32[2,4]`},
	{ir.OpHardswish, func(o *operands) frontend.Tensor { return o.x.Hardswish() }, `hardswish %0 : f32[2,4]`},
	{ir.OpHardsigmoid, func(o *operands) frontend.Tensor { return o.x.Hardsigmoid() }, `hardsigmoid %0 : f32[2,4]`},
	{ir.OpFloor, func(o *operands) frontend.Tensor { return o.x.Floor() }, `floor %0 : f32[2,4]`},
	{ir.OpCeil, func(o *operands) frontend.Tensor { return o.x.Ceil() }, `ceil %0 : f32[2,4]`},
	{ir.OpRound, func(o *operands) frontend.Tensor { return o.x.Round() }, `round %0 : f32[2,4]`},
	{ir.OpTrunc, func(o *operands) frontend.Tensor { return o.x.Trunc() }, `trunc %0 : f32[2,4]`},
	{ir.OpNot, func(o *operands) frontend.Tensor { return o.cond.Not() }, `not %6 : bool[2,4]`},
	{ir.OpIsNaN, func(o *operands) frontend.Tensor { return o.x.IsNaN() }, `is_nan %0 : bool[2,4]`},
	{ir.OpIsInf, func(o *operands) frontend.Tensor { return o.x.IsInf() }, `is_inf %0 : bool[2,4]`},
	{ir.OpClamp, func(o *operands) frontend.Tensor { return o.x.Clamp(-1, 6) }, `clamp %0 {min=-1.0, max=6.0} : f32[2,4]`},
	{ir.OpAffine, func(o *operands) frontend.Tensor { return o.x.Affine(2, 3) }, `affine %0 {mul=2.0, add=3.0} : f32[2,4]`},
	{ir.OpPowf, func(o *operands) frontend.Tensor { return o.x.Powf(3) }, `powf %0 {exponent=3.0} : f32[2,4]`},
	{ir.OpCast, func(o *operands) frontend.Tensor { return o.x.Cast(ir.F16) }, `cast %0 {dtype=f16} : f16[2,4]`},
	{ir.OpBitcast, func(o *operands) frontend.Tensor { return o.x.Bitcast(ir.I32) }, `bitcast %0 {dtype=i32} : i32[2,4]`},

	{ir.OpAdd, func(o *operands) frontend.Tensor { return o.x.Add(o.row) }, `add %0, %2 : f32[2,4]`},
	{ir.OpSub, func(o *operands) frontend.Tensor { return o.x.Sub(o.y) }, `sub %0, %1 : f32[2,4]`},
	{ir.OpMul, func(o *operands) frontend.Tensor { return o.x.Mul(o.y) }, `mul %0, %1 : f32[2,4]`},
	{ir.OpDiv, func(o *operands) frontend.Tensor { return o.x.Div(o.y) }, `div %0, %1 : f32[2,4]`},
	{ir.OpMod, func(o *operands) frontend.Tensor { return o.x.Mod(o.y) }, `mod %0, %1 : f32[2,4]`},
	{ir.OpRem, func(o *operands) frontend.Tensor { return o.x.Rem(o.y) }, `rem %0, %1 : f32[2,4]`},
	{ir.OpPow, func(o *operands) frontend.Tensor { return o.x.Pow(o.y) }, `pow %0, %1 : f32[2,4]`},
	{ir.OpMin, func(o *operands) frontend.Tensor { return o.x.Min(o.y) }, `min %0, %1 : f32[2,4]`},
	{ir.OpMax, func(o *operands) frontend.Tensor { return o.x.Max(o.y) }, `max %0, %1 : f32[2,4]`},
	{ir.OpAtan2, func(o *operands) frontend.Tensor { return o.x.Atan2(o.y) }, `atan2 %0, %1 : f32[2,4]`},
	{ir.OpAnd, func(o *operands) frontend.Tensor { return o.cond.And(o.cond) }, `and %6, %6 : bool[2,4]`},
	{ir.OpOr, func(o *operands) frontend.Tensor { return o.cond.Or(o.cond) }, `or %6, %6 : bool[2,4]`},
	{ir.OpXor, func(o *operands) frontend.Tensor { return o.cond.Xor(o.cond) }, `xor %6, %6 : bool[2,4]`},
	{ir.OpShl, func(o *operands) frontend.Tensor { return o.i.Shl(o.one) }, `shl %3, %5 : i32[2,4]`},
	{ir.OpShr, func(o *operands) frontend.Tensor { return o.i.Shr(o.one) }, `shr %3, %5 : i32[2,4]`},
	{ir.OpEq, func(o *operands) frontend.Tensor { return o.x.Eq(o.y) }, `eq %0, %1 : bool[2,4]`},
	{ir.OpNe, func(o *operands) frontend.Tensor { return o.x.Ne(o.y) }, `ne %0, %1 : bool[2,4]`},
	{ir.OpLt, func(o *operands) frontend.Tensor { return o.x.Lt(o.y) }, `lt %0, %1 : bool[2,4]`},
	{ir.OpLe, func(o *operands) frontend.Tensor { return o.x.Le(o.y) }, `le %0, %1 : bool[2,4]`},
	{ir.OpGt, func(o *operands) frontend.Tensor { return o.x.Gt(o.y) }, `gt %0, %1 : bool[2,4]`},
	{ir.OpGe, func(o *operands) frontend.Tensor { return o.x.Ge(o.y) }, `ge %0, %1 : bool[2,4]`},
	{ir.OpWhere, func(o *operands) frontend.Tensor { return o.cond.Where(o.x, o.y) }, `where %6, %0, %1 : f32[2,4]`},
	{ir.OpLerp, func(o *operands) frontend.Tensor { return o.x.Lerp(o.y, o.row) }, `lerp %0, %1, %2 : f32[2,4]`},
	{ir.OpAfter, func(o *operands) frontend.Tensor { return o.x.After(o.y) }, `after %0, %1 : f32[2,4]`},

	{ir.OpReshape, func(o *operands) frontend.Tensor { return o.x.Reshape(4, -1) }, `reshape %0 {shape=[4,2]} : f32[4,2]`},
	{ir.OpReshape, func(o *operands) frontend.Tensor { return o.seq.Reshape(-1, 2) }, `reshape %11 {shape=[2*N,2]} : f32[2*N,2]`},
	{ir.OpReshape, func(o *operands) frontend.Tensor { return o.seq.Reshape(o.n, 2, -1) }, `reshape %11 {shape=[N,2,2]} : f32[N,2,2]`},
	{ir.OpTranspose, func(o *operands) frontend.Tensor { return o.heads.Transpose(2, 0, 1) }, `transpose %8 {perm=[2,0,1]} : f32[8,4,3]`},
	{ir.OpTranspose, func(o *operands) frontend.Tensor { return o.heads.T() }, `transpose %8 {perm=[0,2,1]} : f32[4,8,3]`},
	{ir.OpTranspose, func(o *operands) frontend.Tensor { return o.heads.SwapAxes(-1, 0) }, `transpose %8 {perm=[2,1,0]} : f32[8,3,4]`},
	{ir.OpSlice, func(o *operands) frontend.Tensor { return o.x.Slice(-1, 1, 3) }, `slice %0 {starts=[0,1], limits=[2,3]} : f32[2,2]`},
	{ir.OpSlice, func(o *operands) frontend.Tensor { return o.seq.Slice(0, 1, o.n) }, `slice %11 {starts=[1,0], limits=[N,4]} : f32[N-1,4]`},
	{ir.OpSlice, func(o *operands) frontend.Tensor { return o.x.SliceStep(1, 0, 4, 2) }, `slice %0 {starts=[0,0], limits=[2,4], steps=[1,2]} : f32[2,2]`},
	{ir.OpBroadcast, func(o *operands) frontend.Tensor { return o.row.Broadcast(o.seq.Shape()) }, `broadcast %2 {shape=[N,4]} : f32[N,4]`},
	{ir.OpSqueeze, func(o *operands) frontend.Tensor { return o.x.Index(0, -1) }, `squeeze %16 {axes=[0]} : f32[4]`},
	{ir.OpUnsqueeze, func(o *operands) frontend.Tensor { return o.x.Unsqueeze(0, -1) }, `unsqueeze %0 {axes=[0,-1]} : f32[1,2,4,1]`},
	{ir.OpFlip, func(o *operands) frontend.Tensor { return o.x.Flip(1) }, `flip %0 {axes=[1]} : f32[2,4]`},

	{ir.OpSum, func(o *operands) frontend.Tensor { return o.x.Sum(-1) }, `sum %0 {axes=[-1]} : f32[2]`},
	{ir.OpSum, func(o *operands) frontend.Tensor { return o.x.SumKeep(0) }, `sum %0 {axes=[0], keepdims=true} : f32[1,4]`},
	{ir.OpMean, func(o *operands) frontend.Tensor { return o.x.Mean() }, `mean %0 : f32[]`},
	{ir.OpMean, func(o *operands) frontend.Tensor { return o.x.MeanKeep() }, `mean %0 {keepdims=true} : f32[1,1]`},
	{ir.OpProd, func(o *operands) frontend.Tensor { return o.x.Prod(0) }, `prod %0 {axes=[0]} : f32[4]`},
	{ir.OpProd, func(o *operands) frontend.Tensor { return o.x.ProdKeep(0) }, `prod %0 {axes=[0], keepdims=true} : f32[1,4]`},
	{ir.OpReduceMax, func(o *operands) frontend.Tensor { return o.x.ReduceMax(0) }, `reduce_max %0 {axes=[0]} : f32[4]`},
	{ir.OpReduceMax, func(o *operands) frontend.Tensor { return o.x.ReduceMaxKeep(0) }, `reduce_max %0 {axes=[0], keepdims=true} : f32[1,4]`},
	{ir.OpReduceMin, func(o *operands) frontend.Tensor { return o.x.ReduceMin(0) }, `reduce_min %0 {axes=[0]} : f32[4]`},
	{ir.OpReduceMin, func(o *operands) frontend.Tensor { return o.x.ReduceMinKeep(0) }, `reduce_min %0 {axes=[0], keepdims=true} : f32[1,4]`},
	{ir.OpArgmax, func(o *operands) frontend.Tensor { return o.x.Argmax(-1) }, `argmax %0 {axis=-1} : i32[2]`},
	{ir.OpArgmax, func(o *operands) frontend.Tensor { return o.x.ArgmaxKeep(-1) }, `argmax %0 {axis=-1, keepdims=true} : i32[2,1]`},
	{ir.OpArgmin, func(o *operands) frontend.Tensor { return o.x.Argmin(0) }, `argmin %0 {axis=0} : i32[4]`},
	{ir.OpArgmin, func(o *operands) frontend.Tensor { return o.x.ArgminKeep(0) }, `argmin %0 {axis=0, keepdims=true} : i32[1,4]`},
	{ir.OpAny, func(o *operands) frontend.Tensor { return o.cond.Any(1) }, `any %6 {axes=[1]} : bool[2]`},
	{ir.OpAny, func(o *operands) frontend.Tensor { return o.cond.AnyKeep(1) }, `any %6 {axes=[1], keepdims=true} : bool[2,1]`},
	{ir.OpAll, func(o *operands) frontend.Tensor { return o.cond.All(1) }, `all %6 {axes=[1]} : bool[2]`},
	{ir.OpAll, func(o *operands) frontend.Tensor { return o.cond.AllKeep(1) }, `all %6 {axes=[1], keepdims=true} : bool[2,1]`},

	{ir.OpNorm1, func(o *operands) frontend.Tensor { return o.x.Norm1(0) }, `norm1 %0 {axes=[0]} : f32[4]`},
	{ir.OpNorm1, func(o *operands) frontend.Tensor { return o.x.Norm1Keep(0) }, `norm1 %0 {axes=[0], keepdims=true} : f32[1,4]`},
	{ir.OpNorm2, func(o *operands) frontend.Tensor { return o.x.Norm2() }, `norm2 %0 : f32[]`},
	{ir.OpNorm2, func(o *operands) frontend.Tensor { return o.x.Norm2Keep(-1) }, `norm2 %0 {axes=[-1], keepdims=true} : f32[2,1]`},
	{ir.OpLogSumExp, func(o *operands) frontend.Tensor { return o.x.LogSumExp(1) }, `logsumexp %0 {axes=[1]} : f32[2]`},
	{ir.OpLogSumExp, func(o *operands) frontend.Tensor { return o.x.LogSumExpKeep(1) }, `logsumexp %0 {axes=[1], keepdims=true} : f32[2,1]`},
	{ir.OpNormP, func(o *operands) frontend.Tensor { return o.x.NormP(3) }, `norm_p %0 {p=3.0} : f32[]`},
	{ir.OpNormP, func(o *operands) frontend.Tensor { return o.x.NormPKeep(3, -1) }, `norm_p %0 {p=3.0, axes=[-1], keepdims=true} : f32[2,1]`},
	{ir.OpVariance, func(o *operands) frontend.Tensor { return o.x.Variance(1, 0) }, `variance %0 {correction=1, axes=[0]} : f32[4]`},
	{ir.OpVariance, func(o *operands) frontend.Tensor { return o.x.VarianceKeep(0, 0) }, `variance %0 {axes=[0], keepdims=true} : f32[1,4]`},

	{ir.OpCumSum, func(o *operands) frontend.Tensor { return o.x.CumSum(-1) }, `cumsum %0 : f32[2,4]`},
	{ir.OpCumProd, func(o *operands) frontend.Tensor { return o.x.CumProd(1) }, `cumprod %0 {axis=1} : f32[2,4]`},
	{ir.OpCumMax, func(o *operands) frontend.Tensor { return o.x.CumMax(1) }, `cummax %0 {axis=1} : f32[2,4]`},
	{ir.OpCumMin, func(o *operands) frontend.Tensor { return o.x.CumMin(1) }, `cummin %0 {axis=1} : f32[2,4]`},
	{ir.OpCumSum, func(o *operands) frontend.Tensor { return o.i.CumSum(0, frontend.Exclusive(), frontend.Reverse()) }, `cumsum %3 {axis=0, exclusive=true, reverse=true} : i32[2,4]`},
	{ir.OpSort, func(o *operands) frontend.Tensor { return o.x.Sort(0) }, `sort %0 {axis=0} : f32[2,4]`},
	{ir.OpSort, func(o *operands) frontend.Tensor { return o.x.SortDescending(0) }, `sort %0 {axis=0, descending=true} : f32[2,4]`},
	{ir.OpArgsort, func(o *operands) frontend.Tensor { return o.x.Argsort(1) }, `argsort %0 {axis=1} : i32[2,4]`},
	{ir.OpArgsort, func(o *operands) frontend.Tensor { return o.x.ArgsortDescending(1) }, `argsort %0 {axis=1, descending=true} : i32[2,4]`},
	{ir.OpTopKIndices, func(o *operands) frontend.Tensor { return o.x.TopKIndices(-1, 3) }, `top_k_indices %0 {k=3} : i32[2,3]`},
	{ir.OpTopKIndices, func(o *operands) frontend.Tensor { return o.x.BottomKIndices(0, 1) }, `top_k_indices %0 {k=1, axis=0, largest=false} : i32[1,4]`},
	{ir.OpGather, func(o *operands) frontend.Tensor { values, _ := o.x.TopK(-1, 3); return values }, `gather %0, %16 {axis=-1} : f32[2,3]`},

	{ir.OpSoftmax, func(o *operands) frontend.Tensor { return o.x.Softmax(0) }, `softmax %0 {axis=0} : f32[2,4]`},
	{ir.OpLogSoftmax, func(o *operands) frontend.Tensor { return o.x.LogSoftmax(0) }, `log_softmax %0 {axis=0} : f32[2,4]`},
	{ir.OpRMSNorm, func(o *operands) frontend.Tensor { return o.x.RMSNorm(frontend.Tensor{}, 1e-6) }, `rms_norm %0 {eps=1e-06} : f32[2,4]`},
	{ir.OpRMSNorm, func(o *operands) frontend.Tensor { return o.x.RMSNorm(o.row, 1e-6) }, `rms_norm %0, %2 {eps=1e-06} : f32[2,4]`},
	{ir.OpLayerNorm, func(o *operands) frontend.Tensor { return o.x.LayerNorm(o.row, frontend.Tensor{}, 1e-6) }, `layer_norm %0, %2 {eps=1e-06} : f32[2,4]`},
	{ir.OpLayerNorm, func(o *operands) frontend.Tensor { return o.x.LayerNorm(o.row, o.row, 1e-6) }, `layer_norm %0, %2, %2 {eps=1e-06} : f32[2,4]`},
	{ir.OpRope, func(o *operands) frontend.Tensor { return o.x.Rope(o.ivec) }, `rope %0, %4 : f32[2,4]`},
	{ir.OpRope, func(o *operands) frontend.Tensor {
		return o.x.Rope(o.ivec, frontend.RopeAxis(0), frontend.RopeBase(1e6), frontend.RopeDims(2), frontend.RopeHalf())
	}, `rope %0, %4 {axis=0, base=1e+06, dims=2, mode="half"} : f32[2,4]`},
	{ir.OpRope, func(o *operands) frontend.Tensor {
		return o.x.Rope(o.ivec, frontend.RopeTurns(o.b.RopeTurns([]float64{math.Pi, -math.Pi / 2})))
	}, `rope %0, %4, %16 : f32[2,4]`},
	{ir.OpRopeTables, func(o *operands) frontend.Tensor {
		return o.x.RopeTables(o.y.Slice(1, 0, 2), o.y.Slice(1, 2, 4))
	}, `rope_tables %0, %16, %17 : f32[2,4]`},
	{ir.OpRopeTables, func(o *operands) frontend.Tensor {
		return o.heads.RopeTables(o.row.Slice(0, 0, 2), o.row.Slice(0, 2, 4), frontend.RopeHalf())
	}, `rope_tables %8, %16, %17 {mode="half"} : f32[4,3,8]`},
	{ir.OpGroupNorm, func(o *operands) frontend.Tensor {
		return o.img.GroupNorm(2, frontend.Tensor{}, frontend.Tensor{}, 1e-6)
	}, `group_norm %12 {groups=2, eps=1e-06} : f32[1,4,6,5]`},
	{ir.OpGroupNorm, func(o *operands) frontend.Tensor { return o.img.GroupNorm(2, o.chans, o.chans, 1e-6) }, `group_norm %12, %13, %13 {groups=2, eps=1e-06} : f32[1,4,6,5]`},
	{ir.OpBatchNorm, func(o *operands) frontend.Tensor {
		return o.img.BatchNorm(o.chans, o.chans, frontend.Tensor{}, frontend.Tensor{}, 1e-6)
	}, `batch_norm %12, %13, %13 {eps=1e-06} : f32[1,4,6,5]`},
	{ir.OpBatchNorm, func(o *operands) frontend.Tensor { return o.img.BatchNorm(o.chans, o.chans, o.chans, o.chans, 1e-6) }, `batch_norm %12, %13, %13, %13, %13 {eps=1e-06} : f32[1,4,6,5]`},
	{ir.OpL2Normalize, func(o *operands) frontend.Tensor { return o.x.L2Normalize(0, 1e-8) }, `l2_normalize %0 {eps=1e-08, axis=0} : f32[2,4]`},
	{ir.OpTril, func(o *operands) frontend.Tensor { return o.x.Tril(-1) }, `tril %0 {k=-1} : f32[2,4]`},
	{ir.OpTriu, func(o *operands) frontend.Tensor { return o.heads.Triu(1) }, `triu %8 {k=1} : f32[4,3,8]`},
	{ir.OpOneHot, func(o *operands) frontend.Tensor { return o.i.OneHot(5, ir.F16) }, `one_hot %3 {depth=5, dtype=f16} : f16[2,4,5]`},

	{ir.OpMatMul, func(o *operands) frontend.Tensor { return o.x.MatMul(o.y.T()) }, `matmul %0, %16 : f32[2,2]`},
	{ir.OpMatMul, func(o *operands) frontend.Tensor { return o.x.MatMulT(o.y) }, `matmul %0, %1 {transpose_b=true} : f32[2,2]`},
	{ir.OpConv, func(o *operands) frontend.Tensor { return o.img.Conv(o.filter) }, `conv %12, %14 : f32[1,2,4,4]`},
	{ir.OpConv, func(o *operands) frontend.Tensor {
		return o.img.Conv(o.filter.Slice(1, 0, 2), frontend.Stride(2, 1),
			frontend.PaddingLowHigh([]int{1}, []int{0, 2}), frontend.Dilation(1), frontend.Groups(2))
	}, `conv %12, %16 {stride=[2,1], padding_low=[1,1], padding_high=[0,2], dilation=[1,1], groups=2} : f32[1,2,3,7]`},
	{ir.OpConv, func(o *operands) frontend.Tensor {
		return o.img.Cast(ir.I8).Conv(o.filter.Cast(ir.I8), frontend.Padding(1), frontend.PaddingValue(-7))
	}, `conv %16, %17 {padding_low=[1,1], padding_high=[1,1], padding_value=-7} : i32[1,2,6,6]`},
	{ir.OpAdd, func(o *operands) frontend.Tensor { return o.img.Conv(o.filter, frontend.Bias(o.chans.Slice(0, 0, 2))) }, `add %17, %18 : f32[1,2,4,4]`},
	{ir.OpConvTranspose, func(o *operands) frontend.Tensor {
		return o.img.ConvTranspose(o.filter.SwapAxes(0, 1), frontend.Stride(2), frontend.Padding(1),
			frontend.OutputPadding(0, 1))
	}, `conv_transpose %12, %16 {stride=[2,2], padding_low=[1,1], padding_high=[1,1], output_padding=[0,1]} : f32[1,2,11,9]`},
	{ir.OpAvgPool, func(o *operands) frontend.Tensor { return o.img.AvgPool([]int{3, 2}) }, `avg_pool %12 {kernel=[3,2]} : f32[1,4,2,2]`},
	{ir.OpAvgPool, func(o *operands) frontend.Tensor {
		return o.img.AvgPool([]int{2}, frontend.Stride(2), frontend.Padding(1), frontend.CeilMode(),
			frontend.ExcludePadding())
	}, `avg_pool %12 {kernel=[2], stride=[2], padding_low=[1], padding_high=[1], ceil_mode=true, count_include_pad=false} : f32[1,4,6,3]`},
	{ir.OpAvgPool, func(o *operands) frontend.Tensor { return o.img.AdaptiveAvgPool(3, 1) }, `avg_pool %12 {kernel=[2,5]} : f32[1,4,3,1]`},
	{ir.OpMaxPool, func(o *operands) frontend.Tensor { return o.img.MaxPool([]int{2, 2}, frontend.Dilation(2)) }, `max_pool %12 {kernel=[2,2], dilation=[2,2]} : f32[1,4,2,2]`},
	{ir.OpMean, func(o *operands) frontend.Tensor { return o.img.GlobalAvgPool() }, `mean %12 {axes=[2,3], keepdims=true} : f32[1,4,1,1]`},
	{ir.OpReduceMax, func(o *operands) frontend.Tensor { return o.img.GlobalMaxPool() }, `reduce_max %12 {axes=[2,3], keepdims=true} : f32[1,4,1,1]`},
	{ir.OpResizeNearest, func(o *operands) frontend.Tensor { return o.img.ResizeNearest(12, 10) }, `resize_nearest %12 {size=[12,10]} : f32[1,4,12,10]`},
	{ir.OpResizeLinear, func(o *operands) frontend.Tensor { return o.img.ResizeLinear(true, 12, 10) }, `resize_linear %12 {size=[12,10], align_corners=true} : f32[1,4,12,10]`},
	{ir.OpResizeCubic, func(o *operands) frontend.Tensor { return o.img.ResizeCubic(false, o.n) }, `resize_cubic %12 {size=[N]} : f32[1,4,6,N]`},
	{ir.OpAttention, func(o *operands) frontend.Tensor { return o.heads.Attention(o.keys, o.keys) }, `attention %8, %9, %9 : f32[4,3,8]`},
	{ir.OpAttention, func(o *operands) frontend.Tensor {
		return o.heads.Attention(o.keys, o.keys, frontend.Causal(), frontend.Window(2), frontend.Scale(0.5),
			frontend.Mask(o.mask))
	}, `attention %8, %9, %9, %10 {causal=true, window=2, scale=0.5} : f32[4,3,8]`},
	{ir.OpAttention, func(o *operands) frontend.Tensor {
		return o.heads.Attention(o.keys, o.keys, frontend.Softcap(30))
	}, `attention %8, %9, %9 {softcap=30.0} : f32[4,3,8]`},
	{ir.OpAttention, func(o *operands) frontend.Tensor {
		return o.heads.Attention(o.keys, o.keys, frontend.ZeroNaN())
	}, `attention %8, %9, %9 {zero_nan=true} : f32[4,3,8]`},
	{ir.OpAttentionLSE, func(o *operands) frontend.Tensor {
		return o.heads.AttentionLSE(o.keys, frontend.Causal(), frontend.Mask(o.mask))
	}, `attention_lse %8, %9, %10 {causal=true} : f32[4,3]`},
	{ir.OpAttentionGrad, func(o *operands) frontend.Tensor {
		row := o.b.Full(ir.F32, 1, 4, 3)
		return o.heads.AttentionGrad("k", o.keys, o.keys, o.heads, row, row, frontend.Scale(2))
	}, `attention_grad %8, %9, %9, %8, %17, %17 {of="k", scale=2.0} : f32[4,5,8]`},
	{ir.OpAttention, func(o *operands) frontend.Tensor {
		return o.heads.Attention(o.keys, o.keys, frontend.Sinks(o.b.Full(ir.F32, 1, 4)))
	}, `attention %8, %9, %9, %18, %17 : f32[4,3,8]`},

	{ir.OpCausalConv1D, func(o *operands) frontend.Tensor {
		y, _ := o.seq.CausalConv1D(o.row.Unsqueeze(1), o.b.Full(ir.F32, 0, 0, 4))
		return y
	}, `causal_conv1d %11, %16, %18 : f32[N,4]`},
	{ir.OpSSMScan, func(o *operands) frontend.Tensor {
		state := o.b.Full(ir.F32, 0, 3, 8, 8)
		y, _ := o.heads.SSMScan(o.heads.Index(2, 0), o.heads.Index(0, 0).Slice(1, 0, ir.D(1)), o.heads, o.heads, state)
		return y
	}, `ssm_scan %8, %19, %22, %8, %8, %17 : f32[4,3,8]`},
	{ir.OpDeltaRule, func(o *operands) frontend.Tensor {
		_, last := o.heads.DeltaRule(o.heads, o.heads, o.heads, o.b.Full(ir.F32, 0, 3, 8, 8))
		return last
	}, `delta_rule %8, %8, %8, %8, %17 {of="state"} : f32[3,8,8]`},
	{ir.OpDeltaRule, func(o *operands) frontend.Tensor {
		y, _ := o.heads.DeltaRule(o.heads, o.heads, o.heads, o.b.Full(ir.F32, 0, 3, 8, 8),
			frontend.Correction{A: o.heads, B: o.heads})
		return y
	}, `delta_rule %8, %8, %8, %8, %17, %8, %8 : f32[4,3,8]`},
	{ir.OpGather, func(o *operands) frontend.Tensor { return o.x.Gather(1, o.i) }, `gather %0, %3 {axis=1} : f32[2,4]`},
	{ir.OpIndexSelect, func(o *operands) frontend.Tensor { return o.x.IndexSelect(1, o.ivec) }, `index_select %0, %4 {axis=1} : f32[2,2]`},
	{ir.OpEmbedding, func(o *operands) frontend.Tensor { return o.x.Embedding(o.ivec, ir.F32) }, `embedding %0, %4 : f32[2,4]`},
	{ir.OpEmbedding, func(o *operands) frontend.Tensor { return o.q8.Embedding(o.ivec, ir.F16) }, `embedding %7, %4 {dtype=f16} : f16[2,32]`},
	{ir.OpCast, func(o *operands) frontend.Tensor { return o.x.Embedding(o.ivec, ir.F16) }, `cast %16 {dtype=f16} : f16[2,4]`},
	{ir.OpConcat, func(o *operands) frontend.Tensor { return o.x.Concat(1, o.y, o.x) }, `concat %0, %1, %0 {axis=1} : f32[2,12]`},
	{ir.OpPad, func(o *operands) frontend.Tensor { return o.x.Pad([]int{0, 1}, []int{2, 3}, 7) }, `pad %0 {low=[0,1], high=[2,3], value=7.0} : f32[4,8]`},
	{ir.OpDynamicUpdateSlice, func(o *operands) frontend.Tensor { return o.x.DynamicUpdateSlice(1, o.y, o.one) }, `dynamic_update_slice %0, %1, %5 {axis=1} : f32[2,4]`},
	{ir.OpDynamicUpdateSlice, func(o *operands) frontend.Tensor { return o.x.RingUpdateSlice(1, o.y, o.one) }, `dynamic_update_slice %0, %1, %5 {axis=1, wrap=true} : f32[2,4]`},
	{ir.OpRoll, func(o *operands) frontend.Tensor { return o.x.Roll(-1, -3) }, `roll %0 {shifts=[0,-3]} : f32[2,4]`},
	{ir.OpSlice, func(o *operands) frontend.Tensor { return o.x.Split(1, 1, 3)[1] }, `slice %0 {starts=[0,1], limits=[2,4]} : f32[2,3]`},
	{ir.OpConcat, func(o *operands) frontend.Tensor { return o.x.Stack(1, o.y) }, `concat %17, %16 {axis=1} : f32[2,2,4]`},
	{ir.OpPad, func(o *operands) frontend.Tensor { return o.x.PadReflect([]int{0, 1}, []int{2, 3}) }, `pad %0 {low=[0,1], high=[2,3], mode="reflect"} : f32[4,8]`},
	{ir.OpPad, func(o *operands) frontend.Tensor { return o.x.PadReplicate([]int{0, 1}, []int{2, 3}) }, `pad %0 {low=[0,1], high=[2,3], mode="replicate"} : f32[4,8]`},
	{ir.OpDynamicSlice, func(o *operands) frontend.Tensor { return o.x.DynamicSlice(1, o.one, 2) }, `dynamic_slice %0, %5 {axis=1, size=[2]} : f32[2,2]`},
	{ir.OpScatter, func(o *operands) frontend.Tensor { return o.x.Scatter(1, o.i, o.y) }, `scatter %0, %3, %1 {axis=1} : f32[2,4]`},
	{ir.OpScatter, func(o *operands) frontend.Tensor { return o.x.ScatterDistinct(1, o.i, o.y) }, `scatter %0, %3, %1 {axis=1, unique=true} : f32[2,4]`},
	{ir.OpScatterAdd, func(o *operands) frontend.Tensor { return o.x.ScatterAdd(0, o.i, o.y) }, `scatter_add %0, %3, %1 : f32[2,4]`},
	{ir.OpIndexAdd, func(o *operands) frontend.Tensor { return o.x.IndexAdd(0, o.ivec, o.y) }, `index_add %0, %4, %1 : f32[2,4]`},
	{ir.OpGatherND, func(o *operands) frontend.Tensor { return o.x.GatherND(o.ivec) }, `gather_nd %0, %4 : f32[]`},
	{ir.OpScatterAdd, func(o *operands) frontend.Tensor { return o.x.ScatterAddUnordered(0, o.i, o.y) }, `scatter_add %0, %3, %1 {unordered=true} : f32[2,4]`},
	{ir.OpIndexAdd, func(o *operands) frontend.Tensor { return o.x.IndexAddUnordered(0, o.ivec, o.x) }, `index_add %0, %4, %0 {unordered=true} : f32[2,4]`},
	{ir.OpScatterNDAdd, func(o *operands) frontend.Tensor { return o.x.ScatterNDAddUnordered(o.ivec, o.x.Lit(1)) }, `scatter_nd_add %0, %4, %16 {unordered=true} : f32[2,4]`},
	{ir.OpScatterND, func(o *operands) frontend.Tensor { return o.x.ScatterND(o.ivec, o.x.Lit(1)) }, `scatter_nd %0, %4, %16 : f32[2,4]`},
	{ir.OpScatterNDAdd, func(o *operands) frontend.Tensor { return o.x.ScatterNDAdd(o.ivec, o.x.Lit(1)) }, `scatter_nd_add %0, %4, %16 : f32[2,4]`},
	{ir.OpRandomUniform, func(o *operands) frontend.Tensor { return o.b.RandomUniform(o.seed, o.seed, ir.F16, o.n, 2) }, `random_uniform %15, %15 {dtype=f16, shape=[N,2]} : f16[N,2]`},
	{ir.OpRandomNormal, func(o *operands) frontend.Tensor { return o.b.RandomNormal(o.seed, o.seed, ir.F32, 3) }, `random_normal %15, %15 {shape=[3]} : f32[3]`},
	{ir.OpRandomBernoulli, func(o *operands) frontend.Tensor { return o.b.RandomBernoulli(0.25, o.seed, o.seed) }, `random_bernoulli %15, %15 {p=0.25, shape=[]} : bool[]`},
	{ir.OpWhere, func(o *operands) frontend.Tensor { return o.x.Dropout(0.5, o.seed, o.seed) }, `where %16, %18, %19 : f32[2,4]`},
	{ir.OpMatMul, func(o *operands) frontend.Tensor { x := o.x.Cast(ir.I8); return x.MatMulT(x) }, `matmul %16, %16 {transpose_b=true} : i32[2,2]`},
	{ir.OpMatMulID, func(o *operands) frontend.Tensor { w := o.x.Unsqueeze(1); return w.MatMulID(w, o.i) }, `matmul_id %16, %16, %3 : f32[2,4,1]`},
	{ir.OpMatMulID, func(o *operands) frontend.Tensor {
		w := o.x.Unsqueeze(1)
		return w.MatMulIDIn(frontend.HalfPrecision, w, o.i)
	}, `matmul_id %16, %16, %3 {precision="half"} : f32[2,4,1]`},
	{ir.OpQuantize, func(o *operands) frontend.Tensor { return o.q8.Dequantize(ir.F16).Quantize(ir.Q4_1) }, `quantize %16 {dtype=q4_1} : q4_1[4,32]`},
	{ir.OpExpertGroups, func(o *operands) frontend.Tensor { return o.i.ExpertGroups(3, 2) }, `expert_groups %3 {experts=3, rows=2} : i32[5,3]`},
	{ir.OpDequantize, func(o *operands) frontend.Tensor { return o.q8.Dequantize(ir.F16) }, `dequantize %7 {dtype=f16} : f16[4,32]`},

	{ir.OpFFT, func(o *operands) frontend.Tensor { return o.x.Reshape(4, 2).FFT(0) }, `fft %16 : f32[4,2]`},
	{ir.OpFFT, func(o *operands) frontend.Tensor { return o.x.Reshape(4, 2).IFFT(-2) }, `fft %16 {inverse=true} : f32[4,2]`},
	{ir.OpRFFT, func(o *operands) frontend.Tensor { return o.seq.RFFT(1) }, `rfft %11 : f32[N,3,2]`},
	{ir.OpTranspose, func(o *operands) frontend.Tensor { return o.heads.RFFT(1) }, `transpose %17 {perm=[0,2,1,3]} : f32[4,2,8,2]`},
	{ir.OpIRFFT, func(o *operands) frontend.Tensor { return o.x.Reshape(4, 2).IRFFT(0, 7) }, `irfft %16 {n=7} : f32[7]`},
	{ir.OpTranspose, func(o *operands) frontend.Tensor { return o.x.Reshape(4, 1, 2).IRFFT(0, 6) }, `transpose %18 {perm=[1,0]} : f32[6,1]`},
	{ir.OpCholesky, func(o *operands) frontend.Tensor { return o.x.MatMulT(o.x).Cholesky() }, `cholesky %16 : f32[2,2]`},
	{ir.OpTriangularSolve, func(o *operands) frontend.Tensor { return o.x.Slice(1, 0, ir.D(2)).TriangularSolve(o.y) }, `triangular_solve %16, %1 : f32[2,4]`},
	{ir.OpTriangularSolve, func(o *operands) frontend.Tensor {
		return o.x.Slice(1, 0, ir.D(2)).TriangularSolve(o.y, frontend.Upper(), frontend.Transposed())
	}, `triangular_solve %16, %1 {lower=false, transpose=true} : f32[2,4]`},
	{ir.OpTriangularSolve, func(o *operands) frontend.Tensor {
		return o.x.Slice(1, 0, ir.D(2)).TriangularSolve(o.keys.Transpose(0, 1, 2).Slice(1, 0, ir.D(2)))
	}, `triangular_solve %19, %18 : f32[2,2,8]`},
	{ir.OpTriangularSolve, func(o *operands) frontend.Tensor { return o.x.Slice(1, 0, ir.D(2)).Solve(o.y) }, `triangular_solve %20, %22 {lower=false} : f32[2,4]`},
	{ir.OpTriangularSolve, func(o *operands) frontend.Tensor { return o.x.Slice(1, 0, ir.D(2)).CholeskySolve(o.y) }, `triangular_solve %16, %17 {transpose=true} : f32[2,4]`},
	{ir.OpQR, func(o *operands) frontend.Tensor { q, _ := o.x.QR(); return q }, `qr %16 : f32[2,2]`},
	{ir.OpTriu, func(o *operands) frontend.Tensor { _, r := o.x.QR(); return r }, `triu %19 : f32[2,4]`},
	{ir.OpEigH, func(o *operands) frontend.Tensor { _, v := o.x.MatMulT(o.x).EigH(); return v }, `eigh %16 : f32[2,2]`},
}

// TestMethods calls every method that makes a node, and compares the node with the expected text: operands in order,
// and attributes.
func TestMethods(t *testing.T) {
	for _, c := range methodCases {
		t.Run(c.op.String(), func(t *testing.T) {
			_, err := frontend.Build("methods", func(b *frontend.Builder) {
				o := newOperands(b)
				r := c.call(o)
				b.Output("x", o.x)
				if got := r.Node().Op(); got != c.op {
					t.Errorf("the node's op is %s", got)
				}
				want := r.Node().String() + " = " + c.want
				if got := ir.FormatNode(r.Node()); got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEveryOpHasAMethod fails for an op of the table that TestMethods does not
// reach, so that a new op cannot be forgotten here.
func TestEveryOpHasAMethod(t *testing.T) {
	have := map[ir.Op]bool{}
	for _, c := range methodCases {
		have[c.op] = true
	}
	for _, op := range ir.Ops() {
		if !have[op] && op.Class() != ir.ClassControl { // see TestLoops
			t.Errorf("%s: no method of package frontend makes it", op)
		}
	}
}
