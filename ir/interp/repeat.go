package interp

import (
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// A language model runs a program for each token. So the second run in the same working memory records its tasks, and
// later runs repeat them. The result of a kernel is fixed if its extents depend on no symbol: it has the same buffer in
// every repeated run. A call with only fixed values is prepared once. Other values move, such as inputs, states and
// results of definitions. A repeated run prepares only the results and arguments that move.

// recording is the tasks of a run.
type recording struct {
	inPlace nodeSet // the nodes that write states in place
	tasks   []task
	fixed   nodeSet // the nodes with fixed values
	vals    []value // by node ID: the constants and the fixed values
	moved   []int   // IDs of the nodes with a value that moves, and that no task drops
}

// task is a node to compute, or siblings.
type task struct {
	nodes  []repeated
	kernel *Kernel   // nil if the interpreter's definition computes the node
	calls  []*Call   // by node, if the kernel computes them
	drop   []int     // IDs of the nodes with a value that moves, and that no later task reads
	freed  []*buffer // the fixed values' buffers that no later task reads, to poison; see Options.Poison
}

// repeated is a node of a task.
type repeated struct {
	node  *ir.Node
	step  *step
	moves bool  // the value moves
	args  []int // if the value is fixed: the numbers of the arguments that move
}

// canRepeat reports whether runs can be recorded. A repeated run does not count the bytes of fixed values, so it could
// exceed a limit.
func (p *Program) canRepeat() bool { return p.kernels != nil && p.opt.MemoryLimit == 0 }

// recorder returns the working memory for a run that repeats tasks or records them: x, or new memory if the run cannot
// repeat the tasks of x. inPlace has the nodes that may write states in place.
func (p *Program) recorder(x *exec, inPlace nodeSet) *exec {
	if x.repeat != nil && (x.repeat.inPlace == nil) != (inPlace == nil) {
		x = p.newWorkingMemory()
	}
	if x.repeat == nil && x.used && p.canRepeat() {
		x.recording = &recording{inPlace: inPlace, fixed: make(nodeSet, len(p.consts)), vals: slices.Clone(p.consts)}
	}
	x.used, x.inPlace = true, inPlace
	return x
}

// leaving reports, by node ID, which values may leave the run: their memory may become a state's.
func (p *Program) leaving() nodeSet {
	list := make(nodeSet, len(p.graph.Nodes()))
	var mark func(n *ir.Node)
	mark = func(n *ir.Node) {
		if list[n.ID()] {
			return
		}
		list[n.ID()] = true
		if p.mayShare(n) {
			for _, a := range n.Args() {
				mark(a)
			}
		}
	}
	for _, u := range p.graph.Updates() {
		mark(u.Value)
	}
	return list
}

// mayShare reports whether the value of a node may have memory of its arguments. Writes to states do not count.
func (p *Program) mayShare(n *ir.Node) bool {
	s := &p.plan.steps[n.ID()]
	if s.compute == nil || s.replaced != nil { // runs do not compute the node, or a kernel does
		return false
	}
	switch n.Op() {
	case ir.OpCast, ir.OpIf, ir.OpLoop, ir.OpResult:
		return true
	}
	return n.Op().Info().Class == ir.ClassView
}

// add records a task: nodes that have been computed, before their arguments are released. calls has their calls, if a
// kernel computed them.
func (r *recording) add(x *exec, nodes []*ir.Node, calls []*Call) {
	t := task{calls: slices.Clone(calls)}
	for i, n := range nodes {
		s, v := &x.steps[n.ID()], x.vals[n.ID()]
		one := repeated{node: n, step: s}
		fixed := x.dims[n.ID()] != nil && v.buf != nil && !s.leaves
		if t.kernel = s.replaced; t.kernel != nil {
			fixed = fixed && !x.inPlace.has(n)
			one.args = r.movingArguments(x, s, calls[i])
		} else { // other definitions may return copies
			fixed = fixed && (s.shares || s.view) && r.isFixed(x, s.from[0])
		}
		if r.fixed[n.ID()] = fixed; fixed {
			r.vals[n.ID()] = v
		}
		if one.moves = !fixed; one.moves && s.mayShare {
			r.pin(x, s)
		}
		if one.moves || t.kernel != nil { // a fixed view needs no computation
			t.nodes = append(t.nodes, one)
		}
	}
	if len(t.nodes) > 0 {
		r.tasks = append(r.tasks, t)
	}
}

// isFixed reports whether the value of a node is fixed or a constant.
func (r *recording) isFixed(x *exec, n *ir.Node) bool {
	return x.uses[n.ID()] == unlimitedUses || r.fixed.has(n)
}

// movingArguments returns the numbers of the arguments of call c, of a node with step s, that move: their values do, or
// the call has their elements in other memory.
func (r *recording) movingArguments(x *exec, s *step, c *Call) (list []int) {
	for i, a := range s.from {
		if !r.isFixed(x, a) || !c.Args[i].isIn(&x.vals[a.ID()]) {
			list = append(list, i)
		}
	}
	return list
}

// isIn reports whether the elements of t are in the memory of value v, or of its decoded blocks.
func (t *Tensor) isIn(v *value) bool {
	same := func(a, b any) bool { return a == nil || a == b }
	return (v.block != nil || same(start(t.Floats), start(v.f32))) && same(start(t.Doubles), start(v.f64)) &&
		same(start(t.Ints), start(v.i64)) && same(start(t.Words), start(v.i32)) &&
		(t.Stored == nil || t.Stored == v.stored())
}

// pin makes the buffers of the arguments of a node with step s stay theirs. The node's value may have their memory in
// some runs only, and live longer there than in the recorded run.
func (r *recording) pin(x *exec, s *step) {
	for _, a := range s.from {
		if v := &x.vals[a.ID()]; r.fixed.has(a) && v.buf != nil {
			v.buf.values++
		}
	}
}

// last returns the task recorded last, or a task to ignore if there is none.
func (r *recording) last() *task {
	if len(r.tasks) == 0 {
		return &task{}
	}
	return &r.tasks[len(r.tasks)-1]
}

// drop records that no later task reads the value of the node with this ID.
func (r *recording) drop(id int) {
	if t := r.last(); !r.fixed[id] {
		t.drop = append(t.drop, id)
	}
}

// free records that no later task reads a buffer.
func (r *recording) free(b *buffer) {
	t := r.last()
	t.freed = append(t.freed, b)
}

// begin makes the next runs in x repeat the recorded tasks. x must have no values of a run.
func (r *recording) begin(x *exec) {
	taken := map[*buffer]bool{} // by fixed values
	for id := range r.vals {
		if b := r.vals[id].buf; r.fixed[id] {
			taken[b] = true
			b.values = 1 // never free
		}
	}
	for class, list := range x.spare {
		x.spare[class] = slices.DeleteFunc(list, func(b *buffer) bool { return taken[b] })
	}
	dropped := map[int]bool{}
	for i := range r.tasks {
		t := &r.tasks[i]
		t.freed = slices.DeleteFunc(t.freed, func(b *buffer) bool { return !taken[b] })
		for _, id := range t.drop {
			dropped[id] = true
		}
	}
	for _, t := range r.tasks {
		for _, one := range t.nodes {
			if id := one.node.ID(); one.moves && !dropped[id] {
				r.moved = append(r.moved, id)
			}
		}
	}
	x.vals, x.repeat = r.vals, r
}

// repeatTasks computes the recorded tasks. It sets n to the first node of each before it computes the task.
func (x *exec) repeatTasks(n **ir.Node) error {
	for i := range x.repeat.tasks {
		if err := x.ctx.Err(); err != nil {
			return err
		}
		t := &x.repeat.tasks[i]
		*n = t.nodes[0].node
		if err := x.repeatTask(t); err != nil {
			return err
		}
		for _, id := range t.drop {
			x.forget(id)
		}
		for _, b := range t.freed {
			poison(b.floats)
		}
	}
	return nil
}

// repeatTask computes a recorded task.
func (x *exec) repeatTask(t *task) error {
	if t.kernel == nil {
		return x.define(t.nodes[0].node)
	}
	for i, c := range t.calls {
		if err := x.repeatCall(&t.nodes[i], c); err != nil {
			return err
		}
	}
	if err := x.callKernel(t.kernel, t.calls); err != nil {
		return err
	}
	for i, c := range t.calls { // until the next run, a call keeps no memory of the caller
		if c.Context = nil; t.nodes[i].moves {
			c.forget()
			continue
		}
		for _, arg := range t.nodes[i].args {
			c.Args[arg] = Tensor{}
		}
	}
	return nil
}

// repeatCall prepares the call of a recorded node for this run.
func (x *exec) repeatCall(one *repeated, c *Call) error {
	if one.moves {
		return x.prepareNode(c, one.node)
	}
	s := one.step
	if s.picks && len(one.args) > 0 {
		if err := x.checkPicks(one.node, s, c.Dims); err != nil {
			return err
		}
	}
	c.Context = x.ctx
	x.prepare(&x.vals[one.node.ID()], s.replaced, false)
	for _, i := range one.args {
		if err := s.replaced.setArgument(&c.Args[i], i, &x.vals[s.from[i].ID()]); err != nil {
			return err
		}
	}
	return nil
}
