package passes

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// cutTails gives the last rows or columns of a product a kernel of their own
// where the device wants that: in tiles as large as those of the others they
// would be mostly nothing.
func cutTails(s *State) error {
	for _, id := range s.Plan.IDs() {
		k := s.Plan.Kernel(id)
		all, err := s.cutProduct(k)
		if err != nil {
			return fmt.Errorf("cut kernel %s: %w", k.Name, err)
		}
		s.Plan.Replace(id, all...)
	}
	return nil
}

// cutProduct returns what is left of a kernel, and what is cut off: of rows, of
// columns, or of both.
func (s *State) cutProduct(k *kernel.Kernel) ([]*kernel.Kernel, error) {
	all := []*kernel.Kernel{k}
	if k.Family != kernel.FamilyMatMul || k.Guard != nil { // of groups of rows it is not known which are the last
		return all, nil
	}
	for range 2 {
		t := s.pricer.CutTail(all[0])
		if t.From == 0 {
			break
		}
		whole, tail, err := cutTail(all[0], t)
		if err != nil {
			return nil, err
		}
		all[0] = whole
		all = append(all, tail)
	}
	return all, nil
}

// cutTail makes two products of one: of what lies before t.From along t.Axis, and
// of the rest.
func cutTail(k *kernel.Kernel, t kernel.Tail) (whole, tail *kernel.Kernel, err error) {
	if t.Axis < 0 || t.Axis >= len(k.Parallel) || !k.Parallel[t.Axis].IsStatic() || t.From < 1 || t.From >= k.Parallel[t.Axis].Add {
		return nil, nil, fmt.Errorf("%d is not within axis %d of %v", t.From, t.Axis, k.Parallel)
	}
	whole = ofRange(k, t.Axis, 0, t.From)
	tail = ofRange(k, t.Axis, t.From, k.Parallel[t.Axis].Add)
	if t.Swap {
		tail = swapped(tail)
	}
	tail.Name += "_tail"
	return whole, tail, nil
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
