package llm

import (
	"fmt"
	"math"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// RecentTokens is how many of a text's last tokens the penalties of Sampler look at.
const RecentTokens = 64

// SamplerParams are the columns of Sampler's input "params", in order.
type SamplerParams struct {
	Temperature      float32 // divides the logits; 0 takes the likeliest token
	TopP             float32 // take only the likeliest tokens that together have this probability; 0 and 1 mean all
	MinP             float32 // take only tokens with at least this probability relative to the likeliest one
	RepeatPenalty    float32 // divides positive logits of recent tokens and multiplies negative ones; 1 changes nothing
	PresencePenalty  float32 // subtracted from the logits of recent tokens
	FrequencyPenalty float32 // subtracted from the logits of recent tokens, once per occurrence
}

// Row returns the parameters as a row of "params".
func (p SamplerParams) Row() []float32 {
	return []float32{p.Temperature, p.TopP, p.MinP, p.RepeatPenalty, p.PresencePenalty, p.FrequencyPenalty}
}

// samplerParams is the number of columns of input "params".
const samplerParams = 6

// Sampler returns the graph that samples the next tokens of up to the given number of texts. Its inputs, for a symbol
// B, are:
//
//   - "logits" f32[B, vocabulary], or f32[vocabulary] for one text
//   - "recent" i32[B, RecentTokens], the last tokens of each text, oldest first, padded with -1
//   - "seeds" i64[B]
//   - "positions" i32[B], the positions of the new tokens
//   - "params" f32[B, 6], see SamplerParams
//   - "top_k" i32[B], only if ranked is set; 0 means all
//
// Its outputs are:
//
//   - "token" i32[B], the samples
//   - "last" i32[B, RecentTokens], recent with the samples appended; the next run can use it on the device
//   - "top" f32[B], the largest logit, or NaN if any logit is NaN
//
// Penalties change the logits first. Min-p, top-k and top-p then filter tokens by their probabilities at temperature 1,
// and treat equally likely tokens alike. Of the rest, the sampler takes the token with the largest sum of
// logit/temperature and noise (the Gumbel-max trick, Gumbel 1954). The noise depends only on seed, position and token.
// Only a ranked sampler supports top-k and top-p, because they need a sort.
func Sampler(cfg Config, texts int, ranked bool) (*ir.Graph, error) {
	if texts < 1 {
		return nil, fmt.Errorf("llm: a sampler for %d texts: want at least one", texts)
	}
	name := "sampler"
	if ranked {
		name = "ranked sampler"
	}
	return frontend.Build(graphName(cfg, name), func(b *frontend.Builder) {
		rows, vocabulary := ir.D(1), ir.D(cfg.Vocab)
		var logits frontend.Tensor
		if texts == 1 {
			logits = b.Input("logits", ir.F32, vocabulary).Reshape(rows, vocabulary)
		} else {
			rows = b.Sym("B", texts)
			logits = b.Input("logits", ir.F32, rows, vocabulary)
		}
		recent := b.Input("recent", ir.I32, rows, ir.D(RecentTokens))
		s := sampler{b: b, rows: rows, vocabulary: vocabulary, params: b.Input("params", ir.F32, rows,
			ir.D(samplerParams))}
		token := s.choose(s.penalize(logits, recent), ranked)
		b.Output("token", token)
		b.Output("last", recent.Slice(1, 1, ir.D(RecentTokens)).Concat(1, token.Reshape(rows, 1)))
		b.Output("top", logits.ReduceMax(-1))
	})
}

// sampler is the graph of Sampler while it is built.
type sampler struct {
	b                *frontend.Builder
	rows, vocabulary ir.Dim
	params           frontend.Tensor
}

// param returns a column of the parameters, [B, 1].
func (s sampler) param(column int) frontend.Tensor { return s.params.Slice(1, column, ir.D(column+1)) }

// penalize applies the penalties to the logits of recent tokens.
func (s sampler) penalize(logits, recent frontend.Tensor) frontend.Tensor {
	repeat, presence, frequency := s.param(3), s.param(4), s.param(5)
	none := s.b.Full(ir.F32, 0, s.rows, s.vocabulary)
	count := none.ScatterAdd(1, recent, s.b.Full(ir.F32, 1, s.rows, RecentTokens)) // skips the padding, -1
	less := logits.Gt(logits.Lit(0)).Where(logits.Div(repeat), logits.Mul(repeat))
	less = less.Sub(presence).Sub(frequency.Mul(count))
	return count.Gt(count.Lit(0)).Where(less, logits)
}

// choose returns a token for each row of logits.
func (s sampler) choose(logits frontend.Tensor, ranked bool) frontend.Tensor {
	best := logits.ReduceMaxKeep(-1)
	allowed := logits.Sub(best).Exp().Ge(s.param(2))
	if ranked {
		allowed = logits.Ge(s.least(logits, best))
	}
	temperature := s.param(0)
	noisy := logits.Sub(best).Div(temperature).Add(s.noise())
	score := temperature.Gt(temperature.Lit(0)).Where(noisy, logits)
	return allowed.Where(score, score.Lit(math.Inf(-1))).Argmax(-1)
}

// least returns the smallest logit that a token must have to be chosen, [B, 1].
func (s sampler) least(logits, best frontend.Tensor) frontend.Tensor {
	sorted := logits.SortDescending(1)
	p := sorted.Sub(best).Exp()
	rank := s.b.Iota(ir.I32, 1, s.rows, s.vocabulary)
	topK, topP := s.b.Input("top_k", ir.I32, s.rows).Reshape(s.rows, 1), s.param(1)
	kept := p.Ge(s.param(2)).And(topK.Eq(topK.Lit(0)).Or(rank.Lt(topK)))
	p = kept.Where(p, p.Lit(0))
	before := p.CumSum(1, frontend.Exclusive())
	all := topP.Le(topP.Lit(0)).Or(topP.Ge(topP.Lit(1)))
	kept = kept.And(all.Or(before.Lt(topP.Mul(p.SumKeep(1))))).Or(rank.Eq(rank.Lit(0)))
	return kept.Where(sorted, sorted.Lit(math.Inf(1))).ReduceMinKeep(1)
}

// noise returns Gumbel noise that depends on seed and position.
func (s sampler) noise() frontend.Tensor {
	seeds, positions := s.b.Input("seeds", ir.I64, s.rows), s.b.Input("positions", ir.I32, s.rows)
	blocks := (s.vocabulary.Static() + 3) / 4 // blocks of random words per token
	offsets := positions.Cast(ir.U32).Mul(s.b.Scalar(ir.U32, float64(blocks)))
	return s.b.RandomGumbel(seeds, offsets, s.rows, s.vocabulary)
}
