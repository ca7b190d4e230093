package fast

import (
	"slices"
	"sync"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// Elementwise ops that follow one another are one kernel, a chain: what their rows say for devices is compiled to a
// program of primitives, each over a block of elements that stays in a core's nearest cache. An op of whose formula a
// function is not known here is one primitive, the scalar reference of its row.

// block is how many elements a primitive computes at a time: 4 KiB (M-cpu-chains).
const block = 1024

// chain is the program of one kernel. Its operands are lists of up to a block of elements: the arguments, then the
// constants, then room for what instructions compute.
type chain struct {
	args      []*ir.Node
	constants []float32
	code      []instruction
	rooms     int
	work      int       // of an element, in quarters of a multiply-add
	idle      sync.Pool // of *scratch
}

// instruction sets an operand to a function of others. The last one sets the result.
type instruction struct {
	*primitive
	out int
	in  [3]int
}

// scratch is what a worker computes with.
type scratch struct {
	operands [][]float32
	fills    [][]float32 // by argument: room for elements that do not lie side by side
}

// compute is the kernel.
func (p *chain) compute(c *interp.Call) error {
	places := make([]place, len(c.Args))
	for i, a := range c.Args {
		places[i] = newPlace(a, c.Dims)
	}
	const blocks = 8 // of a task
	tasks := (len(c.Out) + blocks*block - 1) / (blocks * block)
	return c.Parallel(tasks, max(1, p.work*min(len(c.Out), blocks*block)/4), func(_, task int) {
		s := p.scratch()
		defer p.idle.Put(s)
		for i := range places {
			if places[i].repeats() {
				places[i].read(s.fill(i), 0)
			}
		}
		end := min((task+1)*blocks*block, len(c.Out))
		for lo := task * blocks * block; lo < end; lo += block {
			p.run(c.Out[lo:min(lo+block, end)], places, lo, s)
		}
	})
}

// run computes the elements of out, of which the first is element lo of the result.
func (p *chain) run(out []float32, places []place, lo int, s *scratch) {
	n := len(out)
	for i := range places {
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
	last := len(p.code) - 1
	for i := range p.code {
		c, to := &p.code[i], out
		if i < last {
			to = s.operands[c.out][:n]
		}
		c.apply(to, s.operands[c.in[0]], s.operands[c.in[1]], s.operands[c.in[2]])
	}
	clear(s.operands[:len(places)]) // the caller's memory
}

func (p *chain) scratch() *scratch {
	if s, ok := p.idle.Get().(*scratch); ok {
		return s
	}
	s := &scratch{fills: make([][]float32, len(p.args)), operands: make([][]float32, len(p.args))}
	for range len(p.constants) + p.rooms {
		s.operands = append(s.operands, make([]float32, block))
	}
	for i, x := range p.constants {
		for k := range block {
			s.operands[len(p.args)+i][k] = x
		}
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

// ending returns the chain whose result is a node, or nil if there is none. Its members have the result's shape, and
// nothing but the chain uses them; within gets those other than the node, by ID.
func (c *chains) ending(root *ir.Node, within []bool) *chain {
	if c.constant[root.ID()] || c.uses[root.ID()] == 0 || !isNarrow(root.DType()) || !computable(root) {
		return nil
	}
	if root.Op() == ir.OpCast && root.DType() == ir.F32 && isNarrow(root.Arg(0).DType()) {
		return nil // the interpreter takes the elements as they are
	}
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
	return c.compile(members)
}

// computable reports whether a chain may have a node as a member: an elementwise one of floats, or of truths, which are
// 1 and 0. Integers are taken where they are only compared with 0, or are cast to floats that hold them.
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
