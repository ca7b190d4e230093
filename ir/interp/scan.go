package interp

import (
	"cmp"
	"slices"
	"sync"
)

// axisRows views a tensor as [outer, n, inner], where n is an axis. A row is the n elements along the axis: row r
// starts at element first(r), and its elements are inner apart.
type axisRows struct{ outer, n, inner int }

// rowsAlong returns the rows of a tensor with extents dims along an axis.
func rowsAlong(dims []int, axis int) axisRows {
	return axisRows{elems(dims[:axis]), dims[axis], elems(dims[axis+1:])}
}

func (a axisRows) count() int      { return a.outer * a.inner }
func (a axisRows) first(r int) int { return r/a.inner*a.n*a.inner + r%a.inner }

// scanScratch is scratch memory for a row and its result.
type scanScratch[S, D any] struct {
	row []S
	out []D
}

// scanAxis applies f to every row of src along the op's axis. f writes the row's result to out, which has the length of
// the result's axis.
func scanAxis[S, D any](c *call, src []S, dst []D, f func(row []S, out []D)) error {
	axis, err := c.axis()
	if err != nil || len(dst) == 0 {
		return err
	}
	from, to := rowsAlong(c.args[0].dims, axis), rowsAlong(c.dims, axis)
	spare := sync.Pool{New: func() any { return &scanScratch[S, D]{make([]S, from.n), make([]D, to.n)} }}
	return c.parallelRange(to.count(), from.n*elementWork, func(lo, hi int) {
		rows := spare.Get().(*scanScratch[S, D])
		defer spare.Put(rows)
		row, out := rows.row, rows.out
		for r := lo; r < hi; r++ {
			// Rows of src and of dst may differ in length, so each has its own positions.
			for i := range row {
				row[i] = src[from.first(r)+i*from.inner]
			}
			f(row, out)
			for i, y := range out {
				dst[to.first(r)+i*to.inner] = y
			}
		}
	})
}

// running computes a scan: the results so far of a basic reduction, as in cumsum.
func running(c *call) (value, error) {
	s := scanAttrs{c.attrs().Bool("exclusive"), c.attrs().Bool("reverse"), c.attrs().Int("restart")}
	x, by := c.args[0], basicFolds[c.node.Op().Info().Running]
	if x.typ.IsFloat() {
		out, first := make([]float64, elems(c.dims)), by.floats(nil) // the fold of no elements
		err := scanAxis(c, x.floats(), out, func(row, out []float64) {
			two := make([]float64, 2)
			runningFold(row, out, s, first, func(acc, x float64) float64 {
				two[0], two[1] = acc, x
				return by.floats(two)
			})
		})
		return c.floats(out), err
	}
	out, first := make([]int64, elems(c.dims)), by.first(c.node.DType())
	err := scanAxis(c, x.i64, out, func(row, out []int64) { runningFold(row, out, s, first, by.ints) })
	return c.ints(out), err
}

// scanAttrs holds the attributes of a scan.
type scanAttrs struct {
	exclusive, reverse bool
	restart            int // start again every `restart` elements; 0 for never
}

// runningFold sets out[i] to the fold of row[0] to row[i]: combine folds the result so far, initially first, with the
// next element. See ir.OpCumSum for the attributes.
func runningFold[T int64 | float64](row, out []T, s scanAttrs, first T, combine func(acc, x T) T) {
	acc := first
	for i := range row {
		if s.restart > 0 && i%s.restart == 0 {
			acc = first
		}
		if s.reverse { // from the last element to the first
			i = len(row) - 1 - i
		}
		if s.exclusive {
			out[i] = acc
		}
		acc = combine(acc, row[i])
		if !s.exclusive {
			out[i] = acc
		}
	}
}

// sortAxis computes op sort.
func sortAxis(c *call) (value, error) {
	descending := c.attrs().Bool("descending")
	x := c.args[0]
	if x.typ.IsFloat() {
		out := make([]float64, elems(c.dims))
		err := scanAxis(c, x.floats(), out, func(row, out []float64) {
			pickRow(row, sortedOrder(row, descending, nanLast), out)
		})
		return c.floats(out), err
	}
	out := make([]int64, elems(c.dims))
	err := scanAxis(c, x.i64, out, func(row, out []int64) {
		pickRow(row, sortedOrder(row, descending, cmp.Compare[int64]), out)
	})
	return c.ints(out), err
}

// pickRow sets out to the elements of row in the given order.
func pickRow[T any](row []T, order []int64, out []T) {
	for i, j := range order {
		out[i] = row[j]
	}
}

func argsort(c *call) (value, error) { return c.order(c.attrs().Bool("descending")) }

func topKIndices(c *call) (value, error) { return c.order(c.attrs().Bool("largest")) }

// order returns the coordinates of each row's elements in ascending or descending order, as many as the result's axis
// has.
func (c *call) order(descending bool) (value, error) {
	x := c.args[0]
	out := make([]int64, elems(c.dims))
	var err error
	if x.typ.IsFloat() {
		err = scanAxis(c, x.floats(), out, func(row []float64, out []int64) {
			copy(out, sortedOrder(row, descending, nanLast))
		})
	} else {
		err = scanAxis(c, x.i64, out, func(row, out []int64) {
			copy(out, sortedOrder(row, descending, cmp.Compare[int64]))
		})
	}
	return c.ints(out), err
}

// sortedOrder returns the coordinates of the elements in ascending or descending order. The sort is stable.
func sortedOrder[T any](row []T, descending bool, compare func(a, b T) int) []int64 {
	order := make([]int64, len(row))
	for i := range order {
		order[i] = int64(i)
	}
	slices.SortStableFunc(order, func(i, j int64) int {
		if descending {
			i, j = j, i
		}
		return compare(row[i], row[j])
	})
	return order
}

// nanLast orders NaN after all numbers; cmp.Compare orders it first.
func nanLast(a, b float64) int {
	if a != a || b != b {
		return -cmp.Compare(a, b)
	}
	return cmp.Compare(a, b)
}
