package optim

import (
	"fmt"
	"math"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// Schedule computes a learning rate, an f32 scalar, from the step, a scalar that is 1 in the first step. It runs on the
// device: its result is an optimizer's RateOf.
type Schedule func(step frontend.Tensor) frontend.Tensor

// Constant is one rate for all steps.
func Constant(rate float64) Schedule {
	return func(step frontend.Tensor) frontend.Tensor { return to(step, ir.F32).Lit(rate) }
}

// Linear changes the rate linearly from from, in the first step, to last after the given number of steps, and then
// keeps it.
func Linear(from, last float64, steps int) Schedule {
	return func(step frontend.Tensor) frontend.Tensor {
		return passed(step, steps).Affine(last-from, from)
	}
}

// Cosine moves the rate from one value to another along half a period of a cosine (Loshchilov and Hutter 2017), and
// then keeps it.
func Cosine(from, last float64, steps int) Schedule {
	return func(step frontend.Tensor) frontend.Tensor {
		return passed(step, steps).MulScalar(math.Pi).Cos().Affine((from-last)/2, (from+last)/2)
	}
}

// WarmUp multiplies the first rate of a schedule by 1/steps, 2/steps and so on. The schedule itself begins after that
// many steps (Goyal et al. 2017).
func WarmUp(steps int, then Schedule) Schedule {
	return func(step frontend.Tensor) frontend.Tensor {
		wantSteps(step, steps)
		s := to(step, ir.F32)
		after := s.SubScalar(float64(steps)).Max(s.Lit(1))
		return then(after).Mul(s.DivScalar(float64(steps)).Min(s.Lit(1)))
	}
}

// passed is the elapsed fraction of the given number of steps: 0 in the first step, 1 after all of them.
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
