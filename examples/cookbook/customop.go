package main

import (
	"context"
	"math"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// snake is x + sin(a*x)^2/a (Ziyin et al. 2020), an op of this program. Its GLSL expression fuses with other ops. Float
// is its definition, and RegisterGrad its derivative.
var snake = ir.MustRegisterCustom(ir.CustomOp{
	Name:  "cookbook.snake",
	Doc:   "x + sin(a*x)^2/a.",
	Args:  []ir.ArgInfo{{Name: "x"}},
	Attrs: []ir.AttrInfo{{Name: "a", Kind: ir.AttrFloat, Default: 1.0}},
	Expr:  "x + sin(a * x) * sin(a * x) / a",
	Float: func(x []float64, attrs ir.Attrs) float64 {
		a := attrs.Float("a")
		return x[0] + math.Pow(math.Sin(a*x[0]), 2)/a
	},
	Tol: ir.Tolerance{Eps: 256, Abs: 1e-5},
})

func init() {
	frontend.RegisterGrad(snake, func(c frontend.GradCall) []frontend.Tensor {
		slope := c.Args[0].MulScalar(2 * c.Attrs.Float("a")).Sin().AddScalar(1) // 1 + sin(2*a*x)
		return []frontend.Tensor{c.Grad.Mul(slope)}
	})
}

// customOp computes the gradient of a custom op.
var customOp = recipe{name: "customop", about: "the gradient of an op of one's own", size: 1 << 20, small: 100,
	tolerance: 1e-4,
	prepare: func(_ context.Context, dev *vkc.Device, n int) (task, error) {
		const a = 3
		gradient := vkc.FuncOn[func(x []float32) ([]float32, error)](dev, func(x frontend.Tensor) frontend.Tensor {
			y := frontend.CustomOp(snake, []frontend.Tensor{x}, frontend.Attr("a", float64(a)))
			return frontend.Grad(y.Sqr().Sum(), x)[0]
		})
		x := noise(n)
		return task{
			vkc: func() ([]float32, error) { return gradient(x) },
			plain: func() []float32 {
				out := make([]float32, n)
				for i, v := range x {
					v := float64(v)
					y := v + math.Pow(math.Sin(a*v), 2)/a
					out[i] = float32(2 * y * (1 + math.Sin(2*a*v)))
				}
				return out
			},
		}, nil
	}}
