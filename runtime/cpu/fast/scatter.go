package fast

import (
	"cmp"
	"math"
	"slices"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// A scatter changes runs of neighbouring elements of its base, argument 0: update i combines run i of argument 2 with
// the run of the base that index i selects. Each element gets its updates in their order. So that tasks share the work,
// the base is split into sections, and a stable sort brings the updates of a section together.

// section is the number of elements of a section, unless a run is longer. In float64 they fit in an L2 cache.
const section = 1 << 15

// sortChunk is the number of updates that a task sorts into sections at a time.
const sortChunk = 1 << 14

// scattering is the state of one scatter.
type scattering struct {
	*interp.Call
	base, out, from []float32 // the base, the result and the new elements; words as bits
	mode            string    // how they are combined: "add", "mul", "min" or "max"; "" replaces elements
	n, run          int       // the number of updates, and the elements of each
	each            int       // runs of a section
	sections        int
	targets         func(dst []int32, lo int) // sets dst to the runs that updates lo and later ones change; -1 is none
	// add, if not nil, is a fast way to add updates lo to hi to floats or words. It is set if each update has one
	// element and the base one axis.
	add func(floats []float64, words []int32, lo, hi int)
	// strips, if not nil, computes the scatter strip by strip. It is set for a scatter along an axis.
	strips func() error
}

// update is an update of a run of a section.
type update struct{ run, from int32 } // the run's number in the section, and the update's number

// takesScatter reports whether the kernel can compute a scatter. If the scatter combines elements, these must fit in 32
// bits; if it replaces them, they may have any dtype without blocks.
func takesScatter(n *ir.Node) bool {
	fits := max(n.Shape().MaxElems(), n.Arg(2).Shape().MaxElems()) <= math.MaxInt32
	return fits && (takesIndexed(n) || replaces(n) && unblocked(n))
}

// replaces reports whether a scatter replaces elements by others of the same dtype.
func replaces(n *ir.Node) bool {
	return n.Op() != ir.OpIndexAdd && n.Attrs().String_("mode") == "" && n.Arg(2).DType() == n.DType()
}

// scatter computes scatter, scatter_add, index_add, scatter_nd and scatter_nd_add, in one of four ways: replaceAll,
// for a scatter that only moves elements; toSmallBase, for many updates of a base of one section; strips, for many
// updates along an axis; and otherwise section by section, after the updates are sorted by section.
func scatter(c *interp.Call) error {
	const few = 4 // tasks that may all look at all updates
	wide := c.Doubles != nil || c.Ints != nil
	if replaces(c.Node) && (wide || !c.InPlace && (c.Workers() <= few || apartFrom(c) > few)) {
		return replaceAll(c)
	}
	c, finish := widened(c)
	s := &scattering{Call: c, base: elementsOf(c.Args[0]), out: outOf(c), from: elementsOf(c.Args[2]),
		mode: c.Node.Attrs().String_("mode"), run: 1}
	if c.Node.Op() == ir.OpIndexAdd {
		s.mode = "add"
	}
	var err error
	switch ids := c.Args[1]; {
	case ids.Words == nil:
		s.targets, err = targetsOf(s, ids.Ints)
	case ids.DType == ir.U32:
		s.targets, err = targetsOf(s, unsigned(ids.Words))
	default:
		s.targets, err = targetsOf(s, ids.Words)
	}
	if err != nil || len(s.out) == 0 || s.run == 0 {
		return err
	}
	s.n, s.each = len(s.from)/s.run, max(1, section/s.run)
	s.sections = ceil.Div(len(s.out), s.each*s.run)
	if s.sections == 1 && s.n > sortChunk && !c.InPlace {
		return cmp.Or(s.toSmallBase(), finish())
	}
	if s.strips != nil && !c.InPlace && apartFrom(c) > few && 4*len(s.from) >= len(s.out) {
		return cmp.Or(s.strips(), finish())
	}
	lists, err := s.sorted()
	if err != nil {
		return err
	}
	undo := make([]func(), s.sections)
	if c.InPlace {
		c.Undo(func() {
			for _, f := range undo {
				if f != nil {
					f()
				}
			}
		})
	}
	work := (len(s.out) + elementWork*len(s.from)) / s.sections
	err = c.Parallel(s.sections, work, func(_, k int) { undo[k] = s.section(k, lists[k]) })
	return cmp.Or(err, finish())
}

// widened returns a call like c, with arguments and a result of 32 bits where c has them in the format of tensors. It
// converts the arguments, and finish converts the result back.
func widened(c *interp.Call) (wide *interp.Call, finish func() error) {
	call := *c
	call.Args = slices.Clone(c.Args)
	for i, a := range c.Args {
		if a.Stored == nil {
			continue
		}
		list := make([]float32, volume(a.Dims))
		_ = c.ParallelRange(len(list), elementWork, func(lo, hi int) { loader[float32](a.Stored)(list[lo:hi], lo, 1) })
		if call.Args[i].Stored = nil; a.DType.IsFloat() {
			call.Args[i].Floats = list
		} else {
			call.Args[i].Words = wordsOf(list)
		}
	}
	if c.Stored == nil {
		return &call, func() error { return nil }
	}
	out := make([]float32, volume(c.Dims))
	if c.Node.DType().IsFloat() {
		call.Out = out
	} else {
		call.Words = wordsOf(out)
	}
	call.Stored = nil
	return &call, func() error {
		return c.ParallelRange(len(out), elementWork, func(lo, hi int) { storer[float32](c.Stored)(lo, out[lo:hi]) })
	}
}

// targetsOf returns scattering.targets for indices ids. It also sets s.run and, for a scatter along an axis, s.add and
// s.strips if these ways can compute it.
func targetsOf[T index](s *scattering, ids []T) (func(dst []int32, lo int), error) {
	if op := s.Node.Op(); op == ir.OpScatterND || op == ir.OpScatterNDAdd {
		return pointTargets(s, ids), nil
	}
	axis, err := ir.ResolveAxis(int64(s.Node.Attrs().Int("axis")), len(s.Dims))
	if err != nil {
		return nil, err
	}
	n, picks, inner := s.Dims[axis], s.Args[2].Dims[axis], volume(s.Dims[axis+1:])
	same := s.Node.Op() == ir.OpIndexAdd // indices are the same for all coordinates of other axes
	if same {
		s.run, inner = inner, 1
	}
	// There are no other axes: each update has an index of its own.
	if len(s.from) == picks && s.mode == "add" {
		s.add = func(floats []float64, words []int32, lo, hi int) {
			if s.Out != nil {
				addAt(floats, s.from[lo:hi], ids[lo:hi])
			} else {
				addAt(words, wordsOf(s.from)[lo:hi], ids[lo:hi])
			}
		}
	}
	if !same {
		s.strips = func() error {
			return eachStrip(s.Call, n, picks, inner, func(worker int, p strip) { updateStrip(s, worker, p, ids) })
		}
	}
	return func(dst []int32, lo int) {
		for len(dst) > 0 { // updates with the same coordinates of the axes before
			outer, first := lo/(picks*inner), lo%(picks*inner)
			// With one index for all coordinates (same), the indices begin again for each outer coordinate.
			part := dst[:min(len(dst), picks*inner-first)]
			own := ids[first:]
			if !same {
				own = ids[lo:]
			}
			own = own[:len(part)]
			from, i := outer*n, first%inner
			for k, id := range own {
				switch run := from + int(id); {
				case int64(id) < 0 || int64(id) >= int64(n):
					part[k] = -1
				case inner == 1:
					part[k] = int32(run)
				default:
					part[k] = int32(run*inner + i)
				}
				if i++; i == inner {
					i = 0
				}
			}
			dst, lo = dst[len(part):], lo+len(part)
		}
	}, nil
}

// updateStrip computes a strip of the result: the base's elements, changed by the strip's updates, and rounded to the
// dtype. It sums or multiplies floats in float64.
func updateStrip[T index](s *scattering, worker int, p strip, ids []T) {
	rows, cols := p.n, p.cols // of the result
	if p.stride == 1 {
		rows, cols = 1, p.n
	}
	each := func(f func(row int, out, base []float32)) {
		for row := range rows {
			at := p.to + row*p.stride
			f(row, s.out[at:at+cols], s.base[at:at+cols])
		}
	}
	if s.accumulates() {
		// The sums begin with the base.
		sums := roomOf[float64](s.Call, worker, rows*cols)
		each(func(row int, _, base []float32) { doublesOf(sums[row*cols:][:cols], base) })
		updateElements(p, sums, p.cols, s.from, ids, s.mode)
		each(func(row int, out, _ []float32) {
			floatsOf(out, sums[row*cols:][:cols])
			s.round(out)
		})
		return
	}
	each(func(_ int, out, base []float32) { copy(out, base) })
	switch words := wordsOf(s.out[p.to:]); {
	case s.Out != nil:
		updateElements(p, s.out[p.to:], p.stride, s.from, ids, s.mode)
	case s.Node.DType() == ir.U32:
		updateElements(p, unsigned(words), p.stride, unsigned(wordsOf(s.from)), ids, s.mode)
	default:
		updateElements(p, words, p.stride, wordsOf(s.from), ids, s.mode)
	}
	each(func(_ int, out, _ []float32) { s.round(out) })
}

// pointTargets returns scattering.targets if the indices are rows of coordinates, and sets s.run, the length of a
// run.
func pointTargets[T index](s *scattering, ids []T) func(dst []int32, lo int) {
	r := newCoordinates(s.Dims, s.Args[1].Dims, ids)
	s.run = r.run
	return func(dst []int32, lo int) {
		for i := range dst {
			run, ok := r.at(lo + i)
			if !ok {
				run = -1
			}
			dst[i] = int32(run)
		}
	}
}

// sorted returns the updates by section, each section's in their order: a counting sort, in parallel for chunks of
// updates.
func (s *scattering) sorted() ([][]update, error) {
	chunks := max(1, ceil.Div(s.n, sortChunk))
	counts := make([]int, chunks*s.sections) // by chunk and section; later the place of the next update
	each := func(f func(chunk, lo int, runs []int32)) error {
		return s.Parallel(chunks, elementWork*sortChunk, func(_, chunk int) {
			lo := chunk * sortChunk
			runs := make([]int32, min(sortChunk, s.n-lo))
			s.targets(runs, lo)
			f(chunk, lo, runs)
		})
	}
	err := each(func(chunk, _ int, runs []int32) {
		own := counts[chunk*s.sections : (chunk+1)*s.sections]
		for _, run := range runs {
			if run >= 0 {
				own[int(run)/s.each]++
			}
		}
	})
	if err != nil {
		return nil, err
	}
	lists, total := make([][]update, s.sections), 0
	for k := range lists {
		for chunk := range chunks {
			at := &counts[chunk*s.sections+k]
			*at, total = total, total+*at
		}
	}
	all := make([]update, total)
	for k := range lists {
		end := total
		if k+1 < s.sections {
			end = counts[k+1]
		}
		lists[k] = all[counts[k]:end]
	}
	return lists, each(func(chunk, lo int, runs []int32) {
		next := counts[chunk*s.sections : (chunk+1)*s.sections]
		for i, run := range runs {
			if run >= 0 {
				k := int(run) / s.each
				all[next[k]] = update{run - int32(k*s.each), int32(lo + i)}
				next[k]++
			}
		}
	})
}

// section computes section k of the result from its updates: it copies the base's section unless the scatter works in
// place, combines the updates with it, and rounds the changed elements. If the scatter works in place, section
// returns a function that restores the base.
func (s *scattering) section(k int, list []update) (undo func()) {
	lo, hi := k*s.each*s.run, min((k+1)*s.each*s.run, len(s.out))
	dst := s.out[lo:hi]
	if !s.InPlace {
		copy(dst, s.base[lo:hi])
	}
	if len(list) == 0 {
		return nil
	}
	dense := 4*len(list)*s.run >= len(dst) // whether updates change a large part of the section
	if s.InPlace {
		undo = s.restore(dst, list, dense)
	}
	switch {
	case !s.accumulates():
		s.combine(dst, list)
	case dense:
		sums := make([]float64, len(dst))
		for i, x := range dst {
			sums[i] = float64(x)
		}
		combine(sums, list, s.from, s.run, s.mode)
		for i, x := range sums {
			dst[i] = float32(x)
		}
	default:
		s.accumulate(dst, list)
	}
	if dense {
		s.round(dst)
		return undo
	}
	for _, u := range list {
		s.round(dst[int(u.run)*s.run:][:s.run])
	}
	return undo
}

// restore returns a function that undoes the updates in a list to a section, dst. It keeps copies of the changed runs
// or, if dense is true, of the whole section.
func (s *scattering) restore(dst []float32, list []update, dense bool) func() {
	if dense {
		old := slices.Clone(dst)
		return func() { copy(dst, old) }
	}
	old := make([]float32, 0, len(list)*s.run)
	for _, u := range list {
		old = append(old, dst[int(u.run)*s.run:][:s.run]...)
	}
	return func() {
		for i, u := range list {
			copy(dst[int(u.run)*s.run:], old[i*s.run:(i+1)*s.run])
		}
	}
}

// accumulates reports whether elements are accumulated in float64.
func (s *scattering) accumulates() bool { return s.Out != nil && (s.mode == "add" || s.mode == "mul") }

// accumulate combines a section, dst, with few updates. It sums or multiplies each run in float64 over all of its
// updates, so that the result is rounded once.
func (s *scattering) accumulate(dst []float32, list []update) {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b update) int { return int(a.run) - int(b.run) })
	sums := make([]float64, s.run)
	for lo, hi := 0, 0; lo < len(list); lo = hi {
		to := dst[int(list[lo].run)*s.run:][:s.run]
		for i, x := range to {
			sums[i] = float64(x)
		}
		for hi = lo; hi < len(list) && list[hi].run == list[lo].run; hi++ {
			combine(sums, []update{{0, list[hi].from}}, s.from, s.run, s.mode)
		}
		for i, x := range sums {
			to[i] = float32(x)
		}
	}
}

