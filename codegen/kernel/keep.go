package kernel

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// RowPasses groups the phases of a row kernel into passes over the row's elements. One pass can compute phases that do
// not depend on one another. For a softmax, which needs the maximum before the sum, it returns [[0] [1]].
func (k *Kernel) RowPasses() (passes [][]int) {
	for i, p := range k.Phases {
		last := len(passes) - 1
		if last < 0 || slices.ContainsFunc(passes[last], p.Value.UsesAcc) {
			passes = append(passes, nil)
			last++
		}
		passes[last] = append(passes[last], i)
	}
	return passes
}

// Kept returns the values of a row's elements to keep in registers between passes, and the first pass that needs each.
// A kept value depends on the element and on no phase, and several passes need it. The pass that stores a result per
// element counts as the last one.
func (k *Kernel) Kept() map[*Expr]int {
	passes := k.RowPasses()
	all := make([][]*Expr, len(passes)+1) // the values that each pass computes
	for i, phases := range passes {
		for _, p := range phases {
			all[i] = append(all[i], k.Phases[p].Value)
		}
	}
	for _, s := range k.Stores {
		if s.PerElement {
			all[len(passes)] = append(all[len(passes)], s.Value)
		}
	}
	needed := map[*Expr][]int{} // passes, in ascending order
	for i, roots := range all {
		Walk(roots, func(v *Expr) { needed[v] = append(needed[v], i) })
	}
	roots, kept := slices.Concat(all...), map[*Expr]int{}
	// covered reports whether all users of v are kept themselves in each pass that needs v.
	covered := func(v *Expr, users []*Expr) bool {
		return !slices.Contains(roots, v) && !slices.ContainsFunc(users, func(u *Expr) bool {
			_, is := kept[u]
			takes := slices.Contains(u.Args, v) || slices.Contains(u.Index.Values(), v)
			return takes && (!is || needed[u][0] != needed[v][0])
		})
	}
	var order []*Expr
	Walk(k.Roots(), func(v *Expr) { order = append(order, v) })
	for i, v := range slices.Backward(order) { // users before their arguments
		if len(needed[v]) > 1 && k.keepable(v) && !covered(v, order[i+1:]) {
			kept[v] = needed[v][0]
		}
	}
	return kept
}

// keepable reports whether v depends on the row's element and on no phase, and costs enough to be worth keeping.
func (k *Kernel) keepable(v *Expr) bool {
	return (v.Kind == ExprLoad || v.Kind == ExprApply && !v.IsIndexCast()) && v.Uses(k.FoldAxis()) && !v.UsesAnyAcc() &&
		v.DType.Valid()
}

// IsIndexCast reports whether e only converts a coordinate to a number, which is not worth keeping.
func (e *Expr) IsIndexCast() bool {
	return e.Kind == ExprApply && e.Op == ir.OpCast && e.Args[0].Kind == ExprIndex
}
