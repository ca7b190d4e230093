package fast

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// moved reports whether the kernel can compute a transpose: of floats, integers or bools. Transposes that keep the
// order of elements are left to the interpreter.
func moved(n *ir.Node) bool {
	var order []int64
	for _, axis := range n.Attrs().Ints("perm") {
		if d := n.Arg(0).Shape()[axis]; d != ir.D(1) {
			order = append(order, axis)
		}
	}
	return !slices.IsSorted(order) && (isNarrow(n.DType()) || n.DType().IsInteger() || n.DType() == ir.Bool)
}

// transpose computes a transpose.
func transpose(c *interp.Call) error {
	order := make([]int, len(c.Dims))
	for i, axis := range c.Node.Attrs().Ints("perm") {
		order[i] = int(axis)
	}
	x := c.Args[0]
	p := newPlace(x, x.Dims, order)
	if x.Floats != nil {
		return move(c, &p, c.Out, x.Floats)
	}
	return move(c, &p, c.Ints, x.Ints)
}

// side is the length of the sides of a transpose's square tiles. Each element of a tile's column is in another cache
// line, and all of a tile's lines fit in an L1 cache.
const side = 32

// move sets dst to the elements of src in the order of a place.
//
// If neighbours in the result are not neighbours in src, and another axis of the result has neighbours in src, move
// copies in tiles along both axes. So each cache line is read and written only once.
func move[T float32 | int64](c *interp.Call, p *place, dst, src []T) error {
	last := len(p.dims) - 1
	other := slices.Index(p.steps, 1)
	if len(dst) == 0 || last < 1 || other < 0 || other == last {
		return runs(c, p, dst, src)
	}
	// A task is a row of tiles: up to `side` coordinates of the other axis, and one coordinate of each further axis.
	cols, rows, stride, step := p.dims[last], p.dims[other], 1, p.steps[last]
	for _, d := range p.dims[other+1:] {
		stride *= d // distance between the rows in dst
	}
	rest := slices.Clone(p.dims)
	rest[last], rest[other] = 1, (rows+side-1)/side
	return c.Parallel(elements(rest), side*cols, func(_, task int) {
		to, from, first, distance := 0, 0, 0, 1
		for axis := last; axis >= 0; axis-- {
			i := task % rest[axis]
			task /= rest[axis]
			if axis == other {
				first = i * side
				i = first
			}
			to, from = to+i*distance, from+i*p.steps[axis]
			distance *= p.dims[axis]
		}
		some := min(side, rows-first)
		for col := 0; col < cols; col += side {
			n := min(side, cols-col)
			for r := range some {
				line, at := dst[to+r*stride+col:][:n], from+r+col*step
				for i := range line {
					line[i] = src[at]
					at += step
				}
			}
		}
	})
}

// runs is move without tiles: it copies elements along the innermost axis, one row after the other.
func runs[T float32 | int64](c *interp.Call, p *place, dst, src []T) error {
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
