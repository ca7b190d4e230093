package fast

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// rowFold is assembly that computes an op that folds rows, such as softmax: all steps of a row of n elements, then the
// next row. So the steps find the row in the L1 cache, and the processor reads the next rows while it stores results
// (M-cpu-memory). eps is the op's attribute eps or correction. A reduction stores one result per row. Another op
// multiplies its results by the list w and adds the list v, as far as the function takes these lists. checks gets a
// number per row, which is finite in type T if all values of the row are.
type rowFold[T number] func(out, x, w, v *T, checks *float64, eps float64, rows, n int)

// rowFolds has the assembly of ops that fold rows of T.
type rowFolds[T number] struct {
	programs          *[len(rowPrograms)]rowFunctions[T] // by row program; may be nil
	ofFloats, ofWords searchFunctions[T]                 // of argmax and argmin
	rows              map[ir.Op][]rowFold[T]             // by op, and by the number of lists: none, w, or w and v
	columns           map[ir.Op]columnFold[T]
	// They copy n rows of cols elements to a columnBlock and back. They are nil if columns is empty.
	columnsIn, columnsOut func(dst, src *T, n, apart, cols int)
}

// rowFoldsOf returns the functions of an assembly, which may be nil, for elements of T.
func rowFoldsOf[T number](a *assembly) *rowFolds[T] {
	if a == nil {
		a = &noAssembly
	}
	if list, ok := any(&a.rowFolds).(*rowFolds[T]); ok {
		return list
	}
	return any(&a.wideRowFolds).(*rowFolds[T])
}

var noAssembly assembly // has no functions

// rowFold returns the assembly function for the fold, or nil if there is none: only folds of floats along neighbouring
// elements have one. The functions of an op are listed by the number of its weights.
func (r *foldRows[T]) rowFold() rowFold[T] {
	if r.across || r.n == 0 || r.ofWords() {
		return nil
	}
	if list := rowFoldsOf[T](vector).rows[r.node.Op()]; len(list) > len(r.weights) {
		return list[len(r.weights)]
	}
	return nil
}

// foldWhole computes a group of rows with the assembly of their op, such as softmax. It returns false if there is no
// assembly for the op, or if an argument that it multiplies by or adds is not a list that all rows share.
func (r *foldRows[T]) foldWhole(worker int, rows group) bool {
	f := r.rowFold()
	if f == nil {
		return false
	}
	var lists [2]*T
	for i, a := range r.weights {
		list := r.readers[r.argument(a)]
		elems := list.direct(0, r.n)
		if !list.isRow(r.n) || elems == nil {
			return false
		}
		lists[i] = &elems[0]
	}
	eps := r.addend()
	most, each := rows.count, r.n // each is the number of results of a row
	if r.long.each == nil {
		each = 1
	}
	var rooms [2][]T
	// If the elements or the results are not in memory as T, some rows at a time pass through scratch memory.
	if r.direct(rows.from*r.n, rows.count*r.n) == nil || r.out.list == nil {
		most = max(1, min(most, block/r.n))
		size := most * r.n
		room := roomOf[T](r.call, worker, 2*size)
		rooms = [2][]T{room[:size], room[size:]}
	}
	checks := resized(r.checks[worker], most)
	r.checks[worker] = checks
	for row, end := rows.from, rows.from+rows.count; row < end; row += most {
		count := min(most, end-row)
		at, size := row*r.n, count*r.n
		in, out := r.direct(at, size), r.out.block(row*each, count*each, rooms[1])
		if in == nil {
			in = rooms[0][:size]
			r.elements(in, at)
		}
		f(&out[0], &in[0], lists[0], lists[1], &checks[0], eps, count, r.n)
		r.out.put(row*each, out)
		r.again(worker, row, checks[:count])
	}
	return true
}

// direct returns n elements of the rows from number at on, or nil if memory does not have them as T.
func (r *foldRows[T]) direct(at, n int) []T {
	if len(r.element.code) > 0 {
		return nil
	}
	return r.readers[r.element.result].direct(at, n)
}

// elements sets list to the elements of the rows from number `at` on: an argument's, or the results of a chain of ops.
func (r *foldRows[T]) elements(list []T, at int) {
	p := r.element
	if len(p.code) == 0 {
		r.readers[p.result].read(list, at)
		return
	}
	s := p.begin(r.readers)
	defer p.end(s)
	for ; len(list) > 0; at += block {
		n := min(block, len(list))
		p.run(list[:n], r.readers, at, s)
		list = list[n:]
	}
}

// argument returns the number of a node among the arguments.
func (f *fold[T]) argument(n *ir.Node) int { return slices.Index(f.args, n) }

// addend returns the number that the assembly takes as eps: the op's attribute eps or correction, or 0.
func (f *fold[T]) addend() float64 {
	switch a := f.node.Attrs(); {
	case a.Has("eps"):
		return a.Float("eps")
	case a.Has("correction"):
		return float64(a.Int("correction"))
	}
	return 0
}

// again computes a row again if the row's number in checks is not finite in type T: the assembly overflowed, or has
// NaN. The first number belongs to row `from`.
func (r *foldRows[T]) again(worker, from int, checks []float64) {
	most := r.most()
	for i, y := range checks {
		if !(math.Abs(y) <= most) {
			r.someRows(worker, group{from + i, 1})
		}
	}
}
