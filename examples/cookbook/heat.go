package main

import (
	"context"
	"slices"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
)

// heat solves the heat equation on a periodic grid by explicit steps. The loop over steps is a part of the graph, so
// the grid stays on the device.
var heat = recipe{name: "heat", about: "100 steps of the heat equation on a grid",
	size: 512, small: 16, tolerance: 1e-5,
	prepare: func(_ context.Context, dev *vkc.Device, n int) (task, error) {
		const steps, rate = 100, 0.2
		solve := vkc.FuncOn[func(u [][]float32) ([][]float32, error)](dev,
			func(b *frontend.Builder, u frontend.Tensor) frontend.Tensor {
				step := func(_ frontend.Tensor, carried []frontend.Tensor) []frontend.Tensor {
					u := carried[0]
					around := u.Roll(0, 1).Add(u.Roll(0, -1)).Add(u.Roll(1, 1)).Add(u.Roll(1, -1))
					return []frontend.Tensor{u.Add(around.Sub(u.MulScalar(4)).MulScalar(rate))}
				}
				return b.Loop(steps, []frontend.Tensor{u}, step)[0]
			})
		first := rowsOf(noise(n*n), n)
		return task{
			vkc: func() ([]float32, error) {
				u, err := solve(first)
				return slices.Concat(u...), err
			},
			plain: func() []float32 {
				u, next := slices.Concat(first...), make([]float32, n*n)
				for range steps {
					for i := range n {
						up, down := (i+n-1)%n*n, (i+1)%n*n
						for j := range n {
							at := u[i*n+j]
							around := u[up+j] + u[down+j] + u[i*n+(j+n-1)%n] + u[i*n+(j+1)%n]
							next[i*n+j] = at + rate*(around-4*at)
						}
					}
					u, next = next, u
				}
				return u
			},
		}, nil
	}}
