package bundle

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/vkc-go/vkc/ir"
)

func TestRoundTrip(t *testing.T) {
	c := tiny(t)
	path := filepath.Join(t.TempDir(), "tiny.vkb")
	if err := Write(path, c); err != nil {
		t.Fatal(err)
	}
	onDisk, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(onDisk, encoded(t, tiny(t))) {
		t.Error("Write and Encode of equal contents differ")
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	checkContents(t, f, c)
	if err := f.Verify(); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := f.Weight("w"); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("weight of a closed bundle: %v", err)
	}
	if diff := cmp.Diff(c.Program, f.Program()); diff != "" {
		t.Errorf("the program must outlive Close: %s", diff)
	}
}

func checkContents(t *testing.T, f *File, c *Contents) {
	t.Helper()
	g, err := f.Graph()
	if err != nil {
		t.Fatal(err)
	}
	if have, want := g.String(), c.Graph.String(); have != want {
		t.Errorf("graph:\n%s\nwant:\n%s", have, want)
	}
	for _, d := range []string{
		cmp.Diff(c.Meta, f.Meta()),
		cmp.Diff(c.Program, f.Program()),
		cmp.Diff(c.SPIRV, f.SPIRV()),
		cmp.Diff(c.GLSL, f.GLSL()),
		cmp.Diff([]string{"bias", "w", "only graph"}, f.WeightNames()),
	} {
		if d != "" {
			t.Error(d)
		}
	}
	for _, name := range f.WeightNames() {
		want, _ := c.Weights.Weight(name)
		have, err := f.Weight(name)
		if err != nil {
			t.Fatal(err)
		}
		if have.String() != want.String() || !bytes.Equal(have.Bytes, want.Bytes) {
			t.Errorf("weight %q is %s, want %s with other bytes", name, have, want)
		}
	}
}

func TestAlignment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tiny.vkb")
	if err := Write(path, tiny(t)); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, s := range f.Sections() {
		if s.Kind == KindData && s.Offset%4096 != 0 {
			t.Errorf("weight data begins at byte %d, want a multiple of 4096", s.Offset)
		}
	}
	for _, name := range f.WeightNames() {
		d, err := f.Weight(name)
		if err != nil {
			t.Fatal(err)
		}
		if at := uintptr(unsafe.Pointer(&d.Bytes[0])); at%64 != 0 {
			t.Errorf("weight %q lies at %#x, want a multiple of 64", name, at)
		}
	}
}

func TestWithoutOptionalParts(t *testing.T) {
	c := tiny(t)
	c.GLSL, c.Weights = nil, nil
	f, err := Read(encoded(t, c))
	if err != nil {
		t.Fatal(err)
	}
	if f.GLSL() != nil || f.HasWeights() || f.Weights() != nil || f.WeightNames() != nil {
		t.Errorf("parts that were left out: %v, %v", f.GLSL(), f.WeightNames())
	}
	if _, err := f.Weight("w"); err == nil || !strings.Contains(err.Error(), `"w"`) {
		t.Errorf("weight of a bundle without any: %v", err)
	}
	if err := f.Verify(); err != nil {
		t.Error(err)
	}
}

func TestManyChunks(t *testing.T) {
	c := tiny(t)
	g, err := ir.Parse(strings.ReplaceAll(graphText, "64,32]", "64,131072]"))
	if err != nil {
		t.Fatal(err)
	}
	c.Graph = g
	c.Program.Buffers[2].Shape = ir.ShapeOf(64, 131072)
	c.Program.Buffers[2].Bytes = 64 * 131072 / 32 * 18
	c.Program.Buffers[2].Segments[0].Dims = []int{64, 131072}
	c.Weights.(weightMap)["w"] = data(t, ir.Q4_0, 3, 64, 131072)
	b := encoded(t, c)
	f, err := Read(b)
	if err != nil {
		t.Fatal(err)
	}
	checkContents(t, f, c)

	var section Section
	for _, s := range f.Sections() {
		if s.Kind == KindData {
			section = s
		}
	}
	b[section.end()-1] ^= 1 // in "only graph", which shares its chunk with the end of "w"
	if f, err = Read(b); err != nil {
		t.Fatalf("damaged weights must not keep a bundle from opening: %v", err)
	}
	if _, err := f.Weight("bias"); err != nil {
		t.Errorf("a weight far from the damage: %v", err)
	}
	for _, name := range []string{"w", "only graph"} {
		if _, err := f.Weight(name); err == nil || !strings.Contains(err.Error(), wayOut) {
			t.Errorf("weight %q in a damaged chunk: %v", name, err)
		}
	}
	if f.Verify() == nil {
		t.Error("Verify did not see the damage")
	}
}

