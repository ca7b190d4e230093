package frontend_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

const randomExtent = 4

// randomOps make a value of [4, 4] of three others of that shape, which may be one and the same. All are smooth, and
// bounded where their operands are.
var randomOps = []func(b *frontend.Builder, x, y, z frontend.Tensor) frontend.Tensor{
	func(_ *frontend.Builder, x, y, z frontend.Tensor) frontend.Tensor { return x.Add(y).Mul(z).Tanh() },
	func(_ *frontend.Builder, x, y, _ frontend.Tensor) frontend.Tensor { return x.Sub(y.T()).Sin() },
	func(_ *frontend.Builder, x, y, _ frontend.Tensor) frontend.Tensor {
		return x.MatMul(y).DivScalar(randomExtent)
	},
	func(_ *frontend.Builder, x, y, _ frontend.Tensor) frontend.Tensor {
		return x.MatMulT(y).DivScalar(randomExtent).Gelu()
	},
	func(_ *frontend.Builder, x, y, _ frontend.Tensor) frontend.Tensor {
		return x.Softmax(0).Mul(y.LogSoftmax(1))
	},
	func(_ *frontend.Builder, x, y, z frontend.Tensor) frontend.Tensor {
		return x.LayerNorm(y.Mean(0), z.LogSumExp(1), 0.1)
	},
	func(_ *frontend.Builder, x, y, _ frontend.Tensor) frontend.Tensor {
		return x.RMSNorm(y.Index(0, 1), 0.1)
	},
	func(_ *frontend.Builder, x, y, z frontend.Tensor) frontend.Tensor { // heads of 1
		head := func(t frontend.Tensor) frontend.Tensor { return t.Reshape(1, randomExtent, randomExtent) }
		return head(x).Attention(head(y), head(z), frontend.Causal()).Reshape(x.Shape())
	},
	func(_ *frontend.Builder, x, y, _ frontend.Tensor) frontend.Tensor { // one tensor as all of them, and a mask
		h := x.Unsqueeze(0)
		return h.Attention(h, h, frontend.Mask(y)).Squeeze(0)
	},
	func(_ *frontend.Builder, x, y, _ frontend.Tensor) frontend.Tensor {
		return x.Slice(0, 1, 3).Concat(0, y.Slice(0, 0, 2)).Flip(1)
	},
	func(b *frontend.Builder, x, y, _ frontend.Tensor) frontend.Tensor {
		ids := b.Iota(ir.I32, 0, randomExtent).MulScalar(3).Rem(b.Scalar(ir.I32, 3)) // 0 each time
		return x.IndexAdd(0, ids, y).IndexSelect(1, b.Iota(ir.I32, 0, randomExtent)).Tanh()
	},
	func(_ *frontend.Builder, x, y, _ frontend.Tensor) frontend.Tensor {
		return x.CumSum(1).DivScalar(randomExtent).Add(y.SumKeep(1).Tanh())
	},
	func(b *frontend.Builder, x, y, z frontend.Tensor) frontend.Tensor {
		seen := b.Iota(ir.I32, 0, randomExtent, randomExtent).Le(b.Iota(ir.I32, 1, randomExtent, randomExtent))
		return seen.Where(x, y.Mul(z.Index(1, 2).Unsqueeze(0)).Sigmoid())
	},
	func(b *frontend.Builder, x, y, z frontend.Tensor) frontend.Tensor {
		return b.Loop(ir.D(2), []frontend.Tensor{x, y}, func(_ frontend.Tensor, s []frontend.Tensor) []frontend.Tensor {
			return []frontend.Tensor{s[1].Add(z).Tanh(), s[0].Mul(z).Sin()}
		})[0]
	},
}

// randomLoss is a scalar computed from two tensors through some of randomOps, partly within Remat.
func randomLoss(b *frontend.Builder, rng *rand.Rand, x, y frontend.Tensor) frontend.Tensor {
	values := []frontend.Tensor{x, y}
	pick := func() frontend.Tensor { return values[rng.IntN(len(values))] }
	two := func() []frontend.Tensor {
		first := randomOps[rng.IntN(len(randomOps))](b, pick(), pick(), pick())
		return []frontend.Tensor{first, first.Mul(pick()).Tanh()}
	}
	for range 2 + rng.IntN(5) {
		if rng.IntN(3) == 0 {
			values = append(values, b.Remat(two)...)
		} else {
			values = append(values, two()...)
		}
	}
	loss := x.Mul(y).Mean()
	for _, v := range values[len(values)-3:] {
		loss = loss.Add(v.Sqr().Mean())
	}
	return loss
}

// TestGradientsOfRandomGraphs compares first and second gradients of random graphs with finite differences. Values are
// used several times.
func TestGradientsOfRandomGraphs(t *testing.T) {
	const h = 1e-4
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		in, dirs := map[string][]float64{}, map[string][]float64{}
		for _, name := range []string{"x", "y"} {
			for range randomExtent * randomExtent {
				in[name] = append(in[name], 2*rng.Float64()-1)
				dirs[name] = append(dirs[name], 2*rng.Float64()-1)
			}
		}
		g, err := frontend.Build(fmt.Sprint(seed), func(b *frontend.Builder) {
			x, y := b.Input("x", ir.F64, randomExtent, randomExtent), b.Input("y", ir.F64, randomExtent, randomExtent)
			loss := randomLoss(b, rng, x, y)
			for order := 1; order <= 2; order++ {
				b.Output(fmt.Sprint("loss", order), loss)
				grads := frontend.Grad(loss, x, y)
				b.Output(fmt.Sprint("x", order), grads[0])
				b.Output(fmt.Sprint("y", order), grads[1])
				loss = grads[0].Mul(y).Sin().Sum().Add(grads[1].Sqr().Sum())
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		p, err := interp.New(g, interp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		at := func(step float64) map[string]*ir.Data {
			moved := map[string]*ir.Data{}
			for name, list := range in {
				near := make([]float64, len(list))
				for i := range near {
					near[i] = list[i] + step*dirs[name][i]
				}
				if moved[name], err = ir.FromFloats(ir.F64, near, randomExtent, randomExtent); err != nil {
					t.Fatal(err)
				}
			}
			out, err := p.Run(context.Background(), moved, nil)
			if err != nil {
				t.Fatalf("graph %d: %v", seed, err)
			}
			return out
		}
		here := at(0)
		for order := 1; order <= 2; order++ {
			value := func(step float64) float64 { return number(t, at(step)[fmt.Sprint("loss", order)]) }
			want := (8*(value(h)-value(-h)) - (value(2*h) - value(-2*h))) / (12 * h)
			have, size := 0.0, 1.0
			for name, dir := range dirs {
				list, err := here[fmt.Sprint(name, order)].Floats()
				if err != nil {
					t.Fatal(err)
				}
				for i, d := range dir {
					have += d * list[i]
					size += math.Abs(d * list[i])
				}
			}
			if !(math.Abs(have-want) <= 1e-7*size) {
				t.Errorf("graph %d: derivative of order %d is %v, differences say %v", seed, order, have, want)
			}
		}
	}
}
