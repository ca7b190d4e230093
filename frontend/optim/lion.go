package optim

import (
	"fmt"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Lion holds the constants of Lion (Chen et al. 2023, arXiv:2302.06675): each element of a parameter moves by the rate,
// in the direction given by the sign of a momentum. Lion keeps half as much state as AdamW. It needs a rate of a third
// to a tenth of AdamW's, and a weight decay that is larger by the same factor.
type Lion struct {
	Rate        float64
	Beta1       float64 // weight of the momentum in a step's direction
	Beta2       float64 // decay of the momentum
	WeightDecay float64 // of the parameter, times the learning rate

	// RateOf is as for AdamW.
	RateOf frontend.Tensor
}

// NewLion returns the usual constants: betas 0.9 and 0.99.
func NewLion(rate float64) Lion { return Lion{Rate: rate, Beta1: 0.9, Beta2: 0.99} }

// Step returns the next values of a parameter p and of its momentum, which has p's shape and is zero before the first
// step:
//
//	p' = p*(1-rate*decay) - rate * sign(beta1*m + (1-beta1)*g)
//	m' = beta2*m + (1-beta2)*g
func (l Lion) Step(p, grad, momentum frontend.Tensor) (p2, momentum2 frontend.Tensor) {
	const op = "lion"
	wantSame(op, []string{"p", "grad", "momentum"}, p, grad, momentum)
	if !(l.Beta1 >= 0 && l.Beta1 <= 1 && l.Beta2 >= 0 && l.Beta2 <= 1) {
		p.Builder().Fail(op, fmt.Errorf("betas %v and %v: want 0 to 1", l.Beta1, l.Beta2))
	}
	g, x, m := to(grad, ir.F32), to(p, ir.F32), to(momentum, ir.F32)
	lr := rate(l.RateOf, l.Rate, x)
	direction := m.MulScalar(l.Beta1).Add(g.MulScalar(1 - l.Beta1)).Sign()
	x = decayed(x, lr, l.WeightDecay).Sub(direction.Mul(lr))
	m = m.MulScalar(l.Beta2).Add(g.MulScalar(1 - l.Beta2))
	return to(x, p.DType()), to(m, momentum.DType())
}
