package optim

import (
	"fmt"
	"math"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Rule is how a parameter is trained: AdamW, SGD, Muon or Lion.
type Rule interface {
	// Memory names the state per parameter: f32 tensors of the parameter's shape that begin at zero.
	Memory() []string
	// Next returns the next values of a parameter and of its state. step is a scalar, 1 in the first step.
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

// Train updates parameters, which are states, by their gradients. A rule's state for parameter NAME is in states such
// as NAME.m. take, a bool scalar, says whether to take the step; if it is false, nothing changes. The zero Tensor means
// always.
func Train(rule func(p frontend.Tensor) Rule, params, grads []frontend.Tensor, step, take frontend.Tensor) {
	for i, p := range params {
		b, r := p.Builder(), rule(p)
		var memory []frontend.Tensor
		for _, name := range r.Memory() {
			memory = append(memory, b.State(p.Node().Name()+"."+name, ir.F32, p.Shape()))
		}
		p2, next := r.Next(p, grads[i], memory, step)
		b.Update(p, taken(take, p2, p))
		for j, m := range memory {
			b.Update(m, taken(take, next[j], m))
		}
	}
}

// taken selects next if the step is taken, else last.
func taken(take, next, last frontend.Tensor) frontend.Tensor {
	if take.IsZero() {
		return next
	}
	return take.Where(next, last)
}

// StepsTaken is Steps that counts only runs in which take, a bool scalar, is true. It returns the number of the current
// or next step.
func StepsTaken(b *frontend.Builder, name string, take frontend.Tensor) frontend.Tensor {
	count := b.State(name, ir.I32)
	next := count.AddScalar(1)
	b.Update(count, taken(take, next, count))
	return next
}

// Accumulate sums gradients over the given number of runs, in f32 states NAME.sum of the parameters. It returns the
// mean, and a bool scalar for Train that is true in the last of these runs; the sums then begin at zero again. The
// state "accumulated" counts runs.
func Accumulate(runs int, params, grads []frontend.Tensor) (mean []frontend.Tensor, due frontend.Tensor) {
	const op = "accumulate"
	if len(params) == 0 || len(params) != len(grads) {
		panic(fmt.Sprintf("optim: %s of %d gradients of %d parameters: want one for each", op, len(grads), len(params)))
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

// LossScale holds the constants of an adaptive loss scale for gradients in f16 (Micikevicius et al. 2018). The loss is
// multiplied by the scale before gradients are computed, so that small gradients do not underflow in f16.
type LossScale struct {
	Growth  float64 // of the scale, after Every steps without an overflow
	Backoff float64 // of the scale, after an overflow
	Every   int
	Max     float64 // the largest scale
}

// NewLossScale returns the usual parameters: double the scale after 2000 steps without overflow, halve it after an
// overflow, and limit it to 2^24.
func NewLossScale() LossScale { return LossScale{Growth: 2, Backoff: 0.5, Every: 2000, Max: 1 << 24} }

// Step takes the gradients of scale*loss, where scale is an f32 state. It returns the gradients of the loss in f32, and
// a bool scalar that says whether all of them are finite; if not, Train must not take a step. It updates the scale, and
// counts good steps in the state NAME.good.
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
	run := good.AddScalar(1)
	grows := run.Ge(run.Lit(float64(l.Every)))
	larger := grows.Where(scale.MulScalar(l.Growth).Min(scale.Lit(l.Max)), scale)
	b.Update(scale, finite.Where(larger, scale.MulScalar(l.Backoff).Max(scale.Lit(1))))
	b.Update(good, finite.And(grows.Not()).Where(run, run.Lit(0)))
	return out, finite
}

// Unscale divides gradients by a scale, in f32. finite is a bool scalar: whether all gradients are finite.
func Unscale(scale frontend.Tensor, grads ...frontend.Tensor) (out []frontend.Tensor, finite frontend.Tensor) {
	if len(grads) == 0 {
		panic("optim: unscale without gradients")
	}
	for i, g := range grads {
		g = to(g, ir.F32).Div(scale)
		out = append(out, g)
		all := g.Abs().Lt(g.Lit(math.Inf(1))).Cast(ir.I32)
		if all.Rank() > 0 {
			all = all.ReduceMin(-1) // rows first, so that a large gradient gives a device enough parallel work
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
