package fourier

import (
	"math/cmplx"
	"math/rand/v2"
	"testing"
)

// TestTransform compares with the definition, for lengths of every kind of pass and for convolutions.
func TestTransform(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	lengths := []int{243, 256, 480, 512, 625, 343, 1000, 461, 530, 8 * 61}
	for n := 1; n <= 130; n++ {
		lengths = append(lengths, n)
	}
	for _, n := range lengths {
		p := For(n)
		x, real := make([]complex128, n), make([]float64, n)
		for i := range x {
			real[i] = rng.NormFloat64()
			x[i] = complex(real[i], rng.NormFloat64())
		}
		y, work := append([]complex128(nil), x...), make([]complex128, p.Work()+n+1)
		p.Transform(y, work)
		for k := range y {
			var want complex128
			for j, v := range x {
				want += v * cmplx.Rect(1, -2*3.141592653589793*float64(j*k%n)/float64(n))
			}
			if d := cmplx.Abs(y[k] - want); !(d < 1e-12*float64(n)) {
				t.Fatalf("length %d: element %d is %v, want %v", n, k, y[k], want)
			}
		}
		p.Inverse(y, work)
		for i := range y {
			if d := cmplx.Abs(y[i] - x[i]); !(d < 1e-13*float64(n)) {
				t.Fatalf("length %d: the inverse of the transform has %v, want %v", n, y[i], x[i])
			}
		}
		for i, v := range real {
			x[i] = complex(v, 0)
		}
		p.Transform(x, work)
		half := make([]complex128, n+1)
		p.Real(real, half, work)
		for k, v := range half[:n/2+1] {
			if d := cmplx.Abs(v - x[k]); !(d < 1e-13*float64(n)) {
				t.Fatalf("length %d: element %d of real numbers is %v, want %v", n, k, v, x[k])
			}
		}
		back := make([]float64, n)
		half[0] += 5i // ignored
		p.RealInverse(half, back, work)
		for i, v := range back {
			if d := v - real[i]; !(d*d < 1e-26*float64(n*n)) {
				t.Fatalf("length %d: the real inverse has %v, want %v", n, v, real[i])
			}
		}
	}
}

// TestKept: the memory of kept plans is bounded.
func TestKept(t *testing.T) {
	for n := range 5 {
		For(maxKept/4 + n)
	}
	if p := For(maxKept/4 + 4); kept.total > maxKept || For(maxKept/4+4) != p {
		t.Errorf("plans of %d elements are kept", kept.total)
	}
}
