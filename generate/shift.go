package generate

import (
	"context"
	"slices"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/llm"
)

// defaultKeep is the default of Options.Keep, in tokens. The first tokens of a text are attention sinks, so that a
// model needs them (Xiao et al. 2023, arXiv:2309.17453).
const defaultKeep = 4

// openShift loads the program for context shifts.
func (m *Model) openShift(ctx context.Context, o Options) (err error) {
	m.keep = defaultKeep
	if o.Keep != nil {
		m.keep = *o.Keep
	}
	if !o.ContextShift {
		return nil
	}
	if most := m.context - 3; m.keep > most { // one position is dropped, one moves, and one is added
		return wrongOption("Keep", "keep the first %d tokens of a context of %d: want 0 to %d", m.keep, m.context, most)
	}
	g, err := llm.Shift(m.config, m.context, m.cache(o)...)
	if err == nil {
		m.shift, err = m.load(ctx, g, o, m.step)
	}
	return err
}

// needsShift reports whether the context is full, so that a context shift must precede the next token.
func (s *slot) needsShift() bool {
	return s.model.shift != nil && len(s.answer.text) >= s.model.context
}

// shiftContext drops tokens of a full text, from the slot and from the answer: the older half of those after the first
// m.keep tokens. No step of the text may be in flight.
func (s *slot) shiftContext(ctx context.Context) error {
	m, a := s.model, s.answer
	s.cached, s.guessed = s.cached[:len(a.text)-1], guessed{} // the full context has no positions for guesses
	drop := (len(s.cached) - m.keep) / 2
	in, err := vkc.Tensors{}, error(nil)
	for name, value := range map[string]int32{"keep": int32(m.keep), "drop": int32(drop), "text": s.index} {
		if name == "text" && m.slotCount == 1 {
			continue
		}
		if in[name], err = vkc.Of([]int32{value}); err != nil {
			return err
		}
	}
	o := vkc.RunOptions{Symbols: map[string]int64{"N": int64(len(s.cached) - m.keep - drop)}}
	if _, err := m.shift.Run(ctx, in, o); err != nil {
		return err
	}
	s.cached = slices.Delete(s.cached, m.keep, m.keep+drop)
	a.text = slices.Delete(a.text, m.keep, m.keep+drop)
	a.chooser.forgotten += drop
	s.moved = true // what is cached no longer equals a computation without the dropped tokens
	return nil
}
