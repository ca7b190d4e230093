package ir

// The ops, by class. Each has one row, in the ops_*.go file of its class.
const (
	_ Op = iota

	// Leaves.
	OpInput
	OpWeight
	OpConst
	OpState
	OpIota
	OpDimValue

	// Elementwise: unary.
	OpNeg
	OpAbs
	OpSign
	OpExp
	OpExp2
	OpExpm1
	OpLog
	OpLog2
	OpLog1p
	OpSqrt
	OpRsqrt
	OpRecip
	OpSqr
	OpSin
	OpCos
	OpTan
	OpAsin
	OpAcos
	OpAtan
	OpAsinh
	OpAcosh
	OpAtanh
	OpSinh
	OpCosh
	OpTanh
	OpSigmoid
	OpSilu
	OpRelu
	OpLeakyRelu
	OpElu
	OpCelu
	OpSoftsign
	OpSelu
	OpGelu
	OpGeluErf
	OpErf
	OpSoftplus
	OpMish
	OpHardswish
	OpHardsigmoid
	OpFloor
	OpCeil
	OpRound
	OpTrunc
	OpNot
	OpIsNaN
	OpIsInf

	// Elementwise: binary, compare, select, cast.
	OpAdd
	OpSub
	OpMul
	OpDiv
	OpMod
	OpRem
	OpPow
	OpMin
	OpMax
	OpAtan2
	OpAnd
	OpOr
	OpXor
	OpShl
	OpShr
	OpEq
	OpNe
	OpLt
	OpLe
	OpGt
	OpGe
	OpWhere
	OpClamp
	OpAffine
	OpPowf
	OpLerp
	OpAfter
	OpCast
	OpBitcast

	// Views.
	OpReshape
	OpTranspose
	OpSlice
	OpBroadcast
	OpSqueeze
	OpUnsqueeze
	OpFlip
	OpRoll

	// Reductions.
	OpSum
	OpMean
	OpProd
	OpReduceMax
	OpReduceMin
	OpArgmax
	OpArgmin
	OpAny
	OpAll
	OpNorm1
	OpNorm2
	OpNormP
	OpLogSumExp
	OpVariance

	// Scans and sorts.
	OpCumSum
	OpCumProd
	OpCumMax
	OpCumMin
	OpSort
	OpArgsort
	OpTopKIndices

	// Row ops.
	OpSoftmax
	OpLogSoftmax
	OpRMSNorm
	OpLayerNorm
	OpRope
	OpGroupNorm
	OpL2Normalize

	// Contraction.
	OpMatMul
	OpMatMulID
	OpExpertGroups

	// Windows.
	OpConv
	OpConvTranspose
	OpAvgPool
	OpMaxPool
	OpResizeNearest
	OpResizeLinear
	OpResizeCubic

	// Indexing.
	OpGather
	OpIndexSelect
	OpEmbedding
	OpConcat
	OpPad
	OpDynamicSlice
	OpDynamicUpdateSlice
	OpScatter
	OpScatterAdd
	OpIndexAdd
	OpGatherND
	OpScatterND
	OpScatterNDAdd
	OpDequantize
	OpQuantize

	// Attention.
	OpAttention
	OpAttentionLSE
	OpAttentionGrad

	// Recurrences.
	OpCausalConv1D
	OpSSMScan
	OpDeltaRule

	// Random.
	OpRandomUniform
	OpRandomNormal
	OpRandomBernoulli

	// Composites.
	OpBatchNorm
	OpTril
	OpTriu
	OpOneHot
	OpRopeTables

	// Fourier transforms and linear algebra.
	OpFFT
	OpRFFT
	OpIRFFT
	OpCholesky
	OpTriangularSolve
	OpQR
	OpEigH

	// Control.
	OpIf
	OpLoop
	OpResult

	numOps
)
