package fast

import (
	"math/bits"
	"slices"
	"unsafe"

	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// An op that only moves elements is a list of copies of boxes: elements with the same coordinates, except for an offset
// and a step along each axis, in the result and in an argument. The elements are copied as they are in memory.

// region says where the elements of a box are in a tensor: element (i, j, …) is at off + i*steps[0] + j*steps[1] + …
type region struct {
	off   int
	steps []int
}

// boxCopy copies a box of an argument to the result, or fills a box of the result with one element.
type boxCopy struct {
	dims     []int  // extents of the box
	to, from region // where the box is in the result and in the argument
	arg      int    // the argument's number
	one      []byte // the element that fills the box; nil for a copy
}

// copies returns the copies that compute a node, by op.
var copies = map[ir.Op]func(c *interp.Call) ([]boxCopy, error){
	ir.OpSlice: func(c *interp.Call) ([]boxCopy, error) {
		from, steps := wholeOf(c.Args[0].Dims), c.Node.Attrs().Ints("steps")
		for i, start := range c.Node.Attrs().Ints("starts") {
			if from.off += int(start) * from.steps[i]; len(steps) > 0 {
				from.steps[i] *= int(steps[i])
			}
		}
		return []boxCopy{{dims: c.Dims, to: wholeOf(c.Dims), from: from}}, nil
	},
	ir.OpBroadcast: func(c *interp.Call) ([]boxCopy, error) {
		from := region{steps: stepsOf(c.Args[0].Dims, c.Dims)}
		return []boxCopy{{dims: c.Dims, to: wholeOf(c.Dims), from: from}}, nil
	},
	ir.OpFlip: func(c *interp.Call) ([]boxCopy, error) {
		in, err := ir.ResolveAxes(c.Node.Attrs().Ints("axes"), len(c.Dims))
		from := wholeOf(c.Dims)
		for i, d := range c.Dims {
			if err == nil && in[i] {
				from.off += (d - 1) * from.steps[i]
				from.steps[i] = -from.steps[i]
			}
		}
		return []boxCopy{{dims: c.Dims, to: wholeOf(c.Dims), from: from}}, err
	},
	ir.OpRoll: func(c *interp.Call) ([]boxCopy, error) {
		list := []boxCopy{{dims: c.Dims, to: wholeOf(c.Dims), from: wholeOf(c.Dims)}}
		for axis, shift := range c.Node.Attrs().Ints("shifts") {
			n := c.Dims[axis]
			if n == 0 {
				return nil, nil
			}
			shift := (int(shift%int64(n)) + n) % n
			for _, b := range list { // two boxes replace each: its last elements come first, and the others after them
				list = append(list[1:], b.part(axis, 0, shift, n-shift), b.part(axis, n-shift, 0, shift))
			}
		}
		return list, nil
	},
	ir.OpConcat: func(c *interp.Call) ([]boxCopy, error) {
		axis, err := ir.ResolveAxis(int64(c.Node.Attrs().Int("axis")), len(c.Dims))
		if err != nil {
			return nil, err
		}
		var list []boxCopy
		to := wholeOf(c.Dims)
		for i, a := range c.Args {
			list = append(list, boxCopy{dims: a.Dims, to: to, from: wholeOf(a.Dims), arg: i})
			to.off += a.Dims[axis] * to.steps[axis]
		}
		return list, nil
	},
	ir.OpPad: func(c *interp.Call) ([]boxCopy, error) {
		one, err := elementOf(c, c.Node.Attrs().Float("value"))
		x := c.Args[0].Dims
		// Fill the padding before and after each axis. The box inside becomes smaller, until it is the argument.
		inside := boxCopy{dims: c.Dims, to: wholeOf(c.Dims), one: one}
		inside.from.steps = make([]int, len(c.Dims))
		var list []boxCopy
		for axis, low := range c.Node.Attrs().Ints("low") {
			low, n := int(low), x[axis]
			list = append(list, inside.part(axis, 0, 0, low), inside.part(axis, 0, low+n, c.Dims[axis]-low-n))
			inside = inside.part(axis, 0, low, n)
		}
		inside.one, inside.from = nil, wholeOf(x)
		return append(list, inside), err
	},
}

// wholeOf returns the region of a whole tensor.
func wholeOf(dims []int) region {
	r, step := region{steps: make([]int, len(dims))}, 1
	for i, d := range slices.Backward(dims) {
		r.steps[i] = step
		step *= d
	}
	return r
}

// part returns the copy of n coordinates of the box along an axis: it copies from coordinate `from` on in the argument
// to coordinate `to` on in the result.
func (b boxCopy) part(axis, from, to, n int) boxCopy {
	b.dims = slices.Clone(b.dims)
	b.dims[axis] = n
	b.to.off += to * b.to.steps[axis]
	b.from.off += from * b.from.steps[axis]
	return b
}

// takesCopies reports whether the kernel can compute a node. Padding with other elements of the argument is left to the
// interpreter.
func takesCopies(n *ir.Node) bool {
	return unblocked(n) && (n.Op() != ir.OpPad || n.Attrs().String_("mode") == "constant")
}

// copyBoxes computes an op by its copies.
func copyBoxes(c *interp.Call) error {
	list, err := copies[c.Node.Op()](c)
	if err != nil {
		return err
	}
	to, size := bytesOfResult(c)
	for _, b := range list {
		from := b.one
		if from == nil {
			from = bytesLike(c, c.Args[b.arg])
		}
		if err := b.copy(c, to, from, size); err != nil {
			return err
		}
	}
	return nil
}

// copy copies the box. size is the size of an element in memory.
func (b boxCopy) copy(c *interp.Call, to, from []byte, size int) error {
	if volume(b.dims) == 0 {
		return nil
	}
	b = b.merged()
	if n := b.dims[0] * size; len(b.dims) == 1 && b.to.steps[0] == 1 && b.from.steps[0] == 1 {
		return copyMemory(c, to[b.to.off*size:][:n], from[b.from.off*size:][:n])
	}
	switch size {
	case 1:
		return copyBox(c, b, to, from)
	case 2:
		return copyBox(c, b, elements[uint16](to), elements[uint16](from))
	case 4:
		return copyBox(c, b, elements[uint32](to), elements[uint32](from))
	}
	return copyBox(c, b, elements[uint64](to), elements[uint64](from))
}

// copyMemory copies all bytes of from to memory of the same size.
func copyMemory(c *interp.Call, to, from []byte) error {
	// On amd64, Go's copy of at least `most` bytes bypasses the caches. So only large copies have parts of that size.
	const least, most = 1 << 16, 1 << 20 // bytes of a part
	const each = 8                       // parts of a worker, unless they are too small or too large
	part := max(least, min(most, ceil.Div(len(to), each*c.Workers())))
	return c.Parallel(ceil.Div(len(to), part), part, func(_, task int) {
		lo, hi := task*part, min((task+1)*part, len(to))
		copy(to[lo:hi], from[lo:hi])
	})
}

// copyBox copies a merged box of elements, row by row along its last axis. It divides long rows, so that tasks share
// them.
func copyBox[E any](c *interp.Call, b boxCopy, to, from []E) error {
	const longest = 1 << 14 // elements of a row
	last := len(b.dims) - 1
	if n := b.dims[last]; n > longest && n%longest == 0 { // make two axes of the last one
		b.dims[last] = n / longest
		for _, r := range []*region{&b.to, &b.from} {
			step := r.steps[last]
			r.steps[last] = step * longest
			r.steps = append(r.steps, step)
		}
		b.dims = append(b.dims, longest)
		last++
	}
	n, toStep, fromStep := b.dims[last], b.to.steps[last], b.from.steps[last]
	return c.ParallelRange(volume(b.dims[:last]), n+elementWork, func(lo, hi int) {
		for row := lo; row < hi; row++ {
			dst, src, rest := b.to.off, b.from.off, row
			for axis := last - 1; axis >= 0; axis-- {
				i := rest % b.dims[axis]
				rest /= b.dims[axis]
				dst, src = dst+i*b.to.steps[axis], src+i*b.from.steps[axis]
			}
			copyRow(to, from, dst, toStep, src, fromStep, n)
		}
	})
}

// copyRow sets n elements of to, toStep apart from index dst on, to elements of from, fromStep apart from index src on.
func copyRow[E any](to, from []E, dst, toStep, src, fromStep, n int) {
	switch {
	case toStep == 1 && fromStep == 1:
		copy(to[dst:dst+n], from[src:src+n])
	case toStep == 1 && fromStep == 0:
		repeat(to[dst:dst+n], from[src])
	case toStep == 1 && fromStep == -1:
		reverse(to[dst:dst+n], from[src-n+1:src+1])
	case toStep == 1:
		list := to[dst : dst+n]
		for i := range list {
			list[i] = from[src]
			src += fromStep
		}
	default:
		for i := range n {
			to[dst+i*toStep] = from[src+i*fromStep]
		}
	}
}

// repeat sets all elements of a list to x. It copies ever longer parts.
func repeat[E any](list []E, x E) {
	const first = 8
	for i := range list[:min(first, len(list))] {
		list[i] = x
	}
	for n := first; n < len(list); n *= 2 {
		copy(list[n:], list[:n])
	}
}

// reverse sets the elements of `to` to the elements of `from` in the reversed order, 64 bits at a time. The lists have
// the same length.
func reverse[E any](to, from []E) {
	size := int(unsafe.Sizeof(*new(E)))
	if n := len(to) * size / 8; n > 0 && size < 8 { // n words of 64 bits
		first := len(to) - n*8/size // of the elements in words; those before it are moved one by one
		words := unsafe.Slice((*uint64)(unsafe.Pointer(&from[first])), n)
		reversed := unsafe.Slice((*uint64)(unsafe.Pointer(&to[0])), n)
		for i, y := range words {
			switch size {
			case 1:
				y = bits.ReverseBytes64(y)
			case 2:
				y = bits.ReverseBytes64(y)
				y = y&0x00ff00ff00ff00ff<<8 | y>>8&0x00ff00ff00ff00ff // exchange the bytes of each element again
			case 4:
				y = bits.RotateLeft64(y, 32)
			}
			reversed[n-1-i] = y
		}
		to, from = to[len(to)-first:], from[:first]
	}
	for i, x := range from {
		to[len(to)-1-i] = x
	}
}

// sameInput reports whether node n casts an input to the input's own dtype, and the interpreter would convert the
// elements although they do not change.
func sameInput(n *ir.Node) bool {
	t := n.DType()
	return n.Arg(0).Op() == ir.OpInput && n.Arg(0).DType() == t && inWords(t) && t != ir.F32
}

// copyAll computes an op that returns the elements of its argument.
func copyAll(c *interp.Call) error {
	to, _ := bytesOfResult(c)
	return copyMemory(c, to, bytesLike(c, c.Args[0]))
}

// merged returns the copy with fewer axes: an axis and the next one become one axis if their elements are evenly apart
// in both regions. For example, extents [2,3] with steps [3,1] in both become extent 6 with step 1. At least one axis
// remains.
func (b boxCopy) merged() boxCopy {
	m := boxCopy{to: region{off: b.to.off}, from: region{off: b.from.off}}
	for i, d := range b.dims {
		to, from, last := b.to.steps[i], b.from.steps[i], len(m.dims)-1
		switch {
		case d == 1:
		case last >= 0 && m.to.steps[last] == to*d && m.from.steps[last] == from*d:
			m.dims[last], m.to.steps[last], m.from.steps[last] = m.dims[last]*d, to, from
		default:
			m.dims, m.to.steps, m.from.steps = append(m.dims, d), append(m.to.steps, to), append(m.from.steps, from)
		}
	}
	if len(m.dims) == 0 {
		m.dims, m.to.steps, m.from.steps = []int{1}, []int{1}, []int{1}
	}
	return m
}

// elements returns the elements of another size in the memory of bytes.
func elements[E uint16 | uint32 | uint64 | float32](list []byte) []E {
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(list))), len(list)/int(unsafe.Sizeof(E(0))))
}

