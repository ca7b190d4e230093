package generate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/grammar"
	"github.com/vkc-go/vkc/ir"
)

// Sampling says how the next token is chosen from the model's logits. The zero value chooses the likeliest token.
type Sampling struct {
	// Temperature divides the logits: 1 samples from the model's distribution, smaller values favor likely tokens, 0
	// chooses the likeliest.
	Temperature float64
	TopK        int // only the K likeliest tokens; 0 means all
	// TopP, if set, allows only the likeliest tokens that together reach this probability; 0 allows only the likeliest.
	TopP *float64
	MinP float64 // only tokens with at least this probability relative to the likeliest; 0 means all
	// Sigmas, Typical, XTCProbability and XTCThreshold are rarer filters; see llm.Sampler. 0 is off.
	Sigmas, Typical, XTCProbability, XTCThreshold float64
	Dry                                           *Dry // a penalty against repetition; nil is off
	// Mirostat keeps the surprise of tokens even, in place of all filters: TopK, TopP, MinP and the rarer ones. It
	// needs a Temperature. nil is off.
	Mirostat *Mirostat
	// RepeatPenalty divides the positive logits, and multiplies the negative ones, of tokens among the last 64. 1 and 0
	// change nothing.
	RepeatPenalty float64
	// PresencePenalty is subtracted from the logits of tokens among the last 64, and FrequencyPenalty once per
	// occurrence.
	PresencePenalty, FrequencyPenalty float64
	// Bias is added to the logits of these tokens; -100 practically forbids one.
	Bias map[int32]float64
	// Seed and a token's position in its text determine the random numbers: equal seeds give equal tokens.
	Seed      uint64
	MaxTokens int // 0 means no limit but the context
	// MinTokens forbids the tokens that end an answer until it has that many. A grammar that allows nothing else ends
	// the answer all the same.
	MinTokens int
	// Grammar constrains the answer: only tokens that it allows are chosen, and the answer ends when it allows none.
	// MaxTokens may still cut the answer short. nil allows every text.
	Grammar *grammar.Grammar
	// GrammarAfter, if not empty, lets Grammar constrain only the text after the first of these marks. A mark may be
	// the name of a special token. With GrammarAgain the answer is free again when the grammar allows no more, until
	// the next mark; without it, the answer ends.
	GrammarAfter []string
	GrammarAgain bool
	Reasoning    Reasoning
	Logprobs     bool // whether tokens come with their log-probabilities
	Likeliest    int  // with Logprobs, how many of the likeliest tokens come too
	// AdapterScales are the scales of Options.Adapters for this answer; nil means the scales there. It needs
	// Options.AdapterScales.
	AdapterScales []float64
	// Images are the pictures of the prompt, in order. Their tokens are below 0: see Image.
	Images []*Image
	// Known, if set, is called before the first token with the number of prompt tokens found in the KV cache.
	Known func(tokens int)
}

// Mirostat keeps the surprise of tokens close to Tau bits (Basu et al. 2020, arXiv:2007.14966): see llm.Sampler. Eta is
// how fast it learns from each token.
type Mirostat struct {
	Version  int // 1 or 2
	Tau, Eta float64
}

// Dry is a penalty against repetition ("don't repeat yourself"): if the last n tokens occurred before, n at least
// Allowed, the token that followed them there loses Multiplier times Base to the power of n minus Allowed.
type Dry struct {
	Multiplier, Base float64
	Allowed          int
	Last             int      // how many of the last tokens count, at most llm.DryHistory; negative means all of these
	Breakers         []string // no repetition spans a token with one of these texts
}

// DefaultBreakers are the breakers of llama.cpp.
var DefaultBreakers = []string{"\n", ":", `"`, "*"}

// history returns the last llm.DryHistory tokens of a text as the penalty sees them. -1 stands for a token that no
// repetition spans: one with a breaker, of a picture, before the last d.Last tokens, or before the text.
func (d *Dry) history(m *Model, text []int32) []int32 {
	list := slices.Repeat([]int32{-1}, llm.DryHistory)
	if d == nil {
		return list
	}
	most := min(len(text), llm.DryHistory)
	if d.Last >= 0 {
		most = min(most, d.Last)
	}
	text = text[len(text)-most:]
	for i, id := range text {
		if id < 0 { // of a picture
			continue
		}
		piece := m.tok.Piece(id)
		if !slices.ContainsFunc(d.Breakers, func(b string) bool { return strings.Contains(piece, b) }) {
			list[llm.DryHistory-most+i] = id
		}
	}
	return list
}

