package main

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
)

// monteCarlo prices an Asian option: a call on the mean of a share's prices. Seed and offset determine the random
// numbers, so a price can be repeated on any device. The plain computation draws others: the prices agree to within
// their own error.
var monteCarlo = recipe{name: "montecarlo", about: "an Asian option by random paths", size: 1 << 18, small: 1 << 14,
	tolerance: 0.05,
	prepare: func(_ context.Context, dev *vkc.Device, paths int) (task, error) {
		const (
			days                   = 32
			start, strike          = 100, 100
			rate, deviation, years = 0.03, 0.2, 1.0
			day                    = years / days
		)
		drift, spread := (rate-deviation*deviation/2)*day, deviation*math.Sqrt(day)
		price := vkc.FuncOn[func(seed int64) (float32, error)](dev,
			func(b *frontend.Builder, seed frontend.Tensor) frontend.Tensor {
				normal := b.RandomNormal(seed, b.Scalar(vkc.I64, 0), vkc.F32, paths, days)
				shares := normal.Affine(spread, drift).CumSum(1).Exp().MulScalar(start)
				return shares.Mean(1).SubScalar(strike).Relu().Mean().MulScalar(math.Exp(-rate * years))
			})
		return task{
			vkc: func() ([]float32, error) {
				p, err := price(1)
				return []float32{p}, err
			},
			plain: func() []float32 {
				rng, sum := rand.New(rand.NewPCG(1, 2)), 0.0
				for range paths {
					log, mean := 0.0, 0.0
					for range days {
						log += drift + spread*rng.NormFloat64()
						mean += start * math.Exp(log) / days
					}
					sum += max(0, mean-strike)
				}
				return []float32{float32(math.Exp(-rate*years) * sum / float64(paths))}
			},
		}, nil
	}}