// bytesIn returns the bytes of elements.
func bytesIn[E float32 | float64 | int32 | int64](list []E) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(list))), len(list)*int(unsafe.Sizeof(E(0))))
}

// bytesOfResult returns the memory of a kernel's result, and the size of an element there.
func bytesOfResult(c *interp.Call) (list []byte, size int) {
	switch {
	case c.Stored != nil:
		return c.Stored.Bytes, c.Node.DType().BlockBytes()
	case c.Out != nil:
		return bytesIn(c.Out), 4
	case c.Words != nil:
		return bytesIn(c.Words), 4
	case c.Doubles != nil:
		return bytesIn(c.Doubles), 8
	}
	return bytesIn(c.Ints), 8
}

// bytesLike returns the memory of argument t, which has the result's dtype. If its elements have another form than the
// result's (see Tensor and Call), it converts them in new memory.
func bytesLike(c *interp.Call, t interp.Tensor) []byte {
	size := t.DType.BlockBytes()
	switch {
	case t.Doubles != nil:
		return bytesIn(t.Doubles)
	case t.Ints != nil:
		return bytesIn(t.Ints)
	case t.Stored != nil && c.Stored != nil:
		// A mapped file may have it at an address that is not aligned.
		if list := t.Stored.Bytes; uintptr(unsafe.Pointer(unsafe.SliceData(list)))%uintptr(size) == 0 {
			return list
		}
		return append(make([]byte, 0, len(t.Stored.Bytes)), t.Stored.Bytes...)
	case t.Stored != nil:
		list := make([]float32, volume(t.Dims))
		_ = c.ParallelRange(len(list), elementWork, func(lo, hi int) { loader[float32](t.Stored)(list[lo:hi], lo, 1) })
		return bytesIn(list)
	case c.Stored != nil:
		s := &interp.Stored{DType: t.DType, Bytes: make([]byte, volume(t.Dims)*size)}
		list := elementsOf(t)
		_ = c.ParallelRange(len(list), elementWork, func(lo, hi int) { storer[float32](s)(lo, list[lo:hi]) })
		return s.Bytes
	}
	return bytesIn(elementsOf(t))
}

