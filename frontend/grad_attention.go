package frontend

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// optional returns the operand of that name, or the zero Tensor if it was omitted.
func (c GradCall) optional(name string) Tensor {
	if i := c.Result.node.Op().Info().Arg(name); i >= 0 && i < len(c.Args) {
		return c.Args[i]
	}
	return Tensor{}
}

// attentionGrad is the rule of attention: FlashAttention-2 (Dao, 2023). Its kernels recompute the scores tile by tile
// from the logarithms of the softmax denominators, so that no tensor of all scores is materialized. The exception is a
// mask that needs a gradient.
func attentionGrad(c GradCall, want []bool) []Tensor {
	if maskWanted := len(want) > 3 && want[3]; maskWanted {
		return definedBy(attentionOf)(c, want)
	}
	q, k, v, mask, sinks := c.Args[0], c.Args[1], c.Args[2], c.optional("mask"), c.optional("sinks")
	attrs := slices.DeleteFunc(slices.Clone(c.Attrs), func(a ir.Attr) bool {
		return a.Name == "precision" || a.Name == "zero_nan" // attention_lse and attention_grad lack these
	})
	lse := q.apply(ir.OpAttentionLSE, append([]Tensor{k}, present(mask, sinks)...), attrs...)
	delta := c.Grad.as(lse).Mul(c.Result.as(lse)).Sum(-1)
	out := make([]Tensor, len(c.Args))
	for i, name := range []string{"q", "k", "v"} {
		if !want[i] {
			continue
		}
		g := q.apply(ir.OpAttentionGrad, append([]Tensor{k, v, c.Grad, lse, delta}, present(mask)...),
			append(slices.Clone(attrs), attr("of", name))...)
		if heads, groups := q.Dim(-3), k.Dim(-3); i > 0 && heads != groups { // sum over the query heads of a key head
			perGroup, _ := heads.Quo(groups.Add)
			s := c.Args[i].Shape()
			g = g.Reshape(s[:len(s)-2], perGroup, s[len(s)-2:]).Sum(len(s) - 2)
		}
		out[i] = g
	}
	if sinksWanted := len(want) > 4 && want[4]; sinksWanted {
		share := sinks.as(lse).withOnes(1).Sub(lse).Exp()
		perHead := share.Mul(delta).Neg().Sum(-1)
		out[4] = perHead.sumTo(sinks.Shape())
	}
	return out
}

// scoresOf builds an attention's scores, [..., H, T, S], from other ops, in at least f32. They include the mask, and
// are -inf for keys that a query does not attend to.
func scoresOf(c GradCall) Tensor {
	q, k, mask := c.Args[0].wide(), c.Args[1].wide(), c.optional("mask")
	rank := q.Rank()
	batch, heads, groups := q.Shape()[:rank-3], q.Dim(-3), k.Dim(-3)
	t, s := q.Dim(-2), k.Dim(-2)
	perGroup := heads.Static() / groups.Static()
	scores := q.Reshape(batch, groups, t.Times(int64(perGroup)), q.Dim(-1)).MatMulT(k) // see grouped
	scores = scores.Reshape(batch, heads, t, s)
	if softcap := c.Attrs.Float("softcap"); softcap != 0 {
		scores = scores.MulScalar(scoreScale(c) / softcap).Tanh().MulScalar(softcap)
	} else {
		scores = scores.MulScalar(scoreScale(c))
	}
	if !mask.IsZero() {
		if !mask.DType().IsFloat() {
			mask = mask.Ne(mask.Lit(0)).Where(scores.Lit(0), scores.Lit(math.Inf(-1)))
		}
		scores = scores.Add(mask.as(scores))
	}
	if c.Attrs.Bool("causal") {
		last := q.b.Iota(ir.I32, 0, t, 1).Add(q.b.DimValue(s)).Sub(q.b.DimValue(t)) // the last key that a query sees
		key := q.b.Iota(ir.I32, 1, 1, s)
		seen := key.Le(last)
		if n := c.Attrs.Int("window"); n > 0 {
			seen = seen.And(key.Gt(last.SubScalar(float64(n))))
		}
		scores = seen.Where(scores, scores.Lit(math.Inf(-1)))
	}
	return scores
}

