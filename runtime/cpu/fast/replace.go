package fast

import (
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// apartFrom returns how many parts of a scatter along an axis change different elements: its updates keep their
// coordinates of all other axes. It returns 1 for other scatters.
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

// replaceBy is like replaceAll, for a type of indices.
func replaceBy[T index](c *interp.Call, ids []T) error {
	out, size := bytesOfResult(c)
	base, from := bytesLike(c, c.Args[0]), bytesLike(c, c.Args[2])
	switch size {
	case 1:
		return replaceElements(c, ids, out, base, from)
	case 2:
		return replaceElements(c, ids, elements[uint16](out), elements[uint16](base), elements[uint16](from))
	case 4:
		return replaceElements(c, ids, elements[uint32](out), elements[uint32](base), elements[uint32](from))
	}
	return replaceElements(c, ids, elements[uint64](out), elements[uint64](base), elements[uint64](from))
}

// replaceElements is like replaceBy, for a type of elements.
func replaceElements[T index, E any](c *interp.Call, ids []T, out, base, from []E) error {
	if len(out) == 0 {
		return nil
	}
	if !c.InPlace {
		err := c.ParallelRange(len(out), 1, func(lo, hi int) { copy(out[lo:hi], base[lo:hi]) })
		if err != nil {
			return err
		}
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
			return (i/(picks*inner)*n+int(ids[i]))*inner + i%inner, isWithin(ids[i], n)
		})
	}
	const least = 64 // the fewest columns of a task, unless there are fewer in all
	parts := max(1, inner/least)
	return c.ParallelRange(len(out)/(n*inner)*parts, elementWork*picks*inner/parts, func(lo, hi int) {
		for ; lo < hi; lo++ {
			outer, part := lo/parts, lo%parts
			first, end := part*inner/parts, (part+1)*inner/parts
			to := out[outer*n*inner : (outer+1)*n*inner]
			for k := range picks {
				at := (outer*picks + k) * inner
				list := from[at+first : at+end]
				for i, id := range ids[at+first : at+end] {
					if isWithin(id, n) {
						to[int(id)*inner+first+i] = list[i]
					}
				}
			}
		}
	})
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

// replaceRuns replaces runs of elements of out: target returns the run that update i replaces, or false. Each of a few
// tasks looks at all updates, and makes those of its part of the result. If the scatter changes its base in place, one
// task makes all, and keeps the elements that it replaces.
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
