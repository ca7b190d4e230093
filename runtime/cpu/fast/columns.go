package fast

import "github.com/vkc-go/vkc/ir"

// columnFold is the assembly of an op that folds rows, for rows that are columns: neighbouring elements belong to
// different rows. The vectors have an element of each of some columns.
//
// whole computes all steps for rows of n elements, in a room with a vector for each element. So the argument and the
// results go through memory once. See rowFold for checks and eps. parts computes results of a part of each column, to
// be merged: lists of numbers by column, stride numbers from each other.
type columnFold struct {
	whole func(out, x, room *float32, checks *float64, eps float64, n, apart, outApart, cols int)
	parts func(results *float64, x, room *float32, n, apart, stride, cols int)
}

// columnFold returns the assembly for columns, or nil. inner is the number of neighbouring columns.
func (f *fold[T]) columnFold(inner int) *columnFold {
	if vector == nil || inner < vector.lanes || f.wide() || f.ofWords() {
		return nil
	}
	if list, ok := vector.columns[f.node.Op()]; ok {
		return &list
	}
	return nil
}

// roomElems is the most elements of a column in a room. The room takes up to 256 KiB, which fit in an L2 cache.
const roomElems = chunk / 16

// computeColumns computes all rows, which are columns.
func (r *foldRows[T]) computeColumns(f *columnFold) error {
	if r.n > roomElems {
		return r.longColumns(f)
	}
	lanes := vector.lanes
	cols := min(r.inner, max(1, chunk/r.n/lanes)*lanes) // of a unit
	units := (r.inner + cols - 1) / cols                // of each index of the outer axes
	all := r.rows / r.inner * units
	some := max(1, chunk/(r.n*cols)) // units of a task
	return r.call.Parallel((all+some-1)/some, r.work(some*cols*r.n), func(worker, task int) {
		checks := make([]float64, (cols+lanes-1)/lanes*lanes)
		for i := task * some; i < min((task+1)*some, all); i++ {
			at := i % units * cols
			r.columns(f, worker, group{i/units*r.inner + at, min(cols, r.inner-at)}, checks)
		}
	})
}

// columns computes some neighbouring columns. checks has a number for each lane of their vectors.
func (r *foldRows[T]) columns(f *columnFold, worker int, cols group, checks []float64) {
	first, size, lanes, reduces := r.at(cols.from, 0), r.n*cols.count, r.n*vector.lanes, r.long.each == nil
	room := roomOf[T](r.call, worker, lanes+2*size)
	in, apart := r.columnsFrom(cols, 0, r.n, room[lanes:][:size])
	out, outApart := room[lanes+size:], cols.count
	switch {
	case r.out.list != nil && reduces:
		out = r.out.list[cols.from:][:cols.count]
	case r.out.list != nil:
		out, outApart = r.out.list[first:], r.inner
	}
	f.whole(narrowed(out), narrowed(in), narrowed(room), &checks[0], r.addend(), r.n, apart, outApart, cols.count)
	if r.out.list == nil {
		if reduces {
			out = out[:cols.count]
		}
		r.round(out)
		if reduces {
			r.out.put(cols.from, out)
		}
		for k := 0; k < r.n && !reduces; k++ {
			r.out.put(r.at(cols.from, k), out[k*cols.count:][:cols.count])
		}
	}
	r.again(worker, cols.from, checks[:cols.count])
}

// columnsFrom returns elements lo to hi of neighbouring columns, and how far the elements of a column are apart. It
// uses the room if memory does not have them as T.
func (r *foldRows[T]) columnsFrom(cols group, lo, hi int, room []T) (list []T, apart int) {
	first := r.at(cols.from, lo)
	if list = r.direct(first, (hi-lo-1)*r.inner+cols.count); list != nil {
		return list, r.inner
	}
	if cols.count == r.inner {
		r.elements(room, first)
		return room, cols.count
	}
	for k := range hi - lo {
		r.elements(room[k*cols.count:][:cols.count], r.at(cols.from, lo+k))
	}
	return room, cols.count
}

// longColumns computes all rows, which are columns with so many elements that tasks take parts of them.
func (r *foldRows[T]) longColumns(f *columnFold) error {
	groups, lanes, most := r.groups, vector.lanes, 0
	for _, g := range groups {
		most = max(most, (g.count+lanes-1)/lanes*lanes)
	}
	each := min(max(chunk/most, lanes), roomElems) // elements of a part
	parts := (r.n + each - 1) / each
	all := make([][]float64, len(groups)*parts) // by group and part: the results of the part
	err := r.call.Parallel(len(all), r.work(each*most), func(worker, task int) {
		g, lo := groups[task/parts], task%parts*each
		hi := min(lo+each, r.n)
		room := roomOf[T](r.call, worker, each*(lanes+most))
		x, apart := r.columnsFrom(g, lo, hi, room[each*lanes:][:(hi-lo)*g.count])
		all[task] = make([]float64, partResults*most)
		f.parts(&all[task][0], narrowed(x), narrowed(room), hi-lo, apart, most, g.count)
	})
	if err != nil {
		return err
	}
	list := make([]*groupFold[T], len(groups))
	for i, rows := range groups {
		list[i] = r.group(rows)
		list[i].mergeColumns(all[i*parts:(i+1)*parts], most, each)
	}
	return r.finishParts(list, each, parts)
}

// partResults is the most results of a part of a column.
const partResults = 3

// mergeColumns sets the results of the group's steps from the results of parts of the columns, which have `each`
// elements. A part's lists of results are stride numbers from each other.
func (g *groupFold[T]) mergeColumns(parts [][]float64, stride, each int) {
	list := func(part, i int) []float64 { return parts[part][i*stride:][:g.count] }
	first := list(0, 0)
	switch {
	case g.node.Op().Info().Fold.FromFirst():
		g.firsts, g.sums, g.squares = first, list(0, 1), list(0, 2)
		for p := 1; p < len(parts); p++ {
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
			by := list(p, 0)
			rowOps[ir.OpSub](by, by, greatest)
			rowOps[ir.OpExp](by, by, by)
			rowOps[ir.OpMul](by, by, list(p, 1))
			rowOps[ir.OpAdd](sum, sum, by)
		}
		g.results[0], g.results[1] = greatest, sum
	}
}
