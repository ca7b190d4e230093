package interp

import "github.com/vkc-go/vkc/internal/hostmem"

// Views and the ops that move elements share copyRegion, a loop that copies a strided region to another with the same
// extents.

// region maps the coordinates of a region to positions in a row-major tensor: element (i, j, …) of the region is at
// off + i*strides[0] + j*strides[1] + …
type region struct {
	off     int
	strides []int
}

// whole returns the region that covers a tensor of extents dims.
func whole(dims []int) region {
	strides := make([]int, len(dims))
	n := 1
	for i := len(dims) - 1; i >= 0; i-- {
		strides[i] = n
		n *= dims[i]
	}
	return region{strides: strides}
}

// copyRegion copies a region s of src to a region d of dst, both with extents dims. It recurses over the outermost
// axis.
func copyRegion[T any](dims []int, dst []T, d region, src []T, s region) {
	if elems(dims) == 0 {
		return
	}
	if len(dims) == 0 {
		dst[d.off] = src[s.off]
		return
	}
	n := dims[0]
	if len(dims) == 1 && d.strides[0] == 1 && s.strides[0] == 1 { // contiguous in both
		copy(dst[d.off:d.off+n], src[s.off:s.off+n])
		return
	}
	if len(dims) == 1 {
		for i := range n {
			dst[d.off+i*d.strides[0]] = src[s.off+i*s.strides[0]]
		}
		return
	}
	for i := range n {
		copyRegion(dims[1:], dst, region{d.off + i*d.strides[0], d.strides[1:]},
			src, region{s.off + i*s.strides[0], s.strides[1:]})
	}
}

// moveRegion copies a region s of the value src to a region d of dst, both with extents dims. src and dst must store
// elements in the same way; blocks are copied as bytes.
func moveRegion(dims []int, dst value, d region, src value, s region) {
	switch {
	case dst.block != nil:
		copyRegion(dims, dst.block.Bytes, d, src.block.Bytes, s)
	case dst.f64 != nil:
		copyRegion(dims, dst.f64, d, src.f64, s)
	case dst.f32 != nil:
		copyRegion(dims, dst.f32, d, src.f32, s)
	case dst.i32 != nil:
		copyRegion(dims, dst.i32, d, src.i32, s)
	default:
		copyRegion(dims, dst.i64, d, src.i64, s)
	}
}

// makeLike returns a zeroed value of another shape with the same storage as v.
func makeLike(v value, dims []int) (value, error) {
	if v.f32 != nil || v.i32 != nil {
		if err := hostmem.Check(4 * int64(elems(dims))); err != nil {
			return value{}, err
		}
		if v.i32 != nil {
			return value{typ: v.typ, dims: dims, i32: make([]int32, elems(dims))}, nil
		}
		return value{typ: v.typ, dims: dims, f32: make([]float32, elems(dims))}, nil
	}
	return makeValue(v.typ, dims)
}

// storageDims returns extents dims of v in units of storage: elements, but for blocks the innermost axis counts bytes.
func storageDims(v value, dims []int) []int {
	if v.block == nil {
		return dims
	}
	out := append([]int(nil), dims...)
	last := len(out) - 1
	out[last] = out[last] / v.typ.BlockElems() * v.typ.BlockBytes()
	return out
}

// moveRegion (the method) is moveRegion on the program's workers, which divide the outermost axis among them.
func (c *call) moveRegion(dims []int, dst value, d region, src value, s region) error {
	if len(dims) == 0 || dims[0] < 2 {
		moveRegion(dims, dst, d, src, s)
		return nil
	}
	return c.parallelRange(dims[0], elems(dims[1:]), func(lo, hi int) {
		part := append([]int{hi - lo}, dims[1:]...)
		to, from := region{d.off + lo*d.strides[0], d.strides}, region{s.off + lo*s.strides[0], s.strides}
		moveRegion(part, dst, to, src, from)
	})
}

// strided returns a copy of region s of v, as a tensor with extents dims.
func (c *call) strided(v value, dims []int, s region) (value, error) {
	out, err := makeLike(v, dims)
	if err != nil {
		return value{}, err
	}
	st := storageDims(v, dims)
	return out, c.moveRegion(st, out, whole(st), v, s)
}

// broadcastStrides returns the strides that read a tensor of extents dims as its broadcast to extents to, aligned at
// the innermost axis. Broadcast axes have stride 0.
func broadcastStrides(dims, to []int) []int {
	strides := make([]int, len(to))
	from := whole(dims).strides
	lead := len(to) - len(dims)
	for i, d := range dims {
		if d != 1 {
			strides[lead+i] = from[i]
		}
	}
	return strides
}

// remap returns the result in which coordinate i along an axis has the elements of x at coordinate from(axis, i).
func (c *call) remap(x value, from func(axis, i int) int) (value, error) {
	if elems(c.dims) == 0 { // in this case x may be empty along an axis where the result is not
		return makeLike(x, c.dims)
	}
	offsets := make([][]int, len(c.dims)) // by axis and coordinate
	strides := whole(x.dims).strides
	for axis, n := range c.dims {
		offsets[axis] = make([]int, n)
		for i := range n {
			offsets[axis][i] = from(axis, i) * strides[axis]
		}
	}
	return c.pick(x, 1, func(i int) int {
		at := 0
		for axis := len(c.dims) - 1; axis >= 0; axis-- {
			at += offsets[axis][i%c.dims[axis]]
			i /= c.dims[axis]
		}
		return at
	})
}

// takeRuns fills dst with runs of `run` consecutive elements of src. Run i starts at from(i).
func takeRuns[T any](c *call, dst, src []T, run int, from func(i int) int) error {
	if len(dst) == 0 {
		return nil
	}
	return c.parallelRange(len(dst)/run, run, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			if at := from(i); run == 1 {
				dst[i] = src[at]
			} else {
				copy(dst[i*run:(i+1)*run], src[at:at+run])
			}
		}
	})
}

// pick returns the result that consists of runs of `run` consecutive elements of x. Run i starts at element from(i) of
// x.
func (c *call) pick(x value, run int, from func(i int) int) (value, error) {
	out, err := makeLike(x, c.dims)
	switch {
	case err != nil:
		return value{}, err
	case out.f64 != nil:
		err = takeRuns(c, out.f64, x.f64, run, from)
	case out.f32 != nil:
		err = takeRuns(c, out.f32, x.f32, run, from)
	case out.i32 != nil:
		err = takeRuns(c, out.i32, x.i32, run, from)
	default:
		err = takeRuns(c, out.i64, x.i64, run, from)
	}
	return out, err
}
