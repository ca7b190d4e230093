package fast

import (
	"slices"
	"sync"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// Consecutive elementwise ops form one kernel, a chain. Their formulas in package ir's table of ops are compiled to a
// program of primitives: functions such as + that compute a block of elements, so that the operands stay in the L1
// cache. If a formula calls an unsupported function, the op's scalar reference becomes one primitive.

// block is the largest number of elements that a primitive computes at a time. They take 4 KiB (M-cpu-chains).
const block = 1024

// chain is the program of one kernel. Its operands are lists of up to `block` elements, and instructions refer to them
// by index. Their order is: the arguments, the kept values, the row values, the constants, and the temporaries for
// results of instructions.
type chain struct {
	args        []*ir.Node
	reads       []bool       // by argument: whether the chain reads it
	kept        []*ir.Scalar // values that an earlier chain of a fold computed and left in memory; see foldChains
	row         []*ir.Scalar // row values of a fold, which are equal for all elements of a row
	constants   []float32
	code        []instruction
	temporaries int       // number of temporaries
	result      int       // the operand with the result
	work        int       // cost per element, in quarters of a multiply-add
	idle        sync.Pool // has *scratch that no worker uses
}

// instruction applies a primitive to operands `in` and stores the result in operand `out`. The result of the last
// instruction is the result of the program.
type instruction struct {
	*primitive
	out int
	in  [3]int
}

// scratch is the working memory in which one worker runs a chain.
type scratch struct {
	operands [][]float32
	buffers  [][]float32 // by argument: a buffer to which elements are copied if they are not contiguous; may be nil
}

// compute implements interp.Kernel.Compute: it applies the instructions of a chain of elementwise ops to blocks of
// elements that stay in the cache, many blocks in parallel.
func (p *chain) compute(c *interp.Call) error {
	readers := make([]argReader, len(c.Args))
	for i, a := range c.Args {
		readers[i] = newArgReader(a, c.Dims, nil)
	}
	const blocks = 8 // number of blocks in a task
	out := outOf(c)
	tasks := (len(out) + blocks*block - 1) / (blocks * block)
	const quarters = 4 // of a multiply-add, the unit of p.work
	return c.Parallel(tasks, max(1, p.work*min(len(out), blocks*block)/quarters), func(_, task int) {
		s := p.begin(readers)
		defer p.idle.Put(s)
		end := min((task+1)*blocks*block, len(out))
		for lo := task * blocks * block; lo < end; lo += block {
			p.run(out[lo:min(lo+block, end)], readers, lo, s)
		}
	})
}

// begin returns scratch memory, with the values of arguments that are the same for all elements of the result. readers
// has the chain's arguments. The caller puts the memory back into idle.
func (p *chain) begin(readers []argReader) *scratch {
	s := p.scratch()
	for i := range p.args {
		if p.reads[i] && readers[i].repeats() {
			readers[i].read(s.buffer(i), 0)
		}
	}
	return s
}

// run computes elements lo to lo+len(out) of the result.
func (p *chain) run(out []float32, readers []argReader, lo int, s *scratch) {
	p.read(readers, lo, len(out), s)
	p.apply(out, s)
	clear(s.operands[:len(p.args)]) // so that s does not keep the arguments' memory alive
}

// read sets the operands of the arguments to their values for n elements of the result, from element lo on.
func (p *chain) read(readers []argReader, lo, n int, s *scratch) {
	for i := range p.args {
		switch at := &readers[i]; {
		case !p.reads[i]:
		case at.repeats():
			s.operands[i] = s.buffers[i]
		case at.direct(lo, n) != nil:
			s.operands[i] = at.direct(lo, n)
		default:
			s.operands[i] = s.buffer(i)[:n]
			at.read(s.operands[i], lo)
		}
	}
}

// apply runs the instructions, and stores the result in out.
func (p *chain) apply(out []float32, s *scratch) {
	n, last := len(out), len(p.code)-1
	for i := range p.code {
		c, to := &p.code[i], out
		if i < last {
			to = s.operands[c.out][:n]
		}
		c.apply(to, s.operands[c.in[0]], s.operands[c.in[1]], s.operands[c.in[2]])
	}
}

// scratch returns scratch memory with the constants.
func (p *chain) scratch() *scratch {
	if s, ok := p.idle.Get().(*scratch); ok {
		return s
	}
	lists := len(p.args) + len(p.kept)
	s := &scratch{buffers: make([][]float32, len(p.args)), operands: make([][]float32, lists)}
	for range len(p.row) + len(p.constants) + p.temporaries {
		s.operands = append(s.operands, make([]float32, block))
	}
	for i, x := range p.constants {
		fill(s.operands[lists+len(p.row)+i], x)
	}
	return s
}

// buffer returns the buffer for argument i, of `block` elements.
func (s *scratch) buffer(i int) []float32 {
	if s.buffers[i] == nil {
		s.buffers[i] = make([]float32, block)
	}
	return s.buffers[i]
}

// chains finds the chains of a graph.
type chains struct {
	nodes    []*ir.Node
	constant []bool // by node ID, see interp.IsConstant
	uses     []int  // by node ID: how often the node is an argument of a node, an output or the new value of a state
}

// newChains counts the uses of a graph's nodes.
func newChains(g *ir.Graph) *chains {
	c := &chains{nodes: g.Nodes(), constant: interp.IsConstant(g), uses: make([]int, len(g.Nodes()))}
	live := g.Live()
	for i, n := range c.nodes {
		for _, a := range n.Args() {
			if live[i] {
				c.uses[a.ID()]++
			}
		}
	}
	for _, o := range g.Outputs() {
		c.uses[o.Node.ID()]++
	}
	for _, u := range g.Updates() {
		c.uses[u.Value.ID()]++
	}
	return c
}

// chainFor returns the chain that computes node root, or nil if there is none. All members of the chain have root's
// shape, and no node outside of the chain uses them, except root. chainFor sets absorbed, by ID, for the members other
// than root: they need no kernels.
func (c *chains) chainFor(root *ir.Node, absorbed []bool) *chain {
	if !c.canEnd(root) {
		return nil
	}
	return c.compile(c.membersFor(root, absorbed))
}

// canEnd reports whether a node can be the last one of a chain.
func (c *chains) canEnd(root *ir.Node) bool {
	if c.constant[root.ID()] || c.uses[root.ID()] == 0 || !computable(root) {
		return false
	}
	// The interpreter needs no copy for a conversion of narrow floats to f32, or to the dtype of the argument.
	from := root.Arg(0).DType()
	return root.Op() != ir.OpCast || from != root.DType() && (root.DType() != ir.F32 || !isNarrow(from))
}

// membersFor returns the members of the chain that computes root, sorted by ID. It sets absorbed for those other than
// root.
func (c *chains) membersFor(root *ir.Node, absorbed []bool) []*ir.Node {
	members, inside := []*ir.Node{root}, map[*ir.Node]int{} // inside counts how often members use a node
	for i := 0; i < len(members); i++ {
		for _, a := range members[i].Args() {
			inside[a]++
			if inside[a] == c.uses[a.ID()] && !c.constant[a.ID()] && computable(a) && a.Shape().Equal(root.Shape()) {
				members = append(members, a)
				absorbed[a.ID()] = true
			}
		}
	}
	slices.SortFunc(members, func(a, b *ir.Node) int { return a.ID() - b.ID() })
	return members
}

// computable reports whether a chain may contain a node. The node must be an elementwise op on floats or words
// (integers of up to 32 bits, and bools). A cast of words to floats must be to f32, or from words of at most 16 bits.
// An i64 may only be cast to f32, or be the condition of a where.
func computable(n *ir.Node) bool {
	info := n.Op().Info()
	hasFormula := info.Float != nil || info.Int != nil
	if info.Class != ir.ClassElementwise || !hasFormula || info.Custom != nil || !inWords(n.DType()) {
		return false
	}
	floats, longs := 0, 0
	for _, a := range n.Args() {
		switch t := a.DType(); {
		case isNarrow(t):
			floats++
		case t == ir.I64:
			longs++
		case !isWord(t):
			return false
		}
	}
	words := len(n.Args()) - floats - longs
	switch {
	case n.Op() == ir.OpWhere:
		return longs <= 1
	case n.Op() == ir.OpCast && longs > 0:
		return n.DType() == ir.F32
	case n.Op() == ir.OpCast && words > 0:
		return isWord(n.DType()) || n.DType() == ir.F32 || n.Arg(0).DType().BlockBytes() <= 2
	case n.Op() == ir.OpCast:
		return true
	case floats == 0:
		return longs == 0 && info.Int != nil
	}
	return words == 0 && longs == 0
}
