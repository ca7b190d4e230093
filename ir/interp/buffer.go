package interp

import "math/bits"

// buffer is room for elements that runs of a program use again and again.
type buffer struct {
	floats []float32
	values int // how many nodes' values lie in it
}

// buffers are those that no value lies in, by the logarithm of their size.
type buffers [64][]*buffer

// buffer returns one of n elements at least, which hold anything.
func (x *exec) buffer(n int) *buffer {
	class := bits.Len(uint(max(n, 1) - 1))
	list := x.spare[class]
	if len(list) == 0 {
		return &buffer{floats: make([]float32, 1<<class)}
	}
	b := list[len(list)-1]
	x.spare[class] = list[:len(list)-1]
	return b
}

// forget drops a node's value, and keeps the room it had once no other value lies there.
func (x *exec) forget(id int) {
	if b := x.vals[id].buf; b != nil {
		if b.values--; b.values == 0 {
			class := bits.Len(uint(len(b.floats) - 1))
			x.spare[class] = append(x.spare[class], b)
		}
	}
	x.vals[id] = value{}
}
