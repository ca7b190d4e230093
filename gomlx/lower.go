package gomlx

import (
	"context"
	"fmt"

	"github.com/gomlx/compute/shapes"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// lowering emits operations into a graph. As in package frontend, errors end the build of the graph.
type lowering struct {
	b       *frontend.Builder
	axes    axes
	tensors map[*value]frontend.Tensor
	blocks  map[*value]frontend.Tensor // inputs interpreted as quantized blocks
	// widened is set if a scalar replaces a tensor of equal elements.
	widened bool
}

func newLowering(b *frontend.Builder, a axes) *lowering {
	return &lowering{b: b, axes: a, tensors: map[*value]frontend.Tensor{},
		blocks: map[*value]frontend.Tensor{}}
}

// inputs declares the values in `of` that ops use as inputs of the graph, in order. Values in `over`, which the program
// overwrites, become states. So do values that ops take as quantized blocks, since only states can have block dtypes on
// the device. An input may be needed both as blocks and as bytes.
func (l *lowering) inputs(of []*value, ops []*operation, over map[*value]bool) {
	taken, blocks := map[*value]bool{}, map[*value]ir.DType{}
	for _, op := range ops {
		for i, a := range op.args {
			if t, ok := op.blocks[i]; ok {
				if before, ok := blocks[a]; ok && before != t {
					l.fail(fmt.Errorf("the same bytes are taken for %s and %s", before, t))
				}
				blocks[a] = t
			} else {
				taken[a] = true
			}
		}
	}
	for i, v := range of {
		t, isBlocks := blocks[v]
		if isBlocks {
			l.blocks[v] = l.b.State(stateName(i), t, blockDims(t, l.numbers(v.shape)))
		}
		if over[v] {
			l.tensors[v] = l.b.State(stateName(i), l.elementType(v.shape), l.dims(v.shape))
		}
		if _, ok := l.tensors[v]; !ok && (!isBlocks || taken[v]) {
			l.tensors[v] = l.b.Input(inputName(i), l.elementType(v.shape), l.dims(v.shape))
		}
	}
}

// blockDims returns the dequantized shape of bytes [rows, n] in blocks of t.
func blockDims(t ir.DType, dims []int) []int {
	return []int{dims[0], dims[1] / t.BlockBytes() * t.BlockElems()}
}

// blockTensor returns the tensor of a value that is interpreted as quantized blocks.
func (l *lowering) blockTensor(v *value, t ir.DType) frontend.Tensor {
	if d := v.op.data; d != nil {
		return l.b.Const(&ir.Data{DType: t, Dims: blockDims(t, d.Dims), Bytes: d.Bytes})
	}
	tensor, ok := l.blocks[v]
	if !ok {
		l.fail(fmt.Errorf("blocks of %s are no input here", t))
	}
	return tensor
}

// elementType returns the dtype of a shape.
func (l *lowering) elementType(s shapes.Shape) ir.DType {
	t, err := elementType(s.DType)
	if err != nil {
		l.fail(err)
	}
	return t
}

func (l *lowering) fail(err error) { l.b.Fail("gomlx", err) }

// value returns the tensor of a value. It adds the value's operation to the graph, after its operands, if it is not
// there yet.
func (l *lowering) value(v *value) frontend.Tensor {
	if t, ok := l.tensors[v]; ok {
		return t
	}
	op := v.op
	if op.build == nil { // a parameter that was not given, or an operation that the host runs
		l.fail(fmt.Errorf("a value of %s is not known here", op.kind))
	}
	in := make([]frontend.Tensor, len(op.args))
	for i, a := range op.args {
		if t, ok := op.blocks[i]; ok {
			in[i] = l.blockTensor(a, t)
		} else {
			in[i] = l.value(a)
		}
	}
	for i, t := range op.build(l, in) {
		r := op.results[i]
		want := ir.Type{DType: l.elementType(r.shape), Shape: l.dims(r.shape)}
		got := ir.Type{DType: t.DType(), Shape: t.Shape()}
		if got.DType != want.DType || !l.widened && !got.Shape.Equal(want.Shape) {
			l.fail(fmt.Errorf("result %d of %s is %s, want %s: please report this", i, op.kind, got, want))
		}
		l.tensors[r] = t
	}
	return l.tensors[v]
}

// call inlines a function and returns its results. in has the tensors of its parameters, followed by the captured
// values. widened means that in has tensors for scalar parameters: the function is elementwise and runs on all their
// elements.
func (l *lowering) call(f *Function, captured []*value, in []frontend.Tensor, widened bool) []frontend.Tensor {
	inner := newLowering(l.b, l.axes)
	inner.widened = widened || l.widened
	for i, p := range append(append([]*value{}, f.parameters...), captured...) {
		inner.tensors[p] = in[i]
	}
	out := make([]frontend.Tensor, len(f.results))
	for i, r := range f.results {
		out[i] = inner.value(r)
	}
	return out
}

// constant returns the elements of a value that is a constant, or else nil.
func constant(v *value) []float64 {
	if v.op.data == nil {
		return nil
	}
	values, err := v.op.data.Floats()
	if err != nil {
		return nil
	}
	return values
}

// number returns the value of an integer scalar that depends only on constants and extents. It builds the scalar in a
// graph of its own and evaluates that.
func (l *lowering) number(v *value) ir.Dim {
	var node *ir.Node
	g, err := frontend.Build("number", func(b *frontend.Builder) {
		t := newLowering(b, l.axes).value(v)
		b.Output("n", t)
		node = t.Node()
	})
	if err != nil {
		l.fail(fmt.Errorf("an extent must follow from extents and constants: %w", err))
	}
	if node.Op() == ir.OpDimValue { // an extent, which may be symbolic
		return node.Attrs().Shape("dim")[0]
	}
	d, err := interp.Eval(context.Background(), g, []*ir.Node{node}, interp.Options{})
	if err != nil {
		l.fail(err)
	}
	n, err := d[0].Ints()
	if err != nil || len(n) != 1 {
		l.fail(fmt.Errorf("an extent is %s: want one integer", d[0]))
	}
	return ir.D(int(n[0]))
}

// captures returns the values of enclosing functions that the results of some functions need, without duplicates.
func captures(of ...*Function) []*value {
	seen := map[*value]bool{}
	var found []*value
	for _, f := range of {
		var walk func(v *value)
		walk = func(v *value) {
			switch {
			case seen[v]:
				return
			case !v.op.function.within(f):
				found = append(found, v)
			}
			seen[v] = true
			if v.op.function.within(f) {
				for _, a := range v.op.args {
					walk(a)
				}
			}
		}
		for _, r := range f.results {
			walk(r)
		}
	}
	return found
}
