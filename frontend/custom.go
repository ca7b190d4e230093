package frontend

import (
	"errors"
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// CustomOp applies an op added by ir.RegisterCustom to its arguments, in their declared order, and returns its result.
// If the op has several, it returns the first. Attributes with a default may be omitted.
func CustomOp(op ir.Op, args []Tensor, attrs ...ir.Attr) Tensor {
	return CustomOps(op, args, attrs...)[0]
}

// CustomOps applies an op added by ir.RegisterCustom to its arguments, in their declared order, and returns all of its
// results. One dispatch computes them.
func CustomOps(op ir.Op, args []Tensor, attrs ...ir.Attr) []Tensor {
	custom := op.Info().Custom
	switch {
	case custom == nil:
		fail(op.String(), fmt.Errorf("%s is not a custom op: ir.RegisterCustom makes one", op), args...)
	case len(args) == 0 || args[0].b == nil:
		fail(op.String(), errors.New("the first operand is missing: a custom op has at least one"), args...)
	}
	b, n := args[0].b, 1
	if custom.Kernel != nil {
		n = len(custom.Kernel.Outputs)
	}
	if n == 1 {
		return []Tensor{b.add(op, args, attrs...)}
	}
	out := make([]Tensor, n)
	for i := range out {
		// The capacity makes append copy attrs, so that the nodes do not share the memory.
		out[i] = b.add(op, args, append(attrs[:len(attrs):len(attrs)], attr("output", i))...)
	}
	return out
}

// Attr returns an attribute of a custom op.
func Attr(name string, value any) ir.Attr { return attr(name, value) }
