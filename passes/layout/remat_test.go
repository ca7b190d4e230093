package layout_test

import (
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
)

// TestRematMemory: temporaries of a stack of blocks take less memory where each is computed again.
func TestRematMemory(t *testing.T) {
	const layers, rows, width = 8, 64, 32
	arena := func(again bool) int64 {
		g, err := frontend.Build("stack", func(b *frontend.Builder) {
			h := b.Input("x", ir.F32, rows, width)
			var params []frontend.Tensor
			for i := range layers {
				up := b.Weight("up"+string(rune('0'+i)), ir.F32, width, 4*width)
				down := b.Weight("down"+string(rune('0'+i)), ir.F32, 4*width, width)
				params = append(params, up, down)
				block := func() []frontend.Tensor {
					return []frontend.Tensor{h.Add(h.Tanh().MatMul(up).Gelu().MatMul(down))}
				}
				if again {
					h = b.Remat(block)[0]
				} else {
					h = block()[0]
				}
			}
			for i, g := range frontend.Grad(h.Sqr().Sum(), params...) {
				b.Output(params[i].Node().Name(), g)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		s, err := passes.Run(g, passes.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("again %v: %d kernels, arena %d bytes", again, len(s.Kernels), s.Program.ArenaBytes)
		return s.Program.ArenaBytes
	}
	if kept, again := arena(false), arena(true); again*2 > kept {
		t.Errorf("temporaries take %d bytes with Remat and %d without: want less than half", again, kept)
	}
}
