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