func TestWriteRefuses(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Contents)
		want   string
	}{
		{"no graph", func(c *Contents) { c.Graph = nil }, "needs a graph"},
		{"no program", func(c *Contents) { c.Program = nil }, "needs a graph and a program"},
		{"bad program", func(c *Contents) { c.Program.Steps[0].Shader = 2 }, "no shader 2"},
		{"too little SPIR-V", func(c *Contents) { c.SPIRV = c.SPIRV[:1] }, "SPIR-V of 1 shaders for a program of 2"},
		{"no SPIR-V", func(c *Contents) { c.SPIRV[1] = []byte("void main() {}  and more") }, "shader 1 (mul): not SPIR-V"},
		{"too little GLSL", func(c *Contents) { c.GLSL = c.GLSL[:1] }, "GLSL of 1 shaders for a program of 2"},
		{"missing weight", func(c *Contents) { delete(c.Weights.(weightMap), "w") }, `no weight "w"`},
		{"nil weight", func(c *Contents) { c.Weights.(weightMap)["w"] = nil }, `weight "w": the source returned nothing`},
		{"weight of another type", func(c *Contents) { c.Weights.(weightMap)["bias"] = data(t, ir.F16, 0, 32) }, `weight "bias" is f16[32], want f32[32]`},
		{"short weight", func(c *Contents) { c.Weights.(weightMap)["bias"].Bytes = nil }, "needs 128 bytes, have 0"},
		{"two types of a weight", func(c *Contents) {
			c.Program.Buffers[1].Segments[0] = c.Program.Buffers[2].Segments[0]
			c.Program.Buffers[1].Segments[0].Dims = []int{32, 64}
			c.Program.Buffers[1].Segments = c.Program.Buffers[1].Segments[:1]
			c.Program.Buffers[1].DType, c.Program.Buffers[1].Shape, c.Program.Buffers[1].Bytes = ir.Q4_0,
				ir.ShapeOf(64, 32), 1152
		}, "two uses of a weight differ"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := tiny(t)
			tt.change(c)
			path := filepath.Join(t.TempDir(), "x.vkb")
			err := Write(path, c)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v, want %q and the path", err, tt.want)
			}
			if list, _ := os.ReadDir(filepath.Dir(path)); len(list) != 0 {
				t.Errorf("left behind: %v", list)
			}
		})
	}
}

func TestWeightBytes(t *testing.T) {
	c := tiny(t)
	parts, err := WeightBytes(c.Program.Buffers[1], c.Weights)
	if err != nil {
		t.Fatal(err)
	}
	bias, _ := c.Weights.Weight("bias")
	if diff := cmp.Diff([][]byte{bias.Bytes, {1, 2, 3, 4, 5, 6, 7, 8}}, parts); diff != "" {
		t.Error(diff)
	}
	if _, err := WeightBytes(c.Program.Buffers[0], c.Weights); err == nil {
		t.Error("bytes of an input buffer: want an error")
	}
	if _, err := WeightBytes(c.Program.Buffers[1], nil); err == nil {
		t.Error("no source: want an error")
	}
	c.Program.Buffers[1].Segments = c.Program.Buffers[1].Segments[1:]
	if _, err := WeightBytes(c.Program.Buffers[1], nil); err != nil {
		t.Errorf("constants need no source: %v", err)
	}
}

func TestCheckWeights(t *testing.T) {
	c := tiny(t)
	if err := CheckWeights(c.Program, c.Weights); err != nil {
		t.Error(err)
	}
	f, err := Read(encoded(t, c))
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckWeights(c.Program, f); err != nil {
		t.Error(err)
	}
	if f.weights.checked[0].Load() {
		t.Error("CheckWeights read the weights of a bundle, which knows their types without")
	}
	err = CheckWeights(c.Program, weightMap{"w": data(t, ir.Q4_0, 0, 32, 64)})
	for _, want := range []string{"2 of 2", `no weight "bias"`, "w       q4_0[64,32]  q4_0[32,64]"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if err := CheckWeights(c.Program, nil); err == nil {
		t.Error("no source: want an error")
	}
}
