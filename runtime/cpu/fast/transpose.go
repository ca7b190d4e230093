package fast

import (
	"slices"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// takesTranspose reports whether the kernel can compute a transpose: of floats, integers or bools. Transposes that keep
// the order of elements are left to the interpreter.
func takesTranspose(n *ir.Node) bool {
	var order []int64
	for _, axis := range n.Attrs().Ints("perm") {
		if d := n.Arg(0).Shape()[axis]; d != ir.D(1) {
			order = append(order, axis)
		}
	}
	return !slices.IsSorted(order) && unblocked(n)
}

// transpose computes a transpose. It moves elements of any dtype by their size.
func transpose(c *interp.Call) error {
	order := make([]int, len(c.Dims))
	for i, axis := range c.Node.Attrs().Ints("perm") {
		order[i] = int(axis)
	}
	x := c.Args[0]
	p := newStrides(x.Dims, x.Dims, order)
	to, size := bytesOfResult(c)
	from := bytesLike(c, x)
	switch size {
	case 1:
		return move(c, &p, to, from)
	case 2:
		return move(c, &p, elements[uint16](to), elements[uint16](from))
	case 4:
		return move(c, &p, elements[float32](to), elements[float32](from))
	}
	return move(c, &p, elements[uint64](to), elements[uint64](from))
}

// side is the length of the sides of a transpose's square tiles. All cache lines of a tile, in the argument and the
// result, fit in an L1 cache.
const side = 32

// band is the number of columns of the result in one task. Consecutive tasks have the same columns, because their tiles
// share pages of memory.
const band = 32 * side

// move sets dst to the elements of src in the order in which p reads them.
//
// The last axis has neighbours in dst. If another axis has neighbours in src, move copies tiles along both axes, so
// that each cache line is read and written only once.
func move[T any](c *interp.Call, p *strides, dst, src []T) error {
	last := len(p.dims) - 1
	other := slices.Index(p.steps, 1)
	if len(dst) == 0 || last < 1 || other < 0 || other == last {
		return runs(c, p, dst, src)
	}
	// A task is a row of tiles: up to `side` coordinates of the other axis, up to `band` of the last one, and one
	// coordinate of each further axis.
	cols, rows, stride, step := p.dims[last], p.dims[other], 1, p.steps[last]
	for _, d := range p.dims[other+1:] {
		stride *= d // distance between the rows in dst
	}
	tasks, size := slices.Clone(p.dims), make([]int, len(p.dims))
	for axis := range size {
		size[axis] = 1
	}
	size[last], size[other] = band, side
	tasks[last], tasks[other] = ceil.Div(cols, band), ceil.Div(rows, side)
	return c.Parallel(volume(tasks), side*min(cols, band), func(_, task int) {
		var at [ir.MaxRank]int // coordinates
		at[other], task = task%tasks[other]*side, task/tasks[other]
		to, from, distance := 0, 0, 1
		for axis := last; axis >= 0; axis-- {
			if axis != other {
				at[axis], task = task%tasks[axis]*size[axis], task/tasks[axis]
			}
			to, from = to+at[axis]*distance, from+at[axis]*p.steps[axis]
			distance *= p.dims[axis]
		}
		high, n := min(side, rows-at[other]), min(band, cols-at[last])
		for col := 0; col < n; col += side {
			moveTile(dst[to+col:], src[from+col*step:], stride, step, high, min(side, n-col))
		}
	})
}

// moveTile transposes a tile from src to dst. In dst it has the given rows and columns, and the rows are stride
// elements apart. In src the columns are step elements apart, and the elements of a column are contiguous.
func moveTile[T any](dst, src []T, stride, step, rows, cols int) {
	wholeRows, wholeCols := transposeBlocks(dst, src, stride, step, rows, cols)
	for r := range rows {
		first := 0
		if r < wholeRows {
			first = wholeCols
		}
		for col := first; col < cols; col++ {
			dst[r*stride+col] = src[r+col*step]
		}
	}
}

// runs copies the elements of a transpose row by row of the result, without tiles.
func runs[T any](c *interp.Call, p *strides, dst, src []T) error {
	if len(dst) == 0 {
		return nil
	}
	if p.repeats() {
		dst[0] = src[0]
		return nil
	}
	last := len(p.dims) - 1
	n, step := p.dims[last], p.steps[last]
	return c.ParallelRange(len(dst)/n, n, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			at, line := p.start(r*n, nil), dst[r*n:(r+1)*n]
			if step == 1 {
				copy(line, src[at:at+n])
				continue
			}
			for i := range line {
				line[i] = src[at+i*step]
			}
		}
	})
}
