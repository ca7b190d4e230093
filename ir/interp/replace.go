package interp

import (
	"context"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Kernel computes one node for a backend that is faster than the interpreter.
type Kernel struct {
	// Compute sets the elements of the result: of c.Out, c.Ints or another list that Call describes. The lists are
	// zeroed unless Fills is set. The program then rounds floats to the node's dtype. Compute must not modify its
	// arguments.
	Compute func(c *Call) error
	// Together, if not nil, replaces Compute. It computes nodes of the same op that read the same argument 0 and do not
	// depend on each other, so that the workers share the tasks of all these nodes.
	Together func(calls []*Call) error
	// Fills means that Compute sets every element of c.Out and does not read elements before.
	Fills bool
	// Args, if not nil, are the nodes that Compute receives instead of the node's arguments. Compute then computes some
	// arguments itself, as a fused kernel does, and the interpreter skips arguments that have no other user.
	Args []*ir.Node
	// Stored is the number of the argument that Compute accepts in its storage format (blocks or 16-bit floats), so
	// that the program does not decode it; -1 if there is none.
	Stored int
	// Apart lists the float arguments that may be strided: Compute accepts gaps between the matrices of their two
	// innermost axes.
	Apart []int
	// Pack, if not nil, rearranges argument Packs if that is constant: once, when a program is made. It gets blocks
	// only if that argument is also Stored. The program keeps the result instead of the argument, unless something else
	// needs the argument too. It keeps the argument if Pack returns nil.
	Pack  func(t Tensor) []float32
	Packs int
	// Form, if not empty, is a name for the form in which Pack returns a weight in blocks. The result must depend
	// only on the weight and this name, because programs with the same weights share it.
	Form string
	// Words means that Compute reads and writes integers of at most 32 bits, and bools, in Words in place of Ints.
	Words bool
	// Formats means that Compute reads and writes elements of at most 16 bits in the format of tensors, if the program
	// has them so: in Stored in place of Floats or Words.
	Formats bool
	// Rounds means that Compute rounds c.Out to the node's dtype itself.
	Rounds bool
}

// Call is a node for a [Kernel] to compute. It is valid until Compute returns.
type Call struct {
	Context context.Context
	Node    *ir.Node
	Dims    []int // the result's extents
	Args    []Tensor
	Out     []float32 // the result's elements, row-major, if they are floats of at most 32 bits
	Doubles []float64 // instead of Out for f64
	Ints    []int64   // the result's elements, zeroed, if they are integers or bools
	Words   []int32   // instead of Ints if the kernel has Words set; zeroed unless Fills is set
	Stored  *Stored   // instead of Out or Words if the kernel has Formats set, for elements of at most 16 bits

	// InPlace means that Out or Words is the memory of argument 0, a state, and that Compute changes parts of it.
	// Before Compute changes elements, it must call Undo with a function that restores them. Only kernels of ops that
	// change parts of argument 0 need care.
	InPlace bool

	exec    *exec
	workers int
	rooms   [][]float32
	poison  bool
}

// Extents returns the extents of a node of the graph in this run.
func (c *Call) Extents(n *ir.Node) ([]int, error) { return c.exec.extents(n) }

// Undo adds f, which restores a state if the run fails; see InPlace.
func (c *Call) Undo(f func()) { c.exec.undo.add(f) }

// Tensor is an argument of a [Kernel], row-major. One of the lists has its elements. Floats and decoded blocks are in
// Floats, and integers and bools in Ints, unless a comment below says otherwise.
type Tensor struct {
	DType   ir.DType
	Dims    []int
	Floats  []float32
	Doubles []float64 // instead of Floats for f64
	Ints    []int64
	Words   []int32   // instead of Ints if the kernel has Words set; u32 as the bits of an int32
	Stored  *Stored   // if set, Floats is nil
	Packed  []float32 // what Pack returned for it; Floats, Words and the bytes of Stored may then be nil
	Apart   int       // stride in elements between the matrices of the two innermost axes
}

// Workers returns the number of workers of Parallel.
func (c *Call) Workers() int { return c.workers }

// Parallel calls f for each task from 0 to tasks-1 on the program's workers, and stops early when the context ends.
// work is the size of one task in multiply-adds; small totals run on the calling goroutine. Concurrent calls have
// different values of worker; see Room.
func (c *Call) Parallel(tasks, work int, f func(worker, task int)) error {
	return parallel(c.Context, c.workers, tasks, work, f)
}

// Serial reports whether Parallel would run all of these tasks on the calling goroutine, as worker 0. A kernel of a
// small op then loops over the tasks itself, because a closure for Parallel would be allocated on the heap.
func (c *Call) Serial(tasks, work int) bool { return usefulWorkers(c.workers, tasks, work) <= 1 }

// ParallelRange calls f for ranges lo to hi-1 that together have n items. work is the cost of one item. See Parallel.
func (c *Call) ParallelRange(n, work int, f func(lo, hi int)) error {
	return parallelRange(c.Context, c.workers, n, work, f)
}

// Room returns a buffer of n floats with undefined content for a worker of Parallel. It is valid until the worker's
// next call.
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

// argsOf returns the nodes that a node's computation reads: its kernel's Args if set, otherwise its arguments.
func argsOf(n *ir.Node, kernels []*Kernel) []*ir.Node {
	if kernels != nil && kernels[n.ID()] != nil && kernels[n.ID()].Args != nil {
		return kernels[n.ID()].Args
	}
	return n.Args()
}

// callOf returns the memory for call i of the current node or siblings. Recorded calls are kept.
func (x *exec) callOf(i int) *Call {
	if i == len(x.calls) {
		x.calls = append(x.calls, nil)
	}
	if x.calls[i] == nil || x.recording != nil {
		x.calls[i] = new(Call)
	}
	return x.calls[i]
}

// prepareNode prepares the call c that computes node n, and stores the value that the kernel fills.
func (x *exec) prepareNode(c *Call, n *ir.Node) error {
	s := &x.steps[n.ID()]
	dims, err := x.begin(n, s)
	if err != nil {
		return err
	}
	v, err := x.prepareCall(c, n, s, dims)
	if err == nil {
		x.keep(n.ID(), v)
	}
	return err
}

// forget drops the elements of the call's result and arguments.
func (c *Call) forget() {
	clear(c.Args[:cap(c.Args)])
	*c = Call{Args: c.Args[:0]}
}

// withElements returns the calls with results that have elements: without elements there is nothing to compute.
func withElements(calls []*Call) []*Call {
	isEmpty := func(c *Call) bool { return elems(c.Dims) == 0 }
	if !slices.ContainsFunc(calls, isEmpty) {
		return calls
	}
	return slices.DeleteFunc(slices.Clone(calls), isEmpty)
}

// callKernel computes nodes by their kernel k, and rounds their values.
func (x *exec) callKernel(k *Kernel, calls []*Call) (err error) {
	switch list := withElements(calls); {
	case len(list) == 0:
	case k.Together != nil:
		err = k.Together(list)
	default:
		err = k.Compute(list[0])
	}
	if err != nil {
		return err
	}
	for _, c := range calls {
		v := &x.vals[c.Node.ID()]
		k.round(c.Node, v)
		if !v.isNarrow() {
			*v = v.narrow()
		}
	}
	return nil
}

// prepareCall sets c to the call that computes node n by the kernel of its step s. It returns the value that the kernel
// fills: new memory for a result of extents dims, or argument 0 if the node is computed in place.
func (x *exec) prepareCall(c *Call, n *ir.Node, s *step, dims []int) (out value, err error) {
	k, inPlace := s.replaced, x.inPlace.has(n)
	if inPlace {
		out = x.vals[s.from[0].ID()]
	} else if err := x.newResult(&out, k, n, dims); err != nil {
		return value{}, err
	}
	if x.rooms == nil {
		x.rooms = make([][]float32, x.workers)
	}
	*c = Call{Context: x.ctx, Node: n, Dims: dims, Out: out.f32, Doubles: out.f64, Ints: out.i64, Words: out.i32,
		Stored: out.small, Args: resized(c.Args, len(s.from)), exec: x, InPlace: inPlace,
		workers: x.workers, rooms: x.rooms, poison: x.poison}
	for i, a := range s.from {
		t := &c.Args[i]
		if err := k.setArgument(t, i, &x.vals[a.ID()]); err != nil {
			return value{}, err
		}
		if k.Pack != nil && k.Packs == i && x.packed != nil {
			t.Packed = x.packed[n.ID()]
		}
	}
	return out, nil
}

// round rounds the result of node n to its dtype, unless the kernel did: elements of narrower floats are stored as f32.
func (k *Kernel) round(n *ir.Node, out *value) {
	if n.DType() == ir.F32 || k.Rounds { // a kernel that does not round has no Formats
		return
	}
	for i, y := range out.f32 {
		out.f32[i] = float32(ir.RoundTo(float64(y), n.DType()))
	}
}

// resized returns a list of n elements with undefined content, in the memory of list if that is large enough.
func resized[E any](list []E, n int) []E {
	if cap(list) < n {
		return make([]E, n)
	}
	return list[:n]
}

// setArgument sets t to argument i, of value a, in a format that the kernel accepts.
func (k *Kernel) setArgument(t *Tensor, i int, a *value) (err error) {
	// k.Stored is the number of one argument, k.Formats is for all.
	acceptsStored := k.Stored == i || k.Formats && a.small != nil
	if a.small != nil && !acceptsStored {
		d, err := a.decoded()
		if err != nil {
			return err
		}
		a = &d
	}
	*t = Tensor{DType: a.typ, Dims: a.dims, Apart: a.apart}
	if len(a.dims) > 1 && a.apart == 0 { // the matrices lie one after the other
		t.Apart = elems(a.dims[len(a.dims)-2:])
	}
	switch {
	case a.stored() != nil && acceptsStored:
		t.Stored = a.stored()
	case a.block != nil:
		t.Floats, err = a.block.decode()
	case a.typ == ir.F64:
		t.Doubles = a.floats()
	case a.typ.IsFloat() && a.isNarrow():
		t.Floats = a.f32
	case a.typ.IsFloat():
		t.Floats = a.narrow().f32
	case k.Words && isWord(a.typ):
		t.Words = a.words()
	default:
		t.Ints = a.ints()
	}
	return err
}

// isNarrow reports whether narrow returns the value as it is.
func (v *value) isNarrow() bool {
	return (v.i64 == nil || !isWord(v.typ)) && (v.f64 == nil || v.typ == ir.F64)
}

// narrow returns the value with its floats as float32, unless it is f64, and its integers as words.
func (v value) narrow() value {
	if v.i64 != nil && isWord(v.typ) {
		v.i32, v.i64 = v.words(), nil
	}
	if v.f64 == nil || v.typ == ir.F64 {
		return v
	}
	v.f32 = make([]float32, len(v.f64))
	for i, x := range v.f64 {
		v.f32[i] = float32(x)
	}
	v.f64 = nil
	return v
}
