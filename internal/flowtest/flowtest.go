// Package flowtest has graphs with control flow, for tests of whatever runs them.
package flowtest

import (
	"errors"
	"fmt"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

type tensors = []frontend.Tensor

// Graphs define graphs with loops and branches, by what is in them.
var Graphs = map[string]func(b *frontend.Builder){
	"for": func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 3, 4)
		b.Output("y", b.Loop(5, tensors{x}, func(i frontend.Tensor, c tensors) tensors {
			return tensors{c[0].Mul(x).Add(i.Cast(ir.F32))}
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
	"state": func(b *frontend.Builder) {
		s, x := b.State("s", ir.F32, 4), b.Input("x", ir.F32, 4)
		y := b.Loop(3, tensors{s}, func(i frontend.Tensor, c tensors) tensors { return tensors{c[0].Add(x)} })
		b.Output("old", s)
		b.Update(s, y[0])
	},
}

// Looped returns a graph that runs another again and again, as the body of a loop: its outputs are those of the last
// trip. States are carried from one trip to the next, and forgotten in the end.
func Looped(g *ir.Graph, trips int) (*ir.Graph, error) {
	l := looping{to: ir.NewGraph(g.Name), body: ir.NewBody(g.Name), nodes: map[*ir.Node]*ir.Node{}}
	for _, s := range g.Symbols() {
		bound, _ := g.SymbolBound(s)
		l.err = errors.Join(l.err, l.to.DeclareSymbol(s, bound), l.body.DeclareSymbol(s, bound))
	}
	for _, n := range g.Leaves(ir.OpState) {
		l.nodes[n] = l.add(l.body, ir.OpState, nil, n.Attrs()...)
		l.args = append(l.args, l.add(l.to, ir.OpState, nil, n.Attrs()...))
	}
	var results []*ir.Node
	for i, o := range g.Outputs() {
		t := o.Node.Type()
		results = append(results, l.add(l.body, ir.OpState, nil, named(fmt.Sprintf("result %d", i), t)...))
		if l.err != nil {
			return nil, l.err
		}
		zero, err := ir.FromFloats(t.DType, []float64{0})
		if l.err = err; err == nil {
			zero.Dims = nil
			c := l.add(l.to, ir.OpConst, nil, ir.Attr{Name: "data", Value: zero})
			l.args = append(l.args, l.add(l.to, ir.OpBroadcast, []*ir.Node{c}, ir.Attr{Name: "shape", Value: t.Shape}))
		}
	}
	for _, n := range g.Nodes() {
		args := make([]*ir.Node, len(n.Args()))
		for i, a := range n.Args() {
			args[i] = l.nodes[a]
		}
		switch n.Op() {
		case ir.OpState:
		case ir.OpInput, ir.OpWeight:
			l.args = append(l.args, l.add(l.to, n.Op(), nil, n.Attrs()...))
			l.nodes[n] = l.add(l.body, ir.OpInput, nil, named(n.Name(), n.Type())...)
		default:
			l.nodes[n] = l.add(l.body, n.Op(), args, n.Attrs()...)
		}
	}
	if l.err != nil {
		return nil, l.err
	}
	for _, u := range g.Updates() {
		l.err = errors.Join(l.err, l.body.Update(l.nodes[u.State], l.nodes[u.Value]))
	}
	for i, o := range g.Outputs() {
		l.err = errors.Join(l.err, l.body.Update(results[i], l.nodes[o.Node]))
	}
	loop := l.add(l.to, ir.OpLoop, l.args, ir.Attr{Name: "trips", Value: ir.ShapeOf(trips)},
		ir.Attr{Name: "body", Value: l.body})
	for i, o := range g.Outputs() {
		at, n := len(g.Leaves(ir.OpState))+i, loop
		if at > 0 {
			n = l.add(l.to, ir.OpResult, []*ir.Node{loop}, ir.Attr{Name: "index", Value: at})
		}
		if l.err == nil {
			l.err = l.to.Output(o.Name, n)
		}
	}
	return l.to, l.err
}

type looping struct {
	to, body *ir.Graph
	nodes    map[*ir.Node]*ir.Node // of the body, by those of the graph
	args     []*ir.Node            // of the loop
	err      error
}

func (l *looping) add(g *ir.Graph, op ir.Op, args []*ir.Node, attrs ...ir.Attr) *ir.Node {
	if l.err != nil {
		return nil
	}
	n, err := g.Add(op, args, attrs, "")
	l.err = err
	return n
}

func named(name string, t ir.Type) []ir.Attr {
	return []ir.Attr{{Name: "name", Value: name}, {Name: "dtype", Value: t.DType}, {Name: "shape", Value: t.Shape}}
}
