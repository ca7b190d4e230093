package optim

import (
	"errors"
	"fmt"
	"math"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Steps counts runs in an i32 state of that name, and returns the number of the current run, from 1. It serves as
// AdamW's step if the program has no input for it.
func Steps(b *frontend.Builder, name string) frontend.Tensor {
	return StepsTaken(b, name, frontend.Tensor{})
}

// rate returns the learning rate as a tensor: t, or the number if t is the zero Tensor. like is any tensor of the
// graph.
func rate(t frontend.Tensor, number float64, like frontend.Tensor) frontend.Tensor {
	if t.IsZero() {
		return like.Lit(number)
	}
	return to(t, ir.F32)
}

// to returns t in dtype d.
func to(t frontend.Tensor, d ir.DType) frontend.Tensor {
	if t.DType() == d {
		return t
	}
	return t.Cast(d)
}

// wantSame fails unless all tensors have the same shape. names are for the error.
func wantSame(op string, names []string, tensors ...frontend.Tensor) {
	for i, t := range tensors {
		if !t.Shape().Equal(tensors[0].Shape()) {
			t.Builder().Fail(op, fmt.Errorf("%s is %s and %s is %s: want equal shapes", names[0], tensors[0], names[i],
				t))
		}
	}
}

// AdamW holds the constants of Adam with decoupled weight decay (Kingma and Ba 2015, Loshchilov and Hutter 2019).
type AdamW struct {
	Rate         float64 // the learning rate
	Beta1, Beta2 float64 // decay of the moments, each from 0 to below 1
	Eps          float64 // added to the root of the second moment
	WeightDecay  float64 // of the parameter, times the learning rate

	// RateOf, if set, is a scalar tensor with the learning rate, in place of Rate.
	RateOf frontend.Tensor
}

// NewAdamW returns the usual constants: betas 0.9 and 0.999, eps 1e-8 and weight decay 0.01.
func NewAdamW(rate float64) AdamW {
	return AdamW{Rate: rate, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.01}
}

// Step returns the next values of a parameter p and of the moments m and v, all of one shape. The moments are zero
// before the first step. step is a scalar with the number of the step, from 1.
//
//	m' = m + (g-m)*(1-beta1)
//	v' = v*beta2 + g^2*(1-beta2)
//	p' = p*(1-rate*decay) - rate/(1-beta1^step) * m' / (sqrt(v'/(1-beta2^step)) + eps)
//
// 1-beta^step is computed as -expm1(step*log(beta)), because in f32 the first steps would otherwise lose four digits.
func (a AdamW) Step(p, grad, m, v, step frontend.Tensor) (p2, m2, v2 frontend.Tensor) {
	const op = "adamw"
	wantSame(op, []string{"p", "grad", "m", "v"}, p, grad, m, v)
	if step.Rank() != 0 {
		p.Builder().Fail(op, fmt.Errorf("step is %s, want a scalar", step))
	}
	if !(a.Beta1 >= 0 && a.Beta1 < 1 && a.Beta2 >= 0 && a.Beta2 < 1 && a.Eps >= 0) {
		p.Builder().Fail(op, fmt.Errorf("betas %v and %v and eps %v: want betas from 0 to below 1 and eps from 0",
			a.Beta1, a.Beta2, a.Eps))
	}
	g, x, first, second, t := to(grad, ir.F32), to(p, ir.F32), to(m, ir.F32), to(v, ir.F32), to(step, ir.F32)
	lr := rate(a.RateOf, a.Rate, x)
	first = first.Add(g.Sub(first).MulScalar(1 - a.Beta1))
	second = second.MulScalar(a.Beta2).Add(g.Sqr().MulScalar(1 - a.Beta2))
	size := lr.Div(bias(a.Beta1, t))
	spread := second.Div(bias(a.Beta2, t)).Sqrt().AddScalar(a.Eps)
	x = decayed(x, lr, a.WeightDecay).Sub(size.Mul(first.Div(spread)))
	return to(x, p.DType()), to(first, m.DType()), to(second, v.DType())
}

// bias returns 1-beta^t, the bias correction of a moment in step t.
func bias(beta float64, t frontend.Tensor) frontend.Tensor {
	if beta == 0 {
		return t.Lit(1)
	}
	return t.MulScalar(math.Log(beta)).Expm1().Neg()
}

// decayed returns x after weight decay: x*(1-lr*decay).
func decayed(x, lr frontend.Tensor, decay float64) frontend.Tensor {
	if decay == 0 {
		return x
	}
	return x.Sub(x.Mul(lr.MulScalar(decay)))
}

// SGD holds the constants of stochastic gradient descent with momentum (Sutskever et al. 2013).
type SGD struct {
	Rate        float64
	Momentum    float64 // decay of the velocity
	WeightDecay float64 // times the parameter, added to the gradient
	Nesterov    bool    // use the gradient ahead, along the velocity

	// RateOf is as for AdamW.
	RateOf frontend.Tensor
}

// Step returns the next values of a parameter p and of its velocity, which has p's shape and is zero before the first
// step:
//
//	g  = grad + decay*p
//	v' = momentum*v + g
//	p' = p - rate*v', or p - rate*(g + momentum*v') with Nesterov
func (s SGD) Step(p, grad, velocity frontend.Tensor) (p2, velocity2 frontend.Tensor) {
	wantSame("sgd", []string{"p", "grad", "velocity"}, p, grad, velocity)
	g, x, v := to(grad, ir.F32), to(p, ir.F32), to(velocity, ir.F32)
	if s.WeightDecay != 0 {
		g = g.Add(x.MulScalar(s.WeightDecay))
	}
	v = v.MulScalar(s.Momentum).Add(g)
	step := v
	if s.Nesterov {
		step = g.Add(v.MulScalar(s.Momentum))
	}
	x = x.Sub(step.Mul(rate(s.RateOf, s.Rate, x)))
	return to(x, p.DType()), to(v, velocity.DType())
}

// Muon holds the constants of Muon (Jordan et al. 2024): the step is the momentum matrix, approximately orthogonalized.
// Use Muon for the matrices inside a network, and AdamW for other parameters, such as embeddings and vectors.
type Muon struct {
	Rate        float64
	Momentum    float64 // decay of the momentum, usually 0.95
	WeightDecay float64 // of the parameter, times the learning rate
	Iterations  int     // Newton-Schulz iterations, usually 5
	Plain       bool    // use the momentum itself, without Nesterov's look-ahead

	// RateOf is as for AdamW.
	RateOf frontend.Tensor
}

// NewMuon returns the usual constants: momentum 0.95 and 5 iterations.
func NewMuon(rate float64) Muon { return Muon{Rate: rate, Momentum: 0.95, Iterations: 5} }

// Step returns the next values of a parameter p [..., rows, columns] and of its momentum, which is zero before the
// first step:
//
//	m' = m + (g-m)*(1-momentum)
//	u  = g + (m'-g)*momentum, or m' if Plain is set
//	p' = p*(1-rate*decay) - rate * sqrt(max(1, rows/columns)) * Orthogonalize(u)
func (o Muon) Step(p, grad, momentum frontend.Tensor) (p2, momentum2 frontend.Tensor) {
	const op = "muon"
	wantSame(op, []string{"p", "grad", "momentum"}, p, grad, momentum)
	rows, columns := matrix(op, p)
	g, x, m := to(grad, ir.F32), to(p, ir.F32), to(momentum, ir.F32)
	m = m.Add(g.Sub(m).MulScalar(1 - o.Momentum))
	u := m
	if !o.Plain {
		u = g.Add(m.Sub(g).MulScalar(o.Momentum))
	}
	lr := rate(o.RateOf, o.Rate, x)
	size := math.Sqrt(math.Max(1, float64(rows)/float64(columns)))
	x = decayed(x, lr, o.WeightDecay).Sub(Orthogonalize(u, o.Iterations).Mul(lr.MulScalar(size)))
	return to(x, p.DType()), to(m, momentum.DType())
}

// matrix returns the extents of the two innermost axes of t, or fails if they are not static.
func matrix(op string, t frontend.Tensor) (rows, columns int) {
	s := t.Shape()
	if len(s) < 2 || !s[len(s)-2].IsStatic() || !s[len(s)-1].IsStatic() || s[len(s)-1].Is(0) {
		t.Builder().Fail(op, fmt.Errorf("%s is not a matrix [..., rows, columns] of fixed extents", t))
	}
	return s[len(s)-2].Static(), s[len(s)-1].Static()
}

// Orthogonalize moves the singular values of each matrix of x [..., rows, columns] close to 1. It uses Newton-Schulz
// iterations with the odd polynomial 3.4445*s - 4.775*s^3 + 2.0315*s^5 (Jordan et al. 2024). A singular value s rises
// fast under it, and then stays between about 0.7 and 1.2. The matmuls are in f32.
func Orthogonalize(x frontend.Tensor, iterations int) frontend.Tensor {
	const op = "orthogonalize"
	const a, b, c = 3.4445, -4.7750, 2.0315
	rows, columns := matrix(op, x)
	if iterations < 0 || iterations > 100 {
		x.Builder().Fail(op, fmt.Errorf("%d iterations, want 0 to 100", iterations))
	}
	if rows > columns { // so that the matmuls have the smaller size
		return Orthogonalize(x.SwapAxes(-2, -1), iterations).SwapAxes(-2, -1)
	}
	x = x.Div(x.Norm2Keep(-2, -1).AddScalar(1e-7))
	for range iterations {
		gram := x.MatMulT(x)
		poly := gram.MulScalar(b).Add(gram.MatMul(gram).MulScalar(c))
		x = x.MulScalar(a).Add(poly.MatMul(x))
	}
	return x
}

// ClipGlobalNorm scales gradients of any shapes down if their total norm is larger than max (Pascanu et al. 2013): it
// multiplies each by min(1, max/(norm+1e-6)). It also returns the norm before clipping, a scalar.
func ClipGlobalNorm(max float64, grads ...frontend.Tensor) (clipped []frontend.Tensor, norm frontend.Tensor) {
	const op = "clip_global_norm"
	if len(grads) == 0 {
		panic("optim: " + op + " without gradients")
	}
	if !(max > 0) {
		grads[0].Builder().Fail(op, errors.New("the norm to clip at must be above 0"))
	}
	for i, g := range grads {
		sum := sumOfSquares(to(g, ir.F32))
		if i > 0 {
			sum = norm.Add(sum)
		}
		norm = sum
	}
	norm = norm.Sqrt()
	factor := norm.Lit(max).Div(norm.AddScalar(1e-6)).Min(norm.Lit(1))
	for _, g := range grads {
		clipped = append(clipped, to(to(g, ir.F32).Mul(factor), g.DType()))
	}
	return clipped, norm
}

// sumOfSquares sums each row and then the rows' sums, so that a large gradient gives a device enough parallel work.
func sumOfSquares(g frontend.Tensor) frontend.Tensor {
	if g.Rank() == 0 {
		return g.Sqr()
	}
	sum := g.Sqr().Sum(-1)
	if sum.Rank() > 0 {
		sum = sum.Sum()
	}
	return sum
}
