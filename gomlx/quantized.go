package gomlx

import (
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
	"github.com/vkc-go/vkc/ir"
)

// blockTypes has vkc's dtype for each of GGML's formats that GoMLX names.
var blockTypes = map[compute.GGMLQuantType]ir.DType{
	compute.GGMLQ4_0:  ir.Q4_0,
	compute.GGMLQ8_0:  ir.Q8_0,
	compute.GGMLIQ4NL: ir.IQ4_NL,
	compute.GGMLQ2_K:  ir.Q2_K,
	compute.GGMLQ3_K:  ir.Q3_K,
	compute.GGMLQ4_K:  ir.Q4_K,
	compute.GGMLQ5_K:  ir.Q5_K,
	compute.GGMLQ6_K:  ir.Q6_K,
}

// blocksOf checks that a value holds rows of quantized blocks as bytes, and returns the blocks' dtype and the
// dequantized shape. The value must be a constant or a parameter of the main function. Such a tensor is stored on the
// device as blocks, which no operation can produce.
func blocksOf(kind compute.OpType, v *value, q *compute.Quantization) (t ir.DType, rows, columns int, err error) {
	t, ok := blockTypes[q.GGMLType]
	s := v.shape
	switch {
	case !ok:
		err = errors.Wrapf(compute.ErrNotImplemented, "%s of format %s", kind, q.GGMLType)
	case s.DType != dtypes.Uint8 || s.Rank() != 2 || s.IsDynamic() || s.Dimensions[1]%t.BlockBytes() != 0:
		err = errors.Errorf("%s: the blocks are %s, want bytes [rows, n*%d]", kind, s, t.BlockBytes())
	case v.op.data == nil && (v.op.kind != compute.OpTypeParameter || v.op.function != v.op.function.builder.main):
		err = errors.Wrapf(compute.ErrNotImplemented, "%s of blocks that are neither a constant nor a parameter", kind)
	}
	if err != nil {
		return ir.Invalid, 0, 0, err
	}
	return t, s.Dimensions[0], s.Dimensions[1] / t.BlockBytes() * t.BlockElems(), nil
}

// QuantizedEmbeddingLookup implements compute.Function: the rows of data that indices number, as float32. data holds
// quantized blocks.
func (f *Function) QuantizedEmbeddingLookup(data, indices compute.Value, q *compute.Quantization) (compute.Value,
	error) {
	kind := compute.OpTypeQuantizedEmbeddingLookup
	args, err := f.values(kind, data, indices)
	if err != nil {
		return nil, err
	}
	if q == nil || q.Scheme != compute.QuantGGML {
		return nil, errors.Wrapf(compute.ErrNotImplemented, "%s of other than GGML's blocks", kind)
	}
	t, _, columns, err := blocksOf(kind, args[0], q)
	if err != nil {
		return nil, err
	}
	ids := args[1].shape
	last := ids.Rank() - 1
	if last < 0 || ids.Dimensions[last] != 1 || !ids.DType.IsInt() {
		return nil, errors.Errorf("%s: the indices are %s, want integers with a last axis of extent 1", kind, ids)
	}
	shape := ids.Clone()
	shape.DType, shape.Dimensions[last] = dtypes.Float32, columns
	op := &operation{kind: kind, args: args, blocks: map[int]ir.DType{0: t},
		build: one(func(in []tensor) tensor { return in[0].Embedding(in[1].Squeeze(last), ir.F32) })}
	return f.addBlocks(op, shape)
}

// checkIntegers returns an error unless vkc can multiply by the integer weights args[1] with the scales, and the zero
// points if there are some, that follow in args.
func checkIntegers(kind compute.OpType, args []*value, q *compute.Quantization) error {
	ws := args[1].shape
	switch {
	case numbersOf[q.Scheme] == nil || ws.DType.Bits() < 8 || !ws.DType.IsInt():
		return errors.Wrapf(compute.ErrNotImplemented, "%s by scheme %s of %s", kind, q.Scheme, ws.DType)
	case q.Scheme == compute.QuantNF4 && q.ZeroPoint != nil:
		return errors.Errorf("%s: scheme %s has no zero point", kind, q.Scheme)
	case ws.Rank() != 2 || q.BlockAxis != 1 || q.BlockSize < 1:
		return errors.Errorf("%s: the weights are %s in blocks of %d along axis %d: want two axes, blocks along axis 1",
			kind, ws, q.BlockSize, q.BlockAxis)
	}
	perBlock := []int{ws.Dimensions[0], (ws.Dimensions[1] + q.BlockSize - 1) / q.BlockSize}
	for i := range given(q.Scale, q.ZeroPoint) {
		if s := args[2+i].shape; !slices.Equal(s.Dimensions, perBlock) {
			return errors.Errorf("%s: scales or zero points are %s, want %v for weights %s in blocks of %d", kind, s,
				perBlock, ws, q.BlockSize)
		}
	}
	return nil
}