// combine combines a section, dst, with its updates, one after the other, in the elements' own type.
func (s *scattering) combine(dst []float32, list []update) {
	switch {
	case s.Out != nil:
		combine(dst, list, s.from, s.run, s.mode)
	case s.Node.DType() == ir.U32:
		combine(unsigned(wordsOf(dst)), list, unsigned(wordsOf(s.from)), s.run, s.mode)
	default:
		combine(wordsOf(dst), list, wordsOf(s.from), s.run, s.mode)
	}
}

// round rounds or wraps a list of combined elements to the dtype of the result.
func (s *scattering) round(list []float32) {
	t := s.Node.DType()
	switch {
	case s.mode == "" || t == ir.F32 || t.BlockBytes() == 4 && s.Out == nil: // already of the dtype
	case s.Out != nil:
		primitives[roundings[t]].apply(list, list, list, list)
	default:
		primitives[wrapTo[t]].apply(list, list, list, list)
	}
}

// toSmallBase computes a scatter of many updates to a base of one section. Sums of integers do not depend on their
// order, so each of several tasks has sums of its own, which are added at the end. Otherwise one task computes all.
func (s *scattering) toSmallBase() error {
	chunks := ceil.Div(s.n, sortChunk)
	parts := 1
	if s.Out == nil && s.mode == "add" {
		parts = min(chunks, max(1, s.n/(4*len(s.out))), 16)
	}
	sums, floats := make([][]float32, parts), make([]float64, len(s.out))
	err := s.Parallel(parts, elementWork*len(s.from)/parts, func(_, part int) {
		sums[part] = make([]float32, len(s.out))
		if part == 0 {
			copy(sums[0], s.base)
			for i, x := range s.base {
				floats[i] = float64(x)
			}
		}
		list, room := make([]update, sortChunk), make([]int32, sortChunk)
		for chunk := part; chunk < chunks; chunk += parts {
			lo := chunk * sortChunk
			runs := room[:min(sortChunk, s.n-lo)]
			if s.add != nil {
				s.add(floats, wordsOf(sums[part]), lo, lo+len(runs))
				continue
			}
			s.targets(runs, lo)
			n := 0
			for i, run := range runs {
				// The next update overwrites one without a target.
				list[n] = update{run, int32(lo + i)}
				if run >= 0 {
					n++
				}
			}
			if s.accumulates() {
				combine(floats, list[:n], s.from, s.run, s.mode)
			} else {
				s.combine(sums[part], list[:n])
			}
		}
	})
	if err != nil {
		return err
	}
	copy(s.out, sums[0])
	for _, list := range sums[1:] {
		for i, x := range wordsOf(list) {
			s.Words[i] += x
		}
	}
	if s.accumulates() {
		for i, x := range floats {
			s.out[i] = float32(x)
		}
	}
	s.round(s.out)
	return nil
}

