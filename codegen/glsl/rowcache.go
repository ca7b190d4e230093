package glsl

import (
	"github.com/vkc-go/vkc/codegen/kernel"
)

// declareCaches declares the arrays of the kept values.
func (r *rowWriter) declareCaches() {
	for _, v := range r.keptFrom(-1) {
		name := r.fresh(r.scope, "kept_"+r.keptName(v))
		r.line("%s %s[%d];", r.computeType(v.DType), name, r.slots*r.width)
		r.cached[v] = name
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
		return primary(component)
	}
	return plus(times(r.slot, r.width), primary(component))
}
