package fast

import (
	"slices"
	"sync"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// Consecutive elementwise ops form one kernel, a chain. Their formulas in the op table are compiled to a program of
// primitives. Each primitive computes a block of elements, so that the operands stay in the L1 cache. If a formula
// calls an unsupported function, the op's scalar reference becomes one primitive.

// block is the largest number of elements that a primitive computes at a time. They take 4 KiB (M-cpu-chains).
const block = 1024

// chain is the program of one kernel. Its operands are lists of up to `block` elements. Their order is: the arguments,
// the kept values, the row values, the constants, and the temporaries for results of instructions.
type chain struct {
	args        []*ir.Node
	reads       []bool       // by argument: whether the chain reads it
	kept        []*ir.Scalar // values that an earlier chain of a fold computed; see foldChains
	row         []*ir.Scalar // row values, which are equal for all elements of a row; see fold
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

// scratch is the working memory of one worker.
type scratch struct {
	operands [][]float32
	fills    [][]float32 // by argument: a buffer to which elements are copied if they are not contiguous; may be nil
}

// compute is the kernel.
func (p *chain) compute(c *interp.Call) error {
	places := make([]place, len(c.Args))
	for i, a := range c.Args {
		places[i] = newPlace(a, c.Dims, nil)
	}
	const blocks = 8 // number of blocks in a task
	out := outOf(c)
	tasks := (len(out) + blocks*block - 1) / (blocks * block)
	return c.Parallel(tasks, max(1, p.work*min(len(out), blocks*block)/4), func(_, task int) {
		s := p.begin(places)
		defer p.idle.Put(s)
		end := min((task+1)*blocks*block, len(out))
		for lo := task * blocks * block; lo < end; lo += block {
			p.run(out[lo:min(lo+block, end)], places, lo, s)
		}
	})
}

// begin returns scratch memory. It is filled with those arguments that have a single element.
func (p *chain) begin(places []place) *scratch {
	s := p.scratch()
	for i := range p.args {
		if p.reads[i] && places[i].repeats() {
			places[i].read(s.fill(i), 0)
		}
	}
	return s
}

// run computes elements lo to lo+len(out) of the result.
func (p *chain) run(out []float32, places []place, lo int, s *scratch) {
	p.read(places, lo, len(out), s)
	p.apply(out, s)
	clear(s.operands[:len(p.args)]) // the caller's memory
}

// read sets the operands of the arguments to their values for n elements of the result, from element lo on.
func (p *chain) read(places []place, lo, n int, s *scratch) {
	for i := range p.args {
		switch at := &places[i]; {
		case !p.reads[i]:
		case at.repeats():
			s.operands[i] = s.fills[i]
		case at.direct(lo, n) != nil:
			s.operands[i] = at.direct(lo, n)
		default:
			s.operands[i] = s.fill(i)[:n]
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
	s := &scratch{fills: make([][]float32, len(p.args)), operands: make([][]float32, lists)}
	for range len(p.row) + len(p.constants) + p.temporaries {
		s.operands = append(s.operands, make([]float32, block))
	}
	for i, x := range p.constants {
		fill(s.operands[lists+len(p.row)+i], x)
	}
	return s
}

// fill returns the buffer for argument i.
func (s *scratch) fill(i int) []float32 {
	if s.fills[i] == nil {
		s.fills[i] = make([]float32, block)
	}
	return s.fills[i]
}

// chains finds the chains of a graph.
type chains struct {
	nodes    []*ir.Node
	constant []bool // by node ID, see interp.IsConstant
	uses     []int  // by node ID: how many arguments of nodes, outputs and updates of states are the node
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

// ending returns the chain that computes node root, or nil if there is none. All members of the chain have root's
// shape, and no node outside of the chain uses them, except root. ending sets within, by ID, for the members other than
// root.
func (c *chains) ending(root *ir.Node, within []bool) *chain {
	if !c.ends(root) {
		return nil
	}
	return c.compile(c.before(root, within))
}

// ends reports whether a node can be the last one of a chain.
func (c *chains) ends(root *ir.Node) bool {
	if c.constant[root.ID()] || c.uses[root.ID()] == 0 || !computable(root) {
		return false
	}
	// The interpreter needs no copy for a conversion of narrow floats to f32, or to the dtype of the argument.
	from := root.Arg(0).DType()
	return root.Op() != ir.OpCast || from != root.DType() && (root.DType() != ir.F32 || !isNarrow(from))
}

// before returns the members of the chain that computes root, sorted by ID. It sets within for those other than root.
func (c *chains) before(root *ir.Node, within []bool) []*ir.Node {
	members, inside := []*ir.Node{root}, map[*ir.Node]int{} // inside counts how often members use a node
	for i := 0; i < len(members); i++ {
		for _, a := range members[i].Args() {
			inside[a]++
			if inside[a] == c.uses[a.ID()] && !c.constant[a.ID()] && computable(a) && a.Shape().Equal(root.Shape()) {
				members = append(members, a)
				within[a.ID()] = true
			}
		}
	}
	slices.SortFunc(members, func(a, b *ir.Node) int { return a.ID() - b.ID() })
	return members
}

// computable reports whether a chain may contain a node. The node must be an elementwise op on floats, words or bools.
// Words become floats only if these represent them exactly, or are f32. An i64 may only become f32, or choose values.
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
