package optim

import (
	"fmt"
	"math"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Schedule computes the learning rate of a step, an f32 scalar, on the device. step is a scalar with the number of the
// step, counted from 1. Field RateOf of an optimizer takes a Schedule.
type Schedule func(step frontend.Tensor) frontend.Tensor

// Constant returns a schedule with one rate for all steps.
func Constant(rate float64) Schedule {
	return func(step frontend.Tensor) frontend.Tensor { return to(step, ir.F32).Lit(rate) }
}

// Linear changes the rate linearly between two values: `from` in the first step, and last after the given number of
// steps. Then the rate stays.
func Linear(from, last float64, steps int) Schedule {
	return func(step frontend.Tensor) frontend.Tensor {
		return passed(step, steps).Affine(last-from, from)
	}
}

// Cosine changes the rate between two values along half a period of a cosine (Loshchilov and Hutter 2017): `from` in
// the first step, and last after the given number of steps. Then the rate stays.
func Cosine(from, last float64, steps int) Schedule {
	return func(step frontend.Tensor) frontend.Tensor {
		return passed(step, steps).MulScalar(math.Pi).Cos().Affine((from-last)/2, (from+last)/2)
	}
}

// WarmUp multiplies the first rate of schedule `then` by i/steps in step i, up to the given number of steps (Goyal et
// al. 2017). After that, `then` begins.
func WarmUp(steps int, then Schedule) Schedule {
	return func(step frontend.Tensor) frontend.Tensor {
		wantSteps(step, steps)
		s := to(step, ir.F32)
		after := s.SubScalar(float64(steps)).Max(s.Lit(1))
		return then(after).Mul(s.DivScalar(float64(steps)).Min(s.Lit(1)))
	}
}

// passed returns the elapsed fraction of a number of steps: 0 in the first step, and 1 after all steps.
func passed(step frontend.Tensor, steps int) frontend.Tensor {
	wantSteps(step, steps)
	s := to(step, ir.F32)
	return s.SubScalar(1).DivScalar(float64(steps)).Max(s.Lit(0)).Min(s.Lit(1))
}

// wantSteps fails unless step is a scalar and steps is at least 1.
func wantSteps(step frontend.Tensor, steps int) {
	if step.Rank() != 0 || steps < 1 {
		step.Builder().Fail("schedule", fmt.Errorf("step is %s, of %d steps: want a scalar, and at least one", step,
			steps))
	}
}
