package linalg

import (
	"math"
	"math/rand/v2"
	"testing"
)

// times returns a*b for a of m rows and k columns and b of n columns, each perhaps transposed.
func times(a, b []float64, m, n, k int, ta, tb bool) []float64 {
	at := func(x []float64, i, j, rows, columns int, transposed bool) float64 {
		if transposed {
			return x[j*rows+i]
		}
		return x[i*columns+j]
	}
	out := make([]float64, m*n)
	for i := range m {
		for j := range n {
			for l := range k {
				out[i*n+j] += float64(at(a, i, l, m, k, ta) * at(b, l, j, k, n, tb))
			}
		}
	}
	return out
}

func near(t *testing.T, what string, n int, got, want []float64) {
	t.Helper()
	for i, v := range got {
		if !(math.Abs(v-want[i]) < 1e-12*float64(n+1)*float64(n+1)) {
			t.Fatalf("%s of %d rows: element %d is %v, want %v", what, n, i, v, want[i])
		}
	}
}

// TestFactors multiplies the factors of random matrices.
func TestFactors(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		return x
	}
	identity := func(n int) []float64 {
		x := make([]float64, n*n)
		for i := range n {
			x[i*n+i] = 1
		}
		return x
	}
	for n := 1; n < 40; n += 1 + n/12 {
		x := random(n * n)
		a := times(x, x, n, n, n, false, true)
		for i := range n {
			a[i*n+i]++
		}
		lower := append([]float64(nil), a...)
		for i := range n {
			for j := i + 1; j < n; j++ {
				lower[i*n+j] = math.NaN() // never read
			}
		}
		l := random(n * n)
		Cholesky(l, lower, n)
		near(t, "cholesky", n, times(l, l, n, n, n, false, true), a)

		for _, k := range []int{1, 3} {
			for mode := range 4 {
				isLower, transpose := mode&1 == 0, mode&2 == 0
				m := make([]float64, n*n)
				for i := range n {
					for j := range n {
						switch {
						case isLower:
							m[i*n+j] = l[i*n+j]
						default:
							m[i*n+j] = l[j*n+i]
						}
					}
				}
				b, y := random(n*k), random(n*k)
				SolveTriangular(y, m, b, n, k, isLower, transpose)
				near(t, "solution", n, times(m, y, n, k, n, transpose, false), b)
			}
		}

		v := make([]float64, n*n)
		EigH(v, lower, n)
		near(t, "eigenvectors", n, times(v, v, n, n, n, true, false), identity(n))
		d := times(v, times(a, v, n, n, n, false, false), n, n, n, true, false)
		for i := range n {
			for j := range n {
				if i != j && math.Abs(d[i*n+j]) > 1e-11*float64(n*n) {
					t.Fatalf("eigenvectors of %d rows: element %d, %d of the diagonal matrix is %v", n, i, j, d[i*n+j])
				}
			}
			if i > 0 && d[i*n+i] < d[(i-1)*n+i-1]-1e-9 {
				t.Fatalf("eigenvalues of %d rows: %v after %v", n, d[i*n+i], d[(i-1)*n+i-1])
			}
		}

		for _, m := range []int{n, n + 5} {
			x, q := random(m*n), make([]float64, m*n)
			QR(q, x, make([]float64, 2*n), m, n)
			near(t, "orthonormal columns", n, times(q, q, n, n, m, true, false), identity(n))
			r := times(q, x, n, n, m, true, false)
			for i := range n {
				for j := range i + 1 {
					if i == j && r[i*n+j] < 0 || i != j && math.Abs(r[i*n+j]) > 1e-12*float64(n) {
						t.Fatalf("r of %d columns: element %d, %d is %v", n, i, j, r[i*n+j])
					}
				}
			}
			near(t, "q*r", n, times(q, r, m, n, n, false, false), x)
		}
	}
}

// TestCorners: matrices without a factor, and those with several.
func TestCorners(t *testing.T) {
	l := make([]float64, 9)
	for _, a := range [][]float64{{1, 0, 0, 2, 1, 0, 0, 0, 1}, {math.NaN(), 0, 0, 0, 1, 0, 0, 0, 1},
		make([]float64, 9)} {
		Cholesky(l, a, 3)
		for i, v := range l {
			if lower := i%3 <= i/3; lower != (v != v) || !lower && v != 0 {
				t.Errorf("cholesky of %v: %v", a, l)
			}
		}
	}
	q := make([]float64, 9)
	QR(q, make([]float64, 9), make([]float64, 6), 3, 3)
	near(t, "q of zeros", 3, q, []float64{1, 0, 0, 0, 1, 0, 0, 0, 1})
	EigH(q, []float64{2, 0, 0, 0, 2, 0, 0, 0, 2}, 3)
	near(t, "vectors of the identity", 3, times(q, q, 3, 3, 3, true, false), []float64{1, 0, 0, 0, 1, 0, 0, 0, 1})
	if EigH(q, []float64{math.NaN(), 0, 0, 0, 1, 0, 0, 0, 1}, 3); q[0] == q[0] {
		t.Errorf("eigenvectors of NaN: %v", q)
	}
}
