package interp

import (
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// doubling is a backend that doubles where the graph negates.
func doubling(g *ir.Graph) []*Kernel {
	list := none(g)
	for i, n := range g.Nodes() {
		if n.Op() == ir.OpNeg {
			list[i] = &Kernel{Stored: -1, Fills: true, Compute: func(c *Call) error {
				for i, x := range c.Args[0].Floats {
					c.Out[i] = 2 * x
				}
				return nil
			}}
		}
	}
	return list
}

// TestInto checks where outputs go that are given memory, and that no tensor of the caller's becomes part of a state.
func TestInto(t *testing.T) {
	b := newGraph(t)
	x := b.input("x", ir.F32, ir.ShapeOf(4))
	kept, twice := b.leaf(ir.OpState, "kept", ir.F32, ir.ShapeOf(4)), b.leaf(ir.OpState, "twice", ir.F32, ir.ShapeOf(4))
	y := b.add(ir.OpNeg, []*ir.Node{x})
	b.output("y", y)
	b.output("view", b.add(ir.OpReshape, []*ir.Node{x}, "shape", ir.ShapeOf(2, 2)))
	b.output("before", b.add(ir.OpNeg, []*ir.Node{kept}))
	b.update(kept, x)
	b.update(twice, y)
	p := b.program(Options{Replace: doubling})
	in := floats(t, ir.F32, []float64{1, 2, 3, 4}, 4)
	odd := &ir.Data{DType: ir.F32, Dims: []int{4}, Bytes: make([]byte, 17)[1:]} // where no float may lie
	for i, tt := range []struct {
		name string
		x    *ir.Data
		into map[string]*ir.Data
	}{
		{"nowhere", in, nil},
		{"memory", in, map[string]*ir.Data{"y": floats(t, ir.F32, []float64{9, 9, 9, 9}, 4),
			"view": floats(t, ir.F32, []float64{9, 9, 9, 9}, 2, 2)}},
		{"odd memory", in, map[string]*ir.Data{"y": odd}},
		{"odd input", &ir.Data{DType: ir.F32, Dims: []int{4}, Bytes: append(make([]byte, 1, 17), in.Bytes...)[1:]}, nil},
		{"the input", in, map[string]*ir.Data{"y": in}},
	} {
		out, err := p.RunInto(t.Context(), map[string]*ir.Data{"x": tt.x}, nil, tt.into)
		if err != nil {
			t.Fatal(err)
		}
		for name, d := range tt.into {
			if out[name] != d {
				t.Errorf("%s: output %q is another tensor than the one given", tt.name, name)
			}
		}
		before := 1.0
		if i == 0 {
			before = 0
		}
		for name, factor := range map[string]float64{"y": 2, "view": 1, "before": 2 * before} {
			have, err := out[name].Floats()
			for j, v := range have {
				if err != nil || v != factor*float64(j+1) {
					t.Errorf("%s: %s is %v, want %g times 1 to 4", tt.name, name, have, factor)
				}
			}
		}
		for _, d := range out { // the caller's again
			clear(d.Bytes)
		}
		for name, factor := range map[string]float64{"kept": 1, "twice": 2} {
			d, err := p.State(name)
			if err != nil {
				t.Fatal(err)
			}
			have, err := d.Floats()
			for j, v := range have {
				if err != nil || v != factor*float64(j+1) {
					t.Errorf("%s: state %q is %v, want %g times 1 to 4", tt.name, name, have, factor)
				}
			}
		}
	}
}

// TestIntoConstant: an output that no run computes, since it depends on constants only, is written to the memory given.
func TestIntoConstant(t *testing.T) {
	b := newGraph(t)
	c := b.add(ir.OpConst, nil, "data", floats(t, ir.F32, []float64{1, 2}, 2))
	b.output("y", b.add(ir.OpNeg, []*ir.Node{c}))
	given := floats(t, ir.F32, []float64{9, 9}, 2)
	p := b.program(Options{Replace: doubling})
	for range 2 {
		out, err := p.RunInto(t.Context(), nil, nil, map[string]*ir.Data{"y": given})
		if err != nil {
			t.Fatal(err)
		}
		// The interpreter computes constants, without the kernel that doubles.
		if have, err := given.Floats(); err != nil || have[0] != -1 || have[1] != -2 || out["y"] != given {
			t.Errorf("y is %v (%v) in the memory given: %t, want -1 and -2", have, err, out["y"] == given)
		}
		clear(given.Bytes)
	}
}

// TestOutputTwice: a node that is two outputs gives two tensors.
func TestOutputTwice(t *testing.T) {
	b := newGraph(t)
	y := b.add(ir.OpNeg, []*ir.Node{b.input("x", ir.F32, ir.ShapeOf(2))})
	b.output("a", y)
	b.output("b", y)
	given := floats(t, ir.F32, []float64{0, 0}, 2)
	out, err := b.program(Options{Replace: doubling}).RunInto(t.Context(),
		map[string]*ir.Data{"x": floats(t, ir.F32, []float64{1, 2}, 2)}, nil, map[string]*ir.Data{"b": given})
	if err != nil {
		t.Fatal(err)
	}
	out["b"].Bytes[0] = 1
	if have, err := out["a"].Floats(); err != nil || have[0] != 2 || have[1] != 4 || out["b"] != given {
		t.Errorf("a is %v (%v), want [2 4]; b lies in the memory given: %v", have, err, out["b"] == given)
	}
}
