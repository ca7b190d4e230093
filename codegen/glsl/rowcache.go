package glsl

import (
	"github.com/vkc-go/vkc/codegen/kernel"
)

// declareCaches declares the arrays of the kept values.
func (r *rowWriter) declareCaches() {
	for _, v := range r.keptFrom(-1) {
		r.cached[v] = r.unset(r.computeType(v.DType), "kept_"+r.keptName(v), r.slots*r.width)
	}
}

func (r *rowWriter) keptName(v *kernel.Expr) string {
	if v.Kind == kernel.ExprLoad {
		return r.buffers[v.Bind].base
	}
	return hintOf(v)
}

// keptFrom lists the kept values that a stage computes, or all for -1.
func (r *rowWriter) keptFrom(number int) []*kernel.Expr {
	var out []*kernel.Expr
	kernel.Walk(r.k.Roots(), func(v *kernel.Expr) {
		if s, ok := r.first[v]; ok && (s == number || number < 0) {
			out = append(out, v)
		}
	})
	return out
}

// takeCached binds the values that earlier stages kept in registers.
func (r *rowWriter) takeCached(number int) {
	if r.slots == 0 {
		return
	}
	for v, name := range r.cached {
		if r.first[v] < number {
			r.bindValue(v, elementAt(name, r.slotIndex()))
		}
	}
}

// slotIndex is the current neighbour's element of a cache.
func (r *rowWriter) slotIndex() text {
	switch {
	case r.width == 1:
		return r.slot
	case r.slots == 1:
		return lane
	}
	return plus(times(r.slot, r.width), lane)
}
