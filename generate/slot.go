package generate

import (
	"context"
	"errors"
	"slices"

	"github.com/vkc-go/vkc"
)

// slot is a place for a text on the device.
type slot struct {
	model *Model
	at    int32   // which of the model's
	past  []int32 // the tokens whose keys and values the device has
	// Positions that were written since a text began, at most: see llm.Config.Reach.
	written int
	parts   int // tokens that were read in whole parts of a prompt, from the text's beginning on
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
	if s.model.places > 1 {
		// Which place a prompt gets, and so what is known of it, depends on what else is asked. So only
		// that is known which would be computed in the same way again.
		n = min(n, s.parts) / s.model.part * s.model.part
	}
	return s.model.config.Reach(s.written, n, s.model.part)
}

// keep forgets all but the first tokens.
func (s *slot) keep(tokens int) {
	if s.past, s.guessed = s.past[:tokens], (guessed{}); tokens == 0 {
		s.written = 0
	}
	s.parts = min(s.parts, tokens)
}

// read has the device take a prompt, but for what it begins with that the device has already.
func (s *slot) read(ctx context.Context, prompt []int32) (logits []float32, err error) {
	s.keep(s.known(prompt))
	for len(s.past) < len(prompt) {
		if logits, err = s.readPart(ctx, prompt); err != nil {
			return nil, err
		}
	}
	return logits, nil
}

// readPart has the device take the next tokens of a text, as many as it takes at a time.
func (s *slot) readPart(ctx context.Context, text []int32) ([]float32, error) {
	next := text[len(s.past):]
	if len(next) == 1 && s.model.places == 1 {
		return s.run(ctx, s.model.step, next)
	}
	part := s.model.part
	next = next[:min(len(next), part)]
	logits, err := s.run(ctx, s.model.prompt, next)
	if err == nil && len(next) == part && s.parts+part == len(s.past) {
		s.parts = len(s.past)
	}
	return logits, err
}

// run has the device take tokens that go on the text, and returns the logits that a program gives.
func (s *slot) run(ctx context.Context, exe *vkc.Executable, tokens []int32) ([]float32, error) {
	in, err := vkc.Of(tokens, len(tokens))
	if err != nil {
		return nil, err
	}
	inputs := vkc.Tensors{"tokens": in}
	if s.model.places > 1 {
		if inputs["text"], err = vkc.Of([]int32{s.at}); err != nil {
			return nil, err
		}
	}
	length := len(s.past) + len(tokens)
	s.written = max(s.written, length) // even if the run ends before it is waited for
	res, err := exe.Run(ctx, inputs, vkc.RunOptions{Symbols: map[string]int64{"S": int64(length)}})
	if err != nil {
		return nil, err
	}
	s.past = append(s.past, tokens...)
	return vkc.Values[float32](res.Outputs["logits"])
}

// outcome is what a step says of the token that follows a text: the likeliest, or the logits of all.
type outcome struct {
	likeliest int32
	logits    []float32 // nil where only the likeliest is asked for
}

// takesLikeliest reports whether the slot's answer needs no more of a step than the likeliest token.
func (s *slot) takesLikeliest() bool { return s.of != nil && s.of.chooser.sampling.likeliest() }

// stepAll takes the next token of the text of each slot, and says what follows it.
func (m *Model) stepAll(ctx context.Context, slots []*slot) ([]outcome, error) {
	if m.places == 1 {
		one, err := slots[0].next(ctx, slots[0].of.text)
		return []outcome{one}, err
	}
	rows := map[string][]int32{}
	for _, s := range slots {
		rows["tokens"] = append(rows["tokens"], s.of.text[len(s.past)])
		rows["texts"] = append(rows["texts"], s.at)
		rows["positions"] = append(rows["positions"], int32(len(s.past)))
	}
	return m.stepOn(ctx, slots, rows, nil)
}

// stepOn takes a token of the text of each slot. Logits leave the device only where they are needed.
func (m *Model) stepOn(ctx context.Context, slots []*slot, rows map[string][]int32, symbols map[string]int64) (
	all []outcome, err error) {
	in := vkc.Tensors{}
	for name, list := range rows {
		if in[name], err = vkc.Of(list, len(list)); err != nil {
			return nil, err
		}
	}
	o := vkc.RunOptions{Symbols: symbols}
	if slices.ContainsFunc(slots, (*slot).takesLikeliest) {
		o.Keep = []string{"logits"}
	}
	for _, s := range slots {
		s.written = max(s.written, len(s.past)+1) // even if the run ends before it is waited for
	}
	res, err := m.step.Run(ctx, in, o)
	if err != nil {
		return nil, err
	}
	if all, err = m.outcomesOf(ctx, slots, res); err != nil {
		return nil, err
	}
	for i, s := range slots {
		s.past = append(s.past, rows["tokens"][i])
	}
	return all, nil
}

// outcomesOf reads what a step gave.
func (m *Model) outcomesOf(ctx context.Context, slots []*slot, res *vkc.Result) ([]outcome, error) {
	all := make([]outcome, len(slots))
	kept := res.Kept["logits"]
	if kept == nil {
		logits, err := vkc.Values[float32](res.Outputs["logits"])
		if err != nil {
			return nil, err
		}
		for i := range all {
			all[i].logits = logits[i*m.config.Vocab:][:m.config.Vocab]
		}
		return all, nil
	}
	defer kept.Close()
	ids, errIDs := vkc.Values[int32](res.Outputs["likeliest"])
	tops, errTops := vkc.Values[float32](res.Outputs["top"])
	if err := errors.Join(errIDs, errTops); err != nil {
		return nil, err
	}
	for i, s := range slots {
		if all[i].likeliest = ids[i]; s.takesLikeliest() && tops[i] == tops[i] {
			continue
		}
		first, count := i, 1
		if m.places == 1 {
			count = m.config.Vocab // the only axis
		}
		row, err := kept.ReadRows(ctx, first, count)
		if err == nil {
			all[i].logits, err = vkc.Values[float32](row)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
