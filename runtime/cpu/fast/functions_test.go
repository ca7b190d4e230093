package fast

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// ordered places floats in their order, neighbours one apart.
func ordered(x float32) int64 {
	bits := int64(int32(math.Float32bits(x)))
	if bits < 0 {
		return math.MinInt32 - bits
	}
	return bits
}

// checkFunction compares a function on vectors with the one in Go, on lists of any length and floats of any bits.
func checkFunction(t *testing.T, have, want func(x []float32), units int64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(6, 1))
	inf := float32(math.Inf(1))
	special := []float32{0, float32(math.Copysign(0, -1)), inf, -inf, float32(math.NaN()), 1e-45, -1e-40, 65504, 65519,
		65520, 6e-8, 88.7, 88.8, -87.3, -88, -103, -104, math.MaxFloat32, -math.MaxFloat32}
	for n := range 60 {
		x := make([]float32, n, n+1)
		for i := range x {
			switch rng.IntN(4) {
			case 0:
				x[i] = special[rng.IntN(len(special))]
			case 1:
				x[i] = math.Float32frombits(rng.Uint32())
			default:
				x[i] = float32(rng.NormFloat64() * 20)
			}
		}
		y, z := slices.Clone(x), append(x[:n:n], 7)
		want(y)
		have(z[:n])
		for i := range y {
			nan := y[i] != y[i] && z[i] != z[i]
			if off := ordered(y[i]) - ordered(z[i]); !nan && max(off, -off) > units {
				t.Errorf("%g gives %g, want %g", x[i], z[i], y[i])
			}
		}
		if z[n] != 7 {
			t.Errorf("%d elements: it writes past them", n)
		}
	}
}

func TestExps(t *testing.T) {
	checkFunction(t, func(x []float32) { exps(x, 0) }, func(x []float32) { expsPlain(x, 0) }, 2)
	checkFunction(t, func(x []float32) { exps(x, 0.5) }, func(x []float32) { expsPlain(x, 0.5) }, 2)
}

func TestHalves(t *testing.T) { checkFunction(t, halves, halvesPlain, 0) }

func TestSilus(t *testing.T) {
	// Past -88 the quotient is of float32's last magnitudes, and 0 where float64 has a denormal.
	clip := func(f func(x []float32)) func(x []float32) {
		return func(x []float32) {
			f(x)
			for i, y := range x {
				if y > -1e-35 && y < 0 {
					x[i] = 0
				}
			}
		}
	}
	checkFunction(t, clip(silus), clip(silusPlain), 4)
}
