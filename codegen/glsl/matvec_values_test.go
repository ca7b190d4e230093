package glsl_test

import (
	"github.com/vkc-go/vkc/codegen/glsl"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/vk"
)

// TestRoundedValuesOnDevice quantizes rows of all sizes to int8. Results have the size of the rows, groups of zeros
// have no effect, and rows with infinities or NaN have no finite result. With several digits these rows keep infinity
// or NaN.
func TestRoundedValuesOnDevice(t *testing.T) {
	dev := vktest.Device(t, vk.DeviceOptions{})
	for _, c := range []struct {
		name           string
		dtype          ir.DType
		depth, coarsen int
		digits         int
		largest, error float64
	}{
		{"resident", ir.Q4_0, 512, 2, 0, 2e38, 1e-3},
		{"digits", ir.Q4_0, 512, 2, 3, 2e38, 1e-6},
		{"packed", ir.Q2_K, 512, 2, 0, 1e36, 1e-3}, // their sums grow before they are scaled
		{"in shared memory", ir.Q4_K, 512, 0, 0, 2e38, 1e-3},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := product{m: d(1), n: d(9), k: d(c.depth), a: ir.F32, b: c.dtype, transB: true, byteRows: c.digits == 0,
				layout: kernel.LayoutPlanes}
			s := blockRun(vec(1, 32, 1, 4, 8), 64)
			s.Coarsen, s.TileN, s.RoundRows, s.Digits = c.coarsen, 4*max(c.coarsen, 1), true, c.digits
			if s.Digits > 0 {
				s = preloading(s)
			}
			s.Subgroup = reliable(dev.Caps(), s)
			k := p.kernel()
			sh, err := glsl.Emit(k, s, dev.Caps(), nil)
			check(t, err)
			module := compileAll(t,
				[]spirv.Shader{{Name: "values", Source: sh.Source, TargetEnv: envFor(sh.Needs)}})[0]
			r := rand.New(rand.NewPCG(3, 5))
			in := map[string]tensor{"b": randomTensor(t, r, c.dtype, k.Bindings[1].Elems)}
			for _, size := range []float64{0, 1e-30, 1e-3, 1, c.largest, math.Inf(1), math.NaN()} {
				in["a"] = rowOfSize(size, c.depth)
				got := make([]float64, 9)
				ir.DecodeFloats(got, ir.F32, runOnDevice(t, dev, sh, k, module, in, 0, 9)[:4*9])
				for i, want := range p.reference(0, in) {
					switch special := math.IsInf(size, 0) || math.IsNaN(size); {
					case special && c.digits > 0 && math.IsInf(want, 0) && got[i] != want:
						t.Errorf("a row with %g: column %d is %g, want %g", size, i, got[i], want)
					case special && !math.IsInf(got[i], 0) && !math.IsNaN(got[i]):
						t.Errorf("a row with %g: column %d is %g", size, i, got[i])
					case !special && !(math.Abs(got[i]-want) <= size*c.error):
						t.Errorf("a row of %g: column %d is %g, want %g", size, i, got[i], want)
					}
				}
			}
		})
	}
}

// rowOfSize has one element of the given size, and a few smaller ones that int8 can hold.
func rowOfSize(size float64, depth int) tensor {
	x := tensor{make([]byte, 4*depth), make([]float64, depth)}
	x.values[77], x.values[79] = size, -size/127
	ir.EncodeFloats(x.bytes, ir.F32, x.values)
	ir.DecodeFloats(x.values, ir.F32, x.bytes)
	return x
}
