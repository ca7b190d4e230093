package interp

import (
	"context"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestSharedPacks checks that programs with the same weights share what kernels packed, if the form is the same, and
// that a weight which nothing else needs is dropped.
func TestSharedPacks(t *testing.T) {
	graph := func() *ir.Graph {
		b := newGraph(t)
		x, w := b.input("x", ir.F32, ir.ShapeOf(1, 32)), b.leaf(ir.OpWeight, "w", ir.Q8_0, ir.ShapeOf(2, 32))
		b.output("y", b.add(ir.OpMatMul, []*ir.Node{x, w}, "transpose_b", true))
		return b.Graph
	}
	weights := func() *packedSource {
		d, err := ir.NewData(ir.Q8_0, 2, 32)
		if err != nil {
			t.Fatal(err)
		}
		return &packedSource{d}
	}
	calls, form := 0, "f"
	replace := func(g *ir.Graph) []*Kernel {
		list := make([]*Kernel, len(g.Nodes()))
		list[g.Outputs()[0].Node.ID()] = &Kernel{Stored: 1, Packs: 1, Form: form,
			Pack: func(s Tensor) []float32 {
				calls++
				return []float32{float32(len(s.Stored.Bytes))}
			},
			Compute: func(c *Call) error {
				c.Out[0], c.Out[1] = c.Args[1].Packed[0], float32(len(c.Args[1].Stored.Bytes))
				return nil
			}}
		return list
	}
	source := weights()
	first, err := New(graph(), Options{Weights: source, Replace: replace})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		what    string
		weights ir.WeightSource
		form    string
		calls   int
	}{
		{"the same weights", source, "f", 1}, {"the first program's weights", nil, "f", 1},
		{"another form", source, "g", 2}, {"other weights", weights(), "f", 3}, {"no form", source, "", 4},
	} {
		form = tt.form
		p, err := New(graph(), Options{Weights: tt.weights, Replace: replace, Share: first})
		if err != nil {
			t.Fatal(err)
		}
		if calls != tt.calls {
			t.Fatalf("%s: packed %d times, want %d", tt.what, calls, tt.calls)
		}
		x, err := ir.NewData(ir.F32, 1, 32)
		if err != nil {
			t.Fatal(err)
		}
		out, err := p.Run(context.Background(), map[string]*ir.Data{"x": x}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if y := listIn[float32](out["y"].Bytes); y[0] != 68 || y[1] != 0 {
			t.Fatalf("%s: the kernel got %g packed, and %g bytes", tt.what, y[0], y[1])
		}
	}
}

// packedSource has one weight.
type packedSource struct{ *ir.Data }

func (w *packedSource) Weight(string) (*ir.Data, error) { return w.Data, nil }

// TestBodyConstants checks that a body packs a weight that it takes as an input once, and not in each run.
func TestBodyConstants(t *testing.T) {
	const text = `graph "g" {
  %x = input {name="x", dtype=f32, shape=[1,2]} : f32[1,2]
  %w = weight {name="w", dtype=f32, shape=[2,2]} : f32[2,2]
  %y = loop %x, %w {trips=[2], body=graph "body" {
    %s = state {name="s", dtype=f32, shape=[1,2]} : f32[1,2]
    %v = input {name="v", dtype=f32, shape=[2,2]} : f32[2,2]
    %n = matmul %s, %v : f32[1,2]
    update %s = %n
  }} : f32[1,2]
  output "y" %y
}`
	g, err := ir.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	p, err := New(g, Options{Weights: &packedSource{floats(t, ir.F32, []float64{1, 2, 3, 4}, 2, 2)},
		Replace: func(g *ir.Graph) []*Kernel {
			list := make([]*Kernel, len(g.Nodes()))
			for i, n := range g.Nodes() {
				if n.Op() == ir.OpMatMul {
					list[i] = &Kernel{Stored: -1, Packs: 1,
						Pack: func(w Tensor) []float32 { calls++; return w.Floats },
						Compute: func(c *Call) error {
							x, w := c.Args[0].Floats, c.Args[1].Packed
							c.Out[0], c.Out[1] = x[0]*w[0]+x[1]*w[2], x[0]*w[1]+x[1]*w[3]
							return nil
						}}
				}
			}
			return list
		}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		out, err := p.Run(t.Context(), map[string]*ir.Data{"x": floats(t, ir.F32, []float64{1, 1}, 1, 2)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if y := listIn[float32](out["y"].Bytes); y[0] != 22 || y[1] != 32 || calls != 1 {
			t.Fatalf("the result is %g after %d calls of Pack, want [22 32] after 1", y, calls)
		}
	}
}
