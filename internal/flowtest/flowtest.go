// Package flowtest has graphs with control flow, for tests of whatever runs them.
package flowtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

type tensors = []frontend.Tensor

// Graphs define graphs with loops and branches, by name.
var Graphs = map[string]func(b *frontend.Builder){
	"for": func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 3, 4)
		b.Output("y", b.Loop(5, tensors{x}, func(i frontend.Tensor, c tensors) tensors {
			return tensors{c[0].Mul(x).Add(i.Cast(ir.F32))}
		})[0])
	},
	"a value from before": func(b *frontend.Builder) { // each trip reads h before it computes values of h's size
		x, w := b.Input("x", ir.F32, 6, 6), b.Weight("w", ir.F32, 6, 6)
		h := x.MatMul(w)
		b.Output("y", b.Loop(3, tensors{x}, func(i frontend.Tensor, c tensors) tensors {
			return tensors{c[0].MatMul(h).MatMul(w).MatMul(w).MatMul(c[0]).Tanh()}
		})[0])
	},
	"never": func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 3, 4)
		b.Output("y", b.Loop(0, tensors{x}, func(i frontend.Tensor, c tensors) tensors {
			return tensors{c[0].Neg()}
		})[0])
	},
	"recurrence": func(b *frontend.Builder) {
		n := b.Sym("N", 6)
		x, w := b.Input("x", ir.F32, n, 2, 8), b.Weight("w", ir.F32, 8, 8)
		h0 := b.Full(ir.F32, 0, 2, 8)
		last, ys := b.Scan(tensors{h0}, tensors{x}, func(c, x tensors) (tensors, tensors) {
			h := c[0].MatMul(w).Add(x[0]).Tanh()
			return tensors{h}, tensors{h}
		})
		b.Output("last", last[0])
		b.Output("ys", ys[0])
	},
	"quantized weight": func(b *frontend.Builder) {
		x, w := b.Input("x", ir.F32, 2, 32), b.Weight("w", ir.Q8_0, 32, 32)
		b.Output("y", b.Loop(3, tensors{x}, func(i frontend.Tensor, c tensors) tensors {
			return tensors{c[0].MatMulT(w).Mul(c[0].Lit(0.1))}
		})[0])
		b.Output("z", x.MatMulT(w))
	},
	"while": func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 5)
		y := b.While(20, tensors{x.Abs(), b.Const(int32(0))}, func(c tensors) frontend.Tensor {
			return c[0].Sum().Lt(c[0].Lit(100))
		}, func(c tensors) tensors { return tensors{c[0].MulScalar(1.5), c[1].AddScalar(1)} })
		b.Output("y", y[0])
		b.Output("n", y[1])
	},
	"if": func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 5)
		y := b.If(x.Sum().Gt(x.Lit(0)), func() tensors { return tensors{x.Exp(), x.Argmax(0)} },
			func() tensors { return tensors{x, x.Argmin(0)} })
		b.Output("y", y[0].Neg())
		b.Output("at", y[1])
	},
	"nested": func(b *frontend.Builder) {
		n := b.Sym("N", 4)
		x := b.Input("x", ir.F32, n, 3)
		y := b.While(6, tensors{x}, func(c tensors) frontend.Tensor { return c[0].Sum().Lt(c[0].Lit(50)) },
			func(c tensors) tensors {
				rows := b.Loop(n, tensors{c[0].Abs().ReduceMaxKeep(0, 1)}, func(i frontend.Tensor, d tensors) tensors {
					return tensors{b.If(i.Lt(b.Const(int32(2))), func() tensors { return tensors{d[0].AddScalar(1)} },
						func() tensors { return tensors{d[0].MulScalar(2)} })[0]}
				})
				return tensors{c[0].Add(rows[0])}
			})
		b.Output("y", y[0])
	},
	"coordinates of derived extents": func(b *frontend.Builder) { // as of a recurrence after a strided convolution
		s := b.Sym("S", 11)
		half, _ := s.Plus(1).FloorQuo(2)
		quarter, _ := half.FloorQuo(2)
		both, _ := half.Sum(quarter)
		x := b.Input("x", ir.F32, s)
		i, j := b.Iota(ir.I32, 0, ir.Shape{half}), b.Iota(ir.F32, 0, ir.Shape{both})
		y := b.Loop(quarter, tensors{b.Const(int32(0)), x.SliceStep(0, 0, s, 2)},
			func(n frontend.Tensor, c tensors) tensors {
				at := i.IndexSelect(0, n.Reshape(1)).Squeeze(0)
				part := b.If(at.Lt(b.Const(int32(2))), func() tensors { return tensors{j.IndexSelect(0, i)} },
					func() tensors { return tensors{j.Neg().IndexSelect(0, i)} })
				inner := b.Loop(quarter, tensors{c[1]}, func(m frontend.Tensor, d tensors) tensors {
					return tensors{d[0].Add(part[0]).Add(j.IndexSelect(0, i))}
				})
				return tensors{c[0].Add(at), inner[0]}
			})
		b.Output("sum", y[0])
		b.Output("y", y[1])
	},
	"state": func(b *frontend.Builder) {
		s, x := b.State("s", ir.F32, 4), b.Input("x", ir.F32, 4)
		y := b.Loop(3, tensors{s}, func(i frontend.Tensor, c tensors) tensors { return tensors{c[0].Add(x)} })
		b.Output("old", s)
		b.Update(s, y[0])
	},
}

