package glsl

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// planCache chooses the values that lanes keep in registers from one pass over
// the row to the next: those that depend on the element and on no fold, and
// that several passes need. It needs rows of static length, so short that the
// schedule's Cache elements hold a lane's share.
func (r *rowWriter) planCache() {
	fold := r.k.Fold
	if r.sched.Cache <= 0 || !fold.IsStatic() || fold.Add == 0 {
		return
	}
	step := int64(r.lanes * r.width)
	slots := (fold.Add + step - 1) / step
	if slots*int64(r.width) > int64(r.sched.Cache) {
		return
	}
	needed, order := r.stagesOf()
	for i := len(order) - 1; i >= 0; i-- { // users before what they use
		v := order[i]
		if len(needed[v]) > 1 && r.keepable(v) && !r.coveredByUsers(v, order[i+1:], needed) {
			r.first[v] = needed[v][0]
		}
	}
	if len(r.first) > 0 {
		r.slots = int(slots)
	}
}

// stagesOf lists, per value, the stages that need it in ascending order.
func (r *rowWriter) stagesOf() (needed map[*kernel.Expr][]int, order []*kernel.Expr) {
	needed = map[*kernel.Expr][]int{}
	all := make([][]*kernel.Expr, len(r.stages)+1)
	for i, phases := range r.stages {
		for _, p := range phases {
			all[i] = append(all[i], r.k.Phases[p].Value)
		}
	}
	for _, s := range r.final.perElement {
		all[len(r.stages)] = append(all[len(r.stages)], s.Value)
	}
	for i, roots := range all {
		kernel.Walk(roots, func(v *kernel.Expr) { needed[v] = append(needed[v], i) })
	}
	kernel.Walk(r.k.Roots(), func(v *kernel.Expr) { order = append(order, v) })
	return needed, order
}

func (r *rowWriter) keepable(v *kernel.Expr) bool {
	return (v.Kind == kernel.ExprLoad || v.Kind == kernel.ExprApply && !isIndexCast(v)) &&
		v.Uses(r.k.FoldAxis()) && !v.UsesAnyAcc() && v.DType.Valid()
}

// coveredByUsers reports whether every pass that needs v needs it only for a
// value that is kept itself.
func (r *rowWriter) coveredByUsers(v *kernel.Expr, users []*kernel.Expr, needed map[*kernel.Expr][]int) bool {
	for i := range r.stages {
		for _, p := range r.stages[i] {
			if r.k.Phases[p].Value == v {
				return false
			}
		}
	}
	for _, s := range r.final.perElement {
		if s.Value == v {
			return false
		}
	}
	for _, u := range users {
		if !uses(u, v) {
			continue
		}
		if _, kept := r.first[u]; !kept || needed[u][0] != needed[v][0] {
			return false
		}
	}
	return true
}

func uses(user, v *kernel.Expr) bool {
	for _, a := range user.Args {
		if a == v {
			return true
		}
	}
	found := false
	user.Index.Walk(func(f *kernel.Factor) { found = found || f.Kind == kernel.FactorValue && f.Value == v })
	return found
}

// declareCaches declares the arrays.
func (r *rowWriter) declareCaches() {
	for _, v := range r.keptFrom(-1) {
		name := r.fresh(r.scope, "kept_"+r.keptName(v))
		r.line("%s %s[%d];", computeType(v.DType), name, r.slots*r.width)
		r.cached[v] = name
	}
}

func (r *rowWriter) keptName(v *kernel.Expr) string {
	if v.Kind == kernel.ExprLoad {
		return r.buffers[v.Bind].base
	}
	return hintOf(v)
}

// keptFrom lists the kept values that stage number computes, or all for -1.
func (r *rowWriter) keptFrom(number int) []*kernel.Expr {
	var out []*kernel.Expr
	kernel.Walk(r.k.Roots(), func(v *kernel.Expr) {
		if s, ok := r.first[v]; ok && (s == number || number < 0) {
			out = append(out, v)
		}
	})
	return out
}

// takeCached tells the open scope which values are in registers.
func (r *rowWriter) takeCached(number int) {
	if r.slots == 0 {
		return
	}
	for v, name := range r.cached {
		if r.first[v] < number {
			r.bindValue(v, primary(fmt.Sprintf("%s[%s]", name, r.slotIndex())))
		}
	}
}

// slotIndex is the element of a cache that belongs to the neighbour at hand.
func (r *rowWriter) slotIndex() string {
	switch {
	case r.width == 1:
		return r.slot.s
	case r.slots == 1:
		return component
	}
	return fmt.Sprintf("%s * %du + %s", r.slot.s, r.width, component)
}