// elementOf returns the bytes of number v as an element of the result in memory.
func elementOf(c *interp.Call, v float64) ([]byte, error) {
	t := c.Node.DType()
	switch {
	case c.Stored != nil && t.IsFloat():
		d, err := ir.FromFloats(t, []float64{v})
		return d.Bytes, err
	case c.Stored != nil:
		d, err := ir.FromInts(t, []int64{ir.FloatToInt(v, t)})
		return d.Bytes, err
	case c.Out != nil:
		return bytesIn([]float32{float32(ir.RoundTo(v, t))}), nil
	case c.Words != nil:
		return bytesIn([]int32{int32(ir.FloatToInt(v, t))}), nil
	case c.Doubles != nil:
		return bytesIn([]float64{v}), nil
	}
	return bytesIn([]int64{ir.FloatToInt(v, t)}), nil
}

// triangle computes tril and triu.
func triangle(c *interp.Call) error {
	to, size := bytesOfResult(c)
	from, upper, k := bytesLike(c, c.Args[0]), c.Node.Op() == ir.OpTriu, c.Node.Attrs().Int("k")
	last := len(c.Dims) - 1
	rows, cols := c.Dims[last-1], c.Dims[last]
	return c.ParallelRange(len(to)/(cols*size), cols, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			diagonal := r%rows + k           // the column of the row's element on the diagonal
			n := min(max(diagonal, 0), cols) // the elements before column n are below the diagonal
			if !upper {
				n = min(max(diagonal+1, 0), cols) // or on it
			}
			at, middle, end := r*cols*size, (r*cols+n)*size, (r+1)*cols*size // in bytes
			if upper {
				clear(to[at:middle])
				copy(to[middle:end], from[middle:end])
			} else {
				copy(to[at:middle], from[at:middle])
				clear(to[middle:end])
			}
		}
	})
}
