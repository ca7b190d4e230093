package fast

import (
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// argReader reads an argument that is broadcast to the shape of a result.
type argReader struct {
	floats []float32 // words as bits
	ints   []int64   // used instead of floats if the argument has integers of 64 bits
	dims   []int     // the result's extents, in the order of reading; neighbouring axes are merged if possible
	steps  []int     // the argument's stride along each of these axes, 0 for a broadcast axis
}

// newArgReader returns a reader of argument t for a result with extents dims. It reads elements in row-major order of
// the result's axes, after they are permuted by order: order[i] is the result's axis at position i. A nil order means
// the result's own.
func newArgReader(t interp.Tensor, dims, order []int) argReader {
	p := argReader{floats: elementsOf(t), ints: t.Ints}
	steps := stepsOf(t.Dims, dims)
	if order != nil {
		dims, steps = picked(dims, order), picked(steps, order)
	}
	for i, d := range dims {
		last := len(p.dims) - 1
		switch {
		case d == 1:
		case last >= 0 && p.steps[last] == steps[i]*d:
			p.dims[last], p.steps[last] = p.dims[last]*d, steps[i]
		default:
			p.dims, p.steps = append(p.dims, d), append(p.steps, steps[i])
		}
	}
	if volume(t.Dims) == 1 {
		p.dims, p.steps = nil, nil
	}
	return p
}

// picked returns the elements of list at the given indices.
func picked(list, indices []int) []int {
	out := make([]int, len(indices))
	for i, at := range indices {
		out[i] = list[at]
	}
	return out
}

// stepsOf returns the strides of an argument with extents dims along each axis of a result to which it is broadcast.
// The last axes of both match. The stride is 0 along a broadcast axis.
func stepsOf(dims, result []int) []int {
	steps, step := make([]int, len(result)), 1
	for i := len(dims) - 1; i >= 0; i-- {
		if dims[i] != 1 {
			steps[len(result)-len(dims)+i] = step
		}
		step *= dims[i]
	}
	return steps
}

// repeats reports whether every element of the result reads the same element.
func (p *argReader) repeats() bool { return len(p.dims) == 0 }

// direct returns the argument's elements for n elements of the result from lo on. It returns nil if they are not
// contiguous in memory.
func (p *argReader) direct(lo, n int) []float32 {
	last := len(p.dims) - 1
	if p.floats == nil || p.steps[last] != 1 || lo%p.dims[last]+n > p.dims[last] {
		return nil
	}
	at := lo
	if last > 0 {
		at = p.start(lo, nil)
	}
	return p.floats[at : at+n]
}

// contiguous returns all of the argument's elements, or nil if they are not contiguous in memory.
func (p *argReader) contiguous() []float32 {
	if len(p.dims) != 1 || p.steps[0] != 1 {
		return nil
	}
	return p.floats
}

// start returns the offset in the argument of the element for the result's element lo. It also stores the coordinates
// of the result's element in at, unless at is nil.
func (p *argReader) start(lo int, at []int) int {
	from := 0
	for axis := len(p.dims) - 1; axis >= 0; axis-- {
		i := lo % p.dims[axis]
		lo /= p.dims[axis]
		from += i * p.steps[axis]
		if at != nil {
			at[axis] = i
		}
	}
	return from
}

// read sets dst to the argument's elements for the result's elements from lo on.
func (p *argReader) read(dst []float32, lo int) {
	if p.floats != nil {
		readFrom(p, dst, p.floats, lo)
	} else {
		readFrom(p, dst, p.ints, lo)
	}
}

// readFrom implements argReader.read for the argument's elements src.
func readFrom[T float32 | int64](p *argReader, dst []float32, src []T, lo int) {
	if p.repeats() {
		fill(dst, float32(src[0]))
		return
	}
	var at [ir.MaxRank]int
	from, last := p.start(lo, at[:]), len(p.dims)-1
	step := p.steps[last]
	for len(dst) > 0 {
		n := min(len(dst), p.dims[last]-at[last])
		floats, ok := any(src).([]float32)
		switch {
		case step == 0:
			fill(dst[:n], float32(src[from]))
		case step == 1 && ok:
			copy(dst[:n], floats[from:])
		default:
			for i := range n {
				dst[i] = float32(src[from+i*step])
			}
		}
		dst = dst[n:]
		at[last], from = at[last]+n, from+n*step
		for axis := last; axis > 0 && at[axis] == p.dims[axis]; axis-- {
			from += p.steps[axis-1] - p.dims[axis]*p.steps[axis]
			at[axis], at[axis-1] = 0, at[axis-1]+1
		}
	}
}
