package onnx

import (
	"slices"

	"github.com/vkc-go/vkc/frontend"
)

var trainingOps = table{
	"Adagrad":  manyOp(adagrad),
	"Adam":     manyOp(adam),
	"Momentum": manyOp(momentum),
	"Gradient": controlOp(gradient),
}

// gradient builds Gradient: the gradient of value y of the graph, or of the sum of its elements, with respect to the
// values xs. The values xs and zs must be the node's inputs.
func gradient(c *call) []*value {
	var zs []string
	if a := c.attr("zs", AttrStrings); a != nil {
		zs = a.Strings
	}
	xs, y := c.must("xs", AttrStrings).Strings, c.scope.find(c.must("y", AttrString).String)
	for i, name := range slices.Concat(xs, zs) {
		if v := c.scope.find(name); v == nil || !c.has(i) || v != c.in[i] {
			c.fail("input %d must be %q: vkc differentiates by no other value", i, name)
		}
	}
	if y == nil || y.missing {
		c.fail("there is no value y, %q", c.textAttr("y", ""))
	}
	params := make([]tensor, len(xs))
	for i := range xs {
		params[i] = c.x(i)
	}
	loss := c.asTensor(y)
	if loss.Rank() > 0 {
		loss = loss.Sum()
	}
	return several(frontend.Grad(loss, params...)...)
}

// optimized builds an optimizer op for n parameters, each with `states` tensors of state. step returns the new
// parameter and its new state. The inputs are a rate, the number of updates, the n parameters, their n gradients, and
// then each kind of state for all n parameters. The results are the new parameters, and then each kind of new state.
func (c *call) optimized(states int, step func(rate, count, x, gradient tensor, state []tensor) []tensor) []*value {
	n := (len(c.in) - 2) / (2 + states)
	if n < 1 || len(c.in) != 2+n*(2+states) {
		c.fail("it has %d inputs, want 2 and %d for each parameter", len(c.in), 2+states)
	}
	out := make([]tensor, n*(1+states))
	for i := range n {
		var state []tensor
		for s := range states {
			state = append(state, c.x(2+n*(2+s)+i))
		}
		x, gradient := c.x(2+i), c.x(2+n+i)
		gradient = gradient.Add(x.MulScalar(c.floatAttr("norm_coefficient", 0)))
		for kind, t := range step(c.x(0), c.x(1), x, gradient, state) {
			out[kind*n+i] = t
		}
	}
	return several(out...)
}

// adagrad builds Adagrad (Duchi et al. 2011). The state is the sum of squared gradients.
func adagrad(c *call) []*value {
	return c.optimized(1, func(rate, count, x, g tensor, state []tensor) []tensor {
		rate = rate.Div(castTo(count, x.DType()).MulScalar(c.floatAttr("decay_factor", 0)).AddScalar(1))
		squares := state[0].Add(g.Sqr())
		return []tensor{x.Sub(rate.Mul(g).Div(squares.Sqrt().AddScalar(c.floatAttr("epsilon", 0)))), squares}
	})
}

// adam builds Adam (Kingma and Ba 2015, arXiv:1412.6980).
func adam(c *call) []*value {
	alpha, beta := c.floatAttr("alpha", 0.9), c.floatAttr("beta", 0.999)
	return c.optimized(2, func(rate, count, x, g tensor, state []tensor) []tensor {
		v := state[0].MulScalar(alpha).Add(g.MulScalar(1 - alpha))
		h := state[1].MulScalar(beta).Add(g.Sqr().MulScalar(1 - beta))
		t := castTo(count, x.DType())
		// bias returns 1-b^t, which corrects the bias of an average in the first steps.
		bias := func(b float64) tensor { return t.Lit(b).Pow(t).Neg().AddScalar(1) }
		corrected := rate.Mul(bias(beta).Sqrt()).Div(bias(alpha))
		rate = t.Gt(t.Lit(0)).Where(corrected, rate)
		next := x.Sub(rate.Mul(v).Div(h.Sqrt().AddScalar(c.floatAttr("epsilon", 0))))
		return []tensor{next.MulScalar(1 - c.floatAttr("norm_coefficient_post", 0)), v, h}
	})
}

// momentum builds Momentum: gradient descent with a standard or Nesterov momentum.
func momentum(c *call) []*value {
	alpha, beta := float64(c.must("alpha", AttrFloat).Float), float64(c.must("beta", AttrFloat).Float)
	// The op requires this attribute; optimized reads it with a default.
	c.must("norm_coefficient", AttrFloat)
	c.must("mode", AttrString)
	nesterov := c.choice("mode", "standard", "nesterov") == "nesterov"
	return c.optimized(1, func(rate, count, x, g tensor, state []tensor) []tensor {
		t := castTo(count, x.DType())
		share := t.Gt(t.Lit(0)).Where(t.Lit(beta), t.Lit(1))
		v := state[0].MulScalar(alpha).Add(share.Mul(g))
		if nesterov {
			return []tensor{x.Sub(rate.Mul(g.Add(v.MulScalar(alpha)))), v}
		}
		return []tensor{x.Sub(rate.Mul(v)), v}
	})
}
