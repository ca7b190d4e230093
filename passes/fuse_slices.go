package passes

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/plan"
)

// fuseSlices removes kernels that only go over some neighbouring columns of a
// product of one row, element by element or in pairs of neighbours: queries and
// keys that are turned by their position, keys and values on their way into a
// cache. The product stores what they do, of each column or pair, and the row as
// it was only where others read that.
func fuseSlices(s *State, id plan.KernelID) []Proposal {
	k := s.Plan.Kernel(id)
	if !storesRow(k) {
		return nil
	}
	row := storedFirst(k)
	if _, ok := s.sourceOf(row); !ok {
		return nil
	}
	var readers []*kernel.Kernel
	p, keep := propose("store what reads the row", id), s.Plan.Outlives(row) // for others
	for _, r := range s.Plan.Readers(row) {
		if _, ok := sliceOf(k, s.Plan.Kernel(r)); ok && s.Plan.CanMove(r, id, row) {
			readers = append(readers, s.Plan.Kernel(r))
			p.also(r)
		} else {
			keep = true
		}
	}
	if len(readers) == 0 {
		return nil
	}
	joined, ok := fuseReaders(k, readers, keep)
	if !ok {
		return nil
	}
	p.also(id, joined)
	return []Proposal{p}
}

// storesRow reports whether a product stores a row of f32, and nothing else.
func storesRow(k *kernel.Kernel) bool {
	if k.Family != kernel.FamilyMatMul || k.Guard != nil || len(k.Stores) != 1 || !k.Stores[0].Cols.All() {
		return false
	}
	st, col := k.Stores[0], len(k.Parallel)-1
	row := k.Bindings[st.Bind]
	return st.Value.DType == ir.F32 && row.DType == ir.F32 && k.Parallel[col].IsStatic() &&
		k.Parallel[col].Add == row.Elems &&
		st.Index.Equal(kernel.Axis(col, k.Parallel[col]))
}

// fuseReaders returns the product with what its readers store, and with what it
// did only if that is to be kept.
func fuseReaders(k *kernel.Kernel, readers []*kernel.Kernel, keep bool) (*kernel.Kernel, bool) {
	ops := slices.Clone(k.Ops)
	for _, r := range readers {
		ops = append(ops, r.Ops...)
	}
	out := kernel.Map(k,
		kernel.Edit{Name: k.Name + "_" + readers[0].Name, Ops: ops,
			Stores: func(m *kernel.Mapping) (stores []kernel.Store) {
				if keep {
					stores = m.Stores()
				}
				for _, r := range readers {
					stores = append(stores, storesOf(r, m)...)
				}
				return stores
			}})
	return out, out.CheckCols() == nil
}

// storesOf are the stores of a reader as those of the product, for the columns that it reads.
func storesOf(r *kernel.Kernel, product *kernel.Mapping) (stores []kernel.Store) {
	k := product.From
	sl, _ := sliceOf(k, r)
	local := kernel.Axis(len(k.Parallel)-1, ir.D(int(sl.cols.To-sl.cols.From)))
	at := unflatten(r.Parallel, local)
	m := product.Part(r, func(axis int, _ ir.Dim) kernel.Index { return at[axis] })
	own, other := storedAt(product, local, sl.cols, false), storedAt(product, local, sl.cols, true)
	m.Load = func(e *kernel.Expr) *kernel.Expr {
		if r.Bindings[e.Bind].Buffer != storedFirst(k) {
			return nil
		}
		if sl.others[e] {
			return other
		}
		return own
	}
	for _, st := range r.Stores {
		st = m.Store(st)
		st.Cols = sl.cols
		stores = append(stores, st)
	}
	return stores
}

// storedAt is what the product stored at a column, or at the other one of its pair,
// in terms of the columns of a slice.
func storedAt(product *kernel.Mapping, local kernel.Index, cols kernel.Cols, other bool) *kernel.Expr {
	k, at := product.From, local
	if other {
		at = kernel.OtherOfPair(local)
	}
	m := product.Part(k, func(axis int, extent ir.Dim) kernel.Index {
		if axis == len(k.Parallel)-1 {
			return at.Plus(kernel.Const(cols.From))
		}
		return kernel.Axis(axis, extent)
	})
	m.Acc = func(e *kernel.Expr) *kernel.Expr {
		if other && e.Acc < len(k.Products) {
			return m.Builder.AccOfPair(e.Acc, e.DType, local, e.Hint)
		}
		return m.Builder.Acc(e.Acc, e.DType, e.Hint)
	}
	return m.Value(k.Stores[0].Value)
}

// slice is what a reader reads of a row.
type slice struct {
	cols   kernel.Cols
	others map[*kernel.Expr]bool // loads of the other element of a pair
}

// sliceOf reports whether a map has a point for every column of a slice of the row
// that product k stores, in order, and reads that column there, or the other one
// of its pair, and no more.
func sliceOf(k, r *kernel.Kernel) (slice, bool) {
	points, err := ir.Shape(r.Parallel).Numel()
	if r.Family != kernel.FamilyMap || r.Custom != nil || err != nil || !points.IsStatic() || points.Add < 1 ||
		len(r.Parallel) == 0 {
		return slice{}, false
	}
	at := axes(r.Parallel)
	here := linear(r.Parallel, at)
	last := len(at) - 1
	at[last] = kernel.OtherOfPair(at[last])
	there := linear(r.Parallel, at)
	pairs := r.Parallel[last].Add%2 == 0

	sl, first, ok := slice{others: map[*kernel.Expr]bool{}}, int64(-1), true
	kernel.Walk(r.Roots(), func(e *kernel.Expr) {
		if e.Kind != kernel.ExprLoad || r.Bindings[e.Bind].Buffer != storedFirst(k) {
			return
		}
		off := e.Index.Minus(here)
		if pairs && !off.IsConst() {
			off, sl.others[e] = e.Index.Minus(there), true
		}
		ok = ok && off.IsConst() && off.Offset() >= 0 && (first < 0 || first == off.Offset())
		first = off.Offset()
	})
	sl.cols = kernel.Cols{From: first, To: first + points.Add}
	return sl, ok && first >= 0 && sl.cols.To <= k.Parallel[len(k.Parallel)-1].Add &&
		(len(sl.others) == 0 || first%2 == 0)
}
