package optim

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Rule says how a parameter is trained: AdamW, SGD, Muon or Lion.
type Rule interface {
	// Memory names the states that each parameter needs: f32 tensors of its shape, zero before the first step.
	Memory() []string
	// Next returns the next values of a parameter and of its states. step is a scalar with the number of the step, from
	// 1.
	Next(p, grad frontend.Tensor, memory []frontend.Tensor, step frontend.Tensor) (frontend.Tensor, []frontend.Tensor)
}

// Memory implements Rule.
func (AdamW) Memory() []string { return []string{"m", "v"} }

// Next implements Rule.
func (a AdamW) Next(p, grad frontend.Tensor, memory []frontend.Tensor,
	step frontend.Tensor) (frontend.Tensor, []frontend.Tensor) {
	p2, m, v := a.Step(p, grad, memory[0], memory[1], step)
	return p2, []frontend.Tensor{m, v}
}

// Memory implements Rule.
func (SGD) Memory() []string { return []string{"v"} }

// Next implements Rule.
func (s SGD) Next(p, grad frontend.Tensor, memory []frontend.Tensor,
	_ frontend.Tensor) (frontend.Tensor, []frontend.Tensor) {
	p2, v := s.Step(p, grad, memory[0])
	return p2, []frontend.Tensor{v}
}

// Memory implements Rule.
func (Muon) Memory() []string { return []string{"m"} }

// Next implements Rule.
func (o Muon) Next(p, grad frontend.Tensor, memory []frontend.Tensor,
	_ frontend.Tensor) (frontend.Tensor, []frontend.Tensor) {
	p2, m := o.Step(p, grad, memory[0])
	return p2, []frontend.Tensor{m}
}

// Memory implements Rule.
func (Lion) Memory() []string { return []string{"m"} }

// Next implements Rule.
func (l Lion) Next(p, grad frontend.Tensor, memory []frontend.Tensor,
	_ frontend.Tensor) (frontend.Tensor, []frontend.Tensor) {
	p2, m := l.Step(p, grad, memory[0])
	return p2, []frontend.Tensor{m}
}

// Minimize trains parameters, which are states, to make a loss smaller. It is Train with the gradients of the loss, and
// with Steps in the state "step".
func Minimize(loss frontend.Tensor, rule Rule, params ...frontend.Tensor) {
	if len(params) == 0 {
		loss.Builder().Fail("minimize", errors.New("there are no parameters: name the states to train"))
	}
	Train(rule, params, frontend.Grad(loss, params...), Steps(loss.Builder(), "step"))
}

// Option adjusts Train.
type Option func(*training)

// training has the options of a call of Train.
type training struct {
	ruleOf func(p frontend.Tensor) Rule // or nil
	take   frontend.Tensor              // whether a run takes the step; the zero Tensor if every run does
}

// RuleOf makes Train choose a rule for each parameter, such as Muon for matrices only. If choose returns nil, Train
// takes its own rule.
func RuleOf(choose func(p frontend.Tensor) Rule) Option {
	return func(t *training) { t.ruleOf = choose }
}

// TakeIf makes Train change parameters and states only in runs in which take, a bool scalar, is true.
func TakeIf(take frontend.Tensor) Option { return func(t *training) { t.take = take } }

// Train updates parameters, which are states, by their gradients. The rule's memory for parameter NAME is in states
// NAME.m and so on, with the names of Memory. step is a scalar with the number of the step, from 1, such as the result
// of Steps.
func Train(rule Rule, params, grads []frontend.Tensor, step frontend.Tensor, options ...Option) {
	var t training
	for _, o := range options {
		o(&t)
	}
	for i, p := range params {
		b, r := p.Builder(), rule
		if t.ruleOf != nil {
			r = cmp.Or(t.ruleOf(p), rule)
		}
		var memory []frontend.Tensor
		for _, name := range r.Memory() {
			memory = append(memory, b.State(p.Node().Name()+"."+name, ir.F32, p.Shape()))
		}
		p2, next := r.Next(p, grads[i], memory, step)
		b.Update(p, taken(t.take, p2, p))
		for j, m := range memory {
			b.Update(m, taken(t.take, next[j], m))
		}
	}
}

// taken returns next if take is true or the zero Tensor, else last.
func taken(take, next, last frontend.Tensor) frontend.Tensor {
	if take.IsZero() {
		return next
	}
	return take.Where(next, last)
}

// StepsTaken returns the number of the next step, from 1, and counts it in a state only in runs in which take, a bool
// scalar, is true. Steps counts every run.
func StepsTaken(b *frontend.Builder, name string, take frontend.Tensor) frontend.Tensor {
	count := b.State(name, ir.I32)
	next := count.AddScalar(1)
	b.Update(count, taken(take, next, count))
	return next
}