// Looped returns a graph that runs g repeatedly as the body of a loop. Its outputs are g's outputs in the last trip, or
// 0 if there is no trip. The loop carries g's states from trip to trip and discards them at the end. Some nodes that
// depend on no state are computed outside the loop, and the loop captures them.
func Looped(g *ir.Graph, trips ir.Dim) (*ir.Graph, error) {
	l := newMover(g)
	for _, n := range g.Leaves(ir.OpState) {
		l.nodes[n] = l.add(l.body, ir.OpState, nil, n.Attrs()...)
		l.args = append(l.args, l.add(l.to, ir.OpState, nil, n.Attrs()...))
	}
	var results []*ir.Node
	for i, o := range g.Outputs() {
		t := o.Node.Type()
		results = append(results, l.add(l.body, ir.OpState, nil, named(fmt.Sprintf("result %d", i), t)...))
		// The loop carries each output as one more state, which begins as 0.
		l.args = append(l.args, l.zeros(l.to, t))
	}
	l.move(g, g.Updates())
	if l.err != nil {
		return nil, l.err
	}
	for _, u := range g.Updates() {
		l.err = errors.Join(l.err, l.body.Update(l.nodes[u.State], l.nodes[u.Value]))
	}
	for i, o := range g.Outputs() {
		l.err = errors.Join(l.err, l.body.Update(results[i], l.nodes[o.Node]))
	}
	loop := l.add(l.to, ir.OpLoop, l.args, ir.Attr{Name: "trips", Value: ir.Shape{trips}},
		ir.Attr{Name: "body", Value: l.body})
	l.declareOutputs(g, loop, len(g.Leaves(ir.OpState)))
	return l.to, l.err
}

// Branched returns a graph that runs g if input "taken" is true, and otherwise outputs 0. It reads g's states and does
// not update them. Some nodes are computed outside the branch, and the branch captures them.
func Branched(g *ir.Graph) (*ir.Graph, error) {
	l := newMover(g)
	l.args = []*ir.Node{l.add(l.to, ir.OpInput, nil, named("taken", ir.Type{DType: ir.Bool})...)}
	l.move(g, nil)
	if l.err != nil {
		return nil, l.err
	}
	other := ir.NewBody(g.Name)
	l.err = other.DeclareSymbolsOf(g)
	for _, in := range l.body.Leaves(ir.OpInput) {
		l.add(other, ir.OpInput, nil, in.Attrs()...)
	}
	for _, o := range g.Outputs() {
		if zeros := l.zeros(other, o.Node.Type()); l.err == nil {
			l.err = errors.Join(l.body.Output(o.Name, l.nodes[o.Node]), other.Output(o.Name, zeros))
		}
	}
	branch := l.add(l.to, ir.OpIf, l.args, ir.Attr{Name: "then", Value: l.body}, ir.Attr{Name: "else", Value: other})
	l.declareOutputs(g, branch, 0)
	return l.to, l.err
}

