package generate

import (
	"context"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/llm"
)

// slot is the part of the KV cache that holds the keys and values of one sequence of tokens.
type slot struct {
	model *Model
	at    int32   // its index in the cache
	past  []int32 // the tokens whose keys and values are in the cache
	// The end of the positions written since the text began: see llm.Config.Reach.
	written int
	moved   bool    // a context shift has moved tokens: see forget
	pages   []int32 // pages of the text, with paged KV
	parts   int     // tokens that were prefilled in whole parts, from the beginning on
	guessed

	// For the engine.
	of    *answer // the answer that uses the slot, or nil
	since int     // the step at which the slot was last assigned or released
}

// known returns how many of a prompt's first tokens need not be prefilled, because the cache has their keys and values.
// It never counts the last token, because its logits are needed.
func (s *slot) known(prompt []int32) int {
	n := 0
	for n < min(len(s.past), len(prompt)-1) && s.past[n] == prompt[n] {
		n++
	}
	if s.moved { // the moved keys and values depend on dropped tokens
		n = min(n, s.model.keep)
	}
	if s.model.deterministic {
		// The cache's contents depend on other requests. So only tokens that would be computed in the same way again
		// are reused.
		n = min(n, s.parts) / s.model.part * s.model.part
	}
	if s.model.shift != nil { // with context shifts, sliding-window layers cache everything
		return n
	}
	return s.model.config.Reach(s.written, n, s.model.part)
}

// keep drops all cached tokens except the first ones.
func (s *slot) keep(tokens int) {
	if s.past, s.guessed = s.past[:tokens], (guessed{}); tokens == 0 {
		s.written = 0
	}
	s.parts, s.moved = min(s.parts, tokens), s.moved && tokens > s.model.keep
}

// read prefills a prompt, except for the prefix in the cache.
func (s *slot) read(ctx context.Context, prompt []int32) (logits []float32, err error) {
	s.keep(s.known(prompt))
	for len(s.past) < len(prompt) {
		if logits, err = s.readPart(ctx, prompt, s.model.partFor(len(prompt)-len(s.past))); err != nil {
			return nil, err
		}
	}
	return logits, nil
}

// readPart prefills the next part of a text, at most most tokens.
func (s *slot) readPart(ctx context.Context, text []int32, most int) ([]float32, error) {
	next := text[len(s.past):]
	if len(next) == 1 && s.model.slotCount == 1 {
		return s.run(ctx, s.model.step, next, true)
	}
	part, prompts := s.model.part, s.model.prompts
	next = next[:min(len(next), most, prompts[len(prompts)-1].rows)]
	logits, err := s.run(ctx, s.model.promptOf(len(next)), next, len(s.past)+len(next) == len(text))
	if err == nil && len(next) == part && s.parts+part == len(s.past) {
		s.parts = len(s.past)
	}
	return logits, err
}

// run runs a program on tokens that continue the sequence. If wanted is set, it waits and returns the logits. Otherwise
// the run is asynchronous, so that several devices work on successive parts.
func (s *slot) run(ctx context.Context, exe *vkc.Executable, tokens []int32, wanted bool) ([]float32, error) {
	inputs, err := s.inputs(tokens)
	if err != nil {
		return nil, err
	}
	length := len(s.past) + len(tokens)
	s.written = max(s.written, length) // even if the run ends before it is waited for
	o := vkc.RunOptions{Symbols: map[string]int64{"S": int64(length)}}
	if !wanted {
		for _, port := range exe.Outputs() {
			o.Keep = append(o.Keep, port.Name)
		}
	}
	res, err := exe.Run(ctx, inputs, o)
	if err != nil {
		return nil, err
	}
	s.past = append(s.past, tokens...)
	if !wanted {
		closeAll(res.Kept)
		return nil, nil
	}
	return vkc.Values[float32](res.Outputs["logits"])
}

// inputs returns the inputs of a program that continues the text with tokens.
func (s *slot) inputs(tokens []int32) (vkc.Tensors, error) {
	in := vkc.Tensors{}
	err := give(in, "tokens", tokens, len(tokens))
	if err == nil && s.model.slotCount > 1 {
		err = give(in, "text", []int32{s.at})
	}
	if err == nil && s.model.pages > 0 {
		err = give(in, "pages", s.table(), llm.PagesOf(s.model.context))
	}
	return in, err
}
