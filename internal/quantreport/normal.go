package main

import (
	"math"
	"math/rand/v2"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// The size of the normally distributed matrix on which all formats are measured, and the number of vectors that it is
// multiplied by.
const (
	normalRows    = 128
	normalColumns = 1024
	normalVectors = 64
)

// normals returns n normally distributed numbers.
func normals(n int, seed uint64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// normalLoss returns the relative error of normally distributed numbers stored as t, and the relative error of their
// matmul with f32 vectors.
func normalLoss(t ir.DType) (rmse, matmul float64, err error) {
	w := normals(normalRows*normalColumns, 1)
	stored, err := roundTrip(t, w, nil)
	if err != nil {
		return 0, 0, err
	}
	x := normals(normalVectors*normalColumns, 2)
	return relative(widen(stored), widen(w)), relative(multiply(stored, x), multiply(w, x)), nil
}

// roundTrip quantizes w to t, weighted by importance if that is not nil, and returns the dequantized result.
func roundTrip(t ir.DType, w, importance []float32) ([]float32, error) {
	n, err := t.BytesFor(int64(len(w)))
	if err != nil {
		return nil, err
	}
	packed := make([]byte, n)
	if err := quant.Quantize(packed, t, w, &quant.Options{Weights: importance}); err != nil {
		return nil, err
	}
	out := make([]float32, len(w))
	return out, quant.DequantizeParallel(out, t, packed)
}

// multiply returns the products of each row of w with each vector of x, summed in float64. Rows and vectors have
// normalColumns elements.
func multiply(w, x []float32) []float64 {
	y := make([]float64, 0, len(w)/normalColumns*normalVectors)
	for row := 0; row < len(w); row += normalColumns {
		for v := 0; v < len(x); v += normalColumns {
			sum := 0.0
			for i := range normalColumns {
				sum += float64(w[row+i]) * float64(x[v+i])
			}
			y = append(y, sum)
		}
	}
	return y
}

// relative returns the error of got relative to want in the L2 norm.
func relative(got, want []float64) float64 {
	var e, total float64
	for i, v := range want {
		e += (got[i] - v) * (got[i] - v)
		total += v * v
	}
	return math.Sqrt(e / total)
}

// widen converts floats to float64.
func widen(x []float32) []float64 {
	wide := make([]float64, len(x))
	for i, v := range x {
		wide[i] = float64(v)
	}
	return wide
}
