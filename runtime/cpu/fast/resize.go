package fast

import "github.com/vkc-go/vkc/ir/interp"

// resizeNearest computes resize_nearest. It moves elements of any dtype by their size.
func resizeNearest(c *interp.Call) error {
	out, size := bytesOfResult(c)
	from := bytesLike(c, c.Args[0])
	switch size {
	case 1:
		return resizeElements(c, out, from)
	case 2:
		return resizeElements(c, elements[uint16](out), elements[uint16](from))
	case 4:
		return resizeElements(c, elements[uint32](out), elements[uint32](from))
	}
	return resizeElements(c, elements[uint64](out), elements[uint64](from))
}

// resizeElements computes the result of resize_nearest by rows, which are the elements along the innermost axis. If a
// row takes its elements from the same row of x as the row before, it is a copy of that row.
func resizeElements[E any](c *interp.Call, out, x []E) error {
	in, last := c.Args[0].Dims, len(c.Dims)-1
	sources := make([][]int, len(c.Dims)) // by axis and coordinate of the result: the coordinate in x
	for axis, extent := range c.Dims {
		sources[axis] = interp.NearestSources(c.Node, axis, in[axis], extent)
	}
	width := c.Dims[last]
	return c.ParallelRange(len(out)/width, width*elementWork/2, func(lo, hi int) {
		before := -1 // the source of the row before
		for row := lo; row < hi; row++ {
			at, apart, rest := 0, in[last], row // at becomes the first element of the source
			for axis := last - 1; axis >= 0; axis-- {
				at += sources[axis][rest%c.Dims[axis]] * apart
				apart, rest = apart*in[axis], rest/c.Dims[axis]
			}
			to := out[row*width : (row+1)*width]
			if at == before {
				copy(to, out[(row-1)*width:])
				continue
			}
			line := x[at : at+in[last]]
			for j, from := range sources[last] {
				to[j] = line[from]
			}
			before = at
		}
	})
}
