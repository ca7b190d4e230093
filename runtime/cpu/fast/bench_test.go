package fast

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// BenchmarkRow multiplies a row by blocks of each format, as generating a token does, and reports bytes of blocks.
func BenchmarkRow(b *testing.B) {
	const n, k = 1024, 4096
	rng := rand.New(rand.NewPCG(13, 1))
	for _, d := range []ir.DType{ir.F16, ir.Q8_0, ir.Q4_0, ir.Q4_K, ir.Q6_K} {
		for _, precision := range []string{ir.PrecisionFull, ir.PrecisionBytes} {
			if precision == ir.PrecisionBytes && (vector == nil || vector.byteDots[d] == nil) {
				continue
			}
			b.Run(fmt.Sprintf("%s/%s", d, precision), func(b *testing.B) {
				w := &ir.Data{DType: d, Dims: []int{n, k}, Bytes: randomBytes(rng, n*k/d.BlockElems()*d.BlockBytes())}
				g, err := ir.Parse(fmt.Sprintf(`graph "row" {
					%%x = input {name="x", dtype=f32, shape=[1,%d]}
					%%w = weight {name="w", dtype=%s, shape=[%d,%d]}
					%%y = matmul %%x, %%w {transpose_b=true, precision=%q}
					output "y" %%y
				}`, k, d, n, k, precision))
				if err != nil {
					b.Fatal(err)
				}
				p, err := interp.New(g, interp.Options{Weights: oneWeight{w}, Replace: Kernels, Workers: 1})
				if err != nil {
					b.Fatal(err)
				}
				x, err := ir.NewData(ir.F32, 1, k)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(w.Bytes)))
				for b.Loop() {
					if _, err := p.Run(b.Context(), map[string]*ir.Data{"x": x}, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkFold folds the rows of matrices, and copies one for comparison. It reports bytes of arguments.
func BenchmarkFold(b *testing.B) {
	const rows, n = 100000, 128
	x, err := ir.NewData(ir.F32, rows, n)
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(13, 2))
	for i, list := 0, make([]float64, rows*n); i < 1; i++ {
		for k := range list {
			list[k] = rng.NormFloat64()
		}
		ir.EncodeFloats(x.Bytes, ir.F32, list)
	}
	for _, of := range []string{"sum %x {axes=[1]}", "sum %x {axes=[0]}", "sum %x", "norm2 %x {axes=[1]}",
		"reduce_max %x {axes=[1]}", "reduce_max %x {axes=[0]}", "variance %x {axes=[1]}", "logsumexp %x {axes=[1]}",
		"softmax %x", "softmax %x {axis=0}", "layer_norm %x", "rms_norm %x", "argmax %x {axis=1}", "argmax %x {axis=0}",
		"cumsum %x {axis=1}", "cumsum %x {axis=0}", "transpose %x {perm=[1,0]}", "sort %x {axis=1}"} {
		b.Run(of, func(b *testing.B) {
			g, err := ir.Parse(fmt.Sprintf(`graph "fold" {
				%%x = input {name="x", dtype=f32, shape=[%d,%d]}
				%%y = %s
				output "y" %%y
			}`, rows, n, of))
			if err != nil {
				b.Fatal(err)
			}
			p, err := interp.New(g, interp.Options{Replace: Kernels})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(x.Bytes)))
			for b.Loop() {
				if _, err := p.Run(b.Context(), map[string]*ir.Data{"x": x}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("copy", func(b *testing.B) {
		b.SetBytes(int64(len(x.Bytes)))
		for b.Loop() {
			copy(make([]byte, len(x.Bytes)), x.Bytes)
		}
	})
}

// BenchmarkMultiply multiplies matrices of float32 with each width of vectors, on one core. It reports multiply-adds as
// bytes.
func BenchmarkMultiply(b *testing.B) {
	defer func(v *assembly) { vector = v }(vector)
	rng := rand.New(rand.NewPCG(13, 3))
	for _, vector = range assemblies() {
		for _, k := range []int{27, 64, 576, 1024} {
			b.Run(fmt.Sprintf("%s/%d", vector.name, k), func(b *testing.B) {
				x, y, out := whole(rng, tileRows*k), whole(rng, tileCols*k), make([]float32, tileRows*tileCols)
				b.SetBytes(int64(tileRows * tileCols * k))
				for b.Loop() {
					multiply(out, tileCols, x, y, tileRows, tileCols, k)
				}
			})
		}
	}
}

// BenchmarkInts computes matmuls and convolutions of int8 with each width of vectors.
func BenchmarkInts(b *testing.B) {
	defer func(v *assembly) { vector = v }(vector)
	rng := rand.New(rand.NewPCG(13, 4))
	for _, c := range []struct {
		op   string
		x, w []int
	}{
		{"matmul %x, %w", []int{1, 1024}, []int{1024, 1024}}, {"matmul %x, %w", []int{256, 1024}, []int{1024, 1024}},
		{"conv %x, %w {padding_low=[1,1], padding_high=[1,1]}", []int{1, 64, 64, 64}, []int{64, 64, 3, 3}},
	} {
		for _, vector = range assemblies() {
			b.Run(fmt.Sprintf("%s/%v", vector.name, c.x), func(b *testing.B) {
				w := extremes(rng, ir.I8, c.w...)
				g, err := ir.Parse(fmt.Sprintf(`graph "row" {
					%%x = input {name="x", dtype=i8, shape=%s}
					%%w = weight {name="w", dtype=i8, shape=%s}
					%%y = %s
					output "y" %%y
				}`, extents(c.x), extents(c.w), c.op))
				if err != nil {
					b.Fatal(err)
				}
				p, err := interp.New(g, interp.Options{Weights: oneWeight{w}, Replace: Kernels})
				if err != nil {
					b.Fatal(err)
				}
				in := map[string]*ir.Data{"x": extremes(rng, ir.I8, c.x...)}
				for b.Loop() {
					if _, err := p.Run(b.Context(), in, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
