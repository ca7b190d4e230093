package interp

import (
	"math"
	"math/bits"

	"github.com/vkc-go/vkc/internal/hostmem"
)

// A run computes the results of kernels in rooms that it uses again, and several values may lie in one: a view lies
// where its argument does, and a result of a loop may lie where an argument of the loop does. Every value that a run
// keeps therefore holds its room, and a room is free once no value holds it. A value that leaves the run, as a state, a
// constant or a result of a body, takes its room along: no run uses that again.

// buffer is room for elements that runs of a program use again and again.
type buffer struct {
	floats []float32
	values int // how many values hold it
}

// buffers are those that no value holds, by the class of their size.
type buffers [256][]*buffer

// roomSize returns the size of a buffer of at least n elements, and its class. Between powers of two there are four.
func roomSize(n int) (size, class int) {
	n = max(n, 8)
	log := bits.Len(uint(n - 1))
	step := 1 << (log - 3)
	steps := (n + step - 1) / step // 5 to 8
	return steps * step, 4*log + steps - 8
}

// buffer returns one of n elements at least, which hold anything.
func (x *exec) buffer(n int) (*buffer, error) {
	size, class := roomSize(n)
	list := x.spare[class]
	if len(list) == 0 {
		if err := hostmem.Check(4 * int64(size)); err != nil {
			return nil, err
		}
		return &buffer{floats: make([]float32, size)}, nil
	}
	b := list[len(list)-1]
	x.spare[class] = list[:len(list)-1]
	return b, nil
}

// keep makes v the value of a node, which holds the rooms of all its results.
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
	v := x.vals[id]
	x.vals[id] = value{}
	x.free(v.buf)
	for _, r := range v.more {
		x.free(r.buf)
	}
}

// free counts one value less in a room, if there is one, and keeps the room for others once no value holds it.
func (x *exec) free(b *buffer) {
	if b == nil {
		return
	}
	if b.values--; b.values == 0 {
		if x.poison {
			poison(b.floats)
		}
		_, class := roomSize(len(b.floats))
		x.spare[class] = append(x.spare[class], b)
	}
}

// leaving returns the first result of a value without its room, which stays held for ever.
func (v value) leaving() value {
	v.buf, v.more = nil, nil
	return v
}

// poison makes whatever reads elements that nothing has set give NaN.
func poison(list []float32) {
	for i := range list {
		list[i] = poisoned
	}
}

// poisoned is a NaN that no op makes.
var poisoned = math.Float32frombits(0x7fdead00)
