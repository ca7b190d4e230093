package fast

import (
	"slices"

	"github.com/vkc-go/vkc/internal/hostmem"
)

// scanner computes an op that returns the running results of a reduction of floats, such as cumsum.
type scanner[T number] struct {
	*foldRows[T]
	by                 *reducer
	exclusive, reverse bool // the op's attributes
	restart            int  // the number of elements after which the results restart; 0 means never
}

// scanFunctions is the assembly of a scan of floats. Function list scans one row: it sets out[i] to the fold of acc and
// x[0] to x[i], for n elements (a multiple of 4), and returns the last result. Function each takes a step of n rows (a
// multiple of lanes): it folds x[i] into acc[i], and sets out[i] to the result.
type scanFunctions struct {
	list func(out, x *float32, acc float64, n int) float64
	each func(acc *float64, out, x *float32, n int)
}

// scans has the assembly by the kind of the reducer. The functions are nil without assembly.
var scans [reducerKinds]scanFunctions

// scan computes all rows. If there are few groups of many elements, several tasks share a row: they first fold their
// parts, so that each task knows the fold of all elements before its part.
func (r *foldRows[T]) scan() error {
	by, attrs := reducers[r.node.Op().Info().Running], r.node.Attrs()
	s := scanner[T]{foldRows: r, by: by, exclusive: attrs.Bool("exclusive"), reverse: attrs.Bool("reverse"),
		restart: attrs.Int("restart")}
	groups := r.groups
	each, parts := r.parts(groups)
	if s.restart > 0 {
		each, parts = r.n, 1
	}
	if err := hostmem.Check(8 * int64(each) * int64(r.call.Workers())); err != nil { // see room
		return err
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
	return r.call.Parallel(len(before), work, func(worker, task int) {
		k := task % parts * each
		s.part(worker, r.group(groups[task/parts]), before[task], k, min(k+each, r.n))
	})
}

// accumulate replaces the fold of each part of a row, parts[p][row] for part p, by the fold of all parts before p. If
// s.reverse is true, it takes the parts after p instead.
func (s *scanner[T]) accumulate(parts [][]float64) {
	acc := slices.Repeat([]float64{s.by.identity}, len(parts[0]))
	if s.reverse {
		slices.Reverse(parts)
		defer slices.Reverse(parts)
	}
	for _, part := range parts {
		for row, y := range part {
			part[row] = acc[row]
			acc[row] = s.by.merge(acc[row], y)
		}
	}
}

// part computes the running results for elements lo to hi of the rows of a group. acc has each row's result before
// element lo.
func (s *scanner[T]) part(worker int, g *groupFold[T], acc []float64, lo, hi int) {
	if s.across {
		s.partAcross(worker, g, acc, lo, hi)
		return
	}
	for row, before := range acc {
		at := s.at(g.from+row, lo)
		out, x := s.lists(worker, at, hi-lo)
		s.row(out, x, before)
		s.out.put(at, out)
	}
}

// partAcross does the work of part if neighbouring elements belong to different rows: each step computes one element of
// every row.
func (s *scanner[T]) partAcross(worker int, g *groupFold[T], acc []float64, lo, hi int) {
	span := g.tall() // elements of each row to read at a time: they stay in the cache until they are folded
	for i := 0; i < hi-lo; i += span {
		first, end := lo+i, min(lo+i+span, hi) // coordinates
		if s.reverse {
			first, end = max(hi-i-span, lo), hi-i
		}
		at := s.at(g.from, first)
		out, x := s.lists(worker, at, (end-first)*g.count)
		for k := range end - first {
			j := k
			if s.reverse {
				j = end - first - 1 - k
			}
			s.next(acc, i+k, out[j*g.count:(j+1)*g.count], x[j*g.count:(j+1)*g.count])
		}
		s.out.put(at, out)
	}
}

// lists returns n elements of the argument from number at on, as x, and memory for their results, as out. out is part
// of the op's result if that has type T, and otherwise memory of the worker. x and out may be the same memory.
func (s *scanner[T]) lists(worker, at, n int) (out, x []T) {
	if s.out.list == nil {
		out = roomOf[T](s.call, worker, n)
	} else {
		out = s.out.list[at : at+n]
	}
	if x = s.direct(at, n); x == nil {
		x = out
		s.elements(x, at)
	}
	return out, x
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
		s.running(part, x[lo:], acc)
		if s.exclusive { // the result before is the result of an element
			copy(part[1:], part)
			part[0] = T(acc)
		}
	}
}

// running sets out to the running results of the first len(out) elements of x: element i is the fold of acc and x[0] to
// x[i].
func (s *scanner[T]) running(out, x []T, acc float64) {
	if wide, ok := any(out).([]float64); ok && s.by.running != nil {
		s.by.running(acc, wide, any(x).([]float64))
		return
	}
	whole := 0
	if f := scans[s.by.kind].list; f != nil && len(out) >= 4 && !s.wide() {
		whole = len(out) / 4 * 4
		_ = x[:whole] // the assembly checks no bounds
		acc = f(narrowed(out), narrowed(x), acc, whole)
	}
	for i, y := range x[whole:len(out)] {
		acc = s.by.next(acc, float64(y))
		out[whole+i] = T(acc)
	}
}

// next adds one element to each of several neighbouring rows: x[r] is element i of row r, and acc[r] the fold of the
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
	if f := scans[s.by.kind].each; f != nil && !s.exclusive && len(x) >= lanes && !s.wide() {
		whole = len(x) / lanes * lanes
		_, _ = acc[:whole], out[:whole] // the assembly checks no bounds
		f(&acc[0], narrowed(out), narrowed(x), whole)
	}
	for row, y := range x[whole:] {
		row += whole
		before := acc[row]
		acc[row] = s.by.next(before, float64(y))
		out[row] = T(acc[row])
		if s.exclusive {
			out[row] = T(before)
		}
	}
}
