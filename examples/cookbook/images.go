package main

import (
	"context"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
)

// images prepares pictures for a vision model: bytes [N, 64, 64, 3] become floats [N, 3, 32, 32], resized and
// normalized. N is a symbol, so one program takes every batch size up to 256.
var images = recipe{name: "images", about: "resize and normalize a batch of pictures",
	size: 64, small: 2, tolerance: 1e-5,
	prepare: func(ctx context.Context, dev *vkc.Device, batch int) (task, error) {
		const side, to = 64, 32
		mean, deviation := []float32{0.485, 0.456, 0.406}, []float32{0.229, 0.224, 0.225}
		g, err := frontend.Build("images", func(b *frontend.Builder) {
			channel := func(x []float32) frontend.Tensor { return b.Const(x).Reshape(3, 1, 1) }
			x := b.Input("pictures", vkc.U8, b.Sym("N", 256), side, side, 3)
			y := x.Transpose(0, 3, 1, 2).Cast(vkc.F32).DivScalar(255).ResizeLinear(false, to, to)
			b.Output("prepared", y.Sub(channel(mean)).Div(channel(deviation)))
		})
		if err != nil {
			return task{}, err
		}
		exe, err := dev.LoadGraph(ctx, g, nil)
		if err != nil {
			return task{}, err
		}
		pictures := make([]uint8, batch*side*side*3)
		for i, v := range noise(len(pictures)) {
			pictures[i] = uint8(127 * (v + 1))
		}
		return task{
			vkc: func() ([]float32, error) {
				x, err := vkc.Of(pictures, batch, side, side, 3)
				if err != nil {
					return nil, err
				}
				res, err := exe.Run(ctx, vkc.Tensors{"pictures": x})
				if err != nil {
					return nil, err
				}
				return vkc.Values[float32](res.Outputs["prepared"])
			},
			plain: func() (out []float32) {
				// At half the size, linear interpolation is the mean of four pixels.
				for n := range batch {
					for c := range 3 {
						for i := range to {
							for j := range to {
								at := ((n*side+2*i)*side+2*j)*3 + c
								sum := int(pictures[at]) + int(pictures[at+3]) + int(pictures[at+3*side]) +
									int(pictures[at+3*side+3])
								out = append(out, (float32(sum)/(4*255)-mean[c])/deviation[c])
							}
						}
					}
				}
				return out
			},
			close: exe.Close,
		}, nil
	}}
