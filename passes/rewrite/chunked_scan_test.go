package rewrite_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/passes"
)

// TestChunkedScan compares scans in chunks with scans of one time after the other: one and several chunks, a last chunk
// that is partly filled, groups of heads, batches, and decays from none to such that clear the state.
func TestChunkedScan(t *testing.T) {
	decays := map[string]func(rng *rand.Rand) float64{
		"small": func(rng *rand.Rand) float64 { return -0.01 * rng.Float64() },
		"large": func(rng *rand.Rand) float64 { return -20 * rng.Float64() },
		"clearing": func(rng *rand.Rand) float64 {
			if rare := []float64{0, -2000.7, -1e30, math.Inf(-1)}; rng.IntN(20) == 0 {
				return rare[rng.IntN(len(rare))]
			}
			return -0.05 * rng.Float64()
		},
		"growing": func(rng *rand.Rand) float64 { return 0.2*rng.Float64() - 0.1 },
	}
	for _, tt := range []struct {
		batch                       string
		times, heads, qs, ks, of, n int
		decays                      string
		chunked                     bool
	}{
		{"", 128, 2, 1, 1, 3, 5, "small", false}, {"", 129, 2, 1, 1, 3, 5, "small", true},
		{"", 256, 2, 2, 2, 3, 5, "large", true}, {"", 300, 2, 1, 2, 3, 2, "clearing", true},
		{"", 260, 1, 1, 1, 2, 3, "growing", true}, {"2,1,", 131, 1, 1, 1, 1, 4, "clearing", true},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			lead := fmt.Sprintf("%s%d,", tt.batch, tt.times)
			g := passtest.Parse(t, fmt.Sprintf(`graph "t" {
				%%q = input {name="q", dtype=f32, shape=[%[1]s%[3]d,%[7]d]}
				%%k = input {name="k", dtype=f32, shape=[%[1]s%[4]d,%[7]d]}
				%%v = input {name="v", dtype=f32, shape=[%[1]s%[5]d,%[6]d]}
				%%d = input {name="d", dtype=f32, shape=[%[1]s%[5]d,1]}
				%%s = input {name="s", dtype=f32, shape=[%[2]s%[5]d,%[6]d,%[7]d]}
				%%y = delta_rule %%q, %%k, %%v, %%d, %%s
				%%l = delta_rule %%q, %%k, %%v, %%d, %%s {of="state"}
				output "y" %%y
				output "last" %%l
			}`, lead, tt.batch, tt.qs, tt.ks, tt.heads, tt.of, tt.n))
			rng := rand.New(rand.NewPCG(1, uint64(tt.times)))
			in := map[string]*ir.Data{}
			for _, n := range g.Leaves(ir.OpInput) {
				list := make([]float64, n.Shape().MaxElems())
				for i := range list {
					if list[i] = rng.Float64()*2 - 1; n.Name() == "d" {
						list[i] = decays[tt.decays](rng)
					}
				}
				dims, err := n.Shape().Eval(nil)
				if err != nil {
					t.Fatal(err)
				}
				if in[n.Name()], err = ir.FromFloats(ir.F32, list, dims...); err != nil {
					t.Fatal(err)
				}
			}
			s, err := passes.Run(g, passes.Options{Pricer: passtest.Choices{Form: kernel.FormChunks}})
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(passtest.Families(s), string(kernel.FamilyMatMul)) != tt.chunked {
				t.Errorf("kernels %s, want a matmul: %v", passtest.Families(s), tt.chunked)
			}
			want := passtest.RunReference(t, g, nil, in, nil)
			have := passtest.RunKernels(t, s, nil, in, nil)
			for name := range want {
				if err := interp.Compare(have[name], want[name], ir.OpDeltaRule.Info().Tol).Err(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

// TestChunkedScanBatches: the number of batches of a scan in chunks may be a symbol, and its dtype f16.
func TestChunkedScanBatches(t *testing.T) {
	s := passtest.RunAndCompare(t, passtest.Parse(t, `graph "t" {
		symbol B <= 2
		%x = input {name="x", dtype=f16, shape=[B,130,1,3]}
		%dt = input {name="dt", dtype=f16, shape=[B,130,1]}
		%a = input {name="a", dtype=f16, shape=[1,1]}
		%k = input {name="k", dtype=f16, shape=[B,130,1,4]}
		%s = input {name="s", dtype=f16, shape=[B,1,3,4]}
		%1 = sigmoid %dt
		%2 = sigmoid %a
		%3 = neg %2
		%4 = ssm_scan %x, %1, %3, %k, %k, %s
		%5 = ssm_scan %x, %1, %3, %k, %k, %s {of="state"}
		output "y" %4
		output "last" %5
	}`), passes.Options{Pricer: passtest.Choices{Form: kernel.FormChunks}})
	if !strings.Contains(passtest.Families(s), string(kernel.FamilyMatMul)) {
		t.Errorf("kernels %s have no matmul", passtest.Families(s))
	}
}
