package onnx

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// value is the value of a name in the model, in one of four forms: data, dims, tensor or list. It is converted to
// another form as needed.
type value struct {
	name string
	// data is a constant: an initializer, or a folded result.
	data *ir.Data
	// dims are integers that may depend on symbols: a vector or, if scalar is set, one integer. isDims says that the
	// value is in this form.
	dims   ir.Shape
	scalar bool
	isDims bool
	// as is the dtype of dims after a cast. ir.Invalid stands for i64.
	as ir.DType
	// tensor is a value of the graph.
	tensor frontend.Tensor
	// list has the values of a sequence, or the value of an optional, if it has one. isList says that the value is in
	// this form.
	list   []*value
	isList bool
	// missing says that the node that computes the value could not be built.
	missing bool
	// from lists the inputs of the model on which the value depends.
	from []string
	// valid, if set, says that only a part of the tensor is valid.
	valid *validPart
	// unsigned says that the integers are uint64: see unsigned.go.
	unsigned bool
	// conv, if set, is the convolution that computed the value. A batch normalization after it can change its weights.
	conv *convolution
}

// smallConstant is the largest number of elements of a constant that is stored in the graph instead of as a weight. It
// is enough for scalars and lists of axes, which passes look at.
const smallConstant = 16

// maxFolded is the maximum number of elements of a constant expression that is computed while the graph is built.
// Larger ones are computed when the program is loaded.
const maxFolded = 1 << 16

// asTensor returns the value as a tensor of the graph.
func (im *importer) asTensor(v *value) frontend.Tensor {
	switch {
	case v.isList:
		im.fail("%q is a sequence: want a tensor", v.name)
	// It is a tensor of this graph, or of a graph around it.
	case !v.tensor.IsZero() && im.b.Sees(v.tensor):
	case v.isDims:
		v.tensor = im.dimsTensor(v)
	case v.data == nil:
		im.fail("%q has no value", v.name)
	case v.data.Elems() <= smallConstant || v.name == "" || im.scratch:
		v.tensor = im.b.Const(v.data)
	default:
		v.tensor = im.weight(v)
	}
	return v.tensor
}

// weight declares a constant as a weight of the graph, under its name in the model. If another weight or input has that
// name, such as a constant of another subgraph, it adds a number.
func (im *importer) weight(v *value) frontend.Tensor {
	name := v.name
	for i := 1; im.taken[name]; i++ {
		name = fmt.Sprintf("%s.%d", v.name, i)
	}
	im.taken[name] = true
	im.weights[name] = v.data
	return im.b.Weight(name, v.data.DType, v.data.Dims)
}

// dimsTensor returns integers that may depend on symbols as a tensor.
func (im *importer) dimsTensor(v *value) frontend.Tensor {
	return castTo(im.longDims(v), v.dimsType())
}

// dimsType returns the dtype of a value in the form dims.
func (v *value) dimsType() ir.DType {
	if v.as == ir.Invalid {
		return ir.I64
	}
	return v.as
}

// fitsDims reports whether all dims are in the range of their dtype. Ops on others wrap, as ops of the graph do.
func (v *value) fitsDims() bool {
	lo, hi := ir.IntRange(v.dimsType())
	return !slices.ContainsFunc(v.dims, func(d ir.Dim) bool { return d.Add < lo || d.Max() > hi })
}

// longDims returns integers that may depend on symbols as an i64 tensor.
func (im *importer) longDims(v *value) frontend.Tensor {
	if v.dims.IsStatic() {
		ints := staticInts(v.dims)
		if v.scalar {
			return im.b.Const(ints[0])
		}
		return im.b.Const(ints, len(ints))
	}
	parts := make([]frontend.Tensor, len(v.dims))
	for i, d := range v.dims {
		if d.IsStatic() {
			parts[i] = im.b.Const([]int64{d.Add})
		} else {
			parts[i] = im.dimValue(d).Reshape(1)
		}
	}
	if v.scalar {
		return parts[0].Reshape()
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return parts[0].Concat(0, parts[1:]...)
}

// dimsOf returns the integers of a vector or scalar, which may depend on symbols, and whether it is a scalar. ok is
// false if the value is not known when the graph is built, or is no short list of integers.
func dimsOf(v *value) (s ir.Shape, scalar, ok bool) {
	if v.isDims {
		return v.dims, v.scalar, true
	}
	if v.data == nil || !v.data.DType.IsInteger() || len(v.data.Dims) > 1 || v.data.Elems() > 4*smallConstant {
		return nil, false, false
	}
	ints, err := v.data.Ints()
	if err != nil {
		return nil, false, false
	}
	for _, n := range ints {
		s = append(s, ir.Dim{Add: n})
	}
	return s, len(v.data.Dims) == 0, true
}

// constant returns the value if it is known when the graph is built, and otherwise nil.
func constant(v *value) *ir.Data {
	switch {
	case v.data != nil:
		return v.data
	case v.isDims && v.dims.IsStatic():
		ints := staticInts(v.dims)
		dims := []int{len(ints)}
		if v.scalar {
			dims = nil
		}
		d, err := ir.FromInts(v.dimsType(), ints, dims...)
		if err == nil {
			return d
		}
	}
	return nil
}

// staticInts returns extents without symbols as integers.
func staticInts(s ir.Shape) []int64 {
	list := make([]int64, len(s))
	for i, d := range s {
		list[i] = d.Add
	}
	return list
}

// dimsValue returns integers as a value.
func dimsValue(s ir.Shape, scalar bool) *value {
	return &value{dims: s, scalar: scalar, isDims: true}
}

// shapeOf returns the shape of a value that is a tensor.
func (im *importer) shapeOf(v *value) ir.Shape {
	switch {
	case v.isDims && v.scalar:
		return ir.Shape{}
	case v.isDims:
		return ir.ShapeOf(len(v.dims))
	case v.data != nil:
		return ir.ShapeOf(v.data.Dims...)
	}
	return im.asTensor(v).Shape()
}

// dtypeOf returns the dtype of a value that is a tensor.
func (im *importer) dtypeOf(v *value) ir.DType {
	switch {
	case v.isDims:
		return v.dimsType()
	case v.data != nil:
		return v.data.DType
	}
	return im.asTensor(v).DType()
}

// merged returns the union of the model's inputs that values depend on.
func merged(values []*value) []string {
	var all []string
	for _, v := range values {
		if v == nil {
			continue
		}
		if len(all) == 0 {
			all = v.from
			continue
		}
		for _, name := range v.from {
			if !slices.Contains(all, name) {
				all = append(slices.Clip(all), name)
			}
		}
	}
	return all
}

// broadcastDims returns the broadcast shape of two operands.
func broadcastDims(a, b ir.Shape) (ir.Shape, error) {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := slices.Clone(a)
	for i, d := range b {
		at := len(a) - len(b) + i
		switch {
		case d.Is(1) || d == out[at]:
		case out[at].Is(1):
			out[at] = d
		default:
			return nil, fmt.Errorf("%s and %s do not broadcast: extents must be equal or 1", a, b)
		}
	}
	return out, nil
}
