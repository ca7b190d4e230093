package interp

import (
	"context"
	"math"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestBodiesAfterNew: the bodies of loops and branches, which are prepared when they first run, ask the context of that
// run whether to go on, and not the one that New had.
func TestBodiesAfterNew(t *testing.T) {
	const text = `graph "g" {
  %x = input {name="x", dtype=f32, shape=[2]} : f32[2]
  %y = loop %x {trips=[3], body=graph "body" {
    %s = state {name="s", dtype=f32, shape=[2]} : f32[2]
    %i = iota {shape=[2]} : i32[2]
    %c = cast %i {dtype=f32} : f32[2]
    %n = add %s, %c : f32[2]
    update %s = %n
  }} : f32[2]
  output "y" %y
}`
	g, err := ir.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	loading, loaded := context.WithCancel(t.Context())
	p, err := New(g, Options{Context: loading})
	if err != nil {
		t.Fatal(err)
	}
	loaded()
	out, err := p.Run(t.Context(), map[string]*ir.Data{"x": floats(t, ir.F32, []float64{1, 3}, 2)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if y, err := out["y"].Floats(); err != nil || y[0] != 1 || y[1] != 6 {
		t.Errorf("1 and 3 after 0 and 1 are added three times are %v, %v", y, err)
	}
}

// TestPoison: a kernel that leaves elements out which it says it sets, or reads its room before it has, gives NaN.
func TestPoison(t *testing.T) {
	in := map[string]*ir.Data{"x": floats(t, ir.F32, []float64{1, 3}, 2)}
	for name, compute := range map[string]func(c *Call) error{
		"an element is left out": func(c *Call) error { c.Out[0] = -c.Args[0].Floats[0]; return nil },
		"a worker's room is read": func(c *Call) error {
			room := c.Room(0, 2)
			c.Out[0], c.Out[1] = -c.Args[0].Floats[0], -c.Args[0].Floats[1]+room[1]-room[1]
			room[1] = 0
			return nil
		},
	} {
		for _, poison := range []bool{false, true} {
			b := newGraph(t)
			x := b.input("x", ir.F32, ir.ShapeOf(2))
			b.output("y", b.add(ir.OpAdd, []*ir.Node{b.add(ir.OpNeg, []*ir.Node{x}), x}))
			p := b.program(Options{Poison: poison, Replace: func(g *ir.Graph) []*Kernel {
				list := none(g)
				for i, n := range g.Nodes() {
					if n.Op() == ir.OpNeg {
						list[i] = &Kernel{Compute: compute, Stored: -1, Fills: true}
					}
				}
				return list
			}})
			for range 2 {
				out, err := p.Run(t.Context(), in, nil)
				if err != nil {
					t.Fatal(err)
				}
				y, err := out["y"].Floats()
				if err != nil || y[0] != 0 || math.IsNaN(y[1]) != poison {
					t.Errorf("%s, poison %v: %v, %v", name, poison, y, err)
				}
			}
		}
	}
}