// Reasoning limits the reasoning at the start of an answer, between the marks Open and Close. If the model has written
// Tokens tokens without the mark Close, the engine appends Close. Tokens of 0 means no limit. Open is empty if the
// prompt already ends with this mark.
type Reasoning struct {
	Tokens      int
	Open, Close string
}

// SamplingError describes an invalid field of a Sampling.
type SamplingError struct {
	Field string // its name here
	what  string // the problem, to follow the field's name
}

func (e *SamplingError) Error() string { return "generate: " + e.Of(e.Field) }

// Of returns the error's text with another name for the field.
func (e *SamplingError) Of(name string) string { return name + e.what }

// Check reports an invalid Sampling as a *SamplingError.
func (s Sampling) Check() error {
	wrong := func(field, format string, args ...any) error {
		return &SamplingError{field, fmt.Sprintf(format, args...)}
	}
	for _, v := range []struct {
		name     string
		value    float64
		low, top float64
	}{
		{"Temperature", s.Temperature, 0, 100}, {"TopP", s.topP(), 0, 1}, {"MinP", s.MinP, 0, 1},
		{"RepeatPenalty", s.RepeatPenalty, 0, 100}, {"PresencePenalty", s.PresencePenalty, -100, 100},
		{"FrequencyPenalty", s.FrequencyPenalty, -100, 100}, {"Sigmas", s.Sigmas, 0, 1e6}, {"Typical", s.Typical, 0, 1},
		{"XTCProbability", s.XTCProbability, 0, 1}, {"XTCThreshold", s.XTCThreshold, 0, 1},
	} {
		// The negated comparisons also refuse NaN.
		if !(v.value >= v.low && v.value <= v.top) {
			return wrong(v.name, " is %v: want %v to %v", v.value, v.low, v.top)
		}
	}
	if d := s.Dry; d != nil {
		switch {
		case !(d.Multiplier >= 0 && d.Multiplier <= 100):
			return wrong("Dry.Multiplier", " is %v: want 0 to 100", d.Multiplier)
		case !(d.Base >= 1 && d.Base <= 10):
			return wrong("Dry.Base", " is %v: want 1 to 10", d.Base)
		case d.Allowed < 0 || d.Allowed > llm.DryHistory:
			return wrong("Dry.Allowed", " is %d: want 0 to %d", d.Allowed, llm.DryHistory)
		}
	}
	if m := s.Mirostat; m != nil {
		switch {
		case m.Version != 1 && m.Version != 2:
			return wrong("Mirostat.Version", " is %d: want 1 or 2", m.Version)
		case !(m.Tau >= 0 && m.Tau <= 100):
			return wrong("Mirostat.Tau", " is %v: want 0 to 100", m.Tau)
		case !(m.Eta >= 0 && m.Eta <= 1):
			return wrong("Mirostat.Eta", " is %v: want 0 to 1", m.Eta)
		}
	}
	for id, v := range s.Bias {
		if !(v >= -100 && v <= 100) {
			return wrong("Bias", " of token %d is %v: want -100 to 100", id, v)
		}
	}
	for _, v := range []struct {
		name  string
		value int
	}{{"TopK", s.TopK}, {"MaxTokens", s.MaxTokens}, {"MinTokens", s.MinTokens}, {"Likeliest", s.Likeliest}} {
		if v.value < 0 {
			return wrong(v.name, " is %d: want at least 0", v.value)
		}
	}
	return nil
}

// samples reports whether sampling needs more than the token with the largest logit.
func (s Sampling) samples() bool { return !s.likeliest() || s.biased() || s.dry() }

// dry reports whether sampling penalizes repetition.
func (s Sampling) dry() bool { return s.Dry != nil && s.Dry.Multiplier > 0 }

// mirostat reports whether sampling keeps surprise even.
func (s Sampling) mirostat() bool { return s.Mirostat != nil && s.Temperature > 0 }

// biased reports whether sampling adds to the logits of tokens.
func (s Sampling) biased() bool { return len(s.Bias) > 0 || s.MinTokens > 0 }

// likeliest reports whether sampling takes the token with the largest logit after biases.
func (s Sampling) likeliest() bool {
	return s.temperature() == 0 && (s.RepeatPenalty == 0 || s.RepeatPenalty == 1) && s.PresencePenalty == 0 &&
		s.FrequencyPenalty == 0
}

