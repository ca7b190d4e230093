package generate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/frontend/llm"
)

// Speculation configures speculative decoding: several tokens are guessed, and the model checks them in one step
// (Leviathan et al. 2023, arXiv:2211.17192). It keeps the guesses that it would have chosen itself, so the answer is
// the same as without, up to the rounding of kernels for several tokens. The zero value guesses nothing.
type Speculation struct {
	Tokens int    // maximum guesses at a time
	Draft  string // file of a smaller model with the same vocabulary; see below
	// Without a draft model, guesses repeat the tokens that followed the last tokens at an earlier occurrence: prompt
	// lookup (Saxena 2023). That works well if an answer repeats its prompt.
}

// Speculated counts guesses.
type Speculated struct {
	Guesses  int // guessed tokens
	Accepted int // guesses that the model accepted
	Steps    int // steps of the model, each with one or several tokens
}

// maxGuesses bounds Speculation.Tokens.
const maxGuesses = 64

// drafter guesses how a sequence of tokens continues. draft returns at most limit tokens, possibly none.
type drafter interface {
	draft(ctx context.Context, text []int32, limit int) ([]int32, error)
}

// openSpeculation loads the programs for speculative decoding: a step for several guesses and, if the options name one,
// the draft model. Without a draft model, guesses are looked up in the text.
func (m *Model) openSpeculation(ctx context.Context, o Options) (err error) {
	s := o.Speculation
	switch {
	case s.Tokens == 0:
		return nil
	case m.slotCount > 1:
		return wrongOption("Tokens", "%d speculated tokens at a time, and %d answers at once: give one of the two",
			s.Tokens, m.slotCount)
	}
	g, err := llm.Drafts(m.config, min(s.Tokens+1, m.context), m.context, m.cache(o)...) // one token and its guesses
	if err != nil {
		return err
	}
	if m.drafts, err = m.load(ctx, g, o, m.step); err != nil {
		return err
	}
	m.guessCount, m.guesser = s.Tokens, lookup{}
	if s.Draft == "" {
		return nil
	}
	// The draft model gets the options, except those that only make sense for the model itself.
	own := o
	own.Speculation, own.Context, own.GPUMemory, own.ContextShift, own.Keep = Speculation{}, m.context, 0, false, nil
	own.Fallback, own.Adapters, own.AdapterScales = nil, nil, false
	d, err := Open(ctx, s.Draft, own)
	if err != nil {
		return fmt.Errorf("the draft model: %w", err)
	}
	m.guesser = draftModel{d, &slot{model: d}}
	if why := d.Fallback(); why != nil && m.step.Fallback() == nil {
		m.reportFallback(fmt.Errorf("the draft model: %w", why))
	}
	return m.sameVocabulary(d)
}

// sameVocabulary refuses a draft model with another vocabulary.
func (m *Model) sameVocabulary(d *Model) error {
	n := min(m.tok.Len(), d.tok.Len())
	if m.config.Vocab != d.config.Vocab || m.tok.Len() != d.tok.Len() {
		return fmt.Errorf("generate: the draft model has %d tokens and the model %d: want the same vocabulary",
			d.config.Vocab, m.config.Vocab)
	}
	for id := range int32(n) {
		if m.tok.Token(id) != d.tok.Token(id) {
			return fmt.Errorf("generate: token %d is %q for the draft model and %q for the model: want the same "+
				"vocabulary", id, d.tok.Token(id), m.tok.Token(id))
		}
	}
	return nil
}