// addAt adds each element of from to the element of dst that its index in ids selects, and ignores other indices.
func addAt[D, S int32 | float32 | float64, T index](dst []D, from []S, ids []T) {
	for i, id := range ids {
		if at := int64(id); at >= 0 && at < int64(len(dst)) {
			dst[at] += D(from[i])
		}
	}
}

// combine combines runs of dst with runs of from, as the updates say. dst has the elements' type or a wider one. run is
// the length of a run, and mode is "add", "mul", "min", "max" or, to replace, "".
func combine[D, S int32 | uint32 | float32 | float64](dst []D, list []update, from []S, run int, mode string) {
	// The loops without an inner loop are faster.
	if run == 1 {
		switch mode {
		case "add":
			for _, u := range list {
				dst[u.run] += D(from[u.from])
			}
		case "mul":
			for _, u := range list {
				dst[u.run] *= D(from[u.from])
			}
		case "min":
			for _, u := range list {
				dst[u.run] = min(dst[u.run], D(from[u.from]))
			}
		case "max":
			for _, u := range list {
				dst[u.run] = max(dst[u.run], D(from[u.from]))
			}
		default:
			for _, u := range list {
				dst[u.run] = D(from[u.from])
			}
		}
		return
	}
	for _, u := range list {
		to, x := dst[int(u.run)*run:][:run], from[int(u.from)*run:][:run]
		switch mode {
		case "add":
			for i, y := range x {
				to[i] += D(y)
			}
		case "mul":
			for i, y := range x {
				to[i] *= D(y)
			}
		case "min":
			for i, y := range x {
				to[i] = min(to[i], D(y))
			}
		case "max":
			for i, y := range x {
				to[i] = max(to[i], D(y))
			}
		default:
			for i, y := range x {
				to[i] = D(y)
			}
		}
	}
}
