package fast

import (
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// index is the type of an element of indices.
type index interface{ int32 | uint32 | int64 }

// takesIndexed reports whether the kernel of a gather or a scatter can compute a node: the elements of its arguments,
// except the indices, must fit in 32 bits.
func takesIndexed(n *ir.Node) bool {
	for i, a := range n.Args() {
		if i != 1 && !inWords(a.DType()) {
			return false
		}
	}
	return true
}

// gather computes gather, index_select and gather_nd. It copies runs of neighbouring elements of the argument, which
// the indices select.
func gather(c *interp.Call) error {
	switch ids := indices(c.Args[1]); {
	case ids.Words == nil:
		return gatherBy(c, ids.Ints)
	case ids.DType == ir.U32:
		return gatherBy(c, unsigned(ids.Words))
	default:
		return gatherBy(c, ids.Words)
	}
}

// indices returns an argument of indices in which field Words (32 bits) or field Ints (64 bits) has all indices.
func indices(ids interp.Tensor) interp.Tensor {
	if ids.Stored != nil { // 8-bit and 16-bit integers
		list := make([]int32, volume(ids.Dims))
		loader[float32](ids.Stored)(bitsOf(list), 0, 1) // writes the bits of integers
		ids.Words = list
	}
	return ids
}

// gatherBy computes a gather with indices of type T, by the size of an element.
func gatherBy[T index](c *interp.Call, ids []T) error {
	out, size := bytesOfResult(c)
	from := bytesLike(c, c.Args[0])
	switch size {
	case 1:
		return gatherElements(c, ids, out, from)
	case 2:
		return gatherElements(c, ids, elements[uint16](out), elements[uint16](from))
	case 4:
		return gatherElements(c, ids, elements[uint32](out), elements[uint32](from))
	}
	return gatherElements(c, ids, elements[uint64](out), elements[uint64](from))
}

// gatherElements computes a gather of elements of type E with indices of type T.
func gatherElements[T index, E any](c *interp.Call, ids []T, out, from []E) error {
	x := c.Args[0]
	if c.Node.Op() == ir.OpGatherND {
		r := newCoordinates(x.Dims, c.Args[1].Dims, ids)
		return c.ParallelRange(len(out)/r.run, r.run+elementWork, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				at, _ := r.at(i)
				copy(out[i*r.run:(i+1)*r.run], from[at*r.run:])
			}
		})
	}
	axis, err := ir.ResolveAxis(int64(c.Node.Attrs().Int("axis")), len(x.Dims))
	if err != nil {
		return err
	}
	// The argument has shape [outer, n, inner], and the result [outer, picks, inner]. In index_select, a list of picks
	// indices selects rows of `inner` elements. In gather, each element of the result has an index.
	n, picks, inner := x.Dims[axis], c.Dims[axis], volume(c.Dims[axis+1:])
	selects := c.Node.Op() == ir.OpIndexSelect
	if selects && inner == 1 {
		return selectColumns(c, ids[:picks], out, from, n)
	}
	return c.ParallelRange(len(out)/inner, inner+elementWork, func(lo, hi int) {
		for lo < hi { // the rows with the same outer coordinate
			outer, pick := lo/picks, lo%picks
			count := min(hi-lo, picks-pick)
			rows, to := from[outer*n*inner:(outer+1)*n*inner], out[lo*inner:(lo+count)*inner]
			if !selects {
				gatherEach(to, rows, ids[lo*inner:(lo+count)*inner], n, inner)
			} else {
				for i, id := range ids[pick : pick+count] {
					copy(to[i*inner:(i+1)*inner], rows[clamped(id, n)*inner:])
				}
			}
			lo += count
		}
	})
}

// selectColumns sets each row of out, which has an element for each index, to the selected elements of the same row of
// from, which has n elements.
func selectColumns[T index, E any](c *interp.Call, ids []T, out, from []E, n int) error {
	picks := len(ids)
	columns := make([]int32, picks)
	for i, id := range ids {
		columns[i] = int32(clamped(id, n))
	}
	return c.ParallelRange(len(out)/picks, picks+elementWork, func(lo, hi int) {
		for ; lo < hi; lo++ {
			row, to := from[lo*n:(lo+1)*n], out[lo*picks:(lo+1)*picks]
			for i, column := range columns {
				to[i] = row[column]
			}
		}
	})
}

// gatherEach sets each element of `to` to the element of x in the same column, and in the row that ids has for it. `to`
// and ids have rows of `inner` elements, and x has n such rows. It limits rows out of range to the first or last one.
func gatherEach[T index, E any](to, x []E, ids []T, n, inner int) {
	if inner == 1 {
		for i, id := range ids[:len(to)] {
			at := int(id)
			if uint(at) >= uint(n) { // also if at is negative
				at = clamped(id, n)
			}
			to[i] = x[at]
		}
		return
	}
	for k := 0; k < len(to); k += inner {
		row := to[k : k+inner]
		for i, id := range ids[k:][:len(row)] {
			at := int(id)
			if uint(at) >= uint(n) {
				at = clamped(id, n)
			}
			row[i] = x[at*inner+i]
		}
	}
}

// clamped limits an index to 0..n-1.
func clamped[T index](i T, n int) int { return int(min(max(int64(i), 0), int64(n-1))) }

// coordinates has the rows of an index tensor. Each row has the coordinates of a run of elements along the outermost
// axes of a tensor, the indexed axes.
type coordinates[T index] struct {
	ids  []T
	dims []int // extents of the indexed axes
	run  int   // elements of a run
}

// newCoordinates returns the coordinates of runs in a tensor with extents dims. ids has the elements of the index
// tensor, and idDims has its extents.
func newCoordinates[T index](dims, idDims []int, ids []T) coordinates[T] {
	r := idDims[len(idDims)-1]
	return coordinates[T]{ids, dims[:r], volume(dims[r:])}
}

// at returns the number of the run that row i selects. It clamps indices, and returns false if that changes one.
func (r *coordinates[T]) at(i int) (run int, ok bool) {
	ok = true
	for axis, n := range r.dims {
		id := r.ids[i*len(r.dims)+axis]
		k := clamped(id, n)
		run, ok = run*n+k, ok && int64(k) == int64(id)
	}
	return run, ok
}
