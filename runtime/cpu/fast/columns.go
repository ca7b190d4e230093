package fast

import (
	"unsafe"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// columnFold is the assembly of an op that folds rows which are columns of a matrix: neighbouring elements belong to
// different rows, and a vector has one element of each of several rows. Argument x of the functions is a columnBlock's,
// and they prefetch rows of `ahead`, far elements apart, for the next block.
//
// whole computes the op for columns of n elements. A reduction stores a number per column in out. Another op replaces
// the elements in x by its results, and only prefetches the lines of out. See rowFold for checks and eps. parts folds a
// part of each column: results gets a list for each result of the steps, with a number per column, stride numbers
// apart. mergeParts merges these lists.
type columnFold[T number] struct {
	whole func(x, out, ahead *T, checks *float64, eps float64, n, far, cols int)
	parts func(results *float64, x, ahead *T, n, far, stride, cols int)
}

// columnFold returns the assembly for columns, or nil. inner is the number of neighbouring columns.
func (f *fold[T]) columnFold(inner int) *columnFold[T] {
	if vector == nil || inner < vector.lanes || f.ofWords() {
		return nil
	}
	if list, ok := rowFoldsOf[T](vector).columns[f.node.Op()]; ok {
		return &list
	}
	return nil
}

// A block has at least leastColumns columns, so that one of its rows fills several cache lines. Such a block fits in an
// L2 cache if a column has at most mostElems words of 32 bits.
const leastColumns, mostElems = 64, 2048

// elementWords returns the number of 32-bit words in an element.
func elementWords[T number]() int { return int(unsafe.Sizeof(T(0))) / 4 }

// computeColumns computes all rows, which are columns of the argument. A unit is some neighbouring columns; a task
// computes some units, each in blocks.
func (r *foldRows[T]) computeColumns(f *columnFold[T]) error {
	if r.n > mostElems/elementWords[T]() {
		return r.longColumns(f)
	}
	cols := min(r.inner, wholeVectors(max(leastColumns, chunk/r.n))) // of a unit
	units := ceil.Div(r.inner, cols)                                 // of each index of the outer axes
	all := r.rows / r.inner * units
	some := max(1, chunk/(r.n*cols)) // units of a task
	return r.call.Parallel(ceil.Div(all, some), r.work(some*cols*r.n), func(worker, task int) {
		checks := make([]float64, wholeVectors(cols))
		for i := task * some; i < min((task+1)*some, all); i++ {
			at := i % units * cols
			unit := group{i/units*r.inner + at, min(cols, r.inner-at)}
			r.columnBlocks(worker, unit, 0, r.n, func(b *columnBlock[T]) { r.wholeColumns(f, worker, b, checks) })
		}
	})
}

// wholeVectors returns n, rounded up to a multiple of the lanes.
func wholeVectors(n int) int { return ceil.Multiple(n, vector.lanes) }

// columnBlock is a block of neighbouring columns in a worker's memory. It has as many columns next to each other as
// a vector has lanes: a vector with element 0 of these columns, then a vector with element 1, and so on. After them
// come the next columns, in the same form.
type columnBlock[T number] struct {
	group
	at         int // the number of the block's first column in the unit
	cols       int // the number of columns, rounded up to whole vectors
	x          []T // the elements, in this form
	rows       []T // room for the block as a matrix; its first elements also have room for a result of each column
	ahead, out []T // what assembly prefetches: the next block, and the place of the results
	far        int // the distance between rows in ahead and in out
}

// columnBlocks divides a unit, which is some neighbouring columns, into blocks of columns, and calls do for each. A
// block has elements lo to hi-1 of its columns.
func (r *foldRows[T]) columnBlocks(worker int, unit group, lo, hi int, do func(b *columnBlock[T])) {
	first, n := r.at(unit.from, lo), hi-lo
	in := r.direct(first, (n-1)*r.inner+unit.count)
	size := chunk / 16 / elementWords[T]() // elements of a block: they fit in an L1 cache
	if in == nil || r.out.list == nil {
		size = chunk // longer rows take less time to convert
	}
	after := in // the elements that follow the unit in memory
	if next := first + n*r.inner; in != nil && unit.count == r.inner && next < r.rows*r.n {
		after = r.direct(next, 1)
	}
	wide := wholeVectors(max(leastColumns, size/n))
	for at := 0; at < unit.count; at += wide {
		b := columnBlock[T]{group: group{unit.from + at, min(wide, unit.count-at)}, at: at}
		b.cols = wholeVectors(b.count)
		room := roomOf[T](r.call, worker, 2*n*b.cols)
		b.x, b.rows = room[:n*b.cols], room[n*b.cols:]
		b.ahead, b.out, b.far = b.x, b.x, b.cols
		if r.out.list != nil && r.long.each != nil {
			b.out, b.far = r.out.list[first+at:], r.inner
			b.ahead = b.out
		}
		from, apart := b.rows, b.count // the block as a matrix, and the distance between its rows
		switch {
		case in != nil: // the elements are in memory as T
			from, apart, b.far = in[at:], r.inner, r.inner
			b.ahead = after
			if at+wide < unit.count {
				b.ahead = in[at+wide:]
			}
		case b.count == r.inner: // the block's rows follow each other
			r.elements(b.rows[:n*b.count], first)
		default:
			for k := range n {
				r.elements(b.rows[k*b.count:][:b.count], r.at(b.from, lo+k))
			}
		}
		rowFoldsOf[T](vector).columnsIn(&b.x[0], &from[0], n, apart, b.count)
		do(&b)
	}
}

// wholeColumns computes a block of whole columns, and stores the results, rounded to the dtype. checks is memory for a
// number per column, in whole vectors. A column is computed again if its number is not finite.
func (r *foldRows[T]) wholeColumns(f *columnFold[T], worker int, b *columnBlock[T], checks []float64) {
	to, reduces := b.out, r.long.each == nil
	if reduces {
		to = b.rows
	}
	f.whole(&b.x[0], &to[0], unsafe.SliceData(b.ahead), &checks[0], r.addend(), r.n, b.far, b.cols)
	switch results := b.rows[:b.count]; {
	case reduces && r.out.list != nil:
		copy(r.out.list[b.from:], results)
	case reduces:
		r.out.put(b.from, results)
	case r.out.list != nil:
		rowFoldsOf[T](vector).columnsOut(&r.out.list[r.at(b.from, 0)], &b.x[0], r.n, r.inner, b.count)
	default:
		rowFoldsOf[T](vector).columnsOut(&b.rows[0], &b.x[0], r.n, b.count, b.count)
		list, each := b.rows[:r.n*b.count], b.count
		if each == r.inner {
			each = len(list) // the results of all rows of the block are neighbours
		}
		for k := 0; k < len(list); k += each {
			r.out.put(r.at(b.from, k/b.count), list[k:k+each])
		}
	}
	r.again(worker, b.from, checks[:b.count])
}

// longColumns computes all rows, which are long columns. Each task takes a part of some columns.
func (r *foldRows[T]) longColumns(f *columnFold[T]) error {
	groups, most := r.groups, 0
	for _, g := range groups {
		most = max(most, wholeVectors(g.count))
	}
	each := max(chunk/most/elementWords[T](), leastColumns) // elements of a part
	parts := ceil.Div(r.n, each)
	all := make([][]float64, len(groups)*parts) // by group and part: the results of the part
	err := r.call.Parallel(len(all), r.work(each*most), func(worker, task int) {
		results, lo := make([]float64, partResults*most), task%parts*each
		hi := min(lo+each, r.n)
		r.columnBlocks(worker, groups[task/parts], lo, hi, func(b *columnBlock[T]) {
			f.parts(&results[b.at], &b.x[0], unsafe.SliceData(b.ahead), hi-lo, b.far, most, b.cols)
		})
		all[task] = results
	})
	if err != nil {
		return err
	}
	list := make([]*groupFold[T], len(groups))
	for i, rows := range groups {
		list[i] = r.group(rows)
		list[i].mergeParts(all[i*parts:(i+1)*parts], most, each)
	}
	return r.finishParts(list, each, parts)
}

// partResults is the most results of a part of a column.
const partResults = 3

// mergeParts merges the results of the parts of the rows, and sets the group's results. A part has `each` elements of a
// row. Its results are lists by row, `stride` numbers apart.
func (g *groupFold[T]) mergeParts(parts [][]float64, stride, each int) {
	list := func(part, i int) []float64 { return parts[part][i*stride:][:g.count] }
	first := list(0, 0)
	switch {
	case g.node.Op().Info().Fold.FromFirst():
		// List 0 of a part has a number y per column, list 1 the sum of the differences from y, and list 2 the sum of
		// their squares. First find a number near the mean of all parts, g.firsts, and then the sums of differences
		// from it (Chan, Golub and LeVeque 1979).
		g.firsts, g.sums, g.squares = make([]float64, g.count), make([]float64, g.count), make([]float64, g.count)
		for p := range parts {
			share := float64(min(each, g.n-p*each)) / float64(g.n) // of the elements
			for c, y := range list(p, 0) {
				g.firsts[c] += float64(share*y) + list(p, 1)[c]/float64(g.n)
			}
		}
		for p := range parts {
			n, sums, squared := float64(min(each, g.n-p*each)), list(p, 1), list(p, 2)
			for c, y := range list(p, 0) {
				apart := y - g.firsts[c]
				moved := sums[c] + float64(n*apart)
				g.sums[c] += moved
				g.squares[c] += squared[c] + float64(apart*(sums[c]+moved))
			}
		}
		for i := range g.steps {
			g.results[i] = g.fromMoments(&g.steps[i])
		}
	case len(g.steps) == 1:
		for p := range parts[1:] {
			rowOps[ir.OpAdd](first, first, list(p+1, 0))
		}
		g.results[0] = first
	default: // the greatest element, and the sum of exponentials of differences from it
		greatest, sum := make([]float64, g.count), make([]float64, g.count)
		copy(greatest, first)
		for p := range parts[1:] {
			rowOps[ir.OpMax](greatest, greatest, list(p+1, 0))
		}
		for p := range parts {
			by, of := list(p, 0), list(p, 1)
			rowOps[ir.OpSub](by, by, greatest)
			rowOps[ir.OpExp](by, by, by)
			rowOps[ir.OpMul](of, of, by)
			rowOps[ir.OpAdd](sum, sum, of)
		}
		g.results[0], g.results[1] = greatest, sum
		for p := range parts {
			if g.foldChains == &g.inPlace { // the output has e^(x - greatest of the part)
				seen := list(p, 1)
				rowOps[ir.OpDiv](seen, sum, list(p, 0))
				g.parts = append(g.parts, [][]float64{greatest, seen})
			}
		}
	}
}
