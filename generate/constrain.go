package generate

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"

	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/grammar"
)

// Odds is how probable a token was, and what could have been in its place.
type Odds struct {
	Logprob   float64
	Likeliest []Alternative // of all tokens, as many as Sampling.Likeliest says
}

// Alternative is a token with the logarithm of its probability, to base e, as the model has it: before temperature,
// bias, grammar and whatever else a Sampling does.
type Alternative struct {
	ID      int32
	Logprob float64
}

// chooser chooses the tokens of an answer.
type chooser struct {
	model    *Model
	sampling Sampling
	text     *grammar.Text // nil where every text may be written
	// forgotten is how many tokens of the text were: random numbers follow from places in the whole of it.
	forgotten int
}

// chooser returns one for an answer, when there is what it chooses with.
func (m *Model) chooser(ctx context.Context, s Sampling) (*chooser, error) {
	c := &chooser{model: m, sampling: s}
	if !s.likeliest() {
		if _, err := m.extra(ctx, samplerOf(s.ranked())); err != nil {
			return nil, err
		}
	}
	if s.Grammar == nil {
		return c, nil
	}
	var err error
	c.text, err = m.constraints.of(s.Grammar, m.tok).Begin()
	return c, err
}

// changes reports whether the host changes logits before a token is chosen.
func (c *chooser) changes() bool { return c.text != nil || len(c.sampling.Bias) > 0 }

// needsLogits reports whether the host is to see all logits: what it makes of them comes before the next step.
func (c *chooser) needsLogits() bool { return c.changes() || c.sampling.Logprobs }

// next makes a token of what a step says. It changes the logits.
func (c *chooser) next(ctx context.Context, one outcome, text []int32) (t Token, err error) {
	t.ID = one.token
	unchanged := one.logits
	if c.sampling.Logprobs && c.changes() {
		unchanged = slices.Clone(one.logits)
	}
	for id, more := range c.sampling.Bias {
		one.logits[id] += float32(more)
	}
	if c.text != nil {
		mask, err := c.text.Mask()
		if err != nil {
			return t, err
		}
		apply(mask, one.logits)
	}
	if c.changes() || !one.chosen {
		if t.ID, err = c.model.choice(ctx, draw{c.sampling, text, len(text) + c.forgotten}, one.logits); err != nil {
			return t, err
		}
	}
	if t.ID < 0 {
		return t, errNoNumbers
	}
	if c.text != nil {
		if err := c.text.Take(t.ID); err != nil {
			return t, err
		}
	}
	if c.sampling.Logprobs {
		all := logSumExp(unchanged)
		t.Odds = &Odds{float64(unchanged[t.ID]) - all, likeliest(unchanged, all, c.sampling.Likeliest)}
	}
	return t, nil
}

// full reports whether nothing may follow what was chosen.
func (c *chooser) full() bool { return c.text != nil && c.text.Full() }

// apply makes impossible what a mask does not allow.
func apply(mask grammar.Mask, logits []float32) {
	none := float32(math.Inf(-1))
	for at := 0; at < len(logits); at += 64 {
		var word uint64
		if at/64 < len(mask) {
			word = mask[at/64]
		}
		if word == math.MaxUint64 {
			continue
		}
		for i := range logits[at:min(at+64, len(logits))] {
			if word>>i&1 == 0 {
				logits[at+i] = none
			}
		}
	}
}

// logSumExp is what logits are more than the logarithms of their tokens' probabilities.
func logSumExp(logits []float32) float64 {
	most := math.Inf(-1)
	for _, v := range logits {
		most = max(most, float64(v))
	}
	sum := 0.0
	for _, v := range logits {
		sum += math.Exp(float64(v) - most)
	}
	return most + math.Log(sum)
}

// likeliest returns so many tokens, the likeliest first, of logits of that logSumExp.
func likeliest(logits []float32, all float64, n int) []Alternative {
	var list []Alternative // kept in order
	for id, v := range logits {
		o := Alternative{int32(id), float64(v) - all}
		if len(list) == n && (n == 0 || !(o.Logprob > list[n-1].Logprob)) {
			continue
		}
		at, _ := slices.BinarySearchFunc(list, o, func(a, b Alternative) int {
			return cmp.Or(cmp.Compare(b.Logprob, a.Logprob), cmp.Compare(a.ID, b.ID))
		})
		list = slices.Insert(list, at, o)
		list = list[:min(len(list), n)]
	}
	return list
}

// constraints are grammars with a model's vocabulary. Those that were used last are kept, with their masks.
type constraints struct {
	mu         sync.Mutex
	vocabulary *grammar.Vocabulary
	recent     []constraint // the last one was used last
}

type constraint struct {
	grammar *grammar.Grammar
	*grammar.Constraint
}

// maxConstraints is how many grammars are kept with their masks.
const maxConstraints = 4

// of returns the constraint of a grammar.
func (c *constraints) of(g *grammar.Grammar, tok *tokenizer.Tokenizer) *grammar.Constraint {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.vocabulary == nil {
		c.vocabulary = vocabularyOf(tok)
	}
	found := constraint{g, nil}
	if i := slices.IndexFunc(c.recent, func(k constraint) bool { return k.grammar == g }); i >= 0 {
		found = c.recent[i]
		c.recent = slices.Delete(c.recent, i, i+1)
	} else {
		found.Constraint = grammar.New(g, c.vocabulary)
	}
	c.recent = append(c.recent, found)
	c.recent = c.recent[max(0, len(c.recent)-maxConstraints):]
	return found.Constraint
}

// vocabularyOf has the bytes of the tokens that stand for text.
func vocabularyOf(tok *tokenizer.Tokenizer) *grammar.Vocabulary {
	pieces := make([]string, tok.Len())
	var ends []int32
	for id := range int32(tok.Len()) {
		switch {
		case tok.IsEnd(id):
			ends = append(ends, id)
		case !tok.IsSpecial(id):
			pieces[id] = tok.Piece(id)
		}
	}
	return grammar.NewVocabulary(pieces, ends)
}
