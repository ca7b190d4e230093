package interp

import (
	"math"
	"math/bits"

	"github.com/vkc-go/vkc/internal/hostmem"
)

// A run computes the results of kernels in buffers, and reuses them. Several values may share a buffer, for example a
// view and its argument, or a loop's result and an argument. So a buffer counts the values that refer to it, and is
// free when the count is 0. A state, a constant or a body's result may outlive the run. The run never reuses the buffer
// of such a value.

// buffer is memory for elements that runs of a program reuse.
type buffer struct {
	floats []float32
	values int // number of values that refer to it
}

// buffers has the free buffers by class, see bufferSize.
type buffers [256][]*buffer

// bufferSize returns the size in elements of a buffer for at least n elements, and the size's class: the index in
// buffers. There are four sizes per power of two.
func bufferSize(n int) (size, class int) {
	n = max(n, 8)
	log := bits.Len(uint(n - 1))
	step := 1 << (log - 3)
	steps := (n + step - 1) / step // 5 to 8
	return steps * step, 4*log + steps - 8
}

// buffer returns a buffer of at least n elements with undefined content. A buffer that leaves the run is new, because
// repeated runs go on using a spare one.
func (x *exec) buffer(n int, leaves bool) (*buffer, error) {
	size, class := bufferSize(n)
	list := x.spare[class]
	if len(list) == 0 || leaves {
		if err := hostmem.Check(4 * int64(size)); err != nil {
			return nil, err
		}
		return &buffer{floats: make([]float32, size)}, nil
	}
	b := list[len(list)-1]
	x.spare[class] = list[:len(list)-1]
	return b, nil
}

// keep sets the value of a node, and counts a reference to the buffer of each of its results.
func (x *exec) keep(id int, v value) {
	if v.buf != nil {
		v.buf.values++
	}
	for _, r := range v.more {
		if r.buf != nil {
			r.buf.values++
		}
	}
	x.vals[id] = v
}

// forget drops a node's value.
func (x *exec) forget(id int) {
	v := &x.vals[id]
	x.free(v.buf)
	for _, r := range v.more {
		x.free(r.buf)
	}
	*v = value{}
}

// free removes a reference to a buffer, which may be nil, and makes the buffer available when no value refers to it.
func (x *exec) free(b *buffer) {
	if b == nil {
		return
	}
	b.values--
	if b.values == 0 {
		if x.poison {
			poison(b.floats)
			if x.recording != nil {
				x.recording.free(b)
			}
		}
		_, class := bufferSize(len(b.floats))
		x.spare[class] = append(x.spare[class], b)
	}
}

// detached returns the first result of an op, a value that outlives the run. It detaches the value from its buffer, so
// that no run reuses the memory.
func (v value) detached() value {
	v.buf, v.more = nil, nil
	return v
}

// poison fills elements with NaN to expose reads of uninitialized elements.
func poison(list []float32) {
	for i := range list {
		list[i] = poisoned
	}
}

// poisoned is a NaN that no op makes.
var poisoned = math.Float32frombits(0x7fdead00)
