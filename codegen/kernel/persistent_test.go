package kernel_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// persistentProgram has four steps. A persistent kernel performs the two in the middle.
func persistentProgram() *kernel.Program {
	buffer := func(kind kernel.BufferKind, words int) kernel.Buffer {
		return kernel.Buffer{Kind: kind, Name: string(kind), DType: ir.U32, Shape: ir.ShapeOf(words), Bytes: 16}
	}
	p := &kernel.Program{
		Buffers: []kernel.Buffer{buffer(kernel.BufState, 4), buffer(kernel.BufBarrier, kernel.BarrierWords),
			buffer(kernel.BufLate, 1)},
		Shaders: []kernel.Shader{{Name: "one", Bindings: 1, Workgroup: 32}, {Name: "both", Bindings: 3, Workgroup: 32}},
		States:  []kernel.Port{{Name: "s", Buffer: 0, DType: ir.U32, Shape: ir.ShapeOf(4)}},
	}
	grid := kernel.Grid{{{Extent: ir.D(2), Tile: 1}}}
	bind := func(i int) kernel.Bind { return kernel.Bind{Buffer: i, Read: true, Write: true} }
	for i := range 4 {
		p.Steps = append(p.Steps, kernel.Step{Name: "step", Binds: []kernel.Bind{bind(0)}, Grid: grid, Barrier: i > 0})
	}
	p.Persistent = []kernel.Persistent{{First: 1, Count: 2, Dispatch: kernel.Step{Name: "both", Shader: 1,
		Binds: []kernel.Bind{bind(0), bind(1), bind(2)}, Grid: grid, Barrier: true}}}
	return p
}

func TestPersistentJoined(t *testing.T) {
	p := persistentProgram()
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	have, want := p.UsePersistent([]int{0, 1, 2, 3, 0, 1, 2, 3}), []int{0, 4, 3, 0, 4, 3}
	if !slices.Equal(have, want) {
		t.Errorf("joined steps are %v, want %v", have, want)
	}
	if have := p.Dispatches(); len(have) != 5 || have[4].Name != "both" {
		t.Errorf("dispatches are %v", have)
	}
}

func TestPersistentCheck(t *testing.T) {
	for want, change := range map[string]func(p *kernel.Program, k *kernel.Persistent){
		"it does 2 steps from 3 on":   func(_ *kernel.Program, k *kernel.Persistent) { k.First = 3 },
		"it does 1 steps":             func(_ *kernel.Program, k *kernel.Persistent) { k.Count = 1 },
		"it does 2 steps from -1 on":  func(_ *kernel.Program, k *kernel.Persistent) { k.First = -1 },
		"no barrier stands before":    func(_ *kernel.Program, k *kernel.Persistent) { k.Dispatch.Barrier = false },
		"no barrier stands before or": func(p *kernel.Program, _ *kernel.Persistent) { p.Steps[3].Barrier = false },
		"it lacks counters": func(_ *kernel.Program, k *kernel.Persistent) {
			k.Dispatch.Binds[1], k.Dispatch.Binds[2] = k.Dispatch.Binds[2], k.Dispatch.Binds[1]
		},
		"no shader 7": func(_ *kernel.Program, k *kernel.Persistent) { k.Dispatch.Shader = 7 },
		"a region begins or ends": func(p *kernel.Program, _ *kernel.Persistent) {
			p.Regions = []kernel.Region{{First: 2, Count: 1, Trips: ir.D(3)}}
		},
		"2 steps from 1 on, of 4": func(p *kernel.Program, k *kernel.Persistent) { p.Persistent = append(p.Persistent, *k) },
		"counters":                func(p *kernel.Program, _ *kernel.Persistent) { p.Buffers[1].Shape = ir.ShapeOf(3) },
	} {
		p := persistentProgram()
		change(p, &p.Persistent[0])
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error of %q: %v", want, err)
		}
	}
}
