package main

import (
	"context"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
)

// sparse multiplies a sparse matrix by a vector. The matrix is in compressed rows (CSR).
var sparse = recipe{name: "sparse", about: "a sparse matrix times a vector", size: 1 << 17, small: 100, tolerance: 1e-5,
	prepare: func(_ context.Context, dev *vkc.Device, n int) (task, error) {
		const perRow = 8
		multiply := vkc.FuncOn[func(starts, columns []int32, values, x []float32) ([]float32, error)](dev,
			func(starts, columns, values, x frontend.Tensor) frontend.Tensor {
				return frontend.CSR{Starts: starts, Columns: columns, Values: values}.MatMul(x)
			})
		starts, columns := make([]int32, n+1), make([]int32, perRow*n)
		values, x := noise(perRow*n), noise(n)
		for i := range n {
			starts[i+1] = int32(perRow * (i + 1))
			for j := range perRow {
				columns[perRow*i+j] = int32((i*i + 7919*j) % n)
			}
		}
		return task{
			vkc: func() ([]float32, error) { return multiply(starts, columns, values, x) },
			plain: func() []float32 {
				y := make([]float32, n)
				for i := range y {
					for k := starts[i]; k < starts[i+1]; k++ {
						y[i] += values[k] * x[columns[k]]
					}
				}
				return y
			},
		}, nil
	}}
