package fast

import (
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// place locates the elements of an argument that is broadcast to a result.
type place struct {
	floats []float32
	ints   []int64 // set instead of floats for integers
	dims   []int   // the result's extents, in the place's order of axes; axes with a common step are merged
	steps  []int   // the argument's step along each axis, 0 for a broadcast axis
}

// newPlace returns the place of an argument in a result with the given extents. order lists the result's axes in the
// order in which elements are read, the innermost last; nil means their own.
func newPlace(t interp.Tensor, dims, order []int) place {
	p := place{floats: t.Floats, ints: t.Ints}
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
	if elements(t.Dims) == 1 {
		p.dims, p.steps = nil, nil
	}
	return p
}

func picked(list, indices []int) []int {
	out := make([]int, len(indices))
	for i, at := range indices {
		out[i] = list[at]
	}
	return out
}

// stepsOf returns an argument's step along each axis of a result that it is broadcast to. The axes are aligned at the
// innermost one. The step is 0 along a broadcast axis.
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

// repeats reports whether all elements are one.
func (p *place) repeats() bool { return len(p.dims) == 0 }

// direct returns n contiguous elements for the result from element lo on, or nil if they are not contiguous.
func (p *place) direct(lo, n int) []float32 {
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

// start returns the offset of the element that result element lo reads. It also stores the coordinates in at, unless at
// is nil.
func (p *place) start(lo int, at []int) int {
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
func (p *place) read(dst []float32, lo int) {
	if p.floats != nil {
		gather(p, dst, p.floats, lo)
	} else {
		gather(p, dst, p.ints, lo)
	}
}

func gather[T float32 | int64](p *place, dst []float32, src []T, lo int) {
	if p.repeats() {
		for i := range dst {
			dst[i] = float32(src[0])
		}
		return
	}
	var at [ir.MaxRank]int
	from, last := p.start(lo, at[:]), len(p.dims)-1
	step := p.steps[last]
	for len(dst) > 0 {
		n := min(len(dst), p.dims[last]-at[last])
		for i := range n {
			dst[i] = float32(src[from+i*step])
		}
		dst = dst[n:]
		at[last], from = at[last]+n, from+n*step
		for axis := last; axis > 0 && at[axis] == p.dims[axis]; axis-- {
			from += p.steps[axis-1] - p.dims[axis]*p.steps[axis]
			at[axis], at[axis-1] = 0, at[axis-1]+1
		}
	}
}