// FusedQuantizedDense implements compute.Function, for quantized blocks, and for integers with scales. The integers are
// numbers or indices into NF4's table (Dettmers et al. 2023).
func (f *Function) FusedQuantizedDense(x, weights, bias compute.Value, q *compute.Quantization,
	activation compute.ActivationType) (compute.Value, error) {
	kind := compute.OpTypeFusedQuantizedDense
	if q == nil {
		return nil, errors.Errorf("%s: there is no quantization: it is nil", kind)
	}
	after, ok := activations[activation]
	if !ok {
		return nil, errors.Wrapf(compute.ErrNotImplemented, "%s: activation %s", kind, activation)
	}
	blocks := q.Scheme == compute.QuantGGML
	operands := []compute.Value{x, weights}
	if !blocks {
		operands = append(operands, q.Scale)
	}
	args, err := f.values(kind, append(operands, given(q.ZeroPoint, bias)...)...)
	if err != nil {
		return nil, err
	}
	op := &operation{kind: kind, args: args}
	var inputs, outputs int // the extents of the weights: blocks are stored transposed
	if blocks {
		var t ir.DType
		if t, outputs, inputs, err = blocksOf(kind, args[1], q); err != nil {
			return nil, err
		}
		op.blocks = map[int]ir.DType{1: t}
	} else {
		if err := checkIntegers(kind, args, q); err != nil {
			return nil, err
		}
		inputs, outputs = args[1].shape.Dimensions[0], args[1].shape.Dimensions[1]
	}
	shape := args[0].shape.Clone()
	last := shape.Rank() - 1
	if last < 0 || shape.Dimensions[last] != inputs || shape.DType != dtypes.Float32 {
		return nil, errors.Errorf("%s: x is %s, want Float32 with a last axis of extent %d", kind, shape, inputs)
	}
	shape.Dimensions[last] = outputs
	op.build = one(func(in []tensor) tensor {
		x := in[0]
		if last == 0 {
			x = x.Unsqueeze(0) // a vector becomes a matrix of one row
		}
		var y tensor
		if blocks {
			y = x.MatMulT(in[1])
		} else {
			y = x.MatMul(dequantized(in[1:], outputs, q))
		}
		if last == 0 {
			y = y.Squeeze(0)
		}
		if bias != nil {
			y = y.Add(in[len(in)-1])
		}
		return after(y)
	})
	return f.addBlocks(op, shape)
}

// dequantized returns the numbers of integer weights of some columns. in has the weights, their scales, and the zero
// points if q has some.
func dequantized(in []tensor, columns int, q *compute.Quantization) tensor {
	w := numbersOf[q.Scheme](in[0]).Mul(perBlock(in[1], columns, q.BlockSize))
	if q.ZeroPoint != nil {
		w = w.Add(perBlock(cast(in[2], ir.F32), columns, q.BlockSize))
	}
	return w
}

// numbersOf converts integers to f32 before scaling, by scheme.
var numbersOf = map[compute.QuantizationScheme]func(w tensor) tensor{
	compute.QuantLinear: func(w tensor) tensor { return w.Cast(ir.F32) },
	compute.QuantNF4: func(w tensor) tensor { // the lower four bits are the index
		at := w.Cast(ir.I32)
		table := w.Builder().Const(compute.NF4LookupTable[:], len(compute.NF4LookupTable))
		return table.IndexSelect(0, at.And(at.Lit(15)).Reshape(-1)).Reshape(w.Shape())
	},
}

// perBlock repeats each element of [rows, blocks] for all elements of the block, up to the number of columns.
func perBlock(t tensor, columns, size int) tensor {
	block := make([]int, columns)
	for i := range block {
		block[i] = i / size
	}
	return t.IndexSelect(1, t.Builder().Const(block, columns))
}

// addBlocks appends an operation with operands in blocks.
func (f *Function) addBlocks(op *operation, shape shapes.Shape) (compute.Value, error) {
	results, err := f.append(op, shape)
	if err != nil {
		return nil, err
	}
	return results[0], nil
}
