package kernel

import (
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

func TestGridEval(t *testing.T) {
	T := ir.Symbol("T", 100)
	g := Grid{{{T, 64}, {ir.D(3), 1}}, {{ir.D(7), 2}}}
	got, err := g.Eval(map[string]int64{"T": 65})
	if err != nil || got != [3]uint32{6, 4, 1} {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := g.Eval(map[string]int64{"T": 0}); err != nil || got[0] != 0 {
		t.Errorf("an empty extent: %v, %v", got, err)
	}
	for _, bad := range []Grid{
		{{{ir.D(1 << 30), 1}, {ir.D(1 << 34), 1}}}, // overflows int64 once multiplied
		{{{ir.D(1 << 30), 1<<63 - 1}}},
		{{{ir.D(5), 0}}},
		{{{ir.D(-5), 1}}},
	} {
		if got, err := bad.Eval(nil); err == nil {
			t.Errorf("%v: got %v, want an error", bad, got)
		}
	}
}

// valid returns a program that passes Check.
func valid() *Program {
	T := ir.Symbol("T", 8)
	shape := ir.Shape{T, ir.D(4)}
	return &Program{
		Symbols: []Symbol{{"T", 8}},
		Buffers: []Buffer{
			{Kind: BufInput, DType: ir.F32, Shape: shape, Bytes: 128},
			{Kind: BufOutput, DType: ir.F32, Shape: shape, Bytes: 128},
			{Kind: BufParams, DType: ir.U32, Shape: ir.ShapeOf(1), Bytes: 16},
			{Kind: BufTemp, DType: ir.F32, Shape: shape, Bytes: 128, Offset: 256},
			{Kind: BufWeight, DType: ir.F32, Shape: ir.ShapeOf(4), Bytes: 16, Segments: []Segment{{Weight: "w", DType: ir.F32, Dims: []int{4}}}},
		},
		ArenaBytes: 512,
		Shaders:    []Shader{{Name: "k", Bindings: 2, Workgroup: 64}},
		Steps:      []Step{{Shader: 0, Binds: []Bind{{Buffer: 0, Read: true}, {Buffer: 1, Write: true}}, Grid: Grid{{{T, 64}}}}},
		Inputs:     []Port{{Name: "x", Buffer: 0, DType: ir.F32, Shape: shape}},
		Outputs:    []Port{{Name: "y", Buffer: 1, DType: ir.F32, Shape: shape}},
	}
}

func TestProgramCheck(t *testing.T) {
	if err := valid().Check(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		damage func(*Program)
		want   string
	}{
		{"shader index", func(p *Program) { p.Steps[0].Shader = 1 }, "no shader 1"},
		{"buffer index", func(p *Program) { p.Steps[0].Binds[0].Buffer = -1 }, "no buffer -1"},
		{"an input is written", func(p *Program) { p.Steps[0].Binds[0].Write = true }, "it writes buffer 0, an input"},
		{"binding count", func(p *Program) { p.Steps[0].Binds = p.Steps[0].Binds[:1] }, "1 buffers for a shader of 2 bindings"},
		{"buffer too small", func(p *Program) { p.Buffers[0].Bytes = 112 }, "112 bytes for f32[T,4]"},
		{"buffer too large", func(p *Program) { p.Buffers[0].Bytes = 1 << 40 }, "bytes for f32[T,4]"},
		{"outside the arena", func(p *Program) { p.Buffers[3].Offset = 400 }, "outside the arena"},
		{"negative offset", func(p *Program) { p.Buffers[3].Offset = -16 }, "outside the arena"},
		{"symbol", func(p *Program) { p.Symbols[0].Name = "S" }, "no declared symbol"},
		{"bound", func(p *Program) { p.Symbols[0].Bound = 9 }, "no declared symbol"},
		{"a product's factor", func(p *Program) { p.Steps[0].Grid[0][0].Extent = dimTimes(ir.Symbol("T", 8), ir.Symbol("S", 2)) }, "no declared symbol"},
		{"a product's bound", func(p *Program) { p.Steps[0].Grid[0][0].Extent = dimTimes(ir.Symbol("T", 9), ir.Symbol("T", 8)) }, "no declared symbol"},
		{"kind", func(p *Program) { p.Buffers[0].Kind = "x" }, "unknown kind"},
		{"segments", func(p *Program) { p.Buffers[4].Segments[0].Dims = []int{3} }, "segments of 12 bytes for 16"},
		{"constant", func(p *Program) { p.Buffers[4].Segments[0].Weight = "" }, "constant of 0 bytes"},
		{"params", func(p *Program) { p.Buffers[2].Shape = ir.ShapeOf(2) }, "for the values of 1 symbols"},
		{"port kind", func(p *Program) { p.Outputs[0].Buffer = 0 }, "no such buffer"},
		{"port type", func(p *Program) { p.Outputs[0].DType = ir.I32 }, "another type"},
		{"port twice", func(p *Program) { p.Inputs = append(p.Inputs, p.Inputs[0]) }, "empty or taken"},
		{"workgroup", func(p *Program) { p.Shaders[0].Workgroup = 0 }, "workgroup of 0"},
		{"too many prepared", func(p *Program) { p.Prepared = 2 }, "2 prepared steps of 1"},
		{"prepared for symbols", func(p *Program) { p.Prepared = 1 }, "its grid depends on symbols"},
		{"prepared from an input", func(p *Program) { p.Prepared, p.Steps[0].Grid = 1, Grid{} }, "is prepared, but uses buffer 0, of kind input"},
		{"prepared and written", func(p *Program) {
			p.Buffers[3].Kind = BufPrepared
			p.Steps[0].Binds[1].Buffer = 3
		}, "writes buffer 3, which is prepared"},
		{"arena", func(p *Program) { p.ArenaBytes = -1 }, "arena of -1"},
	}
	for _, tt := range tests {
		p := valid()
		tt.damage(p)
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}
