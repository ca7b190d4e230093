package vk

import (
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// TestWarmSymbols: the warm-up has symbols of 1, unless an extent would be negative or a kernel would have no results.
func TestWarmSymbols(t *testing.T) {
	b, s := ir.Symbol("B", 4), ir.Symbol("T", 16)
	product, err := b.Mul2(s.Plus(-2))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		extent     ir.Dim
		want, grid int64 // of T, if a buffer or a grid has this extent
	}{{ir.D(7), 1, 1}, {s, 1, 1}, {s.Plus(-1), 1, 16}, {s.Plus(-2), 16, 16}, {product, 16, 16}} {
		p := &kernel.Program{Symbols: []kernel.Symbol{{Name: "B", Bound: 4}, {Name: "T", Bound: 16}},
			Buffers: []kernel.Buffer{{Shape: ir.Shape{b, tt.extent}}}}
		if got := warmSymbols(p)["T"]; got != tt.want {
			t.Errorf("of an extent %s: T is %d, want %d", tt.extent, got, tt.want)
		}
		p.Buffers, p.Steps = nil, []kernel.Step{{Grid: kernel.Grid{0: {{Extent: tt.extent, Tile: 1}}}}}
		if got := warmSymbols(p)["T"]; got != tt.grid {
			t.Errorf("of a grid %s: T is %d, want %d", tt.extent, got, tt.grid)
		}
	}
}
