package passes

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/plan"
)

// tailMargin is what products without tails must gain at least.
const tailMargin = 1.05

// peelTails gives the last rows or columns of a product, or both, a kernel of their
// own: in tiles as large as those of the others they would be mostly nothing.
func peelTails(s *State, id plan.KernelID) (list []Proposal) {
	k := s.Plan.Kernel(id)
	if k.Family != kernel.FamilyMatMul || k.Guard != nil { // of groups of rows it is not known which are the last
		return nil
	}
	tails := slices.DeleteFunc(s.sizes(k).Tails, func(t kernel.Tail) bool {
		return t.Axis < 0 || t.Axis >= len(k.Parallel) || !k.Parallel[t.Axis].IsStatic() || t.From < 1 ||
			t.From >= k.Parallel[t.Axis].Add
	})
	for _, t := range tails {
		whole, tail := cutTail(k, t)
		what := fmt.Sprintf("cut axis %d at %d", t.Axis, t.From)
		p := propose(what, id, whole, tail)
		p.Margin = tailMargin
		list = append(list, p)
		for _, other := range tails {
			if other.Axis != t.Axis {
				rest, second := cutTail(whole, other)
				p.What = fmt.Sprintf("%s, then axis %d at %d", what, other.Axis, other.From)
				p.Changes = []Change{{id, []*kernel.Kernel{rest, tail, second}}}
				list = append(list, p)
			}
		}
	}
	return list
}

// cutTail makes two products of one: of what lies before t.From along t.Axis, and
// of the rest.
func cutTail(k *kernel.Kernel, t kernel.Tail) (whole, tail *kernel.Kernel) {
	whole = ofRange(k, t.Axis, 0, t.From)
	tail = ofRange(k, t.Axis, t.From, k.Parallel[t.Axis].Add)
	if t.Swap {
		tail = swapped(tail)
	}
	tail.Name += "_tail"
	return whole, tail
}

// ofRange is the part of a product whose results have a coordinate along an
// axis from first to before end.
func ofRange(k *kernel.Kernel, axis int, first, end int64) *kernel.Kernel {
	parallel := slices.Clone(k.Parallel)
	parallel[axis] = ir.D(int(end - first))
	return kernel.Map(k, kernel.Edit{Parallel: parallel, At: func(a int, d ir.Dim) kernel.Index {
		if a == axis {
			return kernel.Axis(a, parallel[a]).Plus(kernel.Const(first))
		}
		return kernel.Axis(a, d)
	}})
}

// swapped is a product with its rows as columns and its columns as rows.
func swapped(k *kernel.Kernel) *kernel.Kernel {
	row, col := len(k.Parallel)-2, len(k.Parallel)-1
	parallel := slices.Clone(k.Parallel)
	parallel[row], parallel[col] = parallel[col], parallel[row]
	out := kernel.Map(k, kernel.Edit{Parallel: parallel, At: func(a int, d ir.Dim) kernel.Index {
		switch a {
		case row:
			a = col
		case col:
			a = row
		}
		return kernel.Axis(a, d)
	}})
	for i := range out.Products {
		p := &out.Products[i]
		p.A, p.B = p.B, p.A
	}
	return out
}
