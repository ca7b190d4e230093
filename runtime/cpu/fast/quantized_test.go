package fast

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// namedWeights are weights by name.
type namedWeights map[string]*ir.Data

func (w namedWeights) Weight(name string) (*ir.Data, error) { return w[name], nil }

// TestQuantized compares matmuls and convolutions of dequantized integers with the interpreter's, with each width of
// vectors. Whether they are computed as integers depends on the graph alone.
func TestQuantized(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 1))
	const centred = "%q = cast %x {dtype=f32}\n %z = cast %xz {dtype=f32}\n %c = sub %q, %z\n"
	const weights = "%v = cast %w {dtype=f32}\n"
	const low = "%vl = cast %wz {dtype=f32}\n %vc = sub %v, %vl\n"
	matmul, image := []int{9, 33}, []int{2, 6, 7, 8}
	for _, c := range []struct {
		what          string
		x, w, factors []int
		ops           string
		here          bool
	}{
		{"matmul", matmul, []int{33, 37}, []int{37}, centred + weights + "%y = matmul %c, %v", true},
		{"matmul without zero", matmul, []int{33, 5}, []int{5}, "%q = cast %x {dtype=f32}\n" + weights +
			"%y = matmul %q, %v", true},
		{"transposed matmul, scales", []int{2, 9, 33}, []int{40, 33}, []int{40, 1}, centred + weights + low +
			"%s = mul %c, %xs\n %ws = mul %vc, %factors\n %y = matmul %s, %ws {transpose_b=true}", true},
		{"matmul, scales of columns", matmul, []int{33, 40}, []int{40}, centred + weights +
			"%s = mul %c, %xs\n %ws = mul %v, %factors\n %y = matmul %s, %ws", true},
		{"matmul, scales of rows", matmul, []int{33, 40}, []int{33, 1}, centred + weights +
			"%ws = mul %v, %factors\n %y = matmul %c, %ws", false},
		{"conv", image, []int{9, 6, 3, 3}, []int{1}, centred + weights +
			"%y = conv %c, %v {padding_low=[1,1], padding_high=[1,1]}", true},
		{"conv with scales in groups", image, []int{10, 3, 3, 2}, []int{10, 1, 1, 1}, centred + weights + low +
			"%s = mul %c, %xs\n %ws = mul %vc, %factors\n" +
			"%y = conv %s, %ws {groups=2, stride=[2,1], padding_low=[2,1]}", true},
		{"conv, scales of input channels", image, []int{9, 6, 3, 3}, []int{1, 6, 1, 1}, centred + weights +
			"%ws = mul %v, %factors\n %y = conv %c, %ws", false},
		{"a conv with its chain", image, []int{9, 6, 3, 3}, []int{1}, centred + weights +
			"%p = conv %c, %v\n %r = relu %p\n %y = mul %r, %xs", true},
	} {
		for i, types := range [][2]ir.DType{{ir.U8, ir.I8}, {ir.I8, ir.I8}, {ir.U8, ir.U8}, {ir.I8, ir.U8}} {
			factors := make([]float64, volume(c.factors))
			for k := range factors {
				factors[k] = 0.5 + rng.Float64()
			}
			list := namedWeights{"w": extremes(rng, types[1], c.w...), "wz": extremes(rng, types[1], 1),
				"xz": extremes(rng, types[0], []int{1}[:i%2]...)}
			for name, values := range map[string][]float64{"xs": {0.3}, "factors": factors} {
				dims := []int{}
				if name == "factors" {
					dims = c.factors
				}
				d, err := ir.FromFloats(ir.F32, values, dims...)
				if err != nil {
					t.Fatal(err)
				}
				list[name] = d
			}
			leaf := func(op, name string, t ir.DType, dims []int) string {
				return fmt.Sprintf(" %%%s = %s {name=%q, dtype=%s, shape=%s}\n", name, op, name, t, extents(dims))
			}
			text := "graph \"g\" {\n" + leaf("input", "x", types[0], c.x)
			for name, d := range list {
				text += leaf("weight", name, d.DType, d.Dims)
			}
			g, err := ir.Parse(text + c.ops + "\n output \"y\" %y\n}")
			if err != nil {
				t.Fatal(err)
			}
			in := map[string]*ir.Data{"x": extremes(rng, types[0], c.x...)}
			run := func(t *testing.T, replace func(*ir.Graph) []*interp.Kernel) []float64 {
				p, err := interp.New(g, interp.Options{Weights: list, Replace: replace, Poison: true})
				if err != nil {
					t.Fatal(err)
				}
				out, err := p.Run(t.Context(), in, nil)
				if err != nil {
					t.Fatal(err)
				}
				y, err := out["y"].Floats()
				if err != nil {
					t.Fatal(err)
				}
				return y
			}
			want := run(t, nil)
			eachWidth(t, func(t *testing.T) {
				here, chains := false, newChains(g)
				for _, n := range g.Nodes() {
					here = here || chains.quantized(n) != nil
				}
				if here != (c.here && multipliesInts()) {
					t.Errorf("%s of %v: as integers is %v", c.what, types, here)
				}
				for k, have := range run(t, Kernels) {
					if math.Abs(have-want[k]) > 2e-6*255*255*float64(volume(c.w[1:])) {
						t.Fatalf("%s of %v: element %d is %g, want %g", c.what, types, k, have, want[k])
					}
				}
			})
		}
	}
}
