package fast

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/quant"
)

// sameFloats reports whether two lists have the same bits, treating all NaNs as equal.
func sameFloats(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool {
		return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y
	})
}

// randomBytes returns random bytes. Interpreted as floats, some are NaN, infinite or denormal.
func randomBytes(rng *rand.Rand, n int) []byte {
	list := make([]byte, n)
	for i := range list {
		list[i] = byte(rng.Uint32())
	}
	return list
}

// TestDecode compares the decoders of stored elements with the formats' definitions, on random bits. It checks that
// nothing else is written.
func TestDecode(t *testing.T) { eachWidth(t, testDecode) }

func testDecode(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	for _, d := range ir.DTypes() {
		if decodable, _ := quant.Supported(d); !decodable && d != ir.F16 && d != ir.BF16 {
			continue
		}
		for _, blocks := range []int{1, 2, 7, 8, 9, 41} {
			n := blocks * d.BlockElems()
			s := &interp.Stored{DType: d, Bytes: randomBytes(rng, (blocks+1)*d.BlockBytes())}
			want := make([]float32, n+1)
			want[n] = 7
			have := slices.Clone(want)
			if err := s.Decode(want[:n], d.BlockElems()); err != nil {
				t.Fatal(err)
			}
			if err := decode(have[:n], s, d.BlockElems()); err != nil {
				t.Fatal(err)
			}
			if !sameFloats(have, want) {
				t.Errorf("%d blocks of %s differ", blocks, d)
			}
		}
	}
}

// TestMultiplyStored checks that matmuls with stored rows give the same bits as with decoded rows.
func TestMultiplyStored(t *testing.T) { eachWidth(t, testMultiplyStored) }

func testMultiplyStored(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	for _, d := range []ir.DType{ir.F16, ir.BF16, ir.Q8_0, ir.Q4_0, ir.Q4_K, ir.Q6_K} {
		for _, k := range []int{8, 24, 32, 96, 256} {
			if k%d.BlockElems() != 0 {
				continue
			}
			for cols := 1; cols < 10; cols++ {
				const rows = 3
				first := max(8, d.BlockElems())
				a := make([]float32, rows*k)
				for i := range a {
					a[i] = rng.Float32() - 0.5
				}
				s := &interp.Stored{DType: d, Bytes: randomBytes(rng, (first+cols*k)/d.BlockElems()*d.BlockBytes())}
				b := make([]float32, cols*k)
				if err := s.Decode(b, first); err != nil {
					t.Fatal(err)
				}
				want, have := make([]float32, rows*(cols+1)), make([]float32, rows*(cols+1))
				multiply(want, cols+1, a, b, rows, cols, k)
				if multiplyStored(have, cols+1, a, s, first, rows, cols, k) && !sameFloats(have, want) {
					t.Errorf("%d columns of %d %s: %v, want %v", cols, k, d, have, want)
				}
			}
		}
	}
}

// TestStoredWeights: matmuls read 16-bit weights in the format of their file, whatever the order of their axes. They
// read constants that are computed from such weights in the same way. No program has a copy in float32.
func TestStoredWeights(t *testing.T) { eachWidth(t, testStoredWeights) }

func testStoredWeights(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	for _, d := range []ir.DType{ir.F16, ir.BF16} {
		for _, rows := range []int{1, 7} {
			for _, op := range []string{
				"matmul %x, %w", "matmul %x, %wide", "matmul %x, %turned {transpose_b=true}",
				"matmul %rows, %batch",
			} {
				const k, n = 48, 35
				g, err := ir.Parse(fmt.Sprintf(`graph "g" {
					%%x = input {name="x", dtype=f32, shape=[%d,%d]}
					%%w = weight {name="w", dtype=%s, shape=[%d,%d]}
					%%wide = cast %%w {dtype=f32}
					%%turned = transpose %%w {perm=[1,0]}
					%%rows = reshape %%x {shape=[1,%d,%d]}
					%%batch = reshape %%w {shape=[1,%d,%d]}
					%%y = %s
					output "y" %%y
				}`, rows, k, d, k, n, rows, k, k, n, op))
				if err != nil {
					t.Fatal(err)
				}
				values, list := whole(rng, rows*k+k*n), make([]float64, rows*k+k*n)
				for i, x := range values {
					list[i] = float64(x)
				}
				w, err := ir.FromFloats(d, list[rows*k:], k, n)
				if err != nil {
					t.Fatal(err)
				}
				x, err := ir.FromFloats(ir.F32, list[:rows*k], rows, k)
				if err != nil {
					t.Fatal(err)
				}
				results := map[bool][]float64{}
				for _, here := range []bool{false, true} {
					options := interp.Options{Weights: oneWeight{w}, Poison: true}
					if here {
						options.Replace = Kernels
					}
					p, err := interp.New(g, options)
					if err != nil {
						t.Fatal(err)
					}
					out, err := p.Run(t.Context(), map[string]*ir.Data{"x": x}, nil)
					if err != nil {
						t.Fatal(err)
					}
					if results[here], err = out["y"].Floats(); err != nil {
						t.Fatal(err)
					}
					if weights, _ := interp.Held([]*interp.Program{p}); here && weights > 2*k*n+4 {
						t.Errorf("%s of %s: the program has %d bytes of weights, want %d", op, d, weights, 2*k*n)
					}
				}
				if !slices.Equal(results[true], results[false]) {
					t.Errorf("%s of %d rows by %s: %v, want %v", op, rows, d, results[true], results[false])
				}
			}
		}
	}
}
