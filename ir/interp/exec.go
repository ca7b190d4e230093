package interp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/internal/hostmem"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

// exec is the state of a run: it computes nodes in order, each once, and drops a value after its last use.
type exec struct {
	ctx     context.Context
	workers int
	env     env
	limit   int64       // largest allowed value of live
	narrow  bool        // keep floats as float32 if an op returns float32
	poison  bool        // see Options
	kernels []*Kernel   // by node ID: the kernels of a backend; nil without one
	steps   []step      // of the plan
	packed  [][]float32 // by node ID: the argument that the node's kernel packed

	inPlace nodeSet // inPlace, formats and direct are as in type prepared
	formats nodeSet
	direct  nodeSet          // nil in bodies of control ops
	given   map[int]*ir.Data // by node ID: the caller's memory for outputs that kernels may compute directly
	made    map[int]*ir.Data // by node ID: the outputs that kernels of this run have computed directly
	undo    undo
	dims    [][]int // by node ID, if they depend on no symbol; nil otherwise

	// Scratch memory, which each node overwrites:
	before []value     // by number: the states before the run
	args   []value     // the current node's arguments; its result must not keep the slice
	call   call        // the current node, if the interpreter computes it
	calls  []*Call     // the current node, or by number the current siblings, if a backend's kernel computes them
	rooms  [][]float32 // by worker: scratch memory of kernels

	vals []value // by node ID; the zero value if not computed or released
	uses []int   // by node ID: number of remaining uses
	live int64   // bytes of the values that are alive

	spare buffers

	used      bool       // a run has used this memory
	recording *recording // of the tasks of this run, or nil
	repeat    *recording // the tasks that runs repeat, or nil
}

// nodeSet is a set of a graph's nodes: has it, by node ID. nil is the empty set.
type nodeSet []bool

func (s nodeSet) has(n *ir.Node) bool { return s != nil && s[n.ID()] }

// run computes the nodes. The arguments of each must come earlier or already have values.
func (x *exec) run(nodes []*ir.Node) error {
	var n *ir.Node
	err := mmap.Guard(func() error { // weights are read from the mapped file
		if x.repeat != nil {
			return x.repeatTasks(&n)
		}
		for i := 0; i < len(nodes); {
			if err := x.ctx.Err(); err != nil {
				return err
			}
			n = nodes[i]
			next := i + max(1, x.steps[n.ID()].siblings)
			if err := x.runNodes(nodes[i:next]); err != nil {
				return err
			}
			i = next
		}
		return nil
	})
	if err == nil {
		return nil
	}
	if ended := x.ctx.Err(); ended != nil {
		return ended
	}
	return nodeError(n, err)
}

// runNodes computes one node or some siblings, stores their values, and releases their arguments.
func (x *exec) runNodes(list []*ir.Node) error {
	var calls []*Call
	if k := x.steps[list[0].ID()].replaced; k != nil {
		for i, n := range list {
			if err := x.prepareNode(x.callOf(i), n); err != nil {
				return err
			}
		}
		calls = x.calls[:len(list)]
		if err := x.callKernel(k, calls); err != nil {
			return err
		}
	} else if err := x.define(list[0]); err != nil {
		return err
	}
	if x.recording != nil {
		x.recording.add(x, list, calls)
	}
	for _, n := range list {
		x.releaseArguments(n)
	}
	return nil
}

// releaseArguments counts a use of each value from which node n was computed.
func (x *exec) releaseArguments(n *ir.Node) {
	for _, a := range x.steps[n.ID()].from {
		x.release(a)
	}
}

// arguments returns the values that the definition of node n takes. Without a backend, it decodes elements in their
// storage format, unless the definition takes them.
func (x *exec) arguments(n *ir.Node, s *step) (args []value, err error) {
	x.args = x.args[:0]
	for _, a := range s.from {
		v := x.vals[a.ID()]
		if n.Op() != ir.OpResult {
			v.more = nil // a result that shares the argument's memory is one value
		}
		if v.small != nil && x.kernels == nil && !keepsStored(n) {
			if v, err = v.decoded(); err != nil {
				return nil, err
			}
		}
		x.args = append(x.args, v)
	}
	return x.args, nil
}

// define computes node n by the interpreter's definition of the op, and stores the value.
func (x *exec) define(n *ir.Node) error {
	s := &x.steps[n.ID()]
	dims, err := x.begin(n, s)
	if err != nil {
		return err
	}
	v, err := x.defined(n, s, dims)
	if err == nil {
		x.keep(n.ID(), v)
	}
	return err
}

