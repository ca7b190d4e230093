package fast

import (
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// apartFrom returns how many rows along the axis a scatter's result has: an update changes an element of its own row
// only, so tasks may compute different rows. It returns 1 for a scatter that has no axis.
func apartFrom(c *interp.Call) int {
	axis, err := ir.ResolveAxis(int64(c.Node.Attrs().Int("axis")), len(c.Dims))
	if err != nil || c.Node.Op() == ir.OpScatterND {
		return 1
	}
	return volume(c.Dims[:axis]) * volume(c.Dims[axis+1:])
}

// replaceAll computes a scatter that replaces elements. It copies them as they are in memory.
func replaceAll(c *interp.Call) error {
	switch ids := indices(c.Args[1]); {
	case ids.Words == nil:
		return replaceBy(c, ids.Ints)
	case ids.DType == ir.U32:
		return replaceBy(c, unsigned(ids.Words))
	default:
		return replaceBy(c, ids.Words)
	}
}

// replaceBy computes a scatter that replaces elements, with indices of type T. It moves elements of any dtype by their
// size.
func replaceBy[T index](c *interp.Call, ids []T) error {
	out, size := bytesOfResult(c)
	from := bytesLike(c, c.Args[2])
	if !c.InPlace {
		if err := copyMemory(c, out, bytesLike(c, c.Args[0])); err != nil {
			return err
		}
	}
	switch size {
	case 1:
		return replaceElements(c, ids, out, from)
	case 2:
		return replaceElements(c, ids, elements[uint16](out), elements[uint16](from))
	case 4:
		return replaceElements(c, ids, elements[uint32](out), elements[uint32](from))
	}
	return replaceElements(c, ids, elements[uint64](out), elements[uint64](from))
}

// replaceElements replaces elements of out, which are of type E, with indices of type T.
func replaceElements[T index, E updatable](c *interp.Call, ids []T, out, from []E) error {
	if len(out) == 0 {
		return nil
	}
	if c.Node.Op() == ir.OpScatterND {
		r := newCoordinates(c.Dims, c.Args[1].Dims, ids)
		return replaceRuns(c, out, from, r.run, r.at)
	}
	axis, err := ir.ResolveAxis(int64(c.Node.Attrs().Int("axis")), len(c.Dims))
	if err != nil {
		return err
	}
	n, picks, inner := c.Dims[axis], c.Args[2].Dims[axis], volume(c.Dims[axis+1:])
	switch {
	case len(out) == n && !c.InPlace:
		// A vector: each task owns a part of the result, and looks at all updates.
		parts := replacers(c, len(from))
		return c.Parallel(parts, elementWork*len(from), func(_, part int) {
			first := int64(part * n / parts)
			to := out[first : (part+1)*n/parts]
			for i, id := range ids {
				if at := int64(id) - first; uint64(at) < uint64(len(to)) {
					to[at] = from[i]
				}
			}
		})
	case c.InPlace:
		return replaceRuns(c, out, from, 1, func(i int) (at int, ok bool) {
			// The updates have shape [outer, picks, inner]. An update's index replaces its middle coordinate.
			outer, column := i/(picks*inner), i%inner
			return (outer*n+int(ids[i]))*inner + column, isWithin(ids[i], n)
		})
	}
	return eachStrip(c, n, picks, inner, func(_ int, s strip) {
		updateElements(s, out[s.to:], s.stride, from, ids, "")
	})
}

// strip is a part of a scatter along an axis: for one coordinate of the axes outside, all coordinates along the axis
// (rows), and a range of neighbours along the axes inside (columns). No other strip changes these elements.
type strip struct {
	n          int // rows of the result
	rows, cols int // rows of the updates, and columns
	to, from   int // the first element in the result, and in the updates
	stride     int // the distance between rows, in the result and in the updates
}

// eachStrip calls f, in parallel, for the strips of a scatter along an axis with extent n in the result and picks in
// the updates. inner is the volume of the axes inside of that axis.
func eachStrip(c *interp.Call, n, picks, inner int, f func(worker int, s strip)) error {
	if n*picks*inner == 0 { // nothing changes, and the strips have no first update
		return nil
	}
	const least = 64                               // the fewest columns of a strip, unless there are fewer in all
	parts := max(1, min(inner/least, c.Workers())) // of the columns
	outer := volume(c.Dims) / (n * inner)
	return c.Parallel(outer*parts, elementWork*picks*inner/parts, func(worker, task int) {
		at, part := task/parts, task%parts
		first, end := part*inner/parts, (part+1)*inner/parts
		f(worker, strip{n: n, rows: picks, cols: end - first, to: at*n*inner + first,
			from: at*picks*inner + first, stride: inner})
	})
}

// updatable is the type of elements in memory, as numbers or as bits.
type updatable interface {
	uint8 | uint16 | int32 | uint32 | uint64 | float32 | float64
}

// updateElements combines the elements of a strip with their updates, in order, and ignores indices out of range. dst
// begins with the strip's first element, and its rows are stride elements apart. See scattering.mode for mode.
func updateElements[D, S updatable, T index](s strip, dst []D, stride int, from []S, ids []T, mode string) {
	rows, cols, step := s.rows, s.cols, 1 // step is the distance in dst between neighbours of a row of updates
	if s.stride == 1 {                    // each row has one element: take all rows as one, for the same column of dst
		rows, cols, step = 1, s.rows, 0
	}
	if mode == "" && replaceByVectors(dst, from[s.from:], ids[s.from:], rows, cols, s.stride, s.n, stride, step) {
		return
	}
	n := uint64(s.n) // as an unsigned number, a negative index is larger than n
	for row := range rows {
		at := s.from + row*s.stride
		indices := ids[at : at+cols]
		list := from[at:][:len(indices)]
		switch mode {
		case "add":
			for i, id := range indices {
				if uint64(int64(id)) < n {
					dst[int(id)*stride+i*step] += D(list[i])
				}
			}
		case "mul":
			for i, id := range indices {
				if uint64(int64(id)) < n {
					dst[int(id)*stride+i*step] *= D(list[i])
				}
			}
		case "min":
			for i, id := range indices {
				if uint64(int64(id)) < n {
					to := &dst[int(id)*stride+i*step]
					*to = min(*to, D(list[i]))
				}
			}
		case "max":
			for i, id := range indices {
				if uint64(int64(id)) < n {
					to := &dst[int(id)*stride+i*step]
					*to = max(*to, D(list[i]))
				}
			}
		default:
			for i, id := range indices {
				if uint64(int64(id)) < n {
					dst[int(id)*stride+i*step] = D(list[i])
				}
			}
		}
	}
}

// isWithin reports whether an index is one of n coordinates.
func isWithin[T index](i T, n int) bool { return uint64(int64(i)) < uint64(n) }

// replacers returns how many tasks look at all of n updates.
func replacers(c *interp.Call, n int) int {
	const few = 4
	if n < sortChunk {
		return 1
	}
	return min(c.Workers(), few)
}

// replaceRuns replaces runs of elements of out. target returns the run that update i replaces, or false if there is
// none. Each of a few tasks looks at all updates, and makes the updates of its part of the result. If the scatter
// changes its base in place, one task makes all updates, and keeps the elements that they replace, for c.Undo.
func replaceRuns[E any](c *interp.Call, out, from []E, run int, target func(i int) (at int, ok bool)) error {
	n, runs, parts := len(from)/run, len(out)/run, replacers(c, len(from))
	var old []E
	if c.InPlace {
		parts, old = 1, make([]E, 0, len(from))
		c.Undo(func() {
			for i := n - 1; i >= 0; i-- { // the last update of an element found the one before
				if at, ok := target(i); ok {
					rest := len(old) - run
					copy(out[at*run:], old[rest:])
					old = old[:rest]
				}
			}
		})
	}
	return c.Parallel(parts, elementWork*len(from), func(_, part int) {
		first, end := part*runs/parts, (part+1)*runs/parts
		for i := range n {
			at, ok := target(i)
			if !ok || at < first || at >= end {
				continue
			}
			to := out[at*run : (at+1)*run]
			if c.InPlace {
				old = append(old, to...)
			}
			copy(to, from[i*run:])
		}
	})
}
