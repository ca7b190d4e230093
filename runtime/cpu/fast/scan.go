package fast

import (
	"slices"

	"github.com/vkc-go/vkc/internal/hostmem"
	"github.com/vkc-go/vkc/ir"
)

// scanner computes an op that returns the running results of a reduction, such as cumsum. If the kernel also computes
// the elements by fused elementwise ops, it first stores them in the output, and then replaces them by running results.
// Otherwise it reads the argument.
type scanner[T number] struct {
	*foldRows[T]
	by                       *reducer
	sums, exclusive, reverse bool // whether by adds; the op's attributes
	restart                  int  // the number of elements after which the results restart; 0 means never
	from                     []T  // the argument's elements; nil if a chain computes or converts them
	to                       []T  // the results
}

// scan computes all rows. If there are few groups of many elements, several tasks share a row: they first fold their
// parts, so that each task knows the fold of all elements before its part.
func (r *foldRows[T]) scan() error {
	by, attrs := r.reducer(r.node.Op().Info().Running), r.node.Attrs()
	s := scanner[T]{foldRows: r, by: by, sums: by == reducers[ir.OpSum] && !r.wide(), to: r.out.list,
		exclusive: attrs.Bool("exclusive"), reverse: attrs.Bool("reverse"), restart: attrs.Int("restart")}
	if s.to == nil {
		if err := hostmem.Check(8 * int64(r.rows*r.n)); err != nil {
			return err
		}
		s.to = make([]T, r.rows*r.n)
	}
	final := r.out
	r.out = results[T]{list: s.to} // chains store elements where their results will be
	if p := r.element; len(p.code) == 0 {
		s.from = r.readers[p.result].contiguous()
	}
	groups := r.groups
	each, parts := r.parts(groups)
	if s.restart > 0 {
		each, parts = r.n, 1
	}
	before := make([][]float64, len(groups)*parts) // by group and part: the results of the rows before the part
	for i := range before {
		before[i] = slices.Repeat([]float64{by.identity}, groups[i/parts].count)
	}
	work := r.work(4 * each * groups[0].count)
	if parts > 1 {
		err := r.call.Parallel(len(before), work, func(_, task int) {
			k := task % parts * each
			r.group(groups[task/parts]).fold(by, before[task], r.element, -1, k, min(k+each, r.n))
		})
		if err != nil {
			return err
		}
		for i := range groups {
			s.accumulate(before[i*parts : (i+1)*parts])
		}
	}
	err := r.call.Parallel(len(before), work, func(_, task int) {
		k := task % parts * each
		s.part(r.group(groups[task/parts]), before[task], k, min(k+each, r.n))
	})
	if err != nil || final.list != nil {
		return err
	}
	return r.call.ParallelRange(len(s.to), 1, func(lo, hi int) { final.store(lo, s.to[lo:hi]) })
}

// accumulate computes an exclusive scan over the parts of rows. parts[p][row] is the fold of part p of a row. It
// becomes the fold of all parts before p (with reverse, of all parts after p).
func (s *scanner[T]) accumulate(parts [][]float64) {
	acc := slices.Repeat([]float64{s.by.identity}, len(parts[0]))
	if s.reverse {
		slices.Reverse(parts)
		defer slices.Reverse(parts)
	}
	for _, part := range parts {
		for row, y := range part {
			part[row], acc[row] = acc[row], s.by.merge(acc[row], y)
		}
	}
}

// part computes the results for elements lo to hi of the rows of a group. acc has the results before, by row.
func (s *scanner[T]) part(g *groupFold[T], acc []float64, lo, hi int) {
	out, from := s.to, s.from
	if from == nil {
		from = out
	}
	if !s.across {
		if s.from == nil {
			g.run(g.each, sink[T]{keeps: -1, outputs: true}, lo, hi)
		}
		for row, before := range acc {
			at := s.at(g.from+row, 0)
			s.row(out[at+lo:at+hi], from[at+lo:at+hi], before)
		}
		return
	}
	const span = 32 // number of elements of a row that stay in the cache between the chain and the fold
	for i := 0; i < hi-lo; i += span {
		first, end := lo+i, min(lo+i+span, hi) // coordinates
		if s.reverse {
			first, end = max(hi-i-span, lo), hi-i
		}
		if s.from == nil {
			g.run(g.each, sink[T]{keeps: -1, outputs: true}, first, end)
		}
		for k := first; k < end; k++ {
			at := k
			if s.reverse {
				at = first + end - 1 - k
			}
			at = s.at(g.from, at)
			s.next(acc, i+k-first, out[at:at+g.count], from[at:at+g.count])
		}
	}
}

// row sets out to the running results of x, a part of a row. acc is the result for the elements before that part.
func (s *scanner[T]) row(out, x []T, acc float64) {
	if s.reverse { // scan a reversed copy, in place
		copy(out, x)
		slices.Reverse(out)
		defer slices.Reverse(out)
		x = out
	}
	size := len(x) // elements between restarts
	if s.restart > 0 {
		size = s.restart
	}
	for lo := 0; lo < len(x); lo += size {
		part := out[lo:min(lo+size, len(x))]
		if s.running(part, x[lo:], acc); s.exclusive {
			copy(part[1:], part)
			part[0] = T(acc)
		}
	}
}

// running sets out to the running results of the first elements of x: element i is the result for acc and x[0] to x[i].
func (s *scanner[T]) running(out, x []T, acc float64) {
	if wide, ok := any(out).([]float64); ok && s.by.running != nil {
		s.by.running(acc, wide, any(x).([]float64))
		return
	}
	whole := 0
	if s.sums {
		acc, whole = runningSums(any(out).([]float32), any(x).([]float32), acc)
	}
	for i, x := range x[whole:len(out)] {
		acc = s.by.next(acc, float64(x))
		out[whole+i] = T(acc)
	}
}

// next adds one element to each of several neighbouring rows: x[r] is element i of row r, and acc[r] the result of the
// row's elements before it. It updates acc, and sets out[r] to the running result.
func (s *scanner[T]) next(acc []float64, i int, out, x []T) {
	if s.restart > 0 && i%s.restart == 0 {
		for row := range acc {
			acc[row] = s.by.identity
		}
	}
	if wide, ok := any(x).([]float64); ok && !s.exclusive {
		s.by.each(acc, wide)
		copy(any(out).([]float64), acc)
		return
	}
	whole := 0
	if s.sums && !s.exclusive {
		whole = addRunning(acc, any(out).([]float32), any(x).([]float32))
	}
	for row, x := range x[whole:] {
		row += whole
		before := acc[row]
		if acc[row] = s.by.next(before, float64(x)); s.exclusive {
			out[row] = T(before)
		} else {
			out[row] = T(acc[row])
		}
	}
}