// defined returns the value of node n, with step s and extents dims, by the interpreter's definition of the op.
func (x *exec) defined(n *ir.Node, s *step, dims []int) (v value, err error) {
	if s.shares {
		v = x.vals[s.from[0].ID()]
		v.typ, v.dims, v.more = n.DType(), dims, nil
		return v, nil
	}
	args, err := x.arguments(n, s)
	if err != nil {
		return value{}, err
	}
	if v, err = x.computeByDefinition(n, s, dims, args); err != nil {
		return value{}, err
	}
	// Kernels of a backend take narrow elements. Without them, elements are wide, except for constants (x.narrow).
	switch {
	case x.kernels != nil && !v.isNarrow():
		v = v.narrow()
	case x.kernels == nil && !x.narrow:
		v = v.wide()
	}
	return v, nil
}

// begin returns the extents of node n, with step s, checks that it picks no element of an empty argument, and reserves
// memory for its results.
func (x *exec) begin(n *ir.Node, s *step) (dims []int, err error) {
	if dims, err = x.extents(n); err != nil {
		return nil, err
	}
	need := s.need
	if need == 0 {
		if need, err = x.bytesFor(n, dims); err != nil {
			return nil, err
		}
	}
	if s.picks {
		if err = x.checkPicks(n, s, dims); err != nil {
			return nil, err
		}
	}
	if n.Op() != ir.OpWeight { // the limit does not count weights
		err = x.reserve(n, dims, need)
	}
	return dims, err
}

// computeByDefinition calls the definition of the op of node n, with step s and extents dims.
func (x *exec) computeByDefinition(n *ir.Node, s *step, dims []int, args []value) (value, error) {
	if s.compute == nil {
		_, err := kernelOf(n.Op())
		return value{}, err
	}
	for i := range args { // definitions compute int64, unless they only move elements
		if args[i].i32 != nil && !(x.kernels != nil && movesWords(n.Op())) {
			args[i] = args[i].wide()
		}
	}
	c := &x.call
	*c = call{ctx: x.ctx, workers: x.workers, node: n, dims: dims, args: args, env: &x.env, left: x.limit - x.live,
		view: s.view}
	if x.inPlace.has(n) {
		c.undo = &x.undo
	} else if err := x.checkHostMemory(n, dims, args); err != nil {
		return value{}, err
	}
	return s.compute(c)
}

// extents returns the extents of a node in this run.
func (x *exec) extents(n *ir.Node) ([]int, error) {
	if x.dims != nil && x.dims[n.ID()] != nil {
		return x.dims[n.ID()], nil
	}
	return n.Shape().Eval(x.env.symbols)
}

// checkPicks returns an error if a node gathers from an empty argument, which is only possible for some values of
// symbols.
func (x *exec) checkPicks(n *ir.Node, s *step, dims []int) error {
	from, axes := n.PicksFrom()
	for _, axis := range axes {
		if arg := &x.vals[s.from[from].ID()]; arg.dims[axis] == 0 && elems(dims) > 0 {
			return fmt.Errorf("axis %d of %s is empty under these symbol values, so there is no element to pick", axis,
				arg)
		}
	}
	return nil
}

// bytesFor returns the bytes of a node's results, the first of extents dims.
func (x *exec) bytesFor(n *ir.Node, dims []int) (int64, error) {
	if _, err := ir.ByteSize(n.DType(), dims); err != nil {
		return 0, err
	}
	need := bytesOf(n.DType(), dims)
	for i, t := range ir.Results(n) { // an if or a loop may have more results
		if i > 0 {
			dims, err := t.Shape.Eval(x.env.symbols)
			if err != nil {
				return 0, err
			}
			need += bytesOf(t.DType, dims)
		}
	}
	return need, nil
}

// reserve adds need, the bytes of a node's results, to x.live before the node is computed. It returns an error if
// x.live would exceed the limit.
func (x *exec) reserve(n *ir.Node, dims []int, need int64) error {
	if need > x.limit-x.live {
		return fmt.Errorf("out of memory: %s%v needs %d MiB with %d MiB in use, over the limit of %d MiB: use smaller "+
			"inputs or symbol values, or a higher limit", n.DType(), dims, need>>20, x.live>>20, x.limit>>20)
	}
	x.live += need
	return nil
}

// checkHostMemory returns an error if the host lacks the memory that computing a node allocates.
func (x *exec) checkHostMemory(n *ir.Node, dims []int, args []value) error {
	switch n.Op() {
	case ir.OpInput, ir.OpState, ir.OpWeight, ir.OpReshape, ir.OpSqueeze, ir.OpUnsqueeze, ir.OpIf, ir.OpLoop,
		ir.OpResult, ir.OpTranspose, ir.OpSlice:
		return nil // the value shares memory, or the op that makes it checks
	}
	need := bytesOf(n.DType(), dims)
	if c := n.Op().Class(); c != ir.ClassView && c != ir.ClassIndexing { // these move elements without converting them
		for _, a := range args {
			need += 8 * int64(len(a.f32)) // converted to float64
		}
		if x.kernels != nil {
			need += bytesOf(n.DType(), dims) / 2 // made narrow
		}
	}
	return hostmem.Check(need)
}

