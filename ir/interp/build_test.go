package interp

import (
	"context"
	"math"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// builder makes graphs for tests; any error ends the test.
type builder struct {
	t testing.TB
	*ir.Graph
}

func newGraph(t testing.TB) builder { return builder{t, ir.NewGraph(t.Name())} }

// attrs is a short way to write attributes: name, value, name, value…
func attrs(pairs ...any) []ir.Attr {
	var list []ir.Attr
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, ir.Attr{Name: pairs[i].(string), Value: pairs[i+1]})
	}
	return list
}

func (b builder) add(op ir.Op, args []*ir.Node, pairs ...any) *ir.Node {
	b.t.Helper()
	n, err := b.Add(op, args, attrs(pairs...), "")
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

func (b builder) leaf(op ir.Op, name string, t ir.DType, s ir.Shape) *ir.Node {
	b.t.Helper()
	return b.add(op, nil, "name", name, "dtype", t, "shape", s)
}

func (b builder) input(name string, t ir.DType, s ir.Shape) *ir.Node {
	b.t.Helper()
	return b.leaf(ir.OpInput, name, t, s)
}

func (b builder) constant(d *ir.Data) *ir.Node {
	b.t.Helper()
	return b.add(ir.OpConst, nil, "data", d)
}

func (b builder) output(name string, n *ir.Node) {
	b.t.Helper()
	if err := b.Output(name, n); err != nil {
		b.t.Fatal(err)
	}
}

func (b builder) update(state, value *ir.Node) {
	b.t.Helper()
	if err := b.Update(state, value); err != nil {
		b.t.Fatal(err)
	}
}

func (b builder) program(opt Options) *Program {
	b.t.Helper()
	p, err := New(b.Graph, opt)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func run(t testing.TB, p *Program, in map[string]*ir.Data, symbols map[string]int64) map[string]*ir.Data {
	t.Helper()
	out, err := p.Run(context.Background(), in, symbols)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func floats(t testing.TB, dt ir.DType, values []float64, dims ...int) *ir.Data {
	t.Helper()
	d, err := ir.FromFloats(dt, values, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func integers(t testing.TB, dt ir.DType, values []int64, dims ...int) *ir.Data {
	t.Helper()
	d, err := ir.FromInts(dt, values, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// noise returns n values from -1 to 1 that look random and are always the same.
func noise(n, seed int) []float64 {
	out := make([]float64, n)
	for i := range out {
		_, frac := math.Modf(math.Abs(math.Sin(float64(i+1)*12.9898+float64(seed)*78.233)) * 43758.5453)
		out[i] = 2*frac - 1
	}
	return out
}

// weights is a weight source for tests.
type weights map[string]*ir.Data

func (w weights) Weight(name string) (*ir.Data, error) {
	if d, ok := w[name]; ok {
		return d, nil
	}
	return nil, errNoWeight
}
