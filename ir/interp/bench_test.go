package interp

import (
	"context"
	"fmt"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// BenchmarkMatMul reports multiply-adds, counted as two operations.
func BenchmarkMatMul(b *testing.B) {
	for _, c := range []struct {
		m, n, k    int
		transposed bool
	}{{512, 512, 512, false}, {512, 512, 512, true}, {32, 1024, 256, true}, {1, 4096, 1024, true}} {
		b.Run(fmt.Sprintf("%dx%dx%d/transpose_b=%v", c.m, c.n, c.k, c.transposed), func(b *testing.B) {
			g := newGraph(b)
			dims := []int{c.k, c.n}
			if c.transposed {
				dims = []int{c.n, c.k}
			}
			w := g.constant(floats(b, ir.F32, noise(c.n*c.k, 1), dims...))
			a := g.input("a", ir.F32, ir.ShapeOf(c.m, c.k))
			g.output("y", g.add(ir.OpMatMul, []*ir.Node{a, w}, "transpose_b", c.transposed))
			benchmark(b, g.program(Options{}), map[string]*ir.Data{"a": floats(b, ir.F32, noise(c.m*c.k, 2), c.m, c.k)})
			b.ReportMetric(2*float64(c.m*c.n*c.k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

func BenchmarkSoftmax(b *testing.B) {
	g := newGraph(b)
	g.output("y", g.add(ir.OpSoftmax, []*ir.Node{g.input("x", ir.F32, ir.ShapeOf(1024, 1024))}))
	b.SetBytes(4 << 20)
	benchmark(b, g.program(Options{}), map[string]*ir.Data{"x": floats(b, ir.F32, noise(1<<20, 1), 1024, 1024)})
}

func BenchmarkAdd(b *testing.B) {
	g := newGraph(b)
	x := g.input("x", ir.F32, ir.ShapeOf(1024, 1024))
	g.output("y", g.add(ir.OpAdd, []*ir.Node{x, x}))
	b.SetBytes(4 << 20)
	benchmark(b, g.program(Options{}), map[string]*ir.Data{"x": floats(b, ir.F32, noise(1<<20, 1), 1024, 1024)})
}

// llama is the shape of a small Llama model.
type llama struct{ layers, width, heads, kvHeads, hidden, vocab int }

// weight makes up a weight's values.
func (b builder) weight(dims ...int) *ir.Node {
	b.t.Helper()
	return b.constant(floats(b.t, ir.F32, noise(elems(dims), len(b.Nodes())), dims...))
}

// linear multiplies by a weight [out, in].
func (b builder) linear(x *ir.Node, in, out int) *ir.Node {
	b.t.Helper()
	return b.add(ir.OpMatMul, []*ir.Node{x, b.weight(out, in)}, "transpose_b", true)
}

// forward builds the forward pass over symbol T tokens without a cache.
func (m llama) forward(b builder) {
	T := ir.Symbol("T", 256)
	ids := b.input("ids", ir.I32, ir.Shape{T})
	pos := b.add(ir.OpIota, nil, "shape", ir.Shape{T})
	x := b.add(ir.OpEmbedding, []*ir.Node{b.weight(m.vocab, m.width), ids})
	for range m.layers {
		x = m.layer(b, T, x, pos)
	}
	x = b.add(ir.OpRMSNorm, []*ir.Node{x, b.weight(m.width)})
	b.output("logits", b.linear(x, m.width, m.vocab))
}

func (m llama) layer(b builder, T ir.Dim, x, pos *ir.Node) *ir.Node {
	dim := m.width / m.heads
	heads := func(x *ir.Node, n int, turn bool) *ir.Node {
		x = b.add(ir.OpReshape, []*ir.Node{b.linear(x, m.width, n*dim)}, "shape", ir.Shape{T, ir.D(n), ir.D(dim)})
		x = b.add(ir.OpTranspose, []*ir.Node{x}, "perm", []int{1, 0, 2})
		if turn {
			x = b.add(ir.OpRope, []*ir.Node{x, pos})
		}
		return x
	}
	h := b.add(ir.OpRMSNorm, []*ir.Node{x, b.weight(m.width)})
	a := b.add(ir.OpAttention, []*ir.Node{heads(h, m.heads, true), heads(h, m.kvHeads, true),
		heads(h, m.kvHeads, false)}, "causal", true)
	a = b.add(ir.OpTranspose, []*ir.Node{a}, "perm", []int{1, 0, 2})
	a = b.add(ir.OpReshape, []*ir.Node{a}, "shape", ir.Shape{T, ir.D(m.width)})
	x = b.add(ir.OpAdd, []*ir.Node{x, b.linear(a, m.width, m.width)})
	h = b.add(ir.OpRMSNorm, []*ir.Node{x, b.weight(m.width)})
	gate := b.add(ir.OpSilu, []*ir.Node{b.linear(h, m.width, m.hidden)})
	up := b.add(ir.OpMul, []*ir.Node{gate, b.linear(h, m.width, m.hidden)})
	return b.add(ir.OpAdd, []*ir.Node{x, b.linear(up, m.hidden, m.width)})
}

// BenchmarkLlama runs a model of 7.3 million parameters.
func BenchmarkLlama(b *testing.B) {
	m := llama{layers: 8, width: 256, heads: 8, kvHeads: 4, hidden: 704, vocab: 4096}
	g := newGraph(b)
	m.forward(g)
	p := g.program(Options{})
	for _, tokens := range []int{1, 32, 256} {
		b.Run(fmt.Sprintf("tokens=%d", tokens), func(b *testing.B) {
			benchmark(b, p, map[string]*ir.Data{"ids": integers(b, ir.I32, make([]int64, tokens), tokens)})
			b.ReportMetric(float64(tokens*b.N)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}

func benchmark(b *testing.B, p *Program, in map[string]*ir.Data) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Run(context.Background(), in, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStateUpdate writes three rows of a state of 64 MiB.
func BenchmarkStateUpdate(b *testing.B) {
	for _, op := range []ir.Op{ir.OpScatterND, ir.OpScatterNDAdd, ir.OpIndexAdd, ir.OpScatterAdd} {
		b.Run(op.String(), func(b *testing.B) {
			g, where := newGraph(b), ir.ShapeOf(3)
			switch op {
			case ir.OpScatterND, ir.OpScatterNDAdd:
				where = ir.ShapeOf(3, 1)
			case ir.OpScatterAdd:
				where = ir.ShapeOf(3, 1024)
			}
			state := g.leaf(ir.OpState, "state", ir.F32, ir.ShapeOf(1<<14, 1024))
			x, at := g.input("x", ir.F32, ir.ShapeOf(3, 1024)), g.input("at", ir.I32, where)
			g.update(state, g.add(op, []*ir.Node{state, at, x}))
			rows := make([]int64, where.MaxElems())
			for i := range rows {
				rows[i] = int64(i * 3 / len(rows))
			}
			dims, _ := where.Eval(nil)
			benchmark(b, g.program(Options{Replace: none}), map[string]*ir.Data{
				"x": floats(b, ir.F32, noise(3*1024, 1), 3, 1024), "at": integers(b, ir.I32, rows, dims...)})
		})
	}
}
