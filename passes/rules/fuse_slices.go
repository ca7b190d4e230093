package rules

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/plan"
)

// FuseSlices removes kernels that read a slice of the columns of a matmul's result, and compute each element from one
// column, or from a pair of columns (2j and 2j+1). Examples are rope on queries and keys, and storing keys and values
// in a cache. The matmul computes and stores their results itself. It also stores its own result if other kernels read
// it.
func FuseSlices(o *Optimizer, id plan.KernelID) []Proposal {
	k := o.Plan.Kernel(id)
	if !storesRows(k) {
		return nil
	}
	rows := k.FirstStored()
	if _, ok := o.Plan.Source(rows, plan.SeveralValues); !ok {
		return nil
	}
	var readers []*kernel.Kernel
	// keep says that the matmul must still store its own result.
	p, keep := propose("store the results of the rows' readers", id), o.Plan.Outlives(rows)
	for _, r := range o.Plan.Readers(rows) {
		if _, ok := sliceOf(k, o.Plan.Kernel(r)); ok && o.Plan.CanMove(r, id, rows) {
			readers = append(readers, o.Plan.Kernel(r))
			p.replace(r)
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
	p.replace(id, joined)
	return []Proposal{p}
}

// storesRows reports whether FuseSlices can fuse readers into k: a matmul without a guard that has a static number of
// columns and at most one axis of rows, and that stores only its result, in f32 and in row-major order.
func storesRows(k *kernel.Kernel) bool {
	if k.Family != kernel.FamilyMatMul || k.Guard != nil || len(k.Stores) != 1 || !k.Stores[0].Cols.All() {
		return false
	}
	st, col := k.Stores[0], len(k.Parallel)-1
	return st.Value.DType == ir.F32 && k.Bindings[st.Bind].DType == ir.F32 && k.Parallel[col].IsStatic() &&
		ir.Shape(k.Parallel).MaxElems() == k.Bindings[st.Bind].Elems && len(rowAxes(k)) <= 1 &&
		st.Index.Equal(kernel.Linear(k.Parallel, kernel.Axes(k.Parallel)))
}

// rowAxes returns the axes of matmul k with extents above 1, other than the columns.
func rowAxes(k *kernel.Kernel) (list []int) {
	for axis, d := range k.Parallel[:len(k.Parallel)-1] {
		if d != ir.D(1) {
			list = append(list, axis)
		}
	}
	return list
}

// fuseReaders returns matmul k with the stores of the given readers of its result. If keep is true it also has its own
// store.
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

// storesOf returns the stores of reader r as stores of the matmul, for the columns that r reads. matmul maps the
// matmul's expressions.
func storesOf(r *kernel.Kernel, matmul *kernel.Mapping) (stores []kernel.Store) {
	k := matmul.From
	sl, _ := sliceOf(k, r) // ok, as FuseSlices has checked
	local := kernel.Axis(len(k.Parallel)-1, ir.D(int(sl.cols.To-sl.cols.From)))
	at := kernel.Unflatten(sl.columns(r), local)
	if sl.row >= 0 { // -1 stands for a single row
		row := rowAxes(k)[0]
		at[sl.row] = kernel.Axis(row, k.Parallel[row])
	}
	m := matmul.Part(r, func(axis int, _ ir.Dim) kernel.Index { return at[axis] })
	own, other := storedAt(matmul, local, sl.cols, ownColumn), storedAt(matmul, local, sl.cols, otherColumn)
	m.Load = func(e *kernel.Expr) *kernel.Expr {
		if r.Bindings[e.Bind].Buffer != k.FirstStored() {
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
		if r.Guard != nil {
			st.Where = m.Value(r.Guard.Point)
		}
		stores = append(stores, st)
	}
	return stores
}

// The columns of a pair (2j and 2j+1) that storedAt can return.
const (
	ownColumn   = false
	otherColumn = true
)

// storedAt returns the value that the matmul stores at column `local` of a slice, or at the other column of its pair if
// other is true.
func storedAt(matmul *kernel.Mapping, local kernel.Index, cols kernel.Cols, other bool) *kernel.Expr {
	k, at := matmul.From, local
	if other {
		at = kernel.OtherOfPair(local)
	}
	m := matmul.Part(k, func(axis int, extent ir.Dim) kernel.Index {
		if axis == len(k.Parallel)-1 {
			return at.Plus(kernel.Const(cols.From))
		}
		return kernel.Axis(axis, extent)
	})
	m.Acc = func(e *kernel.Expr) *kernel.Expr {
		if other && e.Acc < len(k.MatMuls) { // the sums of rows are the same for both columns
			return m.Builder.AccOfPair(e.Acc, e.DType, local, e.Hint)
		}
		return m.Builder.Acc(e.Acc, e.DType, e.Hint)
	}
	return m.Value(k.Stores[0].Value)
}

// slice describes how a reader reads a slice of the columns of a matmul's result.
type slice struct {
	row    int                   // the reader's axis of rows; -1 if there is one row
	cols   kernel.Cols           // the columns that it reads
	others map[*kernel.Expr]bool // its loads of the other element of a pair
}

// columns returns the reader's shape for one row: the extent of its row axis is set to 1.
func (s slice) columns(r *kernel.Kernel) ir.Shape {
	dims := slices.Clone(ir.Shape(r.Parallel))
	if s.row >= 0 {
		dims[s.row] = ir.D(1)
	}
	return dims
}

// sliceOf matches a map kernel r that has one point, in order, for every column of a slice of matmul k's rows. At each
// point it may read only that column, or the other column of its pair (2j and 2j+1).
func sliceOf(k, r *kernel.Kernel) (slice, bool) {
	if r.Family != kernel.FamilyMap || r.Custom != nil || len(r.Parallel) == 0 {
		return slice{}, false
	}
	rows := rowAxes(k) // at most one
	if len(rows) == 0 {
		return sliceAlong(k, r, -1)
	}
	for axis, d := range r.Parallel[:len(r.Parallel)-1] {
		if d == k.Parallel[rows[0]] {
			if sl, ok := sliceAlong(k, r, axis); ok {
				return sl, true
			}
		}
	}
	return slice{}, false
}

// sliceAlong matches r as sliceOf does, with axis `row` of r as the axis of rows. row is -1 if r has one row and no
// such axis.
func sliceAlong(k, r *kernel.Kernel, row int) (slice, bool) {
	sl := slice{row: row, others: map[*kernel.Expr]bool{}}
	first, ok := int64(-1), true // the slice's first column, or -1 before the first load
	dims, at, width := sl.columns(r), kernel.Axes(r.Parallel), k.Parallel[len(k.Parallel)-1]
	points, err := dims.Numel() // per row
	if err != nil || !points.IsStatic() || points.Add < 1 {
		return slice{}, false
	}
	begin := kernel.Const(0) // index of the row's first element in the matmul's result
	if row >= 0 {
		begin, at[row] = at[row].Mul(kernel.DimIndex(width)), kernel.Const(0)
	}
	// If the slice began at column 0, a point would read index own, and the other column of its pair has index other.
	own := kernel.Linear(dims, at).Plus(begin)
	last := len(at) - 1
	at[last] = kernel.OtherOfPair(at[last])
	other := kernel.Linear(dims, at).Plus(begin)
	pairs := r.Parallel[last].Add%2 == 0

	kernel.Walk(r.Roots(), func(e *kernel.Expr) {
		if e.Kind != kernel.ExprLoad || r.Bindings[e.Bind].Buffer != k.FirstStored() {
			return
		}
		column := e.Index.Minus(own) // the slice's first column, if it is a constant
		if pairs && !column.IsConst() {
			column, sl.others[e] = e.Index.Minus(other), true
		}
		ok = ok && column.IsConst() && column.Offset() >= 0 && (first < 0 || first == column.Offset())
		first = column.Offset()
	})
	sl.cols = kernel.Cols{From: first, To: first + points.Add}
	return sl, ok && first >= 0 && sl.cols.To <= width.Add && (len(sl.others) == 0 || first%2 == 0)
}
