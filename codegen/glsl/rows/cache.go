package rows

import (
	"github.com/vkc-go/vkc/codegen/glsl/emit"
	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/kernel"
)

// declareCaches declares the register arrays of the values that are kept between stages.
func (r *Writer) declareCaches() {
	for _, v := range r.kept() {
		name := emit.HintOf(v)
		// The buffer's name says more than a hint.
		if v.Kind == kernel.ExprLoad {
			name = r.Buffers[v.Bind].Base
		}
		r.cached[v] = r.Unset(r.ComputeType(v.DType), "kept_"+name, r.slots*r.width)
	}
}

// kept lists the kept values, in the order in which the kernel computes them.
func (r *Writer) kept() (list []*kernel.Expr) {
	kernel.Walk(r.K.Roots(), func(v *kernel.Expr) {
		if _, ok := r.first[v]; ok {
			list = append(list, v)
		}
	})
	return list
}

// bindKept makes the expressions of a stage use the registers with the values that earlier stages kept. number is the
// number of the stage.
func (r *Writer) bindKept(number int) {
	if r.slots == 0 {
		return
	}
	for v, name := range r.cached {
		if r.first[v] < number {
			r.BindValue(v, expr.At(name, r.slotIndex()))
		}
	}
}

// slotIndex returns the index of the current element in the arrays of kept values. An array has slots vectors of width
// elements.
func (r *Writer) slotIndex() expr.Expr {
	switch {
	case r.width == 1: // the slot alone identifies the element
		return r.slot
	case r.slots == 1: // the lane alone does
		return emit.Lane
	}
	return expr.Flat(r.slot, r.width, emit.Lane)
}