// Accumulate averages gradients over a number of runs, so that one step of Train has the effect of a larger batch. It
// sums the gradients in f32 states: NAME.sum for parameter NAME. It returns the mean, and a bool scalar, due, which is
// true in the last of the runs: pass it to Train by TakeIf. After that run the sums begin at zero again. The state
// "accumulated" counts runs.
func Accumulate(runs int, params, grads []frontend.Tensor) (mean []frontend.Tensor, due frontend.Tensor) {
	const op = "accumulate"
	if len(params) == 0 || len(params) != len(grads) {
		panic(fmt.Sprintf("optim: %s of %d gradients of %d parameters: want one per parameter", op, len(grads),
			len(params)))
	}
	b := params[0].Builder()
	if runs < 1 {
		b.Fail(op, fmt.Errorf("over %d runs, want at least one", runs))
	}
	count := b.State("accumulated", ir.I32)
	next := count.AddScalar(1)
	due = next.Ge(next.Lit(float64(runs)))
	b.Update(count, due.Where(next.Lit(0), next))
	for i, p := range params {
		sum := b.State(p.Node().Name()+".sum", ir.F32, p.Shape())
		all := sum.Add(to(grads[i], ir.F32))
		b.Update(sum, due.Where(all.Lit(0), all))
		mean = append(mean, all.DivScalar(float64(runs)))
	}
	return mean, due
}

// LossScale holds the constants of an adaptive loss scale for gradients in f16 (Micikevicius et al. 2018). The program
// multiplies the loss by the scale before computing gradients, so that small gradients do not underflow in f16.
type LossScale struct {
	Growth  float64 // multiplies the scale after Every steps without an overflow
	Backoff float64 // multiplies the scale after an overflow
	Every   int
	Max     float64 // the largest scale
}

// NewLossScale returns the usual constants: double the scale after 2000 steps without an overflow, halve it after an
// overflow, and limit it to 2^24.
func NewLossScale() LossScale { return LossScale{Growth: 2, Backoff: 0.5, Every: 2000, Max: 1 << 24} }

// Step converts the gradients of scale*loss to gradients of the loss, in f32, and updates the scale, an f32 state. It
// also returns a bool scalar, finite: if it is false, a gradient is infinite or NaN, and Train must not take a step.
// The state NAME.good counts steps without an overflow, where NAME is the name of the scale.
func (l LossScale) Step(scale frontend.Tensor, grads ...frontend.Tensor) (out []frontend.Tensor,
	finite frontend.Tensor) {
	const op = "loss_scale"
	if scale.Rank() != 0 || !(l.Growth >= 1 && l.Backoff > 0 && l.Backoff <= 1 && l.Every > 0 && l.Max >= 1) {
		scale.Builder().Fail(op, fmt.Errorf("scale is %s with %+v: want a scalar, growth from 1, backoff to 1, steps "+
			"and a largest scale", scale, l))
	}
	out, finite = Unscale(scale, grads...)
	b := scale.Builder()
	good := b.State(scale.Node().Name()+".good", ir.I32)
	run := good.AddScalar(1) // steps without an overflow, with this one
	grows := run.Ge(run.Lit(float64(l.Every)))
	larger := grows.Where(scale.MulScalar(l.Growth).Min(scale.Lit(l.Max)), scale)
	b.Update(scale, finite.Where(larger, scale.MulScalar(l.Backoff).Max(scale.Lit(1))))
	// The count begins again after an overflow, and after the scale has grown.
	b.Update(good, finite.And(grows.Not()).Where(run, run.Lit(0)))
	return out, finite
}

// Unscale divides gradients by a scale, in f32. finite is a bool scalar that is true if all gradients are finite.
func Unscale(scale frontend.Tensor, grads ...frontend.Tensor) (out []frontend.Tensor, finite frontend.Tensor) {
	if len(grads) == 0 {
		panic("optim: unscale without gradients")
	}
	for i, g := range grads {
		g = to(g, ir.F32).Div(scale)
		out = append(out, g)
		all := g.Abs().Lt(g.Lit(math.Inf(1))).Cast(ir.I32)
		if all.Rank() > 0 {
			all = all.ReduceMin(-1) // first each row, so that a large gradient gives a device enough parallel work
		}
		if all.Rank() > 0 {
			all = all.ReduceMin()
		}
		if i > 0 {
			all = all.Min(finite)
		}
		finite = all
	}
	return out, finite.Ne(finite.Lit(0))
}
