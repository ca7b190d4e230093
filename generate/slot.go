package generate

import (
	"context"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/llm"
)

// slot is a place for a text on the device.
type slot struct {
	model *Model
	at    int32   // which of the model's
	past  []int32 // the tokens whose keys and values the device has
	// Positions that were written since a text began, at most: see llm.Config.Reach.
	written int
	moved   bool    // tokens after the first ones that stay moved since the text began: see forget
	pages   []int32 // where keys and values of its positions are, where texts share pages
	parts   int     // tokens that were read in whole parts of a prompt, from the text's beginning on
	guessed

	// Of an engine.
	of    *answer // what the text is for, or nil
	since int     // the step at which the slot last changed hands
}

// known is how many of a prompt's first tokens the device can keep. The prompt's last token is not
// among them, for its logits.
func (s *slot) known(prompt []int32) int {
	n := 0
	for n < min(len(s.past), len(prompt)-1) && s.past[n] == prompt[n] {
		n++
	}
	if s.moved { // keys and values of the others know of tokens that were forgotten
		n = min(n, s.model.keep)
	}
	if s.model.deterministic {
		// What is known of a prompt depends on what else was asked. So only that is known which would be computed in
		// the same way again.
		n = min(n, s.parts) / s.model.part * s.model.part
	}
	if s.model.shift != nil { // layers with a window keep all
		return n
	}
	return s.model.config.Reach(s.written, n, s.model.part)
}

// keep forgets all but the first tokens.
func (s *slot) keep(tokens int) {
	if s.past, s.guessed = s.past[:tokens], (guessed{}); tokens == 0 {
		s.written = 0
	}
	s.parts, s.moved = min(s.parts, tokens), s.moved && tokens > s.model.keep
}

// read has the device take a prompt, but for what it begins with that the device has already.
func (s *slot) read(ctx context.Context, prompt []int32) (logits []float32, err error) {
	s.keep(s.known(prompt))
	for len(s.past) < len(prompt) {
		if logits, err = s.readPart(ctx, prompt, s.model.partFor(len(prompt)-len(s.past))); err != nil {
			return nil, err
		}
	}
	return logits, nil
}

// readPart has the device take the next tokens of a text: as many as it takes at a time, and most at most.
func (s *slot) readPart(ctx context.Context, text []int32, most int) ([]float32, error) {
	next := text[len(s.past):]
	if len(next) == 1 && s.model.places == 1 {
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

// run has the device take tokens that go on the text, and returns the logits that a program gives, if they are wanted:
// else it is not waited for, and where a program goes through several devices, parts are under way on all of them.
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

// inputs are what a program is given that takes tokens which go on the text.
func (s *slot) inputs(tokens []int32) (vkc.Tensors, error) {
	in := vkc.Tensors{}
	err := give(in, "tokens", tokens, len(tokens))
	if err == nil && s.model.places > 1 {
		err = give(in, "text", []int32{s.at})
	}
	if err == nil && s.model.pages > 0 {
		err = give(in, "pages", s.table(), llm.PagesOf(s.model.context))
	}
	return in, err
}