// release counts one use of a node's value, and drops the value after the last one. Values from before the run have
// unlimited uses.
func (x *exec) release(n *ir.Node) {
	id := n.ID()
	if x.uses[id] == unlimitedUses {
		return
	}
	x.uses[id]--
	if x.uses[id] == 0 {
		if n.Op() != ir.OpWeight {
			x.live -= x.vals[id].bytes()
		}
		if x.recording != nil {
			x.recording.drop(id)
		}
		x.forget(id)
	}
}

// unlimitedUses is the number of uses of a value that runs must not drop.
const unlimitedUses = math.MaxInt

// nodeError adds to an error which node failed, and where the user's program made the node. It returns a
// [*ir.FaultError] as it is, because devices report faults without that.
func nodeError(n *ir.Node, err error) error {
	if fault := (*ir.FaultError)(nil); errors.As(err, &fault) {
		return err
	}
	if n.Pos() != "" {
		return fmt.Errorf("%s: %s (%s): %w", n.Pos(), n, n.Label(), err)
	}
	return fmt.Errorf("%s (%s): %w", n, n.Label(), err)
}

// plan lists the nodes to compute, in the order of execution, and their numbers of uses.
type plan struct {
	nodes []*ir.Node
	uses  []int  // by node ID
	steps []step // by node ID
}

// step is what all runs need to compute a node.
type step struct {
	from     []*ir.Node // see argsOf
	replaced *Kernel    // a backend's kernel, or nil if the interpreter's definition computes the node
	compute  kernel     // the definition; nil for an op without one
	picks    bool       // whether checkPicks may return an error
	need     int64      // the bytes of the result, if its extents depend on no symbol; 0 if each run computes them
	view     bool       // whether the value may be a strided view of argument 0
	shares   bool       // whether the value has the elements of the argument, in the same memory
	mayShare bool       // whether the value may have memory of its arguments
	leaves   bool       // whether the value may leave the run; see leaving
	state    int        // the number of a state among the graph's states
	siblings int        // the number of siblings that begin with this node; 0 if the node is computed alone
}

// newStep returns a node's step.
func newStep(n *ir.Node, kernels []*Kernel) step {
	s := step{from: argsOf(n, kernels)}
	s.compute, _ = kernelOf(n.Op()) // compute returns the error
	if kernels != nil {
		s.replaced = kernels[n.ID()]
	}
	if s.replaced == nil || s.replaced.Args == nil {
		_, axes := n.PicksFrom()
		s.picks = len(axes) > 0
	}
	return s
}

// newPlan plans the computation of the targets. kernels has the backend's kernels by node ID, and may be nil. known(n)
// means that n already has a value.
func newPlan(all, targets []*ir.Node, kernels []*Kernel, known func(n *ir.Node) bool) plan {
	p := plan{uses: make([]int, len(all)), steps: make([]step, len(all))}
	for _, n := range targets {
		p.uses[n.ID()]++
	}
	needed := make([]bool, len(all))
	// Backwards, so that the uses of a node are counted before the node is reached.
	for i := len(all) - 1; i >= 0; i-- {
		n := all[i]
		switch {
		case p.uses[i] == 0: // not needed
		case known(n):
			p.uses[i] = unlimitedUses
		default:
			needed[i] = true
			for _, a := range argsOf(n, kernels) {
				p.uses[a.ID()]++
			}
		}
	}
	for i, n := range all {
		if needed[i] {
			p.nodes = append(p.nodes, n)
			p.steps[i] = newStep(n, kernels)
		}
	}
	if kernels != nil {
		p.joinSiblings(known)
	}
	return p
}

// joinSiblings makes siblings follow one another in the order of execution. Siblings are nodes of the same op that read
// the same argument 0, and that one call of a kernel can compute (see Kernel.Together). The other arguments of a
// sibling must be known before the run, or be computed before the first sibling.
func (p *plan) joinSiblings(known func(n *ir.Node) bool) {
	groups, joined := map[*ir.Node][]*ir.Node{}, map[*ir.Node]bool{} // groups has the siblings by argument 0
	for _, n := range p.nodes {
		s := &p.steps[n.ID()]
		if s.replaced == nil || s.replaced.Together == nil {
			continue
		}
		group := groups[s.from[0]]
		canJoin := func(first *ir.Node) bool {
			return n.Op() == first.Op() && !slices.ContainsFunc(s.from[1:], func(a *ir.Node) bool {
				return a.ID() >= first.ID() && !known(a)
			})
		}
		if len(group) == 0 || canJoin(group[0]) {
			groups[s.from[0]], joined[n] = append(group, n), true
		}
	}
	var order []*ir.Node
	for _, n := range p.nodes {
		if !joined[n] {
			order = append(order, n)
		} else if group := groups[p.steps[n.ID()].from[0]]; n == group[0] {
			order = append(order, group...)
			p.steps[n.ID()].siblings = len(group)
		}
	}
	p.nodes = order
}
