package generate

import (
	"context"
	"errors"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/llm"
)

// slot is the part of the KV cache that holds the keys and values of one sequence of tokens.
type slot struct {
	model  *Model
	index  int32   // its index in the cache
	cached []int32 // tokens whose keys and values are in the cache, in order
	// The end of the positions written since the text began: see llm.Config.Reach.
	written    int
	states     recurrentStates
	moved      bool    // a context shift has moved tokens: see shiftContext
	pages      []int32 // pages of the text, with paged KV
	wholeParts int     // number of first tokens that were prefilled in whole parts
	guessed

	scales []float32 // of the adapters that the cached tokens were computed with

	// For the engine.
	answer  *answer // the answer that uses the slot, or nil
	lastUse int     // the step at which the slot was last assigned or released
}

// reusable returns how many of a prompt's first tokens need not be prefilled, because the cache has their keys and
// values. It never counts the last token, because its logits are needed, nor a part of a picture.
func (s *slot) reusable(prompt []int32, images []placedImage) int {
	n := 0
	for n < min(len(s.cached), len(prompt)-1) && s.cached[n] == prompt[n] {
		n++
	}
	n = wholeImages(images, n)
	if s.moved { // the moved keys and values depend on dropped tokens
		n = min(n, s.model.keep)
	}
	if s.model.deterministic {
		// The cache's contents depend on other requests. So only tokens that would be computed in the same way again
		// are reused.
		n = min(n, s.wholeParts) / s.model.part * s.model.part
	}
	if s.model.config.IsRecurrent() {
		n = s.states.reach(n)
	}
	if s.model.shift != nil { // with context shifts, sliding-window layers cache everything
		return n
	}
	return s.model.config.Reach(s.written, n, s.model.part)
}

// truncate drops all cached tokens except the first ones.
func (s *slot) truncate(tokens int) {
	s.cached, s.guessed = s.cached[:tokens], guessed{}
	if tokens == 0 {
		s.written = 0
	}
	s.wholeParts, s.moved = min(s.wholeParts, tokens), s.moved && tokens > s.model.keep
	s.states.goBack(tokens)
}

// wrote records that a run which ends at a position was submitted.
func (s *slot) wrote(end int) {
	s.written = max(s.written, end)
	s.states.wrote(end)
}

// recurrentStates lists the positions of a text at which the device has the states of recurrent layers: the end of the
// last run, and two checkpoints. See llm.Checkpoint.
type recurrentStates struct {
	last        int
	checkpoints [2]int // 0 for none
}

// wrote records that a run has ended at a position.
func (r *recurrentStates) wrote(end int) {
	r.last = end
	if place, ok := llm.Checkpoint(end); ok {
		r.checkpoints[place] = end
	}
}

// reach returns the largest number of first tokens, at most known, with a state after them. It is 0 if there is no such
// state: the text is then computed from its beginning.
func (r *recurrentStates) reach(known int) int {
	best := 0
	for _, n := range append(r.checkpoints[:], r.last) {
		if n <= known {
			best = max(best, n)
		}
	}
	return best
}

// goBack forgets the states at positions past the given number of tokens.
func (r *recurrentStates) goBack(tokens int) {
	if r.last > tokens {
		r.last = 0
	}
	for i, n := range r.checkpoints {
		if n > tokens {
			r.checkpoints[i] = 0
		}
	}
}

// prefill computes the keys and values of a prompt, except for the prefix in the cache, and returns the logits after
// it.
func (s *slot) prefill(ctx context.Context, prompt []int32) (logits []float32, err error) {
	s.truncate(s.reusable(prompt, nil))
	for len(s.cached) < len(prompt) {
		if logits, err = s.prefillPart(ctx, prompt, s.model.partFor(len(prompt)-len(s.cached))); err != nil {
			return nil, err
		}
	}
	return logits, nil
}

// prefillPart prefills the next part of a text, of at most limit tokens. A picture is a part of its own. It returns
// logits only for the last part.
func (s *slot) prefillPart(ctx context.Context, text []int32, limit int) ([]float32, error) {
	if p := s.imageAt(len(s.cached)); p != nil {
		return nil, s.runImage(ctx, p, limit)
	}
	next := text[len(s.cached):]
	next = next[:untilImage(next)]
	if len(next) == 1 && s.model.slotCount == 1 {
		return s.run(ctx, s.model.step, next, len(s.cached)+1 == len(text))
	}
	part, prompts := s.model.part, s.model.prompts
	next = next[:s.partLength(min(len(next), limit, prompts[len(prompts)-1].rows))]
	logits, err := s.run(ctx, s.model.promptOf(len(next)), next, len(s.cached)+len(next) == len(text))
	// wholeParts counts the tokens, from the beginning on, that were prefilled in parts of exactly this length.
	if err == nil && len(next) == part && s.wholeParts+part == len(s.cached) {
		s.wholeParts = len(s.cached)
	}
	return logits, err
}

// partLength returns how many tokens the next part of a prompt has, at most limit. With recurrent layers a long part
// ends at a checkpoint, so that a later prompt with the same beginning can continue there.
func (s *slot) partLength(limit int) int {
	end := len(s.cached) + limit
	if last := end / llm.CheckpointEvery * llm.CheckpointEvery; s.model.config.IsRecurrent() && last > len(s.cached) {
		return last - len(s.cached)
	}
	return limit
}

// run runs a program on tokens that continue the sequence. If wanted is set, it waits and returns the logits. Otherwise
// it returns at once, while the run goes on, so that several devices work on successive parts.
func (s *slot) run(ctx context.Context, exe *vkc.Executable, tokens []int32, wanted bool) ([]float32, error) {
	inputs, err := s.inputs(tokens)
	if err != nil {
		return nil, err
	}
	length := len(s.cached) + len(tokens)
	s.wrote(length)
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
	s.cached = append(s.cached, tokens...)
	if !wanted {
		closeAll(res.Kept) // the outputs are not needed
		return nil, nil
	}
	return vkc.Values[float32](res.Outputs["logits"])
}

// inputs returns the inputs of a program that continues the text with tokens.
func (s *slot) inputs(tokens []int32) (vkc.Tensors, error) {
	in := vkc.Tensors{}
	err := errors.Join(addInput(in, "tokens", tokens, len(tokens)), s.addText(in))
	if err == nil && s.model.hasOffsets() {
		var images []placedImage
		if s.answer != nil {
			images = s.answer.images
		}
		err = addInput(in, llm.OffsetInput, []int32{ropeOffset(images, len(s.cached))})
	}
	return in, err
}

// addText adds the inputs of a program that select the slot, its pages of the KV cache, and the scales of its adapters.
func (s *slot) addText(in vkc.Tensors) (err error) {
	if s.model.slotCount > 1 {
		err = addInput(in, "text", []int32{s.index})
	}
	if err == nil {
		err = s.model.addScales(in, s.scales)
	}
	if err == nil && s.model.pages > 0 {
		err = addInput(in, "pages", s.pageTable(), llm.PagesOf(s.model.context))
	}
	return err
}