// closeSpeculation releases the programs and the draft model.
func (m *Model) closeSpeculation() error {
	var errs []error
	if m.drafts != nil {
		errs = append(errs, m.drafts.Close())
	}
	if d, ok := m.guesser.(draftModel); ok {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// Speculated returns the counts of all guesses so far.
func (m *Model) Speculated() Speculated {
	m.counting.Lock()
	defer m.counting.Unlock()
	return m.speculated
}

// count adds to the counts of guesses.
func (m *Model) count(more Speculated) {
	m.counting.Lock()
	defer m.counting.Unlock()
	m.speculated.Guesses += more.Guesses
	m.speculated.Accepted += more.Accepted
	m.speculated.Steps += more.Steps
}

// guessed is a slot's state of speculation: guesses that the device has already evaluated, but the answer has not
// reached.
type guessed struct {
	ahead  []int32     // guesses that the device has evaluated, after the text
	logits [][]float32 // the logits after each of them
}

// next returns the logits after text, which has one more token than the previous call. If an earlier step already
// evaluated that token as a guess, it returns those logits. Otherwise it evaluates the token in one step, together
// with new guesses if there are any.
func (s *slot) next(ctx context.Context, text []int32) (outcome, error) {
	m, last := s.model, text[len(text)-1]
	if len(s.ahead) > 0 && s.ahead[0] == last {
		logits := s.logits[0]
		s.ahead, s.logits = s.ahead[1:], s.logits[1:]
		m.count(Speculated{Accepted: 1})
		return outcome{logits: logits}, nil
	}
	// The token differs from the guess, so the remaining guesses are wrong.
	if err := s.withoutGuesses(ctx, text[:len(text)-1]); err != nil {
		return outcome{}, err
	}
	var err error
	if room := min(m.guessCount, m.context-len(text)); room > 0 {
		if s.ahead, err = m.guesser.draft(ctx, text, room); err != nil {
			return outcome{}, err
		}
	}
	if len(s.ahead) == 0 {
		one, err := m.stepAll(ctx, []*slot{s})
		if err != nil {
			return outcome{}, err
		}
		return one[0], nil
	}
	m.count(Speculated{Steps: 1, Guesses: len(s.ahead)})
	all, err := s.run(ctx, m.drafts, append([]int32{last}, s.ahead...), true)
	if err != nil {
		return outcome{}, err
	}
	s.logits = slices.Collect(slices.Chunk(all, m.config.Vocab))
	first := s.logits[0]
	s.logits = s.logits[1:]
	return outcome{logits: first}, nil
}

// withoutGuesses drops the tokens after text, which were evaluated as guesses and are wrong. A recurrent model has no
// state for each position. So it goes back to the latest saved state, and computes the tokens of text after that again.
func (s *slot) withoutGuesses(ctx context.Context, text []int32) error {
	s.cached, s.guessed = s.cached[:len(text)], guessed{}
	if !s.model.config.IsRecurrent() {
		return nil
	}
	s.truncate(s.states.reach(len(text)))
	for len(s.cached) < len(text) {
		if _, err := s.prefillPart(ctx, text, s.model.partFor(len(text)-len(s.cached))); err != nil {
			return err
		}
	}
	return nil
}

// lookup guesses the tokens that followed the last tokens at an earlier occurrence.
type lookup struct{}

// An occurrence must match at least leastSame tokens. At most mostSame are compared.
const (
	leastSame = 2
	mostSame  = 8
)

// draft implements drafter. It finds the longest earlier occurrence of the text's last tokens, the latest among equally
// long ones, and returns up to limit tokens that followed it there.
func (lookup) draft(_ context.Context, text []int32, limit int) ([]int32, error) {
	// best is the length of the best occurrence, and at the index after it.
	best, at := leastSame-1, 0
	for end := len(text) - 1; end >= leastSame; end-- { // text[:end] ends as text does
		same := 0
		for same < min(mostSame, end) && text[end-1-same] == text[len(text)-1-same] {
			same++
		}
		if same > best {
			best, at = same, end
		}
		if best == mostSame {
			break
		}
	}
	if at == 0 {
		return nil, nil
	}
	next := text[at:min(at+limit, len(text))]
	return slices.Clone(next[:untilImage(next)]), nil
}

// draftModel guesses with another model, greedily.
type draftModel struct {
	*Model
	text *slot
}

// draft implements drafter. It decodes greedily with the draft model, until it has limit tokens or an end token.
func (d draftModel) draft(ctx context.Context, text []int32, limit int) (guesses []int32, err error) {
	logits, err := d.text.prefill(ctx, text)
	for err == nil {
		var id int32
		if id, err = likeliestOf(logits); err != nil {
			break
		}
		guesses = append(guesses, id)
		if len(guesses) == limit || d.tok.IsEnd(id) {
			break
		}
		logits, err = d.text.run(ctx, d.step, []int32{id}, true)
	}
	return guesses, err
}