// Moving is a graph that runs another graph as a body.
type Moving struct {
	Name  string
	Graph *ir.Graph
	Err   error // the reason why Graph cannot be used

	of    *ir.Graph // the graph that is the body
	trips ir.Dim    // of a loop; the zero Dim for a branch alone
	taken string    // the input with the condition, or ""
}

// Moved returns the variants of g as a body: in a loop, in a branch, and in a branch in a loop. If g has a symbol, the
// trip count depends on it.
func Moved(g *ir.Graph) []Moving {
	trips := ir.D(3)
	for _, s := range g.Symbols() {
		bound, _ := g.SymbolBound(s)
		// Half of the symbol, rounded up, if that is few trips.
		if d, err := ir.Symbol(s, int(bound)).Plus(1).FloorQuo(2); err == nil && d.Max() <= 6 {
			trips = d
		}
	}
	loop, err := Looped(g, trips)
	list := []Moving{{Name: "loop", Graph: loop, Err: err, of: g, trips: trips}}
	branch, err := Branched(g)
	list = append(list, Moving{Name: "branch", Graph: branch, Err: err, of: g, taken: "taken"})
	if err == nil {
		both, err := Looped(branch, trips)
		m := Moving{Name: "branch in a loop", Graph: both, Err: err, of: g, trips: trips, taken: "taken"}
		list = append(list, m)
	}
	return list
}

// Want returns the inputs of one run of m.Graph, and the outputs that the reference interpreter computes. Runs have the
// numbers 0, 1 and so on. If m has a branch, odd runs do not take it. The reference runs the body once per trip, and
// keeps the body's states between trips. If the body does not run, the outputs are 0.
func (m Moving) Want(ctx context.Context, values graphgen.Values, symbols map[string]int64,
	run int) (in, out map[string]*ir.Data, err error) {
	trips := int64(1)
	if m.trips != (ir.Dim{}) {
		if trips, err = m.trips.Eval(symbols); err != nil {
			return nil, nil, err
		}
	}
	inner, err := values.Inputs(symbols, run) // inputs of m.of
	if err != nil {
		return nil, nil, err
	}
	in = maps.Clone(inner)
	if m.taken != "" {
		taken := int64(1 - run%2)
		if in[m.taken], err = ir.FromInts(ir.Bool, []int64{taken}); err != nil {
			return nil, nil, err
		}
		in[m.taken].Dims = nil
		trips = min(trips, taken)
	}
	reference, err := interp.New(m.of, interp.Options{Weights: values})
	if err != nil {
		return nil, nil, err
	}
	for range max(trips, 1) { // at least one trip, so that errors of the body surface even if it does not run
		if out, err = reference.Run(ctx, inner, symbols); err != nil {
			return nil, nil, err
		}
	}
	if trips == 0 {
		out, err = zeroOutputs(m.of, symbols)
	}
	return in, out, err
}

