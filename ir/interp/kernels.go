package interp

import (
	"context"
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// call is a node to compute, with the values of its arguments.
type call struct {
	ctx     context.Context
	workers int
	node    *ir.Node
	dims    []int // the result's extents
	args    []value
	env     *env
	undo    *undo // set if the result may overwrite argument 0
	left    int64 // bytes of memory that a body's values may use
	view    bool  // whether the result may be a strided view of argument 0
}

// env provides the values that do not depend on other nodes.
type env struct {
	symbols map[string]int64
	leaf    func(n *ir.Node) (value, error) // inputs, weights and states
	bodies  *bodies
}

// kernel computes a node's value. It may share slices with its arguments but must not modify them.
type kernel func(c *call) (value, error)

// kernels maps ops to their kernels. Elementwise ops, folds and running folds have common kernels and are not listed,
// except kernels that convert dtypes by their own rules.
var kernels = map[ir.Op]kernel{
	ir.OpInput:    leaf,
	ir.OpWeight:   leaf,
	ir.OpState:    leaf,
	ir.OpConst:    constant,
	ir.OpIota:     coordinates,
	ir.OpDimValue: dimValue,

	ir.OpCast:    cast,
	ir.OpBitcast: bitcast,

	ir.OpReshape:   reshape,
	ir.OpTranspose: transpose,
	ir.OpSlice:     slice,
	ir.OpBroadcast: broadcast,
	ir.OpSqueeze:   reshape,
	ir.OpUnsqueeze: reshape,
	ir.OpFlip:      flip,
	ir.OpRoll:      roll,

	ir.OpArgmax: argmax,
	ir.OpArgmin: argmin,

	ir.OpSort:        sortAxis,
	ir.OpArgsort:     argsort,
	ir.OpTopKIndices: topKIndices,

	ir.OpRope:      rope,
	ir.OpGroupNorm: groupNorm,

	ir.OpMatMul:       matmul,
	ir.OpMatMulID:     matmulID,
	ir.OpExpertGroups: expertGroups,

	ir.OpConv:          conv,
	ir.OpConvTranspose: convTranspose,
	ir.OpAvgPool:       avgPool,
	ir.OpMaxPool:       maxPool,
	ir.OpResizeNearest: resizeNearest,
	ir.OpResizeLinear:  resizeLinear,
	ir.OpResizeCubic:   resizeCubic,

	ir.OpGather:             gather,
	ir.OpIndexSelect:        indexSelect,
	ir.OpEmbedding:          embedding,
	ir.OpConcat:             concat,
	ir.OpPad:                pad,
	ir.OpDynamicUpdateSlice: dynamicUpdateSlice,
	ir.OpDynamicSlice:       dynamicSlice,
	ir.OpScatter:            scatter,
	ir.OpScatterAdd:         scatter,
	ir.OpIndexAdd:           indexAdd,
	ir.OpGatherND:           gatherND,
	ir.OpScatterND:          scatterND,
	ir.OpScatterNDAdd:       scatterND,
	ir.OpDequantize:         dequantize,
	ir.OpQuantize:           quantize,

	ir.OpAttention:     attention,
	ir.OpAttentionLSE:  attentionLSE,
	ir.OpAttentionGrad: attentionGrad,

	ir.OpCausalConv1D: causalConv1D,
	ir.OpSSMScan:      scanRecurrence,
	ir.OpDeltaRule:    scanRecurrence,

	ir.OpRandomUniform:   randomUniform,
	ir.OpRandomNormal:    randomNormal,
	ir.OpRandomBernoulli: randomBernoulli,

	ir.OpFFT:             fft,
	ir.OpRFFT:            rfft,
	ir.OpIRFFT:           irfft,
	ir.OpCholesky:        cholesky,
	ir.OpTriangularSolve: triangularSolve,
	ir.OpQR:              qr,
	ir.OpEigH:            eigH,

	ir.OpBatchNorm:  batchNorm,
	ir.OpTril:       tril,
	ir.OpTriu:       triu,
	ir.OpOneHot:     oneHot,
	ir.OpRopeTables: ropeTables,
}

// kernelOf returns the kernel of an op: its own, or the common one of elementwise ops, folds or scans, which interprets
// the op's row.
func kernelOf(op ir.Op) (kernel, error) {
	if k, ok := kernels[op]; ok {
		return k, nil
	}
	in := op.Info()
	switch {
	case in.Class == ir.ClassCustom:
		return customKernel, nil
	case in.Class == ir.ClassElementwise && in.Custom != nil:
		return customElementwise, nil
	case in.Running != 0:
		return running, nil
	case in.Fold != nil && in.Class == ir.ClassReduce:
		return reduce, nil
	case in.Fold != nil:
		return normalize, nil
	case in.Class == ir.ClassElementwise && (in.Float != nil || in.Int != nil):
		return elementwise, nil
	}
	return nil, fmt.Errorf("the reference has no kernel for %s: "+
		"write one into ir/interp, and name it in ir/interp/kernels.go", op)
}

func (c *call) attrs() ir.Attrs { return c.node.Attrs() }

// axis returns an axis attribute resolved for the rank of argument 0; negative values count from the end.
func (c *call) axis() (int, error) {
	return ir.ResolveAxis(int64(c.attrs().Int("axis")), len(c.args[0].dims))
}

// floats returns the node's result with the given elements, which it rounds in place.
func (c *call) floats(f []float64) value {
	roundFloats(f, c.node.DType())
	return value{typ: c.node.DType(), dims: c.dims, f64: f}
}

// ints returns the node's result with the given elements, which it wraps in place.
func (c *call) ints(v []int64) value {
	wrapInts(v, c.node.DType())
	return value{typ: c.node.DType(), dims: c.dims, i64: v}
}

// parallelRange calls f for ranges that cover n items, on the workers. work is the cost of one item in multiply-adds.
func (c *call) parallelRange(n, work int, f func(lo, hi int)) error {
	return parallelRange(c.ctx, c.workers, n, work, f)
}
