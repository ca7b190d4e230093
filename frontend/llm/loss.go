package llm

import (
	"fmt"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// TrainOptions say which parts of a model are trained. By default the weights are the graph's weights, as in Prefill.
type TrainOptions struct {
	// Weights, if set, returns the tensor to use for a weight, such as a state: see nn.Weights.Give.
	Weights func(name string, t ir.Type) frontend.Tensor
	// Adapt, if set, changes the results of matmuls with weights: see nn.Weights.Adapt.
	Adapt func(weight string, x, y frontend.Tensor) frontend.Tensor
	// Remat recomputes each layer for its gradients, and stores only the layer's input: see frontend.Builder.Remat.
	Remat bool
}

// Loss returns the cross-entropy of a model as an f32 scalar: the mean of -log p over the positions of tokens i32[B,
// T]. p is the probability that the model gives the token in next i32[B, T] at that position, after the row's tokens up
// to that position. Each row begins a text. Positions with an element of next outside of the vocabulary, such as -100,
// do not count.
func Loss(b *frontend.Builder, cfg Config, tokens, next frontend.Tensor, how TrainOptions) frontend.Tensor {
	const op = "llm_loss"
	s := tokens.Shape()
	if len(s) != 2 || !next.Shape().Equal(s) || !s[0].IsStatic() || !s[1].IsStatic() {
		b.Fail(op, fmt.Errorf("tokens are %s and next tokens %s: want i32[B, T] of fixed extents", tokens, next))
	}
	if err := cfg.checkLogits(s[1].Static()); err != nil {
		b.Fail(op, err)
	}
	m := newModel(b, cfg, s[1].Max())
	if how.Weights != nil {
		m.w.Give(how.Weights)
	}
	if how.Adapt != nil {
		m.w.Adapt(how.Adapt)
	} else {
		m.adapt(b)
	}
	m.remat = how.Remat
	texts := s[0].Static()
	positions := b.Iota(ir.I32, 1, s).Reshape(-1)
	logits := m.forward(tokens.Reshape(-1), positions, separateTexts(texts), EveryToken)
	losses, counted := logits.CrossEntropy(next.Reshape(-1))
	n := counted.Cast(ir.F32).Sum()
	return losses.Sum().Div(n.Max(n.Lit(1)))
}

// separateTexts returns the [history] for rows that are the tokens of several texts of equal length, one text after
// the other.
func separateTexts(texts int) history {
	attend := func(l layer, q, k, v frontend.Tensor, o []frontend.AttentionOption) frontend.Tensor {
		perText := func(x frontend.Tensor) frontend.Tensor { // [heads, B*T, D] to [B, heads, T, D]
			t, _ := x.Dim(1).Quo(int64(texts))
			return x.Reshape(x.Dim(0), texts, t, x.Dim(2)).SwapAxes(0, 1)
		}
		if !l.arch.encoder {
			o = append(o, frontend.Causal())
		}
		if each, _ := q.Dim(1).Quo(int64(texts)); l.windowed() {
			o = append(o, l.window(q.Builder().Iota(ir.I32, 0, each), each))
		}
		keys, values := l.extended(k, v, func(_ string, x frontend.Tensor) frontend.Tensor { return x })
		y := perText(q).Attention(perText(keys), perText(values), o...) // [B, heads, T, D]
		return y.SwapAxes(1, 2).Reshape(q.Dim(1), ir.D(l.Heads*int(y.Dim(3).Max())))
	}
	return history{states: &states{apart: texts}, attend: attend}
}