// params returns the options as parameters of a sampler program. Absent options get values without effect.
func (s Sampling) params() llm.SamplerParams {
	p := llm.SamplerParams{Temperature: float32(s.temperature()), TopP: float32(s.topP()), MinP: float32(s.MinP),
		RepeatPenalty: float32(s.RepeatPenalty), PresencePenalty: float32(s.PresencePenalty),
		FrequencyPenalty: float32(s.FrequencyPenalty), Sigmas: float32(s.Sigmas), Typical: float32(s.Typical),
		XTCProbability: float32(s.XTCProbability), XTCThreshold: float32(s.XTCThreshold), DryBase: 1}
	if s.Dry != nil {
		p.DryMultiplier, p.DryBase = float32(s.Dry.Multiplier), float32(s.Dry.Base)
		p.DryAllowed = float32(s.Dry.Allowed)
	}
	if s.mirostat() {
		p.Mirostat, p.MirostatTau = float32(s.Mirostat.Version), float32(s.Mirostat.Tau)
		p.MirostatEta = float32(s.Mirostat.Eta)
	}
	if p.RepeatPenalty == 0 {
		p.RepeatPenalty = 1 // 0 is an absent option, and 1 has no effect
	}
	return p
}

// topP returns TopP, or 1 if it is not set.
func (s Sampling) topP() float64 {
	if s.TopP == nil {
		return 1
	}
	return *s.TopP
}

// temperature returns Temperature, or 0 if top-p allows only the most likely token.
func (s Sampling) temperature() float64 {
	if s.topP() == 0 && s.Mirostat == nil {
		return 0
	}
	return s.Temperature
}

// kind returns the simplest kind of sampler that supports all options that have an effect.
func (s Sampling) kind() llm.SamplerKind {
	switch {
	case s.dry():
		return llm.SampleDry
	case s.mirostat():
		return llm.SampleMirostat
	case s.Sigmas > 0 || s.Typical > 0 && s.Typical < 1 || s.XTCProbability > 0:
		return llm.SampleAny
	case s.TopK > 0 || s.topP() > 0 && s.topP() < 1:
		return llm.SampleRanked
	}
	return llm.SamplePlain
}

var errNoNumbers = errors.New("generate: the model computed no finite logits for the next token")

// likeliestOf returns the first of the largest logits.
func likeliestOf(logits []float32) (int32, error) {
	best := 0
	for i, v := range logits {
		if v != v { // NaN
			return 0, errNoNumbers
		}
		if v > logits[best] {
			best = i
		}
	}
	if len(logits) == 0 {
		return 0, errNoNumbers
	}
	return int32(best), nil
}

// samplerOf returns the program that chooses tokens by a sampler of a kind.
func samplerOf(kind llm.SamplerKind) extra { return sampler + extra(kind) }

// sampleRequest has the inputs of the sampler for one token.
type sampleRequest struct {
	Sampling
	text     []int32 // the preceding tokens
	position int     // the position of the token in its text
	biases   map[int32]float32
	mu       float32 // of Mirostat
}

// sampleAll chooses a token for each row of logits by a sampler program. The logits are on the device (logits) or on
// the host (here). last has results of the step before on the device, of the same sequences; if it is nil, sampleAll
// uploads them from the host. more says that the caller submits another step at once. The results stay on the device as
// "token", "last" (the last tokens with the new one), "top" (the largest logits) and, with Mirostat, "next_mu".
func (m *Model) sampleAll(ctx context.Context, list []sampleRequest, here *ir.Data, logits *vkc.DeviceTensor,
	last *pendingStep, more bool) (*vkc.Result, error) {
	kind := llm.SamplePlain // each kind has all parameters of the kinds below it
	for _, d := range list {
		kind = max(kind, d.kind())
	}
	in, err := m.samplerInputs(list, kind)
	if err != nil {
		return nil, err
	}
	there, keep := map[string]*vkc.DeviceTensor{}, []string{"token", "last", "top"}
	if kind >= llm.SampleMirostat {
		keep = append(keep, "next_mu")
	}
	if last == nil {
		err = addHistory(in, list, kind)
	} else {
		there["recent"] = last.recent
		if kind >= llm.SampleMirostat {
			there["mu"] = last.mu
		}
	}
	if err != nil {
		return nil, err
	}
	if logits != nil {
		there["logits"] = logits
	} else {
		in["logits"] = here
	}
	p, err := m.extra(ctx, samplerOf(kind))
	if err != nil {
		return nil, err
	}
	return p.run(ctx, m, in, vkc.RunOptions{Inputs: there, Keep: keep, More: more})
}

