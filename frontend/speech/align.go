package speech

import (
	"fmt"
	"math"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/nn"
	"github.com/vkc-go/vkc/ir"
)

// Head is a head of attention to the sound.
type Head struct{ Layer, Head int }

// alignmentHeads returns the heads of the decoder's attention to the sound that attend to the position of the spoken
// word: the list in the model's file, or if it has none, all heads of the second half of the decoder's layers.
func (c Config) alignmentHeads() (list []Head) {
	if len(c.AlignmentHeads) > 0 {
		return c.AlignmentHeads
	}
	for layer := c.Decoders / 2; layer < c.Decoders; layer++ {
		for head := range c.Heads {
			list = append(list, Head{layer, head})
		}
	}
	return list
}

// medianWidth is the number of positions of a median filter.
const medianWidth = 7

// MinAligned is the smallest number of positions of a sound that Align takes.
const MinAligned = medianWidth/2 + 1

// Align returns the graph that finds when tokens are spoken, in a sound that a run of Listen has encoded. Input
// "tokens" i32[T] is a whole text with the tokens before it, and "next" i32[T] has the token after each. The symbol T
// is at most Context. The symbol F, the number of positions with sound, is MinAligned to AudioContext. end is the token
// that ends a text.
//
// Output "attention" f32[T, F] is the mean of the alignment heads' attention (Radford et al. 2022, arXiv:2212.04356,
// and the published program's word timestamps). For each head and position, the softmax over the F positions is
// normalized over the tokens: the mean is subtracted, and the rest divided by the standard deviation. Then a median
// filter of 7 positions applies. Output "chances" f32[T] has the log probability of each token of "next" among the
// tokens of text.
func Align(c Config, end int32, list ...Option) (*ir.Graph, error) {
	if end < 1 || int(end) > c.Vocab {
		return nil, fmt.Errorf("speech: token %d ends a text: want 1 to %d", end, c.Vocab)
	}
	return frontend.Build(c.graphName("align"), func(b *frontend.Builder) {
		m, o := newModel(b, c), optionsOf(b, list)
		t, f := b.Sym("T", c.Context), b.Sym("F", c.AudioContext)
		tokens, next := b.Input("tokens", ir.I32, t), b.Input("next", ir.I32, t)
		heads, all := map[int][]int{}, c.alignmentHeads()
		for _, h := range all {
			heads[h.Layer] = append(heads[h.Layer], h.Head)
		}
		var sum frontend.Tensor
		attend := func(_ int, l nn.Weights, y frontend.Tensor) frontend.Tensor {
			return m.heads(y, l.Sub("attn_q"), m.Heads).Attention(m.heads(y, l.Sub("attn_k"), m.Heads),
				m.heads(y, l.Sub("attn_v"), m.Heads), frontend.Causal())
		}
		hear := func(layer int, q, keys frontend.Tensor) {
			for _, h := range heads[layer] {
				one := aligned(q.Index(0, h), keys.Index(0, h).Slice(0, 0, f))
				if sum.IsZero() {
					sum = one
				} else {
					sum = sum.Add(one)
				}
			}
		}
		x := m.decoder(b, m.embed(tokens, b.Iota(ir.I32, 0, t)), o.cache, attend, hear)
		b.Output("attention", sum.MulScalar(1/float64(len(all))))
		x = nn.LayerNorm(x, m.w.Sub("dec.output_norm"), m.NormEps)
		logits := nn.Unembed(x, m.w.Sub("token_embd")).Slice(1, 0, ir.D(int(end))) // tokens of text come before end
		// Tokens from end on are not text and have no column here, so their index is limited.
		next = next.Min(next.Lit(float64(end - 1)))
		b.Output("chances", logits.LogSoftmax(1).Gather(1, next.Unsqueeze(1)).Squeeze(1))
	})
}

// aligned returns the normalized and filtered attention [T, F] of queries q [T, D] to keys [F, D].
func aligned(q, keys frontend.Tensor) frontend.Tensor {
	b := q.Builder()
	size := float64(q.Dim(1).Max())
	x := q.MatMulT(keys).MulScalar(1 / math.Sqrt(size)).Softmax(1)
	mean := x.MeanKeep(0)
	x = x.Sub(mean)
	x = x.Div(x.Sqr().MeanKeep(0).Sqrt().Max(x.Lit(1e-20)))
	f := x.Dim(1)
	last := b.DimValue(f).SubScalar(1)
	var near frontend.Tensor // [T, F, medianWidth]
	for i := range medianWidth {
		at := b.Iota(ir.I32, 0, f).AddScalar(float64(i - medianWidth/2)).Abs()
		at = last.Sub(last.Sub(at).Abs()) // mirrored at both ends
		one := x.IndexSelect(1, at).Unsqueeze(2)
		if near.IsZero() {
			near = one
		} else {
			near = near.Concat(2, one)
		}
	}
	sorted, _ := near.TopK(2, medianWidth/2+1)
	return sorted.Index(2, medianWidth/2)
}
