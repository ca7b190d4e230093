package vkc_test

import (
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
)

// TestCheapest: a graph that reads large weights uses tensor parallelism, and a small graph runs on one device. The
// prices include the expected time of each choice.
func TestCheapest(t *testing.T) {
	for _, c := range []struct {
		width int
		parts int
		want  string
	}{
		{16384, 2, "tensor is cheapest"},
		{64, 0, "one device is cheapest"},
	} {
		devices, err := vkc.OpenDevices("vulkan,vulkan")
		vktest.Need(t, err)
		g, err := frontend.Build("two products", func(b *frontend.Builder) {
			h := b.Input("x", ir.F32, 1, c.width).MatMulT(b.ShardedWeight(0, "up", ir.F32, c.width, c.width)).Silu()
			b.Output("y", h.MatMulT(b.ShardedWeight(1, "down", ir.F32, c.width, c.width)))
		})
		if err != nil {
			t.Fatal(err)
		}
		one, err := devices.Cheapest(t.Context(), g)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(one.Parts()); c.parts == 0 && n > 1 || c.parts > 0 && n != c.parts {
			t.Errorf("width %d: %d devices, want %d", c.width, n, c.parts)
		}
		for _, want := range []string{c.want, "one device: ", "layers: ", "tensor: ", "s a run"} {
			if !strings.Contains(one.Why(), want) {
				t.Errorf("width %d: %s, want %q", c.width, one.Why(), want)
			}
		}
		t.Log(one.Why())
		if err := one.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCheapestUnknown: run times on the processor are unknown.
func TestCheapestUnknown(t *testing.T) {
	devices, err := vkc.OpenDevices("cpu,cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer devices.Close()
	g, err := frontend.Build("small", func(b *frontend.Builder) {
		b.Output("y", b.Input("x", ir.F32, 1, 4).MatMulT(b.ShardedWeight(0, "w", ir.F32, 4, 4)))
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := devices.Cheapest(t.Context(), g); err == nil || !strings.Contains(err.Error(), "is not known") {
		t.Error(err)
	}
}
