package interp

import (
	"context"

	"github.com/vkc-go/vkc/ir"
)

// Kernel computes one node for a backend that knows a faster way than the
// definition here.
type Kernel struct {
	// Compute fills c.Out, which it finds zeroed unless Fills says otherwise, and leaves rounding to
	// the node's dtype to the program. It must not modify its arguments.
	Compute func(c *Call) error
	// Fills says that Compute sets every element of c.Out and reads none that it has not set.
	Fills bool
	// Args are the nodes that Compute is given in place of the node's arguments, where it computes some of those
	// itself; nil for the arguments. What nothing else reads is then not computed.
	Args []*ir.Node
	// Stored is the argument that Compute takes as it is stored where that is blocks or
	// floats of 16 bits, so that nothing decodes it as a whole; -1 if there is none.
	Stored int
	// Apart are the arguments, of floats, whose matrices of the two innermost axes Compute takes
	// where they do not lie side by side.
	Apart []int
	// Rounds says that Compute leaves in c.Out what the node's dtype holds, so that nothing is left to round.
	Rounds bool
}

// Call is a node that a [Kernel] computes. It is the kernel's until Compute returns.
type Call struct {
	Context context.Context
	Node    *ir.Node
	Dims    []int // the result's extents
	Args    []Tensor
	Out     []float32 // the result's elements, row-major

	workers int
	rooms   [][]float32
	poison  bool
}

// Tensor is an argument of a [Kernel], row-major. Floats and blocks come as Floats,
// decoded, or as Stored where the kernel takes them so; integers and bools as Ints.
type Tensor struct {
	DType  ir.DType
	Dims   []int
	Floats []float32
	Ints   []int64
	Stored *Stored // then Floats is nil
	Apart  int     // elements from one matrix of the two innermost axes to the next
}

// Parallel calls f for each task from 0 to tasks-1, spread over the program's
// workers, and stops early when the context ends. work is the size of one task in
// multiply-adds; small totals stay on the calling goroutine. worker tells apart the
// calls that can be under way at once; see Room.
func (c *Call) Parallel(tasks, work int, f func(worker, task int)) error {
	return parallel(c.Context, c.workers, tasks, work, f)
}

// ParallelRange calls f for the ranges of n items of that work each, as Parallel does.
func (c *Call) ParallelRange(n, work int, f func(lo, hi int)) error {
	return parallelRange(c.Context, c.workers, n, work, f)
}

// Room is room for n floats, which hold anything, for a worker of Parallel until it asks again.
func (c *Call) Room(worker, n int) []float32 {
	if cap(c.rooms[worker]) < n {
		c.rooms[worker] = make([]float32, n)
	}
	room := c.rooms[worker][:n]
	if c.poison {
		poison(room)
	}
	return room
}

// argsOf returns the nodes whose values a node is computed of, by its kernel in kernels if it has one there.
func argsOf(n *ir.Node, kernels []*Kernel) []*ir.Node {
	if kernels != nil && kernels[n.ID()] != nil && kernels[n.ID()].Args != nil {
		return kernels[n.ID()].Args
	}
	return n.Args()
}

// replaced computes a node by a backend's kernel.
func (x *exec) replaced(k *Kernel, n *ir.Node, dims []int, args []value) (value, error) {
	out, err := x.room(k, n, dims)
	if err != nil || len(out.n) == 0 {
		return out, err
	}
	if x.rooms == nil {
		x.rooms = make([][]float32, x.workers)
	}
	c := &x.at
	*c = Call{Context: x.ctx, Node: n, Dims: dims, Out: out.n, Args: c.Args[:0], workers: x.workers, rooms: x.rooms,
		poison: x.poison}
	for i, a := range args {
		t := Tensor{DType: a.typ, Dims: a.dims, Ints: a.i, Apart: a.apart}
		if len(a.dims) > 1 && a.apart == 0 {
			t.Apart = elems(a.dims[len(a.dims)-2:])
		}
		switch stored := a.stored(); {
		case stored != nil && k.Stored == i:
			t.Stored = stored
		case a.b != nil:
			var err error
			if t.Floats, err = a.b.decode(a.typ); err != nil {
				return value{}, err
			}
		default:
			t.Floats = a.narrow().n
		}
		c.Args = append(c.Args, t)
	}
	if err := k.Compute(c); err != nil {
		return value{}, err
	}
	if n.DType() != ir.F32 && !k.Rounds {
		for i, y := range out.n {
			out.n[i] = float32(ir.RoundTo(float64(y), n.DType()))
		}
	}
	return out, nil
}

// narrow returns the value with its floats as float32 where those hold them exactly.
func (v value) narrow() value {
	if v.f == nil || v.typ == ir.F64 {
		return v
	}
	v.n = make([]float32, len(v.f))
	for i, x := range v.f {
		v.n[i] = float32(x)
	}
	v.f = nil
	return v
}
