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
			if precision == ir.PrecisionBytes && byteDots[d] == nil {
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