// zeroOutputs returns the outputs of a graph that did not run: zeros with the dtypes and shapes of g's outputs.
func zeroOutputs(g *ir.Graph, symbols map[string]int64) (map[string]*ir.Data, error) {
	out := map[string]*ir.Data{}
	for _, o := range g.Outputs() {
		dims, err := o.Node.Shape().Eval(symbols)
		if err != nil {
			return nil, err
		}
		if out[o.Name], err = ir.NewData(o.Node.DType(), dims...); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// mover moves the nodes of a graph into a body. Some of them stay outside the body.
type mover struct {
	to, body *ir.Graph
	outside  map[*ir.Node]*ir.Node // nodes of to, by nodes of the original graph
	nodes    map[*ir.Node]*ir.Node // of the body
	args     []*ir.Node            // arguments of the op that owns the body
	err      error
}

// newMover returns a mover of g's nodes to a new graph and the body of a loop in it.
func newMover(g *ir.Graph) *mover {
	m := &mover{to: ir.NewGraph(g.Name), body: ir.NewBody(g.Name), outside: map[*ir.Node]*ir.Node{},
		nodes: map[*ir.Node]*ir.Node{}}
	m.err = errors.Join(m.to.DeclareSymbolsOf(g), m.body.DeclareSymbolsOf(g))
	return m
}

// move adds to the body the nodes that g's outputs and the given updates need. Inputs, weights and states stay outside
// the body. So does every second node that depends only on nodes outside.
func (m *mover) move(g *ir.Graph, updates []ir.Update) {
	needed := make([]bool, len(g.Nodes()))
	for _, o := range g.Outputs() {
		needed[o.Node.ID()] = true
	}
	for _, u := range updates {
		needed[u.Value.ID()] = true
	}
	// Arguments come before their users, so that one pass backward finds all that is needed.
	for _, n := range slices.Backward(g.Nodes()) {
		for _, a := range n.Args() {
			needed[a.ID()] = needed[a.ID()] || needed[n.ID()]
		}
	}
	for _, n := range g.Nodes() {
		if m.nodes[n] != nil || m.err != nil || !needed[n.ID()] && n.Op() != ir.OpInput {
			continue
		}
		// A node with an odd number runs in the body even if it need not, so that both kinds occur.
		given := n.Op() == ir.OpInput || n.Op() == ir.OpWeight || n.Op() == ir.OpState ||
			n.ID()%2 == 0 && n.Op().Class() != ir.ClassControl
		args, own := make([]*ir.Node, len(n.Args())), make([]*ir.Node, len(n.Args()))
		for i, a := range n.Args() {
			args[i], own[i] = m.outside[a], m.nodes[a]
			given = given && args[i] != nil
		}
		if !given {
			m.nodes[n] = m.add(m.body, n.Op(), own, n.Attrs()...)
			continue
		}
		m.outside[n] = m.add(m.to, n.Op(), args, n.Attrs()...)
		m.args = append(m.args, m.outside[n])
		m.nodes[n] = m.add(m.body, ir.OpInput, nil, named(fmt.Sprintf("given %d", n.ID()), n.Type())...)
	}
}

// declareOutputs declares output i of g as result from+i of node n, which is a loop or a branch. Result 0 is n itself.
func (m *mover) declareOutputs(g *ir.Graph, n *ir.Node, from int) {
	for i, o := range g.Outputs() {
		result := n
		if from+i > 0 {
			result = m.add(m.to, ir.OpResult, []*ir.Node{n}, ir.Attr{Name: "index", Value: from + i})
		}
		if m.err == nil {
			m.err = m.to.Output(o.Name, result)
		}
	}
}

// zeros adds zeros of a type to a graph.
func (m *mover) zeros(g *ir.Graph, t ir.Type) *ir.Node {
	zero, err := ir.FromFloats(t.DType, []float64{0})
	m.err = errors.Join(m.err, err)
	if m.err != nil {
		return nil
	}
	zero.Dims = nil
	c := m.add(g, ir.OpConst, nil, ir.Attr{Name: "data", Value: zero})
	return m.add(g, ir.OpBroadcast, []*ir.Node{c}, ir.Attr{Name: "shape", Value: t.Shape})
}

// add adds a node to a graph, or returns nil after an error.
func (m *mover) add(g *ir.Graph, op ir.Op, args []*ir.Node, attrs ...ir.Attr) *ir.Node {
	if m.err != nil {
		return nil
	}
	n, err := g.Add(op, args, attrs, "")
	m.err = err
	return n
}

func named(name string, t ir.Type) []ir.Attr {
	return []ir.Attr{{Name: "name", Value: name}, {Name: "dtype", Value: t.DType}, {Name: "shape", Value: t.Shape}}
}
