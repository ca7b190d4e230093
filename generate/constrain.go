package generate

import (
	"cmp"
	"context"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/grammar"
)

// Odds is the log-probability of a chosen token, and of its alternatives.
type Odds struct {
	Logprob   float64
	Likeliest []Alternative // the likeliest tokens, as many as Sampling.Likeliest says
}

// Alternative is a token with its natural log-probability according to the model: before temperature, bias, grammar and
// other sampling options.
type Alternative struct {
	ID      int32
	Logprob float64
}

// chooser chooses the tokens of one answer by its sampling options and its grammar.
type chooser struct {
	model    *Model
	sampling Sampling
	chosen   int         // tokens so far
	ends     []int32     // the tokens that end an answer, if Sampling.MinTokens needs them
	guide    *guide      // nil if nothing constrains the answer
	next     *maskSearch // the next token's mask; nil without a guide
	// forgotten is the number of tokens that context shifts have dropped. Random numbers depend on a token's position
	// in the whole text.
	forgotten int
	mu        float32 // of Mirostat, for the next token
}

// chooser returns the chooser of the tokens of one answer, after loading the programs that it needs. It returns an
// error if a program does not load or if the grammar allows no text.
func (m *Model) chooser(ctx context.Context, s Sampling) (*chooser, error) {
	c := &chooser{model: m, sampling: s}
	if s.Mirostat != nil {
		c.mu = float32(2 * s.Mirostat.Tau) // the initial value of the paper
	}
	if s.samples() {
		if _, err := m.extra(ctx, samplerOf(s.kind())); err != nil {
			return nil, err
		}
	}
	for id := range int32(m.tok.Len()) {
		if s.MinTokens > 0 && m.tok.IsEnd(id) {
			c.ends = append(c.ends, id)
		}
	}
	// Without a grammar or a limit of reasoning, no token is masked.
	if s.Grammar == nil && s.Reasoning.Tokens == 0 {
		return c, nil
	}
	if _, err := m.extra(ctx, masker); err != nil {
		return nil, err
	}
	c.guide = newGuide(m, s)
	if s.Grammar == nil || len(s.GrammarAfter) > 0 {
		return c, nil
	}
	var err error
	c.guide.text, err = c.guide.constraint.Begin()
	return c, err
}

// choosesOnHost reports whether the host, and not the device, chooses the token of the step that runs now. It does if
// there are more biases than the sampler takes, or if the search for the token's mask takes long. choosesOnHost waits
// for the end of a short search.
func (c *chooser) choosesOnHost() bool {
	return len(c.sampling.Bias)+len(c.ends) > llm.MaxBiases || !c.known()
}

// waits reports whether the next step must wait for the token of this one on the host.
func (c *chooser) waits() bool {
	return c.guide != nil || c.sampling.Logprobs || c.sampling.dry() || // which needs the whole text
		len(c.sampling.Bias)+len(c.ends) > llm.MaxBiases
}

// biases returns the numbers to add to the logits, by token. They are for the choice of the next token, or of a later
// one: `after` is the number of tokens that are chosen before it.
func (c *chooser) biases(after int) map[int32]float32 {
	if !c.sampling.biased() {
		return nil
	}
	all := map[int32]float32{}
	for id, more := range c.sampling.Bias {
		all[id] = float32(more)
	}
	masked := c.guide != nil && c.next.mask != nil // the mask alone says whether the answer may end
	if c.chosen+after < c.sampling.MinTokens && !masked {
		for _, id := range c.ends {
			all[id] = float32(math.Inf(-1))
		}
	}
	return all
}

// choose returns the next token of an answer. result has the step's logits, or the token if the device has chosen it
// already. text is the prompt and the answer so far. choose adds biases and the mask to the logits in place. It returns
// an error if the search for the mask failed or if a logit is NaN.
func (c *chooser) choose(ctx context.Context, result outcome, text []int32) (t Token, err error) {
	if c.guide != nil && c.next.err != nil {
		return t, c.next.err
	}
	unchanged := result.logits // Odds are reported without biases and mask
	if !result.chosen {
		logits := result.logits
		if c.sampling.Logprobs {
			unchanged = slices.Clone(logits)
		}
		for id, more := range c.biases(0) {
			logits[id] += more
		}
		if c.guide != nil && c.next.mask != nil {
			apply(c.next.mask, logits)
		}
		q := sampleRequest{Sampling: c.sampling, text: text, position: len(text) + c.forgotten, mu: c.mu}
		if result, err = c.model.chooseOnHost(ctx, q, logits); err != nil {
			return t, err
		}
	}
	c.chosen, c.mu = c.chosen+1, result.mu
	t.ID = result.token
	if t.ID < 0 { // a logit is NaN
		return t, errNoNumbers
	}
	if c.sampling.Logprobs {
		all := logSumExp(unchanged)
		t.Odds = &Odds{float64(unchanged[t.ID]) - all, likeliest(unchanged, all, c.sampling.Likeliest)}
	}
	return t, nil
}

// maskSearch is the search for the tokens that a grammar allows next in one answer. It runs concurrently with the
// engine. The engine waits for short searches, and continues without the answer if the search is slow.
type maskSearch struct {
	slow        chan struct{} // closed when the search takes long, so that the engine does not wait for it
	over        chan struct{} // closed when the mask is known
	mask        grammar.Mask  // nil allows every token
	grammarEnds bool          // no token may follow: the grammar's text is complete
	err         error
}

