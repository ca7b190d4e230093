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

// TestConstantsInBodies: a loop or a branch of constants is no constant where it runs as often, or computes of as much,
// as a symbol says.
func TestConstantsInBodies(t *testing.T) {
	for name, text := range map[string]string{
		"trips": `%y = loop %c {trips=[T], body=graph "" {
			%0 = state {name="s", dtype=i32, shape=[]}
			%1 = add %0, %0
			update %0 = %1
		}}`,
		"an extent of a body": `%y = loop %c {trips=[3], body=graph "" {
			symbol T <= 5
			%0 = state {name="s", dtype=i32, shape=[]}
			%1 = dim_value {dim=[T]}
			%2 = sub %1, %1
			%3 = add %2, %0
			%4 = add %3, %0
			update %0 = %4
		}}`,
		"an axis of a body": `%y = if %yes, %c {then=graph "" {
			symbol T <= 5
			%0 = input {name="c", dtype=i32, shape=[]}
			%1 = broadcast %0 {shape=[T]}
			%2 = sum %1 {axes=[0]}
			%3 = add %2, %0
			%4 = add %3, %0
			%5 = add %4, %0
			%6 = add %5, %0
			%7 = add %6, %0
			output "o" %7
		}, else=graph "" {
			%0 = input {name="c", dtype=i32, shape=[]}
			output "o" %0
		}}`,
	} {
		g, err := ir.Parse(`graph "g" {
			symbol T <= 5
			%c = const {data=i32[](1)}
			%yes = const {data=bool[](true)}
			` + text + `
			output "y" %y
		}`)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		y := g.Outputs()[0].Node
		if IsConstant(g)[y.ID()] {
			t.Errorf("%s: it counts as constant", name)
		}
		if _, err := Eval(t.Context(), g, []*ir.Node{y}, Options{}); err == nil {
			t.Errorf("%s: Eval computed it", name)
		}
		p, err := New(g, Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out, err := p.Run(t.Context(), nil, map[string]int64{"T": 3})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if have, err := out["y"].Ints(); err != nil || have[0] != 8 {
			t.Errorf("%s: %v, %v; want 8", name, have, err)
		}
	}
}
