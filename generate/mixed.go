package generate

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/llm"
)

// mixes reports whether the next run can combine the next token of each row with parts of prompts: there are both, and
// a program for it.
func (e *engine) mixes(rows []*slot) bool {
	return len(rows) > 0 && len(e.model.mixed) > 0 &&
		slices.ContainsFunc(e.slots, func(s slot) bool { return s.mixes() })
}

// mixes reports whether a part of the slot's prompt may be in a mixed run, which reads no pictures.
func (s *slot) mixes() bool {
	return s.needsPrefill() && s.answer.scorer == nil && s.imageAt(len(s.cached)) == nil
}

// mix runs one step with the next token of each row and with parts of waiting prompts, and continues the answers of
// both. The prompts take turns. The step has as many tokens as the device should compute in e.promptTime. If steps are
// in flight, mix only collects the oldest ones.
func (e *engine) mix(ctx context.Context, rows []*slot) {
	if len(e.pending) > 0 {
		e.collectOldest(ctx)
		return
	}
	began, f := time.Now(), &pendingStep{}
	parts, chunks, program := e.plan(rows)
	tokens := 0
	for i, p := range parts {
		if tokens += len(p.Tokens); p.Ends {
			f.add(chunks[i], len(p.Tokens))
		}
	}
	err := e.submitMixed(ctx, f, parts, chunks, program)
	var all []outcome
	if err == nil {
		for i, p := range parts {
			if !p.Ends {
				chunks[i].cached = append(chunks[i].cached, p.Tokens...)
			}
		}
		all, err = e.model.collect(ctx, f)
	}
	e.measurePrompt(tokens, time.Since(began))
	e.collected = 0
	e.deliver(ctx, f.rows, all, err)
}

// plan chooses the parts of the next mixed run, and its program. slots has the slot of each part.
func (e *engine) plan(rows []*slot) (parts []llm.Part, slots []*slot, program sizedProgram) {
	m, wanted := e.model, 0 // wanted counts tokens of prompts that the run could prefill
	add := func(s *slot, most int) {
		begin, text := len(s.cached), s.answer.text
		n := min(untilImage(text[begin:]), most)
		parts = append(parts, llm.Part{Text: int(s.index), Position: begin, Tokens: text[begin : begin+n],
			Ends: begin+n == len(text)})
		slots = append(slots, s)
	}
	for i := range e.slots {
		if s := &e.slots[i]; s.mixes() {
			wanted += min(len(s.answer.text)-len(s.cached), m.part)
		}
	}
	for _, s := range rows {
		add(s, 1)
	}
	rate := int(e.promptRate * e.promptTime.Seconds())
	// The tokens of the run: as many as take e.promptTime, but at least one of a prompt for each answer.
	budget := min(len(rows)+wanted, max(rate, 2*len(rows), m.mixed[0].rows))
	program = m.mixed[len(m.mixed)-1]
	for _, p := range slices.Backward(m.mixed) {
		if budget <= p.rows {
			program = p
		}
	}
	left, next := min(budget, program.rows)-len(rows), e.nextPrompt
	for i := range e.slots {
		at := (next + i) % len(e.slots)
		s := &e.slots[at]
		most := min(left, m.part, llm.RoomFor(program.rows, parts))
		if most == 0 {
			break
		}
		if s.mixes() {
			add(s, most)
			left -= len(parts[len(parts)-1].Tokens)
			e.nextPrompt = at + 1
		}
	}
	return parts, slots, program
}

// submitMixed submits a run for parts of the texts in slots. f has a row for each part that has logits, in order.
func (e *engine) submitMixed(ctx context.Context, f *pendingStep, parts []llm.Part, slots []*slot,
	program sizedProgram) error {
	m, in, of := e.model, vkc.Tensors{}, llm.InputsOf(parts)
	rows := len(of.Rows) / 4
	err := errors.Join(addInput(in, "rows", of.Rows, rows, 4), addInput(in, "single", of.Single, len(of.Single)/3, 3),
		addInput(in, "runs", of.Runs, len(of.Runs)/3, 3), addInput(in, "ends", of.Ends, len(of.Ends)))
	var scales []float32
	var offsets []int32
	for i, p := range parts {
		slots[i].wrote(p.Position + len(p.Tokens))
		offset := ropeOffset(slots[i].answer.images, p.Position)
		for range p.Tokens {
			scales, offsets = append(scales, slots[i].scales...), append(offsets, offset)
		}
	}
	if m.hasOffsets() {
		err = errors.Join(err, addInput(in, llm.OffsetInput, offsets, rows))
	}
	err = errors.Join(err, m.addScales(in, scales, rows))
	if m.pages > 0 {
		var tables []int32
		for i := range e.slots {
			tables = append(tables, e.slots[i].pageTable()...)
		}
		err = errors.Join(err, addInput(in, "pages", tables, len(e.slots), len(tables)/len(e.slots)))
	}
	if err != nil {
		return err
	}
	res, err := program.exe.Run(ctx, in, vkc.RunOptions{Keep: stepKeeps, More: f.choosesAtOnce()})
	if err != nil {
		return err
	}
	return m.chooseOnDevice(ctx, f, res, 0, nil, false)
}
