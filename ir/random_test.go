package ir

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// randomGraph returns a graph over random ops with inputs, weights, states,
// constants, a symbol, dead nodes, updates and outputs.
func randomGraph(t testing.TB, rng *rand.Rand) *Graph {
	b := &builder{t: t, g: NewGraph("random")}
	dim := D(4)
	if rng.IntN(2) == 0 {
		dim = Symbol("N", 4)
	}
	shape := Shape{dim, D(3)}
	for i := range 1 + rng.IntN(3) {
		b.leaf(OpInput, fmt.Sprintf("in%d", i), shape)
	}
	for i := range 1 + rng.IntN(3) {
		b.leaf(OpWeight, fmt.Sprintf("w%d", i), ShapeOf(3))
	}
	states := rng.IntN(3)
	for i := range states {
		b.leaf(OpState, fmt.Sprintf("s%d", i), ShapeOf(3))
	}
	data, err := FromFloats(F32, []float64{rng.NormFloat64(), 1, 2}, 3)
	if err != nil {
		t.Fatal(err)
	}
	b.add(OpConst, nil, Attr{"data", data})
	for range 3 + rng.IntN(12) {
		b.randomOp(rng)
	}
	for i := range states {
		if v := b.pick(rng, ShapeOf(3)); v != nil && rng.IntN(4) > 0 {
			s, _ := b.g.Named(fmt.Sprintf("s%d", i))
			if err := b.g.Update(s, v); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 1 + rng.IntN(3) {
		n := b.g.nodes[rng.IntN(len(b.g.nodes))]
		if i == 0 {
			n = b.g.nodes[len(b.g.nodes)-1]
		}
		if err := b.g.Output(fmt.Sprintf("out%d", i), n); err != nil {
			t.Fatal(err)
		}
	}
	return b.g
}

// builder adds nodes that must be right.
type builder struct {
	t testing.TB
	g *Graph
}

func (b *builder) add(op Op, args []*Node, attrs ...Attr) *Node {
	b.t.Helper()
	n, err := b.g.Add(op, args, attrs, "")
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

func (b *builder) leaf(op Op, name string, shape Shape) *Node {
	b.t.Helper()
	return b.add(op, nil, Attr{"name", name}, Attr{"dtype", F32}, Attr{"shape", shape})
}

// pick returns a random node of that shape, or nil.
func (b *builder) pick(rng *rand.Rand, shape Shape) *Node {
	var fit []*Node
	for _, n := range b.g.nodes {
		if n.typ.Shape.Equal(shape) {
			fit = append(fit, n)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	return fit[rng.IntN(len(fit))]
}

// randomOp adds an op with broadcasting arguments: all shapes end in 3.
func (b *builder) randomOp(rng *rand.Rand) {
	x, y := b.g.nodes[rng.IntN(len(b.g.nodes))], b.g.nodes[rng.IntN(len(b.g.nodes))]
	switch rng.IntN(4) {
	case 0:
		b.add([]Op{OpRelu, OpExp, OpNeg}[rng.IntN(3)], []*Node{x})
	case 1:
		b.add(OpElu, []*Node{x}, Attr{"alpha", rng.Float64()})
	default:
		b.add([]Op{OpAdd, OpSub, OpMul}[rng.IntN(3)], []*Node{x, y})
	}
}

// copyGraph rebuilds g with its nodes in the given order of IDs and with new names. change may modify each node.
func copyGraph(t testing.TB, g *Graph, order []int,
	change func(n *Node, op Op, args []*Node, attrs []Attr) (Op, []*Node, []Attr)) *Graph {
	b := &builder{t: t, g: NewGraph("copy of " + g.Name)}
	made := make([]*Node, len(g.nodes))
	for _, id := range order {
		n := g.nodes[id]
		args := make([]*Node, len(n.args))
		for i, a := range n.args {
			args[i] = made[a.id]
		}
		attrs := make([]Attr, len(n.attrs))
		for i, a := range n.attrs {
			attrs[i] = a
			if a.Name != "init" { // which is no name
				attrs[i].Value = renamed(a.Value)
			}
		}
		op := n.op
		if change != nil {
			op, args, attrs = change(n, op, args, attrs)
		}
		made[id] = b.add(op, args, attrs...)
	}
	for i := len(g.updates) - 1; i >= 0; i-- { // their order is of no account
		if err := b.g.Update(made[g.updates[i].State.id], made[g.updates[i].Value.id]); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range g.outputs {
		if err := b.g.Output("new "+o.Name, made[o.Node.id]); err != nil {
			t.Fatal(err)
		}
	}
	return b.g
}

// renamed gives names and symbols another name.
func renamed(v any) any {
	switch x := v.(type) {
	case string:
		return "new " + x
	case Shape:
		out := append(Shape{}, x...)
		for i := range out {
			if out[i].Sym != "" {
				out[i].Sym = "new_" + out[i].Sym
			}
		}
		return out
	}
	return v
}

// randomOrder returns the node IDs in a random topological order. Inputs and states keep their relative order.
func randomOrder(g *Graph, rng *rand.Rand) []int {
	waits := make([][]int, len(g.nodes))
	last := map[Op]int{}
	for _, n := range g.nodes {
		for _, a := range n.args {
			waits[n.id] = append(waits[n.id], a.id)
		}
		if n.op == OpInput || n.op == OpState {
			if before, ok := last[n.op]; ok {
				waits[n.id] = append(waits[n.id], before)
			}
			last[n.op] = n.id
		}
	}
	var order []int
	done := make([]bool, len(g.nodes))
	for len(order) < len(g.nodes) {
		id := rng.IntN(len(g.nodes))
		ready := !done[id]
		for _, w := range waits[id] {
			ready = ready && done[w]
		}
		if ready {
			done[id] = true
			order = append(order, id)
		}
	}
	return order
}
