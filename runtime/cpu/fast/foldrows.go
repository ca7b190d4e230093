package fast

import (
	"slices"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// chunk is the number of elements that one task folds, unless there are fewer. In 32 bits they take 256 KiB, which fit
// in an L2 cache.
const chunk = 1 << 16

// compute implements interp.Kernel.Compute.
func (f *fold[T]) compute(c *interp.Call) error {
	r, err := f.layout(c)
	if err != nil {
		return err
	}
	defer r.end()
	if r.rows == 0 {
		return nil
	}
	switch op := f.node.Op(); {
	case searches(op):
		return r.search()
	case op.Info().Running != 0:
		return r.scan()
	}
	return r.compute()
}

// foldRows describes the rows of one run of a fold.
//
// If the innermost axis is folded, a row's elements are neighbours, and a chain computes up to `block` elements of a
// row at a time. Otherwise neighbouring elements belong to different rows, and a chain computes one element of each of
// up to `block` rows.
type foldRows[T number] struct {
	*fold[T]
	*foldLayout
	call    *interp.Call
	readers []readerOf[T]
	out     results[T]
	checks  [][]float64 // by worker: memory for foldWhole
}

// foldLayout is the part of foldRows that follows from the extents. Runs with the same extents share it.
type foldLayout struct {
	runExtents
	strides []strides // by argument
	rows    int       // number of rows
	n       int       // number of elements in a row
	across  bool      // whether neighbouring elements belong to different rows
	inner   int       // if across: how many rows' elements are neighbours
	groups  []group   // the rows
}

// layout returns the rows of a run. It keeps the foldLayout of the last run, because most runs have equal extents.
func (f *fold[T]) layout(c *interp.Call) (*foldRows[T], error) {
	dims, err := c.Extents(f.node.Arg(0))
	if err != nil {
		return nil, err
	}
	l := f.last.Load()
	if l == nil || !l.are(c, dims) {
		if l, err = f.newFoldLayout(c, dims); err != nil {
			return nil, err
		}
		f.last.Store(l)
	}
	r, ok := f.idle.Get().(*foldRows[T])
	if !ok {
		r = &foldRows[T]{fold: f}
	}
	r.foldLayout, r.call, r.out, r.checks = l, c, resultsOf[T](c), resized(r.checks, c.Workers())
	for i, a := range c.Args {
		r.readers = append(r.readers, readerWith[T](a, l.strides[i]))
	}
	return r, nil
}

// end makes r available for other runs, without references to this run's memory.
func (r *foldRows[T]) end() {
	clear(r.readers)
	r.call, r.out, r.readers = nil, results[T]{}, r.readers[:0]
	r.idle.Put(r)
}

// newFoldLayout divides the elements of the fold's argument, with extents dims, into rows and groups, and finds the
// order of axes in which the fold reads them.
func (f *fold[T]) newFoldLayout(c *interp.Call, dims []int) (*foldLayout, error) {
	folded, err := f.axes(len(dims))
	if err != nil {
		return nil, err
	}
	r := &foldLayout{runExtents: extentsOf(c, dims), rows: 1, n: 1, inner: 1}
	// The axes that are folded (along), and the others (kept), from the innermost out. Of the others, inner are inside
	// the innermost folded axis, and outer are not.
	var outer, inner, kept, along []int
	for axis := len(dims) - 1; axis >= 0; axis-- {
		switch {
		case folded[axis]:
			along = append(along, axis)
			r.n *= dims[axis]
			continue
		case len(along) == 0:
			inner = append(inner, axis)
			r.inner *= dims[axis]
		default:
			outer = append(outer, axis)
		}
		kept = append(kept, axis)
		r.rows *= dims[axis]
	}
	reduces := f.node.Op().Class() == ir.ClassReduce
	// Read across rows if the elements of a row are not neighbours, or if the rows are many and short.
	r.across = r.inner > 1 || reduces && r.n < shortRow && r.rows > shortRow
	order := slices.Concat(inner, along, outer)
	if r.across && reduces && r.inner < block && f.columnFold(r.inner) == nil {
		// Too few rows are neighbours to fill a block: let a block continue over all kept axes.
		order, r.inner = slices.Concat(kept, along), r.rows
	}
	slices.Reverse(order)
	for _, a := range c.Args {
		r.strides = append(r.strides, newStrides(a.Dims, dims, order))
	}
	r.setGroups()
	return r, nil
}

// shortRow bounds short rows: if a reduction's rows have fewer elements than this, a chain computes many rows at a
// time.
const shortRow = 32

// axes returns, by axis, whether the axis is folded.
func (f *fold[T]) axes(rank int) ([]bool, error) {
	attrs, list := f.node.Attrs(), []int64{-1}
	switch {
	case attrs.Has("axis"):
		list[0] = int64(attrs.Int("axis"))
	case f.node.Op().Class() == ir.ClassReduce:
		list = attrs.Ints("axes")
	}
	return ir.ResolveAxes(list, rank)
}

// group is a range of neighbouring rows that are computed together.
type group struct{ from, count int }

// setGroups splits the rows into groups of at most `block` rows. If the elements of a row are neighbours, a group has
// at most `chunk` elements, but at least one row.
func (r *foldLayout) setGroups() {
	size, within := max(1, min(block, chunk/max(r.n, 1))), r.rows // rows of a group, and rows to split at a time
	if r.across {
		size, within = block, r.inner
	}
	for at := 0; at < r.rows; at += within {
		for lo := 0; lo < within; lo += size {
			r.groups = append(r.groups, group{at + lo, min(size, within-lo)})
		}
	}
}

// parts splits the elements of each row into parts for different tasks. It returns the number of elements of a part,
// and the number of parts. There are several parts only if there are few groups with many elements each.
func (r *foldRows[T]) parts(groups []group) (each, parts int) {
	const few = 16 // number of groups
	if len(groups) >= few || r.n*groups[0].count < 2*chunk {
		return r.n, 1
	}
	each = max(1, chunk/groups[0].count)
	return each, ceil.Div(r.n, each)
}

// at returns the index of element k of a row, in the order in which the readers read elements.
func (r *foldRows[T]) at(row, k int) int {
	if !r.across {
		return row*r.n + k
	}
	return (row/r.inner*r.n+k)*r.inner + row%r.inner
}

// compute computes all rows: columns by computeColumns, if there is assembly for them, and otherwise groups of rows.
// In most cases a task computes a whole group. If there are few groups of many elements, a task computes one step for a
// part of the elements of each row of a group. Which elements a task folds does not depend on the number of workers.
func (r *foldRows[T]) compute() error {
	if f := r.columnFold(r.inner); f != nil && r.across && r.n > 0 {
		return r.computeColumns(f)
	}
	groups := r.groups
	each, parts := r.parts(groups)
	if parts == 1 {
		work := r.work(r.n * groups[0].count)
		if len(groups) == 1 && r.call.Serial(1, work) {
			r.whole(0, groups[0])
			return r.call.Context.Err()
		}
		return r.call.Parallel(len(groups), work, func(worker, task int) { r.whole(worker, groups[task]) })
	}
	if len(r.inPlace.kept) > 0 && r.out.list != nil {
		return r.softmaxParts()
	}
	list := make([]*groupFold[T], len(groups))
	for i, g := range groups {
		list[i] = r.group(g)
		list[i].begin()
	}
	for i, s := range r.long.steps {
		results := make([][]float64, len(groups)*parts)
		err := r.call.Parallel(len(results), r.work(each*groups[0].count), func(_, task int) {
			k := task % parts * each
			g := list[task/parts]
			results[task] = g.step(i, g.list(), k, min(k+each, r.n))
		})
		if err != nil {
			return err
		}
		// Each row's parts are merged in order.
		for at, g := range list {
			g.results[i] = results[at*parts]
			for _, part := range results[at*parts+1 : (at+1)*parts] {
				for row, y := range part {
					g.results[i][row] = s.merge(g.results[i][row], y)
				}
			}
		}
	}
	return r.finishParts(list, each, parts)
}

// softmaxParts computes all rows of softmax. A task computes both steps for a part of the elements of each row of a
// group, and leaves the exponentials of differences from the greatest element of the part in the output. So no task
// computes them again from the greatest element of the row.
func (r *foldRows[T]) softmaxParts() error {
	count := r.groups[0].count
	each := max(leastColumns, resident/count)
	parts := ceil.Div(r.n, each)
	list := make([]*groupFold[T], len(r.groups))
	for i, rows := range r.groups {
		list[i] = r.group(rows)
		list[i].foldChains = &r.inPlace
	}
	all := make([][]float64, len(r.groups)*parts) // by group and part: the results of the part
	err := r.call.Parallel(len(all), r.work(each*count), func(_, task int) {
		g, lo := *list[task/parts], task%parts*each
		results, hi := make([]float64, 2*g.count), min(lo+each, r.n)
		greatest, sum := results[:g.count], results[g.count:]
		g.results = [][]float64{g.step(0, greatest, lo, hi), sum}
		// Exponentials of elements of only -inf are 0. Without this, they were NaN, and recompute computed the row.
		for row, y := range greatest {
			greatest[row] = max(y, -g.most())
		}
		g.step(1, sum, lo, hi)
		all[task] = results
	})
	if err != nil {
		return err
	}
	for i, g := range list {
		g.mergeParts(all[i*parts:(i+1)*parts], g.count, each)
	}
	return r.finishParts(list, each, parts)
}

// finishParts computes the results of rows after all steps. The parts of rows have `each` elements.
func (r *foldRows[T]) finishParts(list []*groupFold[T], each, parts int) error {
	if r.long.each == nil {
		parts, each = 1, r.n // the rows have one result, so there is nothing to divide
	}
	err := r.call.Parallel(len(list)*parts, r.work(each*list[0].count), func(_, task int) {
		g, k := *list[task/parts], task%parts*each
		if len(g.parts) > 0 {
			g.results = g.parts[task%parts]
		}
		g.finish(k, min(k+each, r.n))
	})
	if err != nil {
		return err
	}
	return r.call.Parallel(len(list), r.work(r.n*list[0].count), func(_, task int) { list[task].recompute() })
}

// resident is the largest number of elements that stay in a core's caches while one step after the other computes all
// of them.
const resident = 8 * block

// whole computes a group by all steps.
func (r *foldRows[T]) whole(worker int, rows group) {
	if !r.foldWhole(worker, rows) {
		r.someRows(worker, rows)
	}
}

// someRows computes a group by all steps, some rows at a time.
func (r *foldRows[T]) someRows(worker int, rows group) {
	g, end := r.group(rows), rows.from+rows.count
	g.alone = true // g.from and g.count become the rows that are computed at a time
	// If several passes read the elements, take only as many rows at a time as stay in the cache.
	if !r.across && (r.long.each != nil || len(r.long.steps) > 1) {
		g.count = max(1, min(rows.count, resident/max(r.n, 1)))
	}
	g.keep(worker)
	for ; g.from < end; g.from += g.count {
		g.count = min(g.count, end-g.from)
		g.used, g.values = 0, g.values[:0]
		g.begin()
		for i, s := range g.steps {
			if s.from != nil && g.sums != nil { // begin has found the moments
				g.results[i] = g.fromMoments(&s)
			} else {
				g.results[i] = g.step(i, g.list(), 0, r.n)
			}
		}
		g.finish(0, r.n)
		g.recompute()
	}
}

// work estimates the cost of all steps for a number of elements, in multiply-adds.
func (r *foldRows[T]) work(elements int) int {
	each := len(r.long.steps)
	for _, s := range r.long.steps {
		each += s.of.work
	}
	if r.long.each != nil {
		each += r.long.each.work
	}
	return max(1, elements*each/4)
}
