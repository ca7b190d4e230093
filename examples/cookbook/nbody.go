package main

import (
	"context"
	"math"
	"slices"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
)

// nbody computes the accelerations of bodies by gravity. All pairs at once would make a tensor [n, n, 3]. Scan goes
// over blocks of sources instead, so that the tensors of a block stay small.
var nbody = recipe{name: "nbody", about: "accelerations of bodies, in blocks of sources",
	size: 4096, small: 64,
	tolerance: 1e-4,
	prepare: func(_ context.Context, dev *vkc.Device, n int) (task, error) {
		const block, soft = 32, 0.01
		accelerate := vkc.FuncOn[func(at [][]float32, mass []float32) ([][]float32, error)](dev,
			func(b *frontend.Builder, at, mass frontend.Tensor) frontend.Tensor {
				sum := b.Full(vkc.F32, 0, n, 3)
				sources := []frontend.Tensor{at.Reshape(n/block, block, 3), mass.Reshape(n/block, block)}
				last, _ := b.Scan([]frontend.Tensor{sum}, sources, func(carried, x []frontend.Tensor) (next,
					outs []frontend.Tensor) {
					away := x[0].Unsqueeze(0).Sub(at.Unsqueeze(1)) // [n, block, 3]
					pull := away.Sqr().Sum(-1).AddScalar(soft).Powf(-1.5).Mul(x[1])
					return []frontend.Tensor{carried[0].Add(away.Mul(pull.Unsqueeze(-1)).Sum(1))}, nil
				})
				return last[0]
			})
		at, mass := rowsOf(noise(3*n), 3), noise(n)
		for i := range mass {
			mass[i] += 1.1
		}
		return task{
			vkc: func() ([]float32, error) {
				a, err := accelerate(at, mass)
				return slices.Concat(a...), err
			},
			plain: func() []float32 {
				a := make([]float32, 3*n)
				for i := range at {
					for j := range at {
						x, y, z := at[j][0]-at[i][0], at[j][1]-at[i][1], at[j][2]-at[i][2]
						d := float64(x*x + y*y + z*z + soft)
						pull := mass[j] / float32(d*math.Sqrt(d))
						a[3*i] += x * pull
						a[3*i+1] += y * pull
						a[3*i+2] += z * pull
					}
				}
				return a
			},
		}, nil
	}}
