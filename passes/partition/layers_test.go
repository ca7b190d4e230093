package partition_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/partition"
)

// stack is a graph of equal layers, each with a weight and a state.
func stack(t *testing.T, layers, rows int) *ir.Graph {
	t.Helper()
	g, err := frontend.Build("stack", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, rows, 16)
		for i := range layers {
			s := b.State(fmt.Sprint("s", i), ir.F32, 16)
			x = x.MatMul(b.Weight(fmt.Sprint("w", i), ir.F32, 16, 16)).Softmax(-1)
			next := s.Add(x.Sum(0))
			b.Update(s, next)
			x = x.Add(next)
		}
		b.Output("y", x)
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestSplitLayers: equal layers are cut by the shares, and another graph of them where the first was cut.
func TestSplitLayers(t *testing.T) {
	parts, err := partition.SplitLayers(stack(t, 8, 2), []float64{1, 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(parts) != 2 || parts[0].Stored != parts[1].Stored {
		t.Errorf("%d parts with %d bytes in the first", len(parts), parts[0].Stored)
	}
	if parts, err = partition.SplitLayers(stack(t, 8, 2), []float64{1, 3}, nil); err != nil {
		t.Fatal(err)
	}
	if 3*parts[0].Stored != parts[1].Stored {
		t.Errorf("%d and %d bytes, want three times as many", parts[0].Stored, parts[1].Stored)
	}
	home := partition.Homes(parts)
	again, err := partition.SplitLayers(stack(t, 8, 5), []float64{1, 1}, home)
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range partition.Homes(again) {
		if home[name] != at {
			t.Errorf("%s is on device %d, and was on %d", name, at, home[name])
		}
	}
	home["s7"] = 0 // this state comes after all others
	if _, err := partition.SplitLayers(stack(t, 8, 5), []float64{1, 1}, home); err == nil ||
		!strings.Contains(err.Error(), "no place left") {
		t.Errorf("a state of the last layer is on the first device: %v", err)
	}
}

// TestSplitLayersWhole: a graph without weights and states is not divided.
// TestSplitLayersResults: the results of a loop stay with it, wherever they are in the graph.
func TestSplitLayersResults(t *testing.T) {
	g, err := ir.Parse(`graph "g" {
		%x = input {name="x", dtype=f32, shape=[4]}
		%w = weight {name="w", dtype=f32, shape=[4]}
		%v = weight {name="v", dtype=f32, shape=[4]}
		%loop = loop %x, %w {trips=[3], while=false, body=graph "" {
			%a = state {name="a", dtype=f32, shape=[4]}
			%b = state {name="b", dtype=f32, shape=[4]}
			%next = neg %b
			update %a = %b
			update %b = %next
		}}
		%y = neg %loop
		%z = mul %y, %v
		%second = result %loop {index=1}
		%sum = add %z, %second
		output "sum" %sum
	}`)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := partition.SplitLayers(g, []float64{1, 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(parts) != 2 || len(parts[0].Gives) != 2 {
		t.Errorf("%d parts, and the first gives %v: want two results of the loop", len(parts), parts[0].Gives)
	}
}

// TestSplitLayersBlocks: no value in blocks passes from part to part.
func TestSplitLayersBlocks(t *testing.T) {
	g, err := ir.Parse(`graph "g" {
		%x = input {name="x", dtype=f32, shape=[4,64]}
		%w = weight {name="w", dtype=f32, shape=[4,64]}
		%v = weight {name="v", dtype=f32, shape=[4,64]}
		%y = mul %x, %w
		%blocks = quantize %y {dtype=q8_0}
		%z = mul %x, %v
		%m = matmul %z, %blocks {transpose_b=true}
		%m2 = mul %m, %m
		output "m" %m2
	}`)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := partition.SplitLayers(g, []float64{1, 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(parts) != 2 {
		t.Errorf("%d parts, want 2", len(parts))
	}
}

// TestSplitLayersUnusedState: a state that nothing reads or updates is in one part, and on its home device if it has
// one.
func TestSplitLayersUnusedState(t *testing.T) {
	g, err := frontend.Build("g", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 2, 16)
		for i := range 4 {
			x = x.MatMul(b.Weight(fmt.Sprint("w", i), ir.F32, 16, 16)).Softmax(-1)
		}
		b.State("unused", ir.F32, 16)
		b.Output("y", x)
	})
	if err != nil {
		t.Fatal(err)
	}
	for at, home := range map[int]map[string]int{1: nil, 0: {"unused": 0}} {
		parts, err := partition.SplitLayers(g, []float64{1, 1}, home)
		if err != nil {
			t.Fatal(err)
		}
		if have, ok := partition.Homes(parts)["unused"]; !ok || have != at {
			t.Errorf("with homes %v the state is on device %d (%t), want %d", home, have, ok, at)
		}
	}
}

// TestSplitLayersJoinedStates: states that become each other's next values are in one part, whichever layers read them.
func TestSplitLayersJoinedStates(t *testing.T) {
	g, err := frontend.Build("g", func(b *frontend.Builder) {
		first, last := b.State("first", ir.F32, 2, 16), b.State("last", ir.F32, 2, 16)
		third := b.State("third", ir.F32, 2, 16)
		x := b.Input("x", ir.F32, 2, 16)
		for i := range 6 {
			x = x.MatMul(b.Weight(fmt.Sprint("w", i), ir.F32, 16, 16)).Softmax(-1)
			switch i {
			case 1:
				x = x.Add(first)
			case 3:
				x = x.Add(last)
			}
		}
		b.Output("y", x)
		b.Update(first, third)
		b.Update(last, x)
		b.Update(third, last)
	})
	if err != nil {
		t.Fatal(err)
	}
	parts, err := partition.SplitLayers(g, []float64{1, 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	updates := 0
	for i, p := range parts {
		updates += len(p.Updates())
		if n := len(p.Leaves(ir.OpState)); n != 0 && n != 3 {
			t.Errorf("part %d has %d of 3 states:\n%s", i, n, p)
		}
	}
	if updates != 3 {
		t.Errorf("%d updates, want 3", updates)
	}
}

func TestSplitLayersWhole(t *testing.T) {
	g, err := frontend.Build("plain", func(b *frontend.Builder) {
		b.Output("y", b.Input("x", ir.F32, 4).Softmax(0).MulScalar(2))
	})
	if err != nil {
		t.Fatal(err)
	}
	parts, err := partition.SplitLayers(g, []float64{1, 1, 1}, nil)
	if err != nil || len(parts) != 1 || parts[0].Device != 2 || parts[0].Graph != g {
		t.Errorf("%d parts, %v", len(parts), err)
	}
}
