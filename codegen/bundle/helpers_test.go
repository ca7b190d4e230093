package bundle

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/spv/spvtest"
	"github.com/vkc-go/vkc/ir"
)

// weightMap is a WeightSource in memory.
type weightMap map[string]*ir.Data

func (m weightMap) Weight(name string) (*ir.Data, error) {
	if d, ok := m[name]; ok {
		return d, nil
	}
	return nil, fmt.Errorf("no weight %q", name)
}

// data returns a tensor with bytes that count up from first.
func data(t testing.TB, dtype ir.DType, first byte, dims ...int) *ir.Data {
	t.Helper()
	d, err := ir.NewData(dtype, dims...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range d.Bytes {
		d.Bytes[i] = first + byte(i)
	}
	return d
}

const graphText = `graph "tiny" {
  symbol T <= 64
  %x = input {name="x", dtype=f32, shape=[T,32]} : f32[T,32]
  %b = weight {name="bias", dtype=f32, shape=[32]} : f32[32]
  %w = weight {name="w", dtype=q4_0, shape=[64,32]} : q4_0[64,32]
  %s = weight {name="only graph", dtype=f32, shape=[]} : f32[]
  %1 = add %x, %b : f32[T,32]
  output "y" %1
}
`

// tiny returns the contents of a small bundle: two shaders, a symbol, a weight
// buffer of two weights and a constant.
func tiny(t testing.TB) *Contents {
	t.Helper()
	g, err := ir.Parse(graphText)
	if err != nil {
		t.Fatal(err)
	}
	rows := ir.Shape{ir.Symbol("T", 64), ir.D(32)}
	p := &kernel.Program{
		Name: "tiny", GraphHash: g.HashString(), Target: "nvidia-h100",
		Symbols: []kernel.Symbol{{Name: "T", Bound: 64}},
		Buffers: []kernel.Buffer{
			{Kind: kernel.BufInput, Name: "x", DType: ir.F32, Shape: rows, Bytes: 64 * 32 * 4},
			{Kind: kernel.BufWeight, Name: "bias", DType: ir.F32, Shape: ir.ShapeOf(34), Bytes: 144,
				Segments: []kernel.Segment{
					{Weight: "bias", DType: ir.F32, Dims: []int{32}},
					{DType: ir.F32, Dims: []int{2}, Data: []byte{1, 2, 3, 4, 5, 6, 7, 8}},
				}},
			{Kind: kernel.BufWeight, Name: "w", DType: ir.Q4_0, Shape: ir.ShapeOf(64, 32), Bytes: 1152,
				Segments: []kernel.Segment{
					{Weight: "w", DType: ir.Q4_0, Dims: []int{64, 32}},
				}},
			{Kind: kernel.BufTemp, Name: "t", DType: ir.F32, Shape: rows, Bytes: 64 * 32 * 4},
			{Kind: kernel.BufOutput, Name: "y", DType: ir.F32, Shape: rows, Bytes: 64 * 32 * 4},
			{Kind: kernel.BufParams, Name: "params", DType: ir.U32, Shape: ir.ShapeOf(1), Bytes: 16},
		},
		Shaders: []kernel.Shader{
			{Name: "add", Bindings: 3, Workgroup: 64, GLSLHash: "aa"},
			{Name: "mul", Bindings: 2, Workgroup: 32, SubgroupSize: 32, Needs: []string{"float16"}, GLSLHash: "bb"},
		},
		Inputs:     []kernel.Port{{Name: "x", Buffer: 0, DType: ir.F32, Shape: rows}},
		Outputs:    []kernel.Port{{Name: "y", Buffer: 4, DType: ir.F32, Shape: rows}},
		ArenaBytes: 64 * 32 * 4, TempBytes: 64 * 32 * 4,
	}
	grid := kernel.Grid{{{Extent: ir.Symbol("T", 64), Tile: 8}, {Extent: ir.D(32), Tile: 32}}}
	p.Steps = []kernel.Step{
		{Name: "add0", Shader: 0, Grid: grid, Ops: []string{"add"}, Schedule: "map", Flops: 2048, Moved: 4096,
			Binds: []kernel.Bind{{Buffer: 0, Read: true}, {Buffer: 1, Read: true}, {Buffer: 3, Write: true}}},
		{Name: "mul0", Shader: 1, Grid: grid, Ops: []string{"mul"}, Schedule: "map", Barrier: true,
			Binds: []kernel.Bind{{Buffer: 3, Read: true}, {Buffer: 4, Write: true}}},
	}
	return &Contents{
		Meta:    Meta{Version: "1.2.3", CreatedBy: "test", Source: "tiny.gguf"},
		Graph:   g,
		Program: p,
		SPIRV:   [][]byte{spvtest.Module(64, 1, 7), spvtest.Module(32, 2, 40)},
		GLSL:    []string{"void main() {}\n", ""},
		Weights: weightMap{
			"bias":       data(t, ir.F32, 10, 32),
			"w":          data(t, ir.Q4_0, 99, 64, 32),
			"only graph": data(t, ir.F32, 5),
			"unused":     data(t, ir.F32, 7, 1000),
		},
	}
}

// encoded returns a bundle as bytes.
func encoded(t testing.TB, c *Contents) []byte {
	t.Helper()
	b, err := Encode(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// assembled returns a file of those sections with sound checksums, as a hostile
// writer could make it.
func assembled(t testing.TB, list []readySection) []byte {
	t.Helper()
	var b buffer
	w := &writer{to: &b}
	w.zeros(headSize(len(list)))
	for _, s := range list {
		w.section(s.kind, s.index, s.content)
		if s.kind == KindData {
			w.sections[len(w.sections)-1].SHA256 = [32]byte{}
		}
	}
	if w.err != nil {
		t.Fatal(w.err)
	}
	copy(b.data, encodeHead(w.sections, w.pos))
	return b.data
}

// sectionsOf returns the sections of a bundle.
func sectionsOf(t testing.TB, b []byte) []readySection {
	t.Helper()
	sections, err := decodeHead(b)
	if err != nil {
		t.Fatal(err)
	}
	var list []readySection
	for _, s := range sections {
		list = append(list, readySection{s.Kind, s.Index, b[s.Offset:s.end()]})
	}
	return list
}

// retabled returns b with another directory of the same size and a matching checksum.
func retabled(t testing.TB, b []byte, change func([]Section)) []byte {
	t.Helper()
	sections, err := decodeHead(b)
	if err != nil {
		t.Fatal(err)
	}
	change(sections)
	out := bytes.Clone(b)
	copy(out, encodeHead(sections, int64(len(b))))
	return out
}
