package passes

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// joinSlices removes kernels that only go over some neighbouring columns of a
// product of one row, element by element or in pairs of neighbours: queries and
// keys that are turned by their position, keys and values on their way into a
// cache. The product stores what they do, of each column or pair, and the row as
// it was only where others read that.
func joinSlices(s *State) error {
	if s.joinSlices == nil {
		return nil
	}
	s.findTouching()
	gone := map[*kernel.Kernel]bool{}
	for i, k := range s.Kernels {
		if !storesRow(k) || s.sourceOf(rowOf(k)) != k {
			continue
		}
		readers, keep := s.readersOfSlices(i)
		if len(readers) == 0 {
			continue
		}
		if joined, ok := joinReaders(k, readers, keep); ok && len(joined.Bindings) <= s.limits.Bindings && s.joinSlices(k, joined) {
			s.Kernels[i] = joined
			s.noteTouching(i)
			for _, r := range readers {
				gone[r] = true
			}
		}
	}
	s.drop(gone)
	return nil
}

// drop removes kernels.
func (s *State) drop(gone map[*kernel.Kernel]bool) {
	var left leveled
	for i, k := range s.Kernels {
		if !gone[k] {
			left.add(k, s.levels[i])
		}
	}
	s.Kernels, s.levels = left.kernels, left.levels
}

// storesRow reports whether a product stores a row of f32, and nothing else.
func storesRow(k *kernel.Kernel) bool {
	if k.Family != kernel.FamilyMatMul || k.Guard != nil || len(k.Stores) != 1 || !k.Stores[0].Cols.All() {
		return false
	}
	st, col := k.Stores[0], len(k.Parallel)-1
	row := k.Bindings[st.Bind]
	return st.Value.DType == ir.F32 && row.DType == ir.F32 && k.Parallel[col].IsStatic() && k.Parallel[col].Add == row.Elems &&
		st.Index.Equal(kernel.Axis(col, k.Parallel[col]))
}

// rowOf is the buffer that a product stores its row in.
func rowOf(k *kernel.Kernel) int { return k.Bindings[k.Stores[0].Bind].Buffer }

// readersOfSlices returns the kernels that go over slices of the row that product
// i stores, and may do so when the product runs, and whether the row is to be kept
// for others.
func (s *State) readersOfSlices(i int) (readers []*kernel.Kernel, keep bool) {
	k := s.Kernels[i]
	keep = s.outlives(rowOf(k))
	for _, at := range s.readersOf(rowOf(k)) {
		r := s.Kernels[at]
		if _, ok := sliceOf(k, r); ok && s.mayRunWith(i, at, rowOf(k)) {
			readers = append(readers, r)
		} else {
			keep = true
		}
	}
	return readers, keep
}

// mayRunWith reports whether kernel at may run when kernel i does, which writes
// the buffer between them: what else it reads is there by then, and nobody reads
// or writes what it writes until it would have run.
func (s *State) mayRunWith(i, at int, between int) bool {
	from, to := s.levels[i], s.levels[at]
	for _, b := range s.Kernels[at].Bindings {
		if b.Buffer == between {
			continue
		}
		others := s.writersOf(b.Buffer)
		if b.Write {
			others = slices.Concat(others, s.readersOf(b.Buffer))
		}
		within := func(j int) bool { return j != at && s.levels[j] >= from && s.levels[j] <= to }
		if b.Read && b.Write || slices.ContainsFunc(others, within) {
			return false
		}
	}
	return true
}

// joinReaders returns the product with what its readers store, and with what it
// did only if that is to be kept.
func joinReaders(k *kernel.Kernel, readers []*kernel.Kernel, keep bool) (*kernel.Kernel, bool) {
	ops := slices.Clone(k.Ops)
	for _, r := range readers {
		ops = append(ops, r.Ops...)
	}
	out := kernel.Map(k, kernel.Edit{Name: k.Name + "_" + readers[0].Name, Ops: ops, Stores: func(m *kernel.Mapping) (stores []kernel.Store) {
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
		if r.Bindings[e.Bind].Buffer != rowOf(k) {
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
	if r.Family != kernel.FamilyMap || r.Custom != nil || err != nil || !points.IsStatic() || points.Add < 1 || len(r.Parallel) == 0 {
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
		if e.Kind != kernel.ExprLoad || r.Bindings[e.Bind].Buffer != rowOf(k) {
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
	return sl, ok && first >= 0 && sl.cols.To <= k.Parallel[len(k.Parallel)-1].Add && (len(sl.others) == 0 || first%2 == 0)
}