// scoreScale returns the factor of an attention's scores.
func scoreScale(c GradCall) float64 {
	if scale := c.Attrs.Float("scale"); scale != 0 {
		return scale
	}
	return 1 / math.Sqrt(float64(c.Args[0].Dim(-1).Static()))
}

// withSinks appends the column of the sinks' scores, if the op has sinks.
func (c GradCall) withSinks(scores Tensor) Tensor {
	sinks := c.optional("sinks")
	if sinks.IsZero() {
		return scores
	}
	s := append(ir.Shape{}, scores.Shape()...)
	s[len(s)-1] = ir.D(1)
	return scores.Concat(-1, sinks.as(scores).withOnes(2).Broadcast(s))
}

// attentionOf defines attention by other ops.
func attentionOf(c GradCall) Tensor {
	v, scores := c.Args[2].wide(), scoresOf(c)
	probs := c.withSinks(scores).Softmax(-1).Slice(-1, 0, scores.Dim(-1))
	if c.Attrs.Bool("zero_nan") {
		probs = probs.IsNaN().Where(probs.Lit(0), probs)
	}
	return grouped(probs, v).MatMul(v).Reshape(c.Result.Shape())
}

// grouped reshapes t [..., H, T, _] to [..., G, H/G*T, _], where keys has G heads: the query heads that share a key
// head become rows of one matrix.
func grouped(t, keys Tensor) Tensor {
	rank, groups := t.Rank(), keys.Dim(-3)
	perGroup, _ := t.Dim(-3).Quo(groups.Add)
	return t.Reshape(t.Shape()[:rank-3], groups, t.Dim(-2).Times(perGroup.Add), t.Dim(-1))
}

// attentionLSEOf defines attention_lse by other ops.
func attentionLSEOf(c GradCall) Tensor { return c.withSinks(scoresOf(c)).LogSumExp(-1) }

// attentionGradOf builds op attention_grad from other ops, which have gradients. It is the gradient of attention for q,
// k or v, as attribute `of` says.
func attentionGradOf(c GradCall) Tensor {
	q, k, v := c.Args[0].wide(), c.Args[1].wide(), c.Args[2].wide()
	grad, lse, delta := c.Args[3].wide(), c.Args[4], c.Args[5]
	scores := scoresOf(c)
	weights := scores.Sub(lse.Unsqueeze(-1)).Exp()
	of := c.Attrs.String_("of")
	if of != "v" {
		d := grouped(grad, v).MatMulT(v).Reshape(scores.Shape()).Sub(delta.Unsqueeze(-1)) // of softmax
		if softcap := c.Attrs.Float("softcap"); softcap != 0 {
			plain := c
			plain.Args = c.Args[:2] // tanh does not apply to the mask
			plain.Attrs = ir.Attrs{attr("softcap", softcap), attr("scale", scoreScale(c)), attr("causal", false),
				attr("window", int64(0))}
			// The derivative of softcap*tanh(x/softcap) is 1-tanh(x/softcap)^2.
			d = d.Mul(scoresOf(plain).DivScalar(softcap).Sqr().Neg().AddScalar(1))
		}
		weights = weights.Mul(d).MulScalar(scoreScale(c))
	}
	switch of {
	case "q":
		return grouped(weights, k).MatMul(k).Reshape(q.Shape())
	case "k":
		return weights.T().MatMul(q)
	}
	return weights.T().MatMul(grad)
}

// init adds the gradient rules of attention.
func init() {
	gradRows(map[ir.Op]gradRule{
		ir.OpAttention:     attentionGrad,
		ir.OpAttentionLSE:  definedBy(attentionLSEOf),
		ir.OpAttentionGrad: definedBy(attentionGradOf),
	})
}
