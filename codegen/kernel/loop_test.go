package kernel

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// regionsProgram is a program of six steps with nested gated regions. Step 2 is the gate of the inner region.
func regionsProgram() *Program {
	p := &Program{Shaders: []Shader{{Name: "s", Bindings: 1, Workgroup: 1}}, Buffers: []Buffer{
		{Kind: BufTemp, DType: ir.U32, Shape: ir.ShapeOf(4), Bytes: 16},
		{Kind: BufGated, DType: ir.U32, Shape: ir.ShapeOf(3), Bytes: 16},
	}, ArenaBytes: 16}
	for i := range 6 {
		st := Step{Name: fmt.Sprint(i), Binds: []Bind{{Write: true}}, Barrier: i > 0}
		if i == 2 {
			st.Binds[0].Buffer = 1
		}
		p.Steps = append(p.Steps, st)
	}
	p.Regions = []Region{{First: 1, Count: 4, Trips: ir.D(2)}, {First: 2, Count: 2, Trips: ir.D(2), Gated: true}}
	return p
}

// TestRegions: steps run as often as the regions around them say.
func TestRegions(t *testing.T) {
	p := regionsProgram()
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(p.Gated()); got != "[3]" {
		t.Errorf("steps %s are gated", got)
	}
	var ran []string
	p.Walk(0, func(i int) { ran = append(ran, fmt.Sprint(i)) }, func(r Region, body func()) {
		for range r.Trips.Add {
			body()
		}
	})
	if got := strings.Join(ran, " "); got != "0 1 2 3 2 3 4 1 2 3 2 3 4 5" {
		t.Errorf("steps run in the order %s", got)
	}
}

// TestDamagedRegions: invalid regions in a hostile file are rejected.
func TestDamagedRegions(t *testing.T) {
	for want, damage := range map[string]func(p *Program){
		"do not lie in":                   func(p *Program) { p.Regions[1].Count = 4 },
		"region 0: 9 steps":               func(p *Program) { p.Regions[0].Count = 9 },
		"region 0: 0 steps":               func(p *Program) { p.Regions[0].Count = 0 },
		"region 0: 4 steps from 9223":     func(p *Program) { p.Regions[0].First = math.MaxInt64 },
		"region 0: 4 steps from -1":       func(p *Program) { p.Regions[0].First = -1 },
		"region 1: 4 steps from 1":        func(p *Program) { p.Regions[0], p.Regions[1] = p.Regions[1], p.Regions[0] },
		"its first step is not a gate":    func(p *Program) { p.Steps[2].Binds[0].Buffer = 0 },
		"no barrier stands where":         func(p *Program) { p.Steps[3].Barrier = false },
		"-1 trips":                        func(p *Program) { p.Regions[0].Trips = ir.D(-1) },
		"no declared symbol":              func(p *Program) { p.Regions[0].Trips = ir.Symbol("T", 4) },
		"workgroup counts of 1 steps":     func(p *Program) { p.Buffers[1].Shape = ir.ShapeOf(4) },
		"more than 17 lie in one another": func(p *Program) { p.Regions = nest(18) },
	} {
		p := regionsProgram()
		damage(p)
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the program is checked with %v", want, err)
		}
	}
}

// nest returns regions of one step in one another.
func nest(n int) (list []Region) {
	for range n {
		list = append(list, Region{First: 1, Count: 1, Trips: ir.D(1)})
	}
	return list
}
