package frontend

import (
	"errors"

	"github.com/vkc-go/vkc/ir"
)

// Tensor is a handle to a value of the graph being built. Handles are small and immutable: copy them freely. The zero
// Tensor stands for an omitted optional operand; other methods refuse it.
type Tensor struct {
	b    *Builder
	node *ir.Node
}

// IsZero reports whether t is the zero Tensor.
func (t Tensor) IsZero() bool { return t.node == nil }

// DType returns the element type.
func (t Tensor) DType() ir.DType { return t.must("dtype").DType() }

// Shape returns the extent of each axis, outermost first; do not modify.
func (t Tensor) Shape() ir.Shape { return t.must("shape").Shape() }

// Rank returns the number of axes.
func (t Tensor) Rank() int { return t.must("rank").Rank() }

// Dim returns the extent of one axis.
func (t Tensor) Dim(axis int) ir.Dim {
	n := t.must("dim")
	a, err := ir.ResolveAxis(int64(axis), n.Rank())
	if err != nil {
		fail("dim", err, t)
	}
	return n.Shape()[a]
}

// Node returns the node that makes the value.
func (t Tensor) Node() *ir.Node { return t.node }

// Builder returns the Builder of t, so that functions over tensors can make constants and weights.
func (t Tensor) Builder() *Builder {
	t.must("builder")
	return t.b
}

// String returns the tensor's type, such as f32[6,8].
func (t Tensor) String() string {
	if t.node == nil {
		return "the zero Tensor"
	}
	return t.node.Type().String()
}

// must returns the node, or fails for the zero Tensor. what names the method.
func (t Tensor) must(what string) *ir.Node {
	if t.node == nil {
		fail(what, errors.New("called on the zero Tensor: make tensors with a Builder or from other tensors"))
	}
	return t.node
}

// apply makes a node with t as the first operand.
func (t Tensor) apply(op ir.Op, others []Tensor, attrs ...ir.Attr) Tensor {
	t.must(op.String())
	return t.b.add(op, append([]Tensor{t}, others...), attrs...)
}

// unary makes a node with t as the only operand.
func (t Tensor) unary(op ir.Op, attrs ...ir.Attr) Tensor { return t.apply(op, nil, attrs...) }

// binary makes a node of two operands.
func (t Tensor) binary(op ir.Op, u Tensor) Tensor { return t.apply(op, []Tensor{u}) }
