package generate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/frontend/llm"
)

// Speculation says how tokens are guessed, several at a time, which the model then takes
// in one step (Leviathan et al. 2023, arXiv:2211.17192). The guesses that are what the
// model would have chosen are kept, so that the answer is the same as without, but for
// the rounding of kernels that take several tokens. The zero value guesses nothing.
type Speculation struct {
	Tokens int    // guesses at a time, at most
	Draft  string // a file with a smaller model of the same vocabulary that makes them; see Tokens
	// Without a model they are what followed the last words where these stood before: prompt
	// lookup (Saxena 2023). It guesses well where an answer repeats its prompt.
}

// Speculated counts what came of guesses.
type Speculated struct {
	Guesses  int // tokens that were guessed
	Accepted int // of these the model chose as many
	Steps    int // of the model, one or several tokens each
}

// maxGuesses bounds Speculation.Tokens.
const maxGuesses = 64

// drafter guesses what follows a text: at most so many tokens, or none.
type drafter interface {
	draft(ctx context.Context, text []int32, most int) ([]int32, error)
}

// openSpeculation prepares what a model guesses with.
func (m *Model) openSpeculation(ctx context.Context, o Options) (err error) {
	s := o.Speculation
	switch {
	case s.Tokens == 0:
		return nil
	case m.places > 1:
		return wrongOption("Tokens", "%d guesses at a time for each of %d answers at once: want one or the other",
			s.Tokens, m.places)
	}
	g, err := llm.Drafts(m.config, min(s.Tokens+1, m.context), m.context, m.cache(o)...)
	if err != nil {
		return err
	}
	if m.drafts, err = m.load(ctx, g, o, m.step); err != nil {
		return err
	}
	m.guesses, m.guesser = s.Tokens, lookup{}
	if s.Draft == "" {
		return nil
	}
	own := o
	own.Speculation, own.Context, own.GPUMemory, own.ContextShift, own.Keep = Speculation{}, m.context, 0, false, nil
	d, err := Open(ctx, s.Draft, own)
	if err != nil {
		return fmt.Errorf("the draft model: %w", err)
	}
	m.guesser = draftModel{d, &slot{model: d}}
	return m.sameVocabulary(d)
}

// sameVocabulary refuses a draft model whose tokens mean something else.
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

// closeSpeculation releases it.
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

// Speculated returns what came of all guesses so far.
func (m *Model) Speculated() Speculated {
	m.counting.Lock()
	defer m.counting.Unlock()
	return m.speculated
}

// count adds to what came of guesses.
func (m *Model) count(more Speculated) {
	m.counting.Lock()
	defer m.counting.Unlock()
	m.speculated.Guesses += more.Guesses
	m.speculated.Accepted += more.Accepted
	m.speculated.Steps += more.Steps
}

// guessed is what a slot has of guesses.
type guessed struct {
	ahead  []int32     // guesses that the device has taken, after the text
	logits [][]float32 // after each of them
}

// next says what follows a text whose last token is new: it takes the text on token by token, or
// several in one step where guesses are right.
func (s *slot) next(ctx context.Context, text []int32) (outcome, error) {
	m, last := s.model, text[len(text)-1]
	if len(s.ahead) > 0 && s.ahead[0] == last {
		logits := s.logits[0]
		s.ahead, s.logits = s.ahead[1:], s.logits[1:]
		m.count(Speculated{Accepted: 1})
		return outcome{logits: logits}, nil
	}
	s.past = s.past[:len(text)-1] // without guesses that were wrong
	var err error
	s.guessed = guessed{}
	if room := min(m.guesses, m.context-len(text)); room > 0 {
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

// lookup guesses what followed the last words of a text where they stood before.
type lookup struct{}

// Of the words that stood before, at least so many tokens are the same; more than the
// other number are not compared.
const (
	leastSame = 2
	mostSame  = 8
)

// draft implements drafter: of the places with the longest run of equal tokens before
// them, the last one counts.
func (lookup) draft(_ context.Context, text []int32, most int) ([]int32, error) {
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
	return slices.Clone(text[at:min(at+most, len(text))]), nil
}

// draftModel guesses by another model, which takes its likeliest token each time.
type draftModel struct {
	*Model
	text *slot
}

// draft implements drafter.
func (d draftModel) draft(ctx context.Context, text []int32, most int) (guesses []int32, err error) {
	logits, err := d.text.read(ctx, text)
	for err == nil {
		var id int32
		if id, err = likeliestOf(logits); err != nil {
			break
		}
		if guesses = append(guesses, id); len(guesses) == most || d.tok.IsEnd(id) {
			break
		}
		logits, err = d.text.run(ctx, d.step, []int32{id}, true)
	}
	return guesses, err
}
