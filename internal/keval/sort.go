package keval

import (
	"cmp"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// perElement reports whether a kernel family has one result of its phase per element, rather than per row.
func perElement(f kernel.Family) bool { return f == kernel.FamilyScan || f == kernel.FamilySort }

// sortRow orders a row of fold elements and runs the stores once per rank.
func (r *run) sortRow(fold int64) {
	p := r.k.Phases[0]
	var keys []number
	var order []int64
	// An undefined key makes the whole order undefined.
	undef := false
	r.eachElement(fold, func(j int64) {
		v := r.value(p.Value)
		keys, order = append(keys, v), append(order, j)
		undef = undef || v.undef
	})
	compare := func(a, b number) int { return cmp.Compare(a.i, b.i) }
	if p.Value.DType.IsFloat() {
		compare = func(a, b number) int { return nanLast(a.f, b.f) }
	}
	slices.SortFunc(order, func(i, j int64) int {
		c := compare(keys[i], keys[j])
		if p.Combine == kernel.CombineOrderDown {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(i, j)) // equal keys keep their order
	})
	r.eachElement(r.extent(r.k.Take), func(place int64) {
		r.accs[0] = number{i: order[place], undef: undef}
		r.runStores(oncePerElement)
	})
}

// nanLast compares numbers. NaN compares as larger than all other numbers.
func nanLast(a, b float64) int {
	// cmp.Compare orders NaN before all numbers.
	if a != a || b != b {
		return -cmp.Compare(a, b)
	}
	return cmp.Compare(a, b)
}
