package bundle

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/spv/spvtest"
	"github.com/vkc-go/vkc/ir"
)

// sameWeight gives one tensor under every name.
type sameWeight struct{ d *ir.Data }

func (s sameWeight) Weight(string) (*ir.Data, error) { return s.d, nil }

// large writes a bundle of n weights of 4 MiB each, for 300 shaders of 20 KB.
func large(b *testing.B, n int) (path string, size int64) {
	b.Helper()
	const elems = 1 << 20
	c := tiny(b)
	c.Weights = sameWeight{data(b, ir.F32, 1, elems)}
	g := ir.NewGraph("large")
	p := c.Program
	p.Buffers = append([]kernel.Buffer(nil), p.Buffers...)
	p.Buffers[1], p.Buffers[2] = p.Buffers[3], p.Buffers[3]
	for i := range n {
		name := "w" + strconv.Itoa(i)
		p.Buffers = append(p.Buffers, kernel.Buffer{Kind: kernel.BufWeight, Name: name, DType: ir.F32,
			Shape: ir.ShapeOf(elems), Bytes: 4 * elems,
			Segments: []kernel.Segment{{Weight: name, DType: ir.F32, Dims: []int{elems}}}})
	}
	for range 298 {
		p.Shaders = append(p.Shaders, p.Shaders[0])
		c.SPIRV = append(c.SPIRV, spvtest.Module(64, 1, 5000))
	}
	for range 1000 {
		p.Steps = append(p.Steps, p.Steps[0])
	}
	c.Graph, c.GLSL = g, nil
	path = filepath.Join(b.TempDir(), "large.vkb")
	if err := Write(path, c); err != nil {
		b.Fatal(err)
	}
	return path, int64(n) * 4 * elems
}

// BenchmarkOpen shows that opening does not depend on the size of the weights.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{16, 256} {
		b.Run(strconv.Itoa(4*n)+"MiB", func(b *testing.B) {
			path, _ := large(b, n)
			for b.Loop() {
				f, err := Open(path)
				if err != nil {
					b.Fatal(err)
				}
				f.Close()
			}
		})
	}
}

// BenchmarkVerify measures the checksums of weights that are in memory.
func BenchmarkVerify(b *testing.B) {
	path, size := large(b, 64)
	b.SetBytes(size)
	for b.Loop() {
		f, err := Open(path)
		if err != nil {
			b.Fatal(err)
		}
		if err := f.guard(func() error { return f.weights.check(0, size) }); err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}
