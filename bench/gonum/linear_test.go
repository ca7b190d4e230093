package main

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
	"gonum.org/v1/gonum/dsp/fourier"
	"gonum.org/v1/gonum/mat"
)

// numeric is an op of Fourier transforms or linear algebra on a batch of matrices with random elements. The diagonal of
// square matrices is increased by 2n, so that they are positive definite.
type numeric struct {
	name              string
	batch, rows, cols int
	op                func(x frontend.Tensor) frontend.Tensor
	gonum             func(x []float64) // of one matrix
}

// numerics lists the cases.
func numerics() []numeric {
	var list []numeric
	for _, n := range []int{1000, 1024, 4096, 65536} {
		complexes, plan := make([]complex128, n), fourier.NewCmplxFFT(n)
		real, half := fourier.NewFFT(n), make([]complex128, n/2+1)
		batch := max(1, 65536/n)
		list = append(list, numeric{"fft", batch, n, 2, func(x frontend.Tensor) frontend.Tensor { return x.FFT(-2) },
			func(x []float64) {
				for i := range complexes {
					complexes[i] = complex(x[2*i], x[2*i+1])
				}
				plan.Coefficients(complexes, complexes)
			}}, numeric{"rfft", batch, 1, n, func(x frontend.Tensor) frontend.Tensor { return x.RFFT(-1) },
			func(x []float64) { real.Coefficients(half, x) }})
	}
	for _, n := range []int{16, 128, 512} {
		batch := max(1, 512*16/n/n)
		symmetric := func(x []float64) *mat.SymDense {
			s := mat.NewSymDense(n, nil)
			for i := range n {
				for j := range i + 1 {
					s.SetSym(i, j, x[i*n+j])
				}
			}
			return s
		}
		list = append(list, numeric{"cholesky", batch, n, n, frontend.Tensor.Cholesky, func(x []float64) {
			var c mat.Cholesky
			c.Factorize(symmetric(x))
		}}, numeric{"triangular_solve", batch, n, n, func(x frontend.Tensor) frontend.Tensor { return x.TriangularSolve(x) },
			func(x []float64) {
				out := mat.NewDense(n, n, nil)
				out.Solve(mat.NewTriDense(n, mat.Lower, x), mat.NewDense(n, n, x)) //nolint:errcheck // not singular
			}}, numeric{"qr", batch, n, n, func(x frontend.Tensor) frontend.Tensor { q, _ := x.QR(); return q },
			func(x []float64) {
				var f mat.QR
				var q mat.Dense
				f.Factorize(mat.NewDense(n, n, x))
				f.QTo(&q)
			}}, numeric{"solve", batch, n, n, func(x frontend.Tensor) frontend.Tensor { return x.Solve(x) },
			func(x []float64) {
				var out mat.Dense
				out.Solve(mat.NewDense(n, n, x), mat.NewDense(n, n, x)) //nolint:errcheck // not singular
			}})
		if n <= 128 {
			list = append(list, numeric{"eigh", batch, n, n,
				func(x frontend.Tensor) frontend.Tensor { _, v := x.EigH(); return v }, func(x []float64) {
					var f mat.EigenSym
					var v mat.Dense
					f.Factorize(symmetric(x), true)
					f.VectorsTo(&v)
				}})
		}
	}
	return list
}

// BenchmarkNumeric measures the cases with vkc's CPU path, in f32 and f64, and with gonum, which has f64 only.
func BenchmarkNumeric(b *testing.B) {
	dev, err := vkc.OpenDevice("cpu")
	if err != nil {
		b.Fatal(err)
	}
	defer dev.Close()
	for _, c := range numerics() {
		values := make([]float64, c.batch*c.rows*c.cols)
		for i := range values {
			if values[i] = rand.Float64(); c.rows == c.cols && i%(c.rows*c.cols)%(c.cols+1) == 0 {
				values[i] += 2 * float64(c.rows)
			}
		}
		dims := []int{c.batch, c.rows, c.cols}
		name := c.name + "/" + ir.ShapeOf(dims...).String()
		for _, t := range []ir.DType{ir.F32, ir.F64} {
			b.Run(name+"/vkc "+t.String(), func(b *testing.B) { runNumeric(b, dev, c, t, values, dims) })
		}
		b.Run(name+"/gonum", func(b *testing.B) {
			size := len(values) / c.batch
			for b.Loop() {
				for i := range c.batch {
					c.gonum(values[i*size : (i+1)*size])
				}
			}
		})
	}
}

func runNumeric(b *testing.B, dev *vkc.Device, c numeric, t ir.DType, values []float64, dims []int) {
	g, err := frontend.Build(c.name, func(b *frontend.Builder) {
		b.Output("y", c.op(b.Input("x", t, c.batch, c.rows, c.cols)))
	})
	if err != nil {
		b.Fatal(err)
	}
	exe, err := dev.LoadGraph(context.Background(), g, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer exe.Close()
	x, err := ir.FromFloats(t, values, dims...)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := exe.Run(context.Background(), vkc.Tensors{"x": x}); err != nil {
			b.Fatal(err)
		}
	}
}
