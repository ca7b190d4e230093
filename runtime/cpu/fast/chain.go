package fast

import (
	"slices"
	"sync"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// Consecutive elementwise ops form one kernel, a chain. The formulas in the op table are compiled to a program of
// primitives, each over a block of elements that stays in the L1 cache. If a formula uses an unsupported function, the
// op's scalar reference becomes one primitive.

// block is the number of elements that a primitive computes at a time: 4 KiB (M-cpu-chains).
const block = 1024

// chain is the program of one kernel. Its operands are lists of up to a block of elements: first the arguments, then
// the row values, then the constants, then temporaries for the instructions' results.
type chain struct {
	args      []*ir.Node
	row       []*ir.Scalar // row values, which are the same for all elements of a row; see fold
	constants []float32
	code      []instruction
	rooms     int
	result    int       // the operand that is the result
	work      int       // per element, in quarters of a multiply-add
	idle      sync.Pool // of *scratch
}

// instruction sets an operand to a function of others. The last one sets the result.
type instruction struct {
	*primitive
	out int
	in  [3]int
}

// scratch is the working memory of one worker.
type scratch struct {
	operands [][]float32
	fills    [][]float32 // by argument: a buffer for elements that are not contiguous
}

// compute is the kernel.
func (p *chain) compute(c *interp.Call) error {
	places := make([]place, len(c.Args))
	for i, a := range c.Args {
		places[i] = newPlace(a, c.Dims, nil)
	}
	const blocks = 8 // of a task
	tasks := (len(c.Out) + blocks*block - 1) / (blocks * block)
	return c.Parallel(tasks, max(1, p.work*min(len(c.Out), blocks*block)/4), func(_, task int) {
		s := p.begin(places)
		defer p.idle.Put(s)
		end := min((task+1)*blocks*block, len(c.Out))
		for lo := task * blocks * block; lo < end; lo += block {
			p.run(c.Out[lo:min(lo+block, end)], places, lo, s)
		}
	})
}

// begin returns scratch memory with the arguments that have one element for all.
func (p *chain) begin(places []place) *scratch {
	s := p.scratch()
	for i := range p.args {
		if places[i].repeats() {
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

// read sets the operands of the arguments to n elements from element lo on.
func (p *chain) read(places []place, lo, n int, s *scratch) {
	for i := range p.args {
		switch at := &places[i]; {
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

// apply runs the instructions. The last one sets out.
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

func (p *chain) scratch() *scratch {
	if s, ok := p.idle.Get().(*scratch); ok {
		return s
	}
	s := &scratch{fills: make([][]float32, len(p.args)), operands: make([][]float32, len(p.args))}
	for range len(p.row) + len(p.constants) + p.rooms {
		s.operands = append(s.operands, make([]float32, block))
	}
	for i, x := range p.constants {
		fill(s.operands[len(p.args)+len(p.row)+i], x)
	}
	return s
}

func (s *scratch) fill(i int) []float32 {
	if s.fills[i] == nil {
		s.fills[i] = make([]float32, block)
	}
	return s.fills[i]
}

// chains finds the chains of a graph.
type chains struct {
	nodes    []*ir.Node
	constant []bool
	uses     []int // by node ID, outputs and updates of states among them
}

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

// ending returns the chain that computes root, or nil if there is none. Its members have the result's shape, and only
// the chain uses them. It marks the members other than root in within, by ID.
func (c *chains) ending(root *ir.Node, within []bool) *chain {
	if c.constant[root.ID()] || c.uses[root.ID()] == 0 || !isNarrow(root.DType()) || !computable(root) {
		return nil
	}
	if root.Op() == ir.OpCast && root.DType() == ir.F32 && isNarrow(root.Arg(0).DType()) {
		return nil // the interpreter converts these elements without a copy
	}
	return c.compile(c.before(root, within))
}

// before returns the members of the chain that computes root, in order. It marks those other than root in within.
func (c *chains) before(root *ir.Node, within []bool) []*ir.Node {
	members, inside := []*ir.Node{root}, map[*ir.Node]int{} // uses by members
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

// computable reports whether a chain may contain a node. Members are elementwise ops on floats, or on bools as 1 and 0.
// Integers are allowed if the op only compares them with 0, or casts them to floats that represent them exactly.
func computable(n *ir.Node) bool {
	info := n.Op().Info()
	hasFormula := info.Float != nil || info.Int != nil
	if info.Class != ir.ClassElementwise || !hasFormula || info.Custom != nil ||
		!isNarrow(n.DType()) && n.DType() != ir.Bool {
		return false
	}
	floats, truths := 0, 0
	for _, a := range n.Args() {
		switch t := a.DType(); {
		case isNarrow(t):
			floats++
		case t == ir.Bool:
			truths++
		case !t.IsInteger():
			return false
		}
	}
	integers := len(n.Args()) - floats - truths
	switch {
	case n.Op() == ir.OpCast:
		exact := integers == 0 || n.DType() == ir.F32 || n.Arg(0).DType().BlockBytes() <= 2
		return n.DType() != ir.Bool && exact
	case floats == 0:
		return integers == 0 && info.GLSL.Bool != ""
	}
	return integers == 0 || n.Op() == ir.OpWhere
}
