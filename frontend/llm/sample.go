package llm

import (
	"fmt"
	"math"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// RecentTokens is how many of a text's last tokens the penalties of Sampler look at.
const RecentTokens = 64

// MaxBiases is the maximum number of tokens of a text with a bias in Sampler.
const MaxBiases = 16

// SamplerParams are the columns of Sampler's input "params", in order.
type SamplerParams struct {
	Temperature      float32 // divides the logits; 0 takes the likeliest token
	TopP             float32 // take only the likeliest tokens that together have this probability; 0 and 1 mean all
	MinP             float32 // take only tokens with at least this probability relative to the likeliest one
	RepeatPenalty    float32 // divides positive logits of recent tokens and multiplies negative ones; 1 changes nothing
	PresencePenalty  float32 // subtracted from the logits of recent tokens
	FrequencyPenalty float32 // subtracted from the logits of recent tokens, once per occurrence
	// The following ones work from SampleAny on.
	Sigmas         float32 // take only tokens within this many standard deviations of the largest logit; 0 means all
	Typical        float32 // take only the most typical tokens that together have this probability; 0 and 1 mean all
	XTCProbability float32 // how often likely tokens are excluded, see Sampler
	XTCThreshold   float32 // from this probability on a token is likely
	// The following ones work from SampleMirostat on; see Sampler.
	Mirostat                 float32 // 1 or 2, the version; 0 is off
	MirostatTau, MirostatEta float32 // the target in bits, and the rate of learning
	// The following ones work with SampleDry only; see Sampler.
	DryMultiplier, DryBase, DryAllowed float32
}

// Row returns the parameters as a row of "params".
func (p SamplerParams) Row() []float32 {
	return []float32{p.Temperature, p.TopP, p.MinP, p.RepeatPenalty, p.PresencePenalty, p.FrequencyPenalty, p.Sigmas,
		p.Typical, p.XTCProbability, p.XTCThreshold, p.Mirostat, p.MirostatTau, p.MirostatEta, p.DryMultiplier, p.DryBase,
		p.DryAllowed}
}

// The columns of input "params", in the order of SamplerParams.Row, and their number.
const (
	temperatureColumn = iota
	topPColumn
	minPColumn
	repeatColumn
	presenceColumn
	frequencyColumn
	sigmasColumn
	typicalColumn
	xtcProbabilityColumn
	xtcThresholdColumn
	mirostatColumn
	tauColumn
	etaColumn
	dryMultiplierColumn
	dryBaseColumn
	dryAllowedColumn
	samplerParams
)

// SamplerKind says which parameters a sampler supports. Each kind also supports the parameters of the kinds before, and
// takes longer.
type SamplerKind int

// The kinds of samplers.
const (
	SamplePlain    SamplerKind = iota // temperature, min-p and penalties
	SampleRanked                      // top-k and top-p, which need a sort
	SampleAny                         // all parameters except Mirostat's and DRY's
	SampleMirostat                    // all parameters except DRY's, and input "mu"
	SampleDry                         // all parameters, and inputs "mu" and "history"
)

var samplerNames = []string{SamplePlain: "sampler", SampleRanked: "ranked sampler", SampleAny: "sampler of any kind",
	SampleMirostat: "sampler of even surprise", SampleDry: "sampler against repetition"}

// DryHistory is the number of a text's last tokens in which SampleDry finds repetitions. Repetitions of more than
// DryLongest tokens count as that long.
const (
	DryHistory = 1024
	DryLongest = 64
)

// Sampler returns the graph that samples the next tokens of up to the given number of texts. Its inputs, for a symbol
// B, are:
//
//   - "logits" f32[B, vocabulary], or f32[vocabulary] for one text
//   - "recent" i32[B, RecentTokens], the last tokens of each text, oldest first, padded with -1
//   - "biased" i32[B, MaxBiases], different tokens, padded with -1, and "biases" f32[B, MaxBiases], which are added to
//     their logits; minus infinity forbids a token
//   - "seeds" i64[B]
//   - "positions" i32[B], the positions of the new tokens
//   - "params" f32[B, 16], see SamplerParams
//   - "top_k" i32[B], but not if the kind is SamplePlain; 0 means all
//   - "mu" f32[B] if the kind is at least SampleMirostat: see below
//   - "history" i32[B, DryHistory] if the kind is SampleDry: the last tokens of each text, oldest first. -1 is padding,
//     or stands for a token that ends repetitions.
//
// Its outputs are:
//
//   - "token" i32[B], the samples
//   - "last" i32[B, RecentTokens], recent with the samples appended; the next run can use it on the device
//   - "top" f32[B], the largest logit, or NaN if any logit is NaN
//   - "next_mu" f32[B] if the kind is at least SampleMirostat; the next run takes it as "mu"
//
// Biases and penalties change the logits first, in this order. The last penalty is DRY ("don't repeat yourself"): if
// the last n tokens occurred before, n at least DryAllowed, the token that followed them there loses DryMultiplier
// times DryBase to the power of n minus DryAllowed. Filters then exclude tokens by their probabilities at temperature
// 1, and treat equally likely tokens alike. They are in this order:
//
//   - top-n-sigma compares logits with their largest one, in standard deviations (Tang et al. 2024, arXiv:2411.07641);
//   - typical takes tokens with log-probabilities close to their mean (Meister et al. 2022, arXiv:2202.00666);
//   - min-p, top-k and top-p;
//   - XTC ("exclude top choices") draws a number from 0 to 1 for each sample. If the number is less than
//     XTCProbability, XTC excludes the tokens with at least the probability XTCThreshold, except the least likely one.
//
// With Mirostat (Basu et al. 2020, arXiv:2007.14966) there are no such filters. It keeps the surprise of tokens, in
// bits at the temperature, close to MirostatTau. mu begins at twice MirostatTau. Version 2 allows tokens with a
// surprise of at most mu. Version 1 fits Zipf's law to the 100 likeliest tokens, and allows as many as together have
// the surprise mu by that law. Both allow the likeliest token. Then mu falls by MirostatEta times the difference of the
// chosen token's surprise, among the allowed tokens, from MirostatTau.
//
// Of the rest, the sampler takes the token with the largest sum of logit/temperature and noise (the Gumbel-max trick,
// Gumbel 1954). The noise depends only on seed, position and token.
func Sampler(cfg Config, texts int, kind SamplerKind) (*ir.Graph, error) {
	if texts < 1 {
		return nil, fmt.Errorf("llm: a sampler for %d texts: want at least one", texts)
	}
	if kind < SamplePlain || kind > SampleDry {
		return nil, fmt.Errorf("llm: there is no sampler of kind %d", kind)
	}
	return frontend.Build(graphName(cfg, samplerNames[kind]), func(b *frontend.Builder) {
		logits, rows := inputLogits(b, cfg, texts)
		recent := b.Input("recent", ir.I32, rows, ir.D(RecentTokens))
		s := sampler{b: b, rows: rows, vocabulary: ir.D(cfg.Vocab), params: b.Input("params", ir.F32, rows,
			ir.D(samplerParams))}
		s.seeds, s.positions = b.Input("seeds", ir.I64, rows), b.Input("positions", ir.I32, rows)
		biased, biases := b.Input("biased", ir.I32, rows, MaxBiases), b.Input("biases", ir.F32, rows, MaxBiases)
		changed := s.penalize(logits.ScatterAdd(1, biased, biases), recent)
		if kind == SampleDry {
			changed = s.penalizeRepetition(changed)
		}
		allowed, score := s.filter(changed, kind)
		if kind >= SampleMirostat {
			allowed, score = s.evenSurprise(changed, allowed, score)
		}
		token := only(allowed, score).Argmax(-1)
		if kind >= SampleMirostat {
			b.Output("next_mu", s.nextMu(changed, allowed, token))
		}
		b.Output("token", token)
		b.Output("last", recent.Slice(1, 1, ir.D(RecentTokens)).Concat(1, token.Reshape(rows, 1)))
		b.Output("top", logits.ReduceMax(-1))
	})
}

// MaskWord is the number of tokens in a word of the masks of Masker.
const MaskWord = 32

// MaskWords returns the number of words of a mask for a vocabulary.
func MaskWords(vocabulary int) int { return (vocabulary + MaskWord - 1) / MaskWord }

// Masker returns the graph that forbids tokens in up to the given number of texts, such as tokens that a grammar does
// not allow. Its inputs are "logits" as for Sampler, and "masks" u32[B, MaskWords(vocabulary)]: bit i%32 of word i/32
// says whether token i is allowed. Its outputs are "logits" in the shape of the input, minus infinity for forbidden
// tokens, and "likeliest" and "top" of the allowed tokens: see Likeliest. NaN stays NaN.
func Masker(cfg Config, texts int) (*ir.Graph, error) {
	if texts < 1 {
		return nil, fmt.Errorf("llm: masks for %d texts: want at least one", texts)
	}
	return frontend.Build(graphName(cfg, "masker"), func(b *frontend.Builder) {
		logits, rows := inputLogits(b, cfg, texts)
		masks := b.Input("masks", ir.U32, rows, MaskWords(cfg.Vocab))
		bits := masks.Unsqueeze(2).Shr(b.Iota(ir.U32, 0, MaskWord)).And(masks.Lit(1)).Reshape(rows, -1)
		// Only NaN differs from itself. The last word may have bits beyond the vocabulary.
		allowed := bits.Slice(1, 0, logits.Dim(1)).Ne(bits.Lit(0)).Or(logits.Ne(logits))
		masked := only(allowed, logits)
		shaped := masked
		if texts == 1 {
			shaped = masked.Reshape(-1)
		}
		decoding{likeliest: true}.output(b, masked, shaped)
	})
}

// inputLogits declares input "logits" of Sampler and Masker, and returns it as [B, vocabulary], with B.
func inputLogits(b *frontend.Builder, cfg Config, texts int) (logits frontend.Tensor, rows ir.Dim) {
	if texts == 1 {
		return b.Input("logits", ir.F32, cfg.Vocab).Reshape(1, cfg.Vocab), ir.D(1)
	}
	rows = b.Sym("B", texts)
	return b.Input("logits", ir.F32, rows, cfg.Vocab), rows
}

// sampler is the graph of Sampler while it is built.
type sampler struct {
	b                *frontend.Builder
	rows, vocabulary ir.Dim
	params           frontend.Tensor
	seeds, positions frontend.Tensor
	mu               frontend.Tensor // [B, 1]; the zero Tensor without Mirostat
}

// param returns a column of the parameters, [B, 1].
func (s sampler) param(column int) frontend.Tensor { return s.params.Slice(1, column, ir.D(column+1)) }

// penalize applies the penalties to the logits of recent tokens.
func (s sampler) penalize(logits, recent frontend.Tensor) frontend.Tensor {
	repeat, presence, frequency := s.param(repeatColumn), s.param(presenceColumn), s.param(frequencyColumn)
	none := s.b.Full(ir.F32, 0, s.rows, s.vocabulary)
	count := none.ScatterAdd(1, recent, s.b.Full(ir.F32, 1, s.rows, RecentTokens)) // skips the padding, -1
	less := logits.Gt(logits.Lit(0)).Where(logits.Div(repeat), logits.Mul(repeat))
	less = less.Sub(presence).Sub(frequency.Mul(count))
	return count.Gt(count.Lit(0)).Where(less, logits)
}

// penalizeRepetition applies DRY ("don't repeat yourself"). If the last n tokens occurred before, the token that
// followed them there loses multiplier * base^(n-allowed), if n is at least allowed; see Sampler. Element i along axis
// 1 of windows and ends is the token i places before a place in the history.
func (s sampler) penalizeRepetition(logits frontend.Tensor) frontend.Tensor {
	history := s.b.Input("history", ir.I32, s.rows, ir.D(DryHistory))
	// Places in the padded history: `back` tokens before each place but the last, and in the history: before its end.
	var before, last []int32
	for back := range int32(DryLongest) {
		last = append(last, DryHistory-1-back)
		for at := range int32(DryHistory - 1) {
			before = append(before, DryLongest+at-back)
		}
	}
	padded := s.b.Full(ir.I32, -1, s.rows, ir.D(DryLongest)).Concat(1, history)
	// Of each place, except the last, the token there and the ones before: [B, DryLongest, places].
	windows := padded.IndexSelect(1, s.b.Const(before)).Reshape(s.rows, ir.D(DryLongest), ir.D(DryHistory-1))
	ends := history.IndexSelect(1, s.b.Const(last)).Reshape(s.rows, ir.D(DryLongest), 1)
	differs := windows.Ne(ends).Or(windows.Lt(windows.Lit(0))).Cast(ir.F32).CumSum(1)
	length := differs.Eq(differs.Lit(0)).Cast(ir.F32).Sum(1) // of the repetition that ends at each place
	over := length.Sub(s.param(dryAllowedColumn))
	power := s.param(dryBaseColumn).Log().Mul(over).Exp().Mul(s.param(dryMultiplierColumn))
	counts := length.Gt(length.Lit(0)).And(over.Ge(over.Lit(0)))
	power = counts.Where(power, power.Lit(0))
	none := s.b.Full(ir.F32, 0, s.rows, s.vocabulary)
	next := history.Slice(1, 1, ir.D(DryHistory)) // -1 is skipped
	return logits.Sub(none.ScatterReduce(1, "max", next, power))
}

// filter reports which tokens the filters of a kind of sampler allow in each row of logits. It also returns scores: the
// sample is the allowed token with the largest score.
func (s sampler) filter(logits frontend.Tensor, kind SamplerKind) (allowed, score frontend.Tensor) {
	if kind >= SampleAny {
		logits = only(s.withinSigmas(logits), logits)
		logits = only(s.typical(logits), logits)
	}
	best := logits.ReduceMaxKeep(-1)
	allowed = logits.Sub(best).Exp().Ge(s.param(minPColumn))
	if kind >= SampleRanked {
		allowed = logits.Ge(s.least(logits, best))
	}
	if kind >= SampleAny {
		allowed = allowed.And(s.excluded(only(allowed, logits)).Not())
	}
	return allowed, s.score(logits, best)
}

// score returns the logits at the temperature with noise, or the logits if the temperature is 0. best is the largest
// logit of each row.
func (s sampler) score(logits, best frontend.Tensor) frontend.Tensor {
	temperature := s.param(temperatureColumn)
	noisy := logits.Sub(best).Div(temperature).Add(s.noise())
	return temperature.Gt(temperature.Lit(0)).Where(noisy, logits)
}

// zipfTokens is the number of tokens to which version 1 of Mirostat fits Zipf's law.
const zipfTokens = 100

// surprise returns the surprise of each token in bits, at the temperature.
func (s sampler) surprise(logits frontend.Tensor) frontend.Tensor {
	temperature := s.param(temperatureColumn)
	temperature = temperature.Gt(temperature.Lit(0)).Where(temperature, temperature.Lit(1))
	return logits.Div(temperature).LogSoftmax(-1).MulScalar(-math.Log2E)
}

// evenSurprise returns the tokens that Mirostat allows, and their scores without other filters, in rows with Mirostat.
// Other rows keep allowed and score.
func (s *sampler) evenSurprise(logits, allowed, score frontend.Tensor) (tokens, scores frontend.Tensor) {
	s.mu = s.b.Input("mu", ir.F32, s.rows).Reshape(s.rows, 1)
	version, bits := s.param(mirostatColumn), s.surprise(logits)
	sorted := bits.Sort(1)
	counted := s.b.Iota(ir.F32, 1, s.rows, s.vocabulary).AddScalar(1).Le(s.zipf(sorted))
	most := counted.Where(sorted, sorted.Lit(math.Inf(-1))).ReduceMaxKeep(-1)
	most = version.Eq(version.Lit(1)).Where(most, s.mu)
	own := bits.Le(most.Max(sorted.Slice(1, 0, ir.D(1))))
	on := version.Gt(version.Lit(0))
	return on.Where(own, allowed), on.Where(s.score(logits, logits.ReduceMaxKeep(-1)), score)
}

// zipf returns how many tokens together have the surprise mu by Zipf's law, [B, 1]: for V tokens and the exponent e,
// (2^mu * (e-1) / (1 - V^(1-e)))^(1/e). sorted has the bits of surprise of all tokens, the likeliest one first.
func (s sampler) zipf(sorted frontend.Tensor) frontend.Tensor {
	vocabulary := s.vocabulary.Static()
	n := min(vocabulary, zipfTokens)
	var steps []float32
	for i := range n - 1 {
		steps = append(steps, float32(math.Log(float64(i+2)/float64(i+1))))
	}
	next := sorted.Slice(1, 1, ir.D(n))
	falls := next.Sub(sorted.Slice(1, 0, ir.D(n-1))).MulScalar(math.Ln2)
	step, finite := s.b.Const(steps), next.Lt(next.Lit(math.Inf(1)))
	sum := func(x frontend.Tensor) frontend.Tensor { return finite.Where(x, x.Lit(0)).SumKeep(-1) }
	// The exponent of Zipf's law by least squares.
	exponent := sum(falls.Mul(step)).Div(sum(step.Sqr().Broadcast(s.rows, ir.D(n-1))))
	over := exponent.SubScalar(1)
	over = over.Abs().Lt(over.Lit(1e-3)).Where(over.Lit(1e-3), over)
	rest := over.MulScalar(-math.Log(float64(vocabulary))).Exp().Neg().AddScalar(1)
	return over.Div(rest).Log().Add(s.mu.MulScalar(math.Ln2)).Div(exponent).Exp()
}

// nextMu returns mu after a token.
func (s sampler) nextMu(logits, allowed, token frontend.Tensor) frontend.Tensor {
	bits := s.surprise(only(allowed, logits)).Gather(1, token.Reshape(s.rows, 1))
	next := s.mu.Sub(s.param(etaColumn).Mul(bits.Sub(s.param(tauColumn))))
	version := s.param(mirostatColumn)
	return version.Gt(version.Lit(0)).Where(next, s.mu).Reshape(s.rows)
}

// only sets the logits of tokens that are not allowed to minus infinity.
func only(allowed, logits frontend.Tensor) frontend.Tensor {
	return allowed.Where(logits, logits.Lit(math.Inf(-1)))
}

// withinSigmas reports which logits are close enough to the largest one. Logits of minus infinity do not count.
func (s sampler) withinSigmas(logits frontend.Tensor) frontend.Tensor {
	sigmas, counted := s.param(sigmasColumn), logits.Gt(logits.Lit(math.Inf(-1)))
	sum := func(x frontend.Tensor) frontend.Tensor { return counted.Where(x, x.Lit(0)).SumKeep(-1) }
	n := counted.Cast(ir.F32).SumKeep(-1)
	deviation := sum(logits.Sub(sum(logits).Div(n)).Sqr()).Div(n).Sqrt()
	close := logits.Ge(logits.ReduceMaxKeep(-1).Sub(sigmas.Mul(deviation)))
	return sigmas.Le(sigmas.Lit(0)).Or(close)
}

// typical reports which tokens are the most typical: their log-probabilities are closest to the mean. It takes tokens
// until their total probability reaches parameter Typical.
func (s sampler) typical(logits frontend.Tensor) frontend.Tensor {
	most := s.param(typicalColumn)
	logs := logits.LogSoftmax(-1)
	p := logs.Exp()
	mean := p.Gt(p.Lit(0)).Where(p.Mul(logs), p.Lit(0)).SumKeep(-1) // minus the entropy
	off := logs.Sub(mean).Abs()
	order := off.Argsort(1)
	before := p.Gather(1, order).CumSum(1, frontend.Exclusive()) // the probability of more typical tokens
	needed := before.Lt(most)
	farthest := needed.Where(off.Gather(1, order), off.Lit(0)).ReduceMaxKeep(-1)
	return most.Le(most.Lit(0)).Or(most.Ge(most.Lit(1))).Or(off.Le(farthest))
}

// excluded reports which tokens XTC excludes (see Sampler).
func (s sampler) excluded(logits frontend.Tensor) frontend.Tensor {
	probability, threshold := s.param(xtcProbabilityColumn), s.param(xtcThresholdColumn)
	p := logits.Softmax(-1)
	likely := p.Ge(threshold)
	least := likely.Where(p, p.Lit(math.Inf(1))).ReduceMinKeep(-1)
	const stream = 1 << 62 // its random numbers differ from the noise's
	draw := s.b.RandomUniform(s.seeds.Xor(s.seeds.Lit(stream)), s.positions.Cast(ir.U32), ir.F32, s.rows, ir.D(1))
	return likely.And(p.Gt(least)).And(draw.Lt(probability))
}

// least returns the smallest logit that a token must have to pass min-p, top-k and top-p, [B, 1]. best is the largest
// logit of each row.
func (s sampler) least(logits, best frontend.Tensor) frontend.Tensor {
	sorted := logits.SortDescending(1)
	p := sorted.Sub(best).Exp()
	rank := s.b.Iota(ir.I32, 1, s.rows, s.vocabulary)
	topK, topP := s.b.Input("top_k", ir.I32, s.rows).Reshape(s.rows, 1), s.param(topPColumn)
	kept := p.Ge(s.param(minPColumn)).And(topK.Eq(topK.Lit(0)).Or(rank.Lt(topK)))
	p = kept.Where(p, p.Lit(0))
	before := p.CumSum(1, frontend.Exclusive()) // the probability of likelier tokens
	all := topP.Le(topP.Lit(0)).Or(topP.Ge(topP.Lit(1)))
	kept = kept.And(all.Or(before.Lt(topP.Mul(p.SumKeep(1))))).Or(rank.Eq(rank.Lit(0)))
	return kept.Where(sorted, sorted.Lit(math.Inf(1))).ReduceMinKeep(1)
}

// noise returns Gumbel noise that depends on seed and position.
func (s sampler) noise() frontend.Tensor {
	blocks := (s.vocabulary.Static() + 3) / 4 // blocks of random words per token
	offsets := s.positions.Cast(ir.U32).Mul(s.b.Scalar(ir.U32, float64(blocks)))
	return s.b.RandomGumbel(s.seeds, offsets, s.rows, s.vocabulary)
}
