package vkc_test

import (
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/optim"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
)

// TestTrainingSteps runs training steps that keep their memory in states, three
// in a row, on a device and on the reference.
func TestTrainingSteps(t *testing.T) {
	for name, define := range map[string]func(b *frontend.Builder){
		"adamw": func(b *frontend.Builder) {
			p, m, v := b.State("p", ir.F32, 33, 20), b.State("m", ir.F32, 33, 20), b.State("v", ir.F32, 33, 20)
			clipped, norm := optim.ClipGlobalNorm(1, b.Input("g", ir.F32, 33, 20), b.Input("h", ir.F32, 7))
			p2, m2, v2 := optim.NewAdamW(0.01).Step(p, clipped[0], m, v, optim.Steps(b, "step"))
			b.Update(p, p2)
			b.Update(m, m2)
			b.Update(v, v2)
			b.Output("norm", norm)
			b.Output("h", clipped[1])
		},
		"sgd": func(b *frontend.Builder) {
			p, v := b.State("p", ir.F32, 33, 20), b.State("v", ir.F32, 33, 20)
			s := optim.SGD{Momentum: 0.9, WeightDecay: 0.1, Nesterov: true, RateOf: b.Scalar(ir.F32, 0.1)}
			p2, v2 := s.Step(p, b.Input("g", ir.F32, 33, 20), v)
			b.Update(p, p2)
			b.Update(v, v2)
		},
		"remat": func(b *frontend.Builder) {
			h, w := b.Input("h", ir.F32, 17, 24), b.Input("w", ir.F32, 24, 24)
			for range 2 {
				h = b.Remat(func() []frontend.Tensor {
					return []frontend.Tensor{h.Add(h.MatMul(w).Tanh().MatMul(w))}
				})[0]
			}
			b.Output("grad", frontend.Grad(h.Sqr().Mean(), w)[0])
		},
		"lion": func(b *frontend.Builder) {
			p, m := b.State("p", ir.F32, 33, 20), b.State("m", ir.F32, 33, 20)
			p2, m2 := optim.NewLion(0.01).Step(p, b.Input("g", ir.F32, 33, 20), m)
			b.Update(p, p2)
			b.Update(m, m2)
		},
		"mean of two scaled gradients": func(b *frontend.Builder) {
			w := []frontend.Tensor{b.State("w", ir.F32, 33, 20)}
			scale := b.StateFrom(ir.InitialConstant(8), "scale", ir.F32)
			g := b.Input("g", ir.F32, 33, 20).Cast(ir.F16).Mul(scale.Cast(ir.F16))
			grads, finite := optim.NewLossScale().Step(scale, g)
			mean, due := optim.Accumulate(2, w, grads)
			take := finite.And(due)
			optim.Train(optim.NewAdamW(0.01), w, mean, optim.StepsTaken(b, "step", take), optim.TakeIf(take))
		},
		"muon": func(b *frontend.Builder) {
			p, m := b.State("p", ir.F32, 24, 16), b.State("m", ir.F32, 24, 16)
			p2, m2 := optim.NewMuon(0.02).Step(p, b.Input("g", ir.F32, 24, 16), m)
			b.Update(p, p2)
			b.Update(m, m2)
		},
	} {
		t.Run(name, func(t *testing.T) { checkOnDevice(t, devtest.Build(t, define)) })
	}
}
