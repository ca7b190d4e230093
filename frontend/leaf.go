package frontend

import "github.com/vkc-go/vkc/ir"

// Input adds a tensor that each run provides under that name.
func (b *Builder) Input(name string, t ir.DType, dims ...Dim) Tensor {
	return b.named(ir.OpInput, name, t, dims)
}

// Weight returns a constant tensor, found by name in a weights file or bundle. Its shape is static, and its dtype may
// be quantized.
func (b *Builder) Weight(name string, t ir.DType, dims ...Dim) Tensor {
	return b.named(ir.OpWeight, name, t, dims)
}

// State returns a tensor that outlives the run and begins at zero; see Update and StateFrom. Its shape is static. For a
// dimension that is a symbol, give the symbol's bound, and Slice the part that a run uses.
func (b *Builder) State(name string, t ir.DType, dims ...Dim) Tensor {
	return b.named(ir.OpState, name, t, dims)
}

// ShardedWeight declares a weight, as Weight does, and the axis along which devices that share the model (tensor
// parallelism) may split it. -1 stands for no axis.
func (b *Builder) ShardedWeight(axis int, name string, t ir.DType, dims ...Dim) Tensor {
	return b.named(ir.OpWeight, name, t, dims, attr("shard", axis))
}

// ShardedState declares a state, as State does, and the axis along which devices that share the model may split it. -1
// stands for no axis.
func (b *Builder) ShardedState(axis int, name string, t ir.DType, dims ...Dim) Tensor {
	return b.named(ir.OpState, name, t, dims, attr("shard", axis))
}

// StateFrom returns a state, as State does, that begins with the given values, such as ir.InitialNormal(0, 0.02, seed).
func (b *Builder) StateFrom(first ir.Initial, name string, t ir.DType, dims ...Dim) Tensor {
	return b.add(ir.OpState, nil, attr("name", name), attr("dtype", t), attr("shape", mustShape(ir.OpState, dims)),
		attr("init", first.String()))
}

// named adds a leaf to the whole graph, even while a body is being built. The body captures it at first use.
func (b *Builder) named(op ir.Op, name string, t ir.DType, dims []Dim, more ...ir.Attr) Tensor {
	for b != nil && b.outer != nil { // bodies capture these
		b = b.outer
	}
	attrs := []ir.Attr{attr("name", name), attr("dtype", t), attr("shape", mustShape(op, dims))}
	return b.addHere(op, nil, append(attrs, more...)...)
}

// Iota returns a tensor in which each element is its coordinate along an axis.
func (b *Builder) Iota(t ir.DType, axis int, dims ...Dim) Tensor {
	return b.add(ir.OpIota, nil, attr("dtype", t), attr("shape", mustShape(ir.OpIota, dims)), attr("axis", axis))
}

// Arange returns a vector of n elements: start, start+step, start+2*step and so on. The dtype is a float or integer
// dtype that represents start and step.
func (b *Builder) Arange(t ir.DType, start, step float64, n Dim) Tensor {
	count := b.Iota(t, 0, n)
	if step != 1 {
		count = count.MulScalar(step)
	}
	if start != 0 {
		count = count.AddScalar(start)
	}
	return count
}

// Eye returns a matrix with 1 on its main diagonal and 0 elsewhere.
func (b *Builder) Eye(t ir.DType, rows, columns Dim) Tensor {
	return b.Iota(ir.I32, 0, rows, columns).Eq(b.Iota(ir.I32, 1, rows, columns)).Cast(t)
}

// DimValue returns an i32 scalar with the value that a dim has in a run.
func (b *Builder) DimValue(d Dim) Tensor {
	return b.add(ir.OpDimValue, nil, attr("dim", ir.Shape{mustDim(ir.OpDimValue, d)}))
}

// Const returns a constant stored in the graph: a number or bool, a slice or array of them, or nested slices of equal
// lengths, which determine the shape:
//
//	b.Const(float32(0.5))                     f32[]
//	b.Const([][]float32{{1, 2, 3}, {4, 5, 6}})  f32[2,3]
//	b.Const([]int32{1, 2, 3, 4, 5, 6}, 2, 3)    i32[2,3]
//
// dims, if given, replace the shape. The Go type determines the dtype; a plain int becomes i32, the dtype of indices,
// and must fit it. An *ir.Data is used as it is. For a number in the dtype of another tensor use Tensor.Lit.
func (b *Builder) Const(values any, dims ...int) Tensor {
	d, err := toData(values, dims)
	if err != nil {
		fail("const", err)
	}
	return b.add(ir.OpConst, nil, attr("data", d))
}

// Scalar returns a constant without axes in that dtype. Floats are rounded; an integer or bool dtype must represent the
// value exactly.
func (b *Builder) Scalar(t ir.DType, value float64) Tensor {
	d, err := scalarData(t, value)
	if err != nil {
		fail("const", err)
	}
	return b.add(ir.OpConst, nil, attr("data", d))
}

// Full returns a tensor of that shape with all elements equal to value.
func (b *Builder) Full(t ir.DType, value float64, dims ...Dim) Tensor {
	return b.Scalar(t, value).Broadcast(dims...)
}

// Lit returns a scalar constant in the dtype of t, so that t.Max(t.Lit(1)) works for any numeric tensor.
func (t Tensor) Lit(value float64) Tensor {
	t.must("const")
	d, err := scalarData(t.DType(), value)
	if err != nil {
		fail("const", err, t)
	}
	return t.b.add(ir.OpConst, nil, attr("data", d))
}