// samplerInputs returns the inputs of a sampler of the given kind, with a row for each request. addHistory adds the
// inputs that an earlier step of the sampler returned.
func (m *Model) samplerInputs(list []sampleRequest, kind llm.SamplerKind) (vkc.Tensors, error) {
	var params, biases []float32
	var seeds []int64
	var positions, topK, biased, history []int32
	for _, d := range list {
		params, seeds = append(params, d.params().Row()...), append(seeds, int64(d.Seed))
		positions, topK = append(positions, int32(d.position)), append(topK, int32(min(d.TopK, m.config.Vocab)))
		biased = append(biased, slices.Repeat([]int32{-1}, llm.MaxBiases)...) // -1 is no token
		biases = append(biases, make([]float32, llm.MaxBiases)...)
		at := len(biased) - llm.MaxBiases
		for id, bias := range d.biases {
			biased[at], biases[at] = id, bias
			at++
		}
		if kind == llm.SampleDry {
			history = append(history, d.Dry.history(m, d.text)...)
		}
	}
	in, rows := vkc.Tensors{}, len(list)
	err := errors.Join(addInput(in, "params", params, rows, len(params)/rows), addInput(in, "seeds", seeds, rows),
		addInput(in, "positions", positions, rows), addInput(in, "biased", biased, rows, llm.MaxBiases),
		addInput(in, "biases", biases, rows, llm.MaxBiases))
	if kind > llm.SamplePlain {
		err = errors.Join(err, addInput(in, "top_k", topK, rows))
	}
	if kind == llm.SampleDry {
		err = errors.Join(err, addInput(in, "history", history, rows, llm.DryHistory))
	}
	return in, err
}

// addHistory adds the sampler's inputs that an earlier step of the sampler returns on the device: the last tokens of
// each text and, with Mirostat, mu.
func addHistory(in vkc.Tensors, list []sampleRequest, kind llm.SamplerKind) error {
	var recent []int32
	var mu []float32
	for _, d := range list {
		tail := d.text[max(0, len(d.text)-llm.RecentTokens):]
		recent = append(recent, slices.Repeat([]int32{-1}, llm.RecentTokens-len(tail))...) // -1 is no token
		for _, id := range tail {
			recent = append(recent, max(id, -1)) // tokens below 0 are of pictures
		}
		mu = append(mu, d.mu)
	}
	err := addInput(in, "recent", recent, len(list), llm.RecentTokens)
	if kind >= llm.SampleMirostat {
		err = errors.Join(err, addInput(in, "mu", mu, len(list)))
	}
	return err
}

// addInput adds a tensor with these values and dims to the inputs of a run.
func addInput[T float32 | int32 | uint32 | int64](in vkc.Tensors, name string, values []T, dims ...int) (err error) {
	in[name], err = vkc.Of(values, dims...)
	return err
}

// chooseOnHost returns the token chosen by logits that are on the host. It finds the likeliest token itself, and
// otherwise runs a sampler program. It returns an error if a logit is NaN.
func (m *Model) chooseOnHost(ctx context.Context, d sampleRequest, logits []float32) (one outcome, err error) {
	if d.likeliest() {
		one.token, err = likeliestOf(logits)
		return one, err
	}
	dims := []int{1, m.config.Vocab}
	if m.slotCount == 1 { // then the sampler's input has one axis
		dims = dims[1:]
	}
	here, err := vkc.Of(logits, dims...)
	if err != nil {
		return one, err
	}
	res, err := m.sampleAll(ctx, []sampleRequest{d}, here, nil, nil, false)
	if err != nil {
		return one, err
	}
	defer closeAll(res.Kept)
	f := &pendingStep{token: res.Kept["token"], top: res.Kept["top"], mu: res.Kept["next_mu"]}
	if err := f.wait(ctx); err != nil {
		return one, err
	}
	one = f.outcome(0)
	if one.token < 0 {
		err = errNoNumbers
	}
	return one, err
}

// tokensOf reads tokens chosen on the device. A token is -1 if a logit was NaN.
func tokensOf(ctx context.Context, token, top *vkc.DeviceTensor) ([]int32, error) {
	ids, err := readValues[int32](ctx, token)
	if err != nil {
		return nil, err
	}
	tops, err := readValues[float32](ctx, top)
	if err != nil {
		return nil, err
	}
	for i, v := range tops {
		if v != v { // the largest logit is NaN if any is
			ids[i] = -1
		}
	}
	return ids, nil
}

// readValues returns the elements of a tensor on the device.
func readValues[T int32 | float32](ctx context.Context, t *vkc.DeviceTensor) ([]T, error) {
	d, err := t.Read(ctx)
	if err != nil {
		return nil, err
	}
	return vkc.Values[T](d)
}

// closeAll frees tensors once the device is done with them.
func closeAll(list map[string]*vkc.DeviceTensor) {
	for _, t := range list {
		t.Close() // retires it, which cannot fail
	}
}
