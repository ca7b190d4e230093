package optim

import (
	"fmt"
	"math"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Schedule is a learning rate, an f32 scalar, as a function of the step, a scalar that is 1 in the first one. It is
// computed on the device: RateOf of an optimizer takes what it returns.
type Schedule func(step frontend.Tensor) frontend.Tensor

// Constant is one rate for all steps.
func Constant(rate float64) Schedule {
	return func(step frontend.Tensor) frontend.Tensor { return to(step, ir.F32).Lit(rate) }
}

// Linear goes from one rate, in the first step, in a straight line to another one, which it has after that many steps
// and keeps.
func Linear(from, last float64, steps int) Schedule {
	return func(step frontend.Tensor) frontend.Tensor {
		return passed(step, steps).Affine(last-from, from)
	}
}

// Cosine goes from one rate to another along half a period of a cosine (Loshchilov and Hutter 2017), and keeps that.
func Cosine(from, last float64, steps int) Schedule {
	return func(step frontend.Tensor) frontend.Tensor {
		return passed(step, steps).MulScalar(math.Pi).Cos().Affine((from-last)/2, (from+last)/2)
	}
}

// WarmUp multiplies the first rate of a schedule by 1/steps, 2/steps and so on, and has the schedule begin after that
// many steps (Goyal et al. 2017).
func WarmUp(steps int, then Schedule) Schedule {
	return func(step frontend.Tensor) frontend.Tensor {
		wantSteps(step, steps)
		s := to(step, ir.F32)
		after := s.SubScalar(float64(steps)).Max(s.Lit(1))
		return then(after).Mul(s.DivScalar(float64(steps)).Min(s.Lit(1)))
	}
}

// passed is which part of so many steps is over: 0 in the first one, 1 after them all.
func passed(step frontend.Tensor, steps int) frontend.Tensor {
	wantSteps(step, steps)
	s := to(step, ir.F32)
	return s.SubScalar(1).DivScalar(float64(steps)).Max(s.Lit(0)).Min(s.Lit(1))
}

func wantSteps(step frontend.Tensor, steps int) {
	if step.Rank() != 0 || steps < 1 {
		step.Builder().Fail("schedule", fmt.Errorf("step is %s, of %d steps: want a scalar, and at least one", step,
			steps))
	}
}
