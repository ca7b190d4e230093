package fast

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// TestSortRows compares sorts with the interpreter's: of rows that several workers sort, of rows that one sorts by
// digits, of short ones, and of rows that are sorted side by side. Elements may be equal, also in the highest half of
// their bits.
func TestSortRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 8))
	special := []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), 1, 1 + 0x1p-40}
	for _, dims := range [][2]int{{1, 3}, {1, 100}, {1, 5000}, {1, longRow + 1}, {19, 60}} {
		n := dims[0] * dims[1]
		for _, dtype := range []ir.DType{ir.F32, ir.F64, ir.I64, ir.I32, ir.U32} {
			x, err := ir.NewData(dtype, dims[0], dims[1])
			if err != nil {
				t.Fatal(err)
			}
			for i := range n {
				part := x.Bytes[i*dtype.BlockBytes():][:dtype.BlockBytes()]
				if !dtype.IsFloat() {
					high := int64(i%3) << (5 * dtype.BlockBytes())
					ir.EncodeInts(part, dtype, []int64{int64(rng.IntN(n)-n/2) + high})
				} else if v := rng.NormFloat64(); i%4 == 0 {
					ir.EncodeFloats(part, dtype, []float64{special[rng.IntN(len(special))]})
				} else {
					ir.EncodeFloats(part, dtype, []float64{v})
				}
			}
			for _, op := range []string{"sort %x", "sort %x {descending=true}", "argsort %x {descending=true}"} {
				g, err := ir.Parse(fmt.Sprintf(`graph "s" {
					%%x = input {name="x", dtype=%s, shape=[%d,%d]}
					%%y = %s
					output "y" %%y
				}`, dtype, dims[0], dims[1], op))
				if err != nil {
					t.Fatal(err)
				}
				var results [2]map[string]*ir.Data
				for i, replace := range []interp.Options{{}, {Replace: Kernels}} {
					p, err := interp.New(g, replace)
					if err != nil {
						t.Fatal(err)
					}
					if results[i], err = p.Run(t.Context(), map[string]*ir.Data{"x": x}, nil); err != nil {
						t.Fatal(err)
					}
				}
				if !bytes.Equal(results[0]["y"].Bytes, results[1]["y"].Bytes) {
					t.Errorf("%s of %d %s differs from the interpreter's", op, dims, dtype)
				}
			}
		}
	}
}
