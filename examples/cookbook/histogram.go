package main

import (
	"context"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
)

// histogram counts numbers in bins of equal width.
var histogram = recipe{name: "histogram", about: "a histogram of 64 bins", size: 1 << 20, small: 1000,
	prepare: func(_ context.Context, dev *vkc.Device, n int) (task, error) {
		const bins, low, high = 64, -1, 1
		counts := vkc.FuncOn[func(x []float32) ([]float32, error)](dev, func(x frontend.Tensor) frontend.Tensor {
			return x.Histogram(bins, low, high).Cast(vkc.F32)
		})
		x := noise(n)
		return task{
			vkc: func() ([]float32, error) { return counts(x) },
			plain: func() []float32 {
				list := make([]float32, bins)
				for _, v := range x {
					if v >= low && v <= high {
						list[min(bins-1, int((v-low)*bins/(high-low)))]++
					}
				}
				return list
			},
		}, nil
	}}