// newMaskSlots returns a semaphore for slow mask searches. A search holds an element of the channel while it runs, so
// that slow searches use at most half of the cores.
func newMaskSlots() chan struct{} { return make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)) }

// firstMask stands for the missing last token in the search for an answer's first mask.
const firstMask int32 = -1

// beginMask starts the search for the mask after token id, which may be firstMask. A search that takes long becomes
// slow: it waits for a free element of maskSlots. When it ends, it notifies wake, which may be nil.
func (c *chooser) beginMask(ctx context.Context, id int32, maskSlots, wake chan struct{}) {
	m := &maskSearch{slow: make(chan struct{}), over: make(chan struct{})}
	c.next = m
	hasSlot, isSlow := false, false // used by the goroutine only
	freeSlot := func() {
		if hasSlot {
			<-maskSlots
		}
		hasSlot = false
	}
	// The grammar calls pause regularly during a long search. Each call gives other slow searches a turn.
	pause := func() error {
		freeSlot()
		if !isSlow {
			isSlow = true
			close(m.slow)
		}
		select {
		case maskSlots <- struct{}{}:
			hasSlot = true
			return ctx.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	go func() {
		m.mask, m.grammarEnds, m.err = c.guide.advance(id, pause)
		freeSlot()
		close(m.over)
		if isSlow {
			notify(wake)
		}
	}()
}

// known reports whether the mask of the next token is known, or its error. It waits for short searches, and returns
// false for slow ones that still run.
func (c *chooser) known() bool {
	if c.next == nil {
		return true
	}
	select {
	case <-c.next.over:
		return true
	// slow is closed when the search has taken too long to wait for.
	case <-c.next.slow:
	}
	select {
	case <-c.next.over:
		return true
	default:
		return false
	}
}

// waitForMask waits until the mask of the next token is known, even if its search is slow.
func (c *chooser) waitForMask(ctx context.Context) error {
	if c.next == nil {
		return nil
	}
	select {
	case <-c.next.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// apply sets the logits of tokens outside of the mask to minus infinity. Bit i%64 of mask[i/64] allows token i.
func apply(mask grammar.Mask, logits []float32) {
	none := float32(math.Inf(-1))
	for at := 0; at < len(logits); at += 64 {
		var word uint64
		if at/64 < len(mask) { // tokens after the mask's end are not allowed
			word = mask[at/64]
		}
		if word == math.MaxUint64 { // all 64 tokens are allowed
			continue
		}
		for i := range logits[at:min(at+64, len(logits))] {
			if word>>i&1 == 0 {
				logits[at+i] = none
			}
		}
	}
}

// logSumExp returns the log of the sum of exponentials of the logits, the log-softmax's denominator.
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

// likeliest returns the n likeliest tokens in descending order. all is the logSumExp of the logits.
func likeliest(logits []float32, all float64, n int) []Alternative {
	var list []Alternative // sorted
	for id, v := range logits {
		o := Alternative{int32(id), float64(v) - all}
		if len(list) == n && (n == 0 || !(o.Logprob > list[n-1].Logprob)) {
			continue // n tokens are as likely
		}
		at, _ := slices.BinarySearchFunc(list, o, func(a, b Alternative) int {
			return cmp.Or(cmp.Compare(b.Logprob, a.Logprob), cmp.Compare(a.ID, b.ID))
		})
		list = slices.Insert(list, at, o)
		list = list[:min(len(list), n)]
	}
	return list
}

// constraints caches grammars for a model's vocabulary, with their masks. It keeps the most recently used ones.
type constraints struct {
	mu         sync.Mutex
	vocabulary [2]*grammar.Vocabulary // without and with the names of special tokens
	recent     []constraint           // ordered by use; the last one is the most recent
}

// constraint is a grammar with its masks for the model's vocabulary.
type constraint struct {
	grammar *grammar.Grammar
	*grammar.Constraint
}

// maxConstraints is the number of cached grammars.
const maxConstraints = 4

// of returns the constraint of a grammar, from the cache if it is there.
func (c *constraints) of(g *grammar.Grammar, tok *tokenizer.Tokenizer) *grammar.Constraint {
	c.mu.Lock()
	defer c.mu.Unlock()
	special := 0
	if g.Special() {
		special = 1
	}
	if c.vocabulary[special] == nil {
		c.vocabulary[special] = vocabularyOf(tok, g.Special())
	}
	found := constraint{g, nil}
	if i := slices.IndexFunc(c.recent, func(k constraint) bool { return k.grammar == g }); i >= 0 {
		found = c.recent[i]
		c.recent = slices.Delete(c.recent, i, i+1)
	} else {
		found.Constraint = grammar.New(g, c.vocabulary[special])
	}
	// The most recently used constraint is the last one, and the first ones are dropped.
	c.recent = append(c.recent, found)
	c.recent = c.recent[max(0, len(c.recent)-maxConstraints):]
	return found.Constraint
}

// vocabularyOf returns the bytes of the tokens that represent text and, with special, the names of special tokens.
func vocabularyOf(tok *tokenizer.Tokenizer, special bool) *grammar.Vocabulary {
	pieces := make([]string, tok.Len())
	var ends []int32
	for id := range int32(tok.Len()) {
		switch {
		case tok.IsEnd(id):
			ends = append(ends, id)
		case !tok.IsSpecial(id):
			pieces[id] = tok.Piece(id)
		case special:
			// A grammar names special tokens, so their names stand for them.
			pieces[id] = grammar.Token(tok.Token(id))
		}
	}
	return grammar.NewVocabulary(pieces, ends)
}
