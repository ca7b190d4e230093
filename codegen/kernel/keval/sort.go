package keval

import (
	"cmp"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// perElement reports whether a kernel family has one result of its phase per element, rather than per row.
func perElement(f kernel.Family) bool { return f == kernel.FamilyScan || f == kernel.FamilySort }

// sort orders a row and runs the stores once per rank.
func (r *run) sort(fold int64) error {
	p := r.k.Phases[0]
	var keys []number
	undef := false
	err := r.eachElement(fold, func(int64) error {
		v, err := r.value(p.Value)
		keys = append(keys, v)
		undef = undef || v.undef
		return err
	})
	if err != nil {
		return err
	}
	order := make([]int64, len(keys))
	for i := range order {
		order[i] = int64(i)
	}
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
	take, err := r.k.Take.Eval(r.symbols)
	if err != nil {
		return err
	}
	return r.eachElement(take, func(place int64) error {
		r.accs[0] = number{i: order[place], undef: undef}
		return r.stores(true)
	})
}

// nanLast compares numbers. NaN compares as larger than all other numbers.
func nanLast(a, b float64) int {
	if a != a || b != b {
		return -cmp.Compare(a, b)
	}
	return cmp.Compare(a, b)
}
