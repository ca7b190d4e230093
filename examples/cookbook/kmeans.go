package main

import (
	"context"
	"slices"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
)

// kmeans finds the centers of clusters by Lloyd's algorithm. The sums of a cluster's points are a matmul with the
// points' clusters as one-hot vectors.
var kmeans = recipe{name: "kmeans", about: "10 iterations of k-means, 16 clusters",
	size: 1 << 15, small: 256,
	tolerance: 1e-3,
	prepare: func(_ context.Context, dev *vkc.Device, n int) (task, error) {
		const clusters, dims, iterations = 16, 8, 10
		find := vkc.FuncOn[func(points [][]float32) ([][]float32, error)](dev,
			func(b *frontend.Builder, points frontend.Tensor) frontend.Tensor {
				iterate := func(_ frontend.Tensor, carried []frontend.Tensor) []frontend.Tensor {
					centers := carried[0]
					// |p-c|^2 = |p|^2 - 2*p*c + |c|^2, and |p|^2 is equal for all centers.
					far := points.MatMulT(centers).MulScalar(-2).Add(centers.Sqr().Sum(-1))
					member := far.Argmin(-1).OneHot(clusters, vkc.F32) // [n, clusters]
					count := member.Sum(0).Unsqueeze(-1)
					mean := member.T().MatMul(points).Div(count.Max(count.Lit(1)))
					return []frontend.Tensor{count.Gt(count.Lit(0)).Where(mean, centers)}
				}
				return b.Loop(iterations, []frontend.Tensor{points.Slice(0, 0, clusters)}, iterate)[0]
			})
		points := rowsOf(noise(n*dims), dims)
		for i, p := range points { // clusters that are apart
			for d := range p {
				p[d] = p[d]/8 + float32((i%clusters>>(d%4))&1)
			}
		}
		return task{
			vkc: func() ([]float32, error) {
				centers, err := find(points)
				return slices.Concat(centers...), err
			},
			plain: func() []float32 {
				centers := slices.Concat(points[:clusters]...)
				for range iterations {
					sums, count := make([]float32, clusters*dims), make([]float32, clusters)
					for _, p := range points {
						nearest, least := 0, float32(1e30)
						for c := range clusters {
							far := float32(0)
							for d, x := range p {
								far += (x - centers[c*dims+d]) * (x - centers[c*dims+d])
							}
							if far < least {
								nearest, least = c, far
							}
						}
						count[nearest]++
						for d, x := range p {
							sums[nearest*dims+d] += x
						}
					}
					for i := range centers {
						if c := count[i/dims]; c > 0 {
							centers[i] = sums[i] / c
						}
					}
				}
				return centers
			},
		}, nil
	}}
