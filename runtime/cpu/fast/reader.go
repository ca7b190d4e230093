package fast

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// strides says which element of an argument each element of a result reads. The argument is broadcast to the result's
// shape.
type strides struct {
	dims  []int // the result's extents, in the order of reading; neighbouring axes are merged if possible
	steps []int // the argument's stride along each of these axes, 0 for a broadcast axis
}

// readerOf reads an argument that is broadcast to the shape of a result, as elements of type T. Integers are words.
type readerOf[T number] struct {
	strides
	list []T                           // the argument's elements, if memory has them as T
	load func(dst []T, from, step int) // otherwise sets dst to elements from, from+step and so on
}

// argReader is a reader for kernels that compute in float32.
type argReader = readerOf[float32]

// newArgReader returns an argReader, see newReader.
func newArgReader(t interp.Tensor, dims, order []int) argReader {
	return newReader[float32](t, dims, order)
}

// newReader returns a reader of argument t for a result with extents dims. It reads elements in row-major order of
// the result's axes, or of permuted axes if order is not nil: order[i] is then the result's axis at position i.
func newReader[T number](t interp.Tensor, dims, order []int) readerOf[T] {
	return readerWith[T](t, newStrides(t.Dims, dims, order))
}

// readerWith returns a reader of argument t with the given strides. It reads from t's list if that has type T, and
// otherwise converts elements when it reads them. A readerOf[float64] also reads integers of 64 bits, as floats of
// the same bits.
func readerWith[T number](t interp.Tensor, s strides) readerOf[T] {
	p := readerOf[T]{strides: s}
	if t.Stored != nil {
		p.load = loader[T](t.Stored)
		return p
	}
	switch typed := any(&p).(type) {
	case *readerOf[float32]:
		if typed.list = elementsOf(t); typed.list == nil {
			typed.load = converter(t.Ints, func(dst []float32, src []int64) {
				for i, x := range src {
					dst[i] = float32(x)
				}
			})
		}
	case *readerOf[float64]:
		switch {
		case t.Doubles != nil:
			typed.list = t.Doubles
		case t.Ints != nil:
			typed.list = bitsOfLongs(t.Ints)
		case t.Floats != nil:
			typed.load = converter(t.Floats, doublesOf)
		case t.DType == ir.U32:
			typed.load = converter(t.Words, unsignedLongsOf)
		default:
			typed.load = converter(t.Words, longsOf)
		}
	}
	return p
}

// converter returns readerOf.load for elements of another type. f converts as many elements as dst has.
func converter[S any, T number](list []S, f func(dst []T, src []S)) func(dst []T, from, step int) {
	return func(dst []T, from, step int) {
		if step == 1 {
			f(dst, list[from:from+len(dst)])
			return
		}
		for i := range dst {
			f(dst[i:i+1], list[from+i*step:][:1])
		}
	}
}

// runExtents are the extents of a kernel's result and of its arguments, in one run.
type runExtents struct {
	result []int
	args   [][]int
}

// extentsOf returns a copy of the extents of a call. result are those in which the kernel reads arguments.
func extentsOf(c *interp.Call, result []int) runExtents {
	e := runExtents{result: slices.Clone(result)}
	for _, a := range c.Args {
		e.args = append(e.args, slices.Clone(a.Dims))
	}
	return e
}

// are reports whether a call has these extents.
func (e *runExtents) are(c *interp.Call, result []int) bool {
	for i, a := range c.Args {
		if !slices.Equal(a.Dims, e.args[i]) {
			return false
		}
	}
	return slices.Equal(result, e.result)
}

// newStrides returns the strides with which elements of a result with extents dims are read from an argument with
// extents t. Axes along which the elements are evenly apart become one. order, if not nil, is the order of the result's
// axes; see newReader.
func newStrides(t, dims, order []int) strides {
	var p strides
	steps := stepsOf(t, dims)
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
	if volume(t) == 1 { // all elements are the same
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

// stepsOf returns the strides of an argument along each axis of the result to which it is broadcast. dims are the
// argument's extents. The last axes of both match. The stride is 0 along a broadcast axis.
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
func (p *strides) repeats() bool { return len(p.dims) == 0 }

// direct returns the argument's elements for n elements of the result from lo on, without a copy. It returns nil if
// they are not contiguous in memory or have another type.
func (p *readerOf[T]) direct(lo, n int) []T {
	last := len(p.dims) - 1
	if p.list != nil && last < 0 && n == 1 {
		return p.list[:1]
	}
	if p.list == nil || last < 0 || p.steps[last] != 1 || lo%p.dims[last]+n > p.dims[last] {
		return nil
	}
	at := lo
	if last > 0 {
		at = p.start(lo, nil)
	}
	return p.list[at : at+n]
}

// start returns the index of the argument's element that the result's element lo reads. Unless `at` is nil, start
// stores the coordinates of lo there.
func (p *strides) start(lo int, at []int) int {
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
func (p *readerOf[T]) read(dst []T, lo int) {
	if p.repeats() {
		p.part(dst, 0, 0)
		return
	}
	var at [ir.MaxRank]int
	from, last := p.start(lo, at[:]), len(p.dims)-1
	step := p.steps[last]
	for len(dst) > 0 {
		n := min(len(dst), p.dims[last]-at[last])
		p.part(dst[:n], from, step)
		dst = dst[n:]
		at[last], from = at[last]+n, from+n*step
		// After the end of an axis, go back to its start, and one step along the next outer axis.
		for axis := last; axis > 0 && at[axis] == p.dims[axis]; axis-- {
			from += p.steps[axis-1] - p.dims[axis]*p.steps[axis]
			at[axis], at[axis-1] = 0, at[axis-1]+1
		}
	}
}

// part sets dst to the argument's elements from, from+step and so on. The step may be 0.
func (p *readerOf[T]) part(dst []T, from, step int) {
	switch {
	case step == 0 && p.list != nil:
		fillOf(dst, p.list[from])
	case step == 0:
		var x [1]T
		p.load(x[:], from, 1)
		fillOf(dst, x[0])
	case p.list == nil:
		p.load(dst, from, step)
	case step == 1:
		copy(dst, p.list[from:])
	default:
		for i := range dst {
			dst[i] = p.list[from+i*step]
		}
	}
}

// fillOf sets all elements of a list to x.
func fillOf[T number](list []T, x T) {
	if floats, ok := any(list).([]float32); ok {
		fill(floats, float32(x))
		return
	}
	for i := range list {
		list[i] = x
	}
}
