package fast

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// whole returns n small integers. Float32 represents sums of their products exactly, in any order.
func whole(rng *rand.Rand, n int) []float32 {
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(rng.IntN(17) - 8)
	}
	return list
}

// TestMultiply compares vectorized matmuls with plain Go, and checks that nothing else is written.
func TestMultiply(t *testing.T) { eachWidth(t, testMultiply) }

func testMultiply(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, k := range []int{0, 1, 7, 8, 9, 31, 64, 100} {
		for rows := range 10 {
			for cols := range 10 {
				a, b := whole(rng, rows*k), whole(rng, cols*k)
				stride := cols + 2
				have := whole(rng, rows*stride)
				want := slices.Clone(have)
				multiplyPlain(want, stride, a, b, rows, cols, k)
				if multiply(have, stride, a, b, rows, cols, k); !slices.Equal(have, want) {
					t.Fatalf("%d rows by %d of %d elements: %v, want %v", rows, cols, k, have, want)
				}
			}
		}
	}
}

// TestMultiplyAlone checks that a result has the same bits regardless of the other rows in the call.
func TestMultiplyAlone(t *testing.T) { eachWidth(t, testMultiplyAlone) }

func testMultiplyAlone(t *testing.T) {
	const rows, cols, k = 11, 13, 77
	rng := rand.New(rand.NewPCG(2, 1))
	a, b, all := make([]float32, rows*k), make([]float32, cols*k), make([]float32, rows*cols)
	for _, list := range [][]float32{a, b} {
		for i := range list {
			list[i] = rng.Float32() - 0.5
		}
	}
	multiply(all, cols, a, b, rows, cols, k)
	for i := range rows {
		for j := range cols {
			var alone [1]float32
			multiply(alone[:], 1, a[i*k:(i+1)*k], b[j*k:(j+1)*k], 1, 1, k)
			if alone[0] != all[i*cols+j] {
				t.Errorf("rows %d and %d give %g alone and %g among others", i, j, alone[0], all[i*cols+j])
			}
		}
	}
}

// TestWeigh compares vectorized weighted sums of rows with plain Go, and checks that nothing else is written.
func TestWeigh(t *testing.T) { eachWidth(t, testWeigh) }

func testWeigh(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for n := range 90 {
		for _, rows := range []int{0, 1, 2, 13} {
			weights, x, have := whole(rng, rows), whole(rng, rows*n), whole(rng, n+1)
			want := slices.Clone(have)
			weighPlain(want[:n], weights, x, 0)
			if weigh(have[:n], weights, x); !slices.Equal(have, want) {
				t.Errorf("%d rows of %d elements: %v, want %v", rows, n, have, want)
			}
		}
	}
}
