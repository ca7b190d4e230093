package generate

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/llm"
)

// maxMixedTime bounds the time of a mixed run. Larger runs compute more tokens a second, and smaller ones make texts
// flow more evenly.
const maxMixedTime = 110 * time.Millisecond

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
// both. The prompts take turns. While steps are in flight, mix only collects the oldest of them.
func (e *engine) mix(ctx context.Context, rows []*slot) {
	if len(e.pending) > 0 {
		e.collectOldest(ctx)
		return
	}
	began, f := time.Now(), &pendingStep{}
	parts, chunks, program := e.plan(rows)
	tokens := 0
	for i, p := range parts {
		tokens += len(p.Tokens)
		if p.Ends { // only a part that ends its text has logits; the others are added to the cache after the run
			f.add(chunks[i], len(p.Tokens))
		}
	}
	err := e.submitMixed(ctx, f, parts, chunks, e.model.mixed[program])
	var all []outcome
	if err == nil {
		for i, p := range parts {
			if !p.Ends {
				chunks[i].cached = append(chunks[i].cached, p.Tokens...)
			}
		}
		all, err = e.model.collect(ctx, f)
	}
	if err == nil {
		e.measureMixed(program, tokens, time.Since(began))
	}
	// The number of steps in flight is measured again after a mixed step.
	e.collected = 0
	e.deliver(ctx, f.rows, all, err)
}

// plan chooses the parts of the next mixed run and its program, as an index of Model.mixed. slots has the slot of each
// part. The parts fill the program if there are enough tokens, because it takes nearly as long for fewer.
func (e *engine) plan(rows []*slot) (parts []llm.Part, slots []*slot, program int) {
	m, wanted := e.model, 0 // wanted counts tokens of prompts that the run could prefill
	// add adds a part of at most limit tokens.
	add := func(s *slot, limit int) {
		begin, text := len(s.cached), s.answer.text
		n := min(untilImage(text[begin:]), limit)
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
	// As many tokens as the device computes in maxMixedTime, but at least one of a prompt for each answer.
	budget := min(len(rows)+wanted, max(m.mixed[e.largestMixed()].rows, 2*len(rows)))
	program = slices.IndexFunc(m.mixed, func(p sizedProgram) bool { return budget <= p.rows })
	if program < 0 {
		program = len(m.mixed) - 1
	}
	left := min(budget, m.mixed[program].rows) - len(rows) // tokens of the run for prompts
	next := e.nextPrompt
	for i := range e.slots {
		at := (next + i) % len(e.slots)
		s := &e.slots[at]
		n := min(left, m.part, llm.RoomFor(m.mixed[program].rows, parts))
		if n == 0 {
			break
		}
		if s.mixes() {
			add(s, n)
			left -= len(parts[len(parts)-1].Tokens)
			e.nextPrompt = at + 1
		}
	}
	return parts, slots, program
}

// largestMixed returns the index of the largest mixed program that runs in maxMixedTime, as far as is known. A program
// that has not run yet is expected to take as much time a row as the next smaller one.
func (e *engine) largestMixed() (largest int) {
	mixed := e.model.mixed
	for i := range len(mixed) - 1 {
		if e.mixedTimes[i] == 0 {
			break
		}
		t := e.mixedTimes[i] * time.Duration(mixed[i+1].rows) / time.Duration(mixed[i].rows)
		if known := e.mixedTimes[i+1]; known > 0 {
			t = min(t, known)
		}
		if t > maxMixedTime {
			break
		}
		largest = i + 1
	}
	return largest
}

// measureMixed updates the time of a mixed program by a run of that many tokens, which took the time `took`. It ignores
// a run that leaves more than an eighth of its program empty, because that says little about full runs. Other work can
// delay a run, so a longer time than before raises the program's time by a twentieth at most.
func (e *engine) measureMixed(program, tokens int, took time.Duration) {
	if tokens < e.model.mixed[program].rows/8*7 {
		return
	}
	if known := e.mixedTimes[program]; known > 0 {
		took = min(took, known+known/20)
	}
	e.mixedTimes[program] = took
}

// submitMixed submits a run for parts of the texts in slots. It makes the inputs of the program: the rows of the
// parts, position offsets, adapter scales and tables of pages. f has a row for each part that has logits, in order.
func (e *engine) submitMixed(ctx context.Context, f *pendingStep, parts []llm.Part, slots []*slot,
	program sizedProgram) error {
	m, in, of := e.model, vkc.Tensors{}, llm.InputsOf(parts)
	rows := len(of.Rows) / 4 // a row is described by four numbers
	err := errors.Join(addInput(in, "rows", of.Rows, rows, 4), addInput(in, "single", of.Single, len(of.Single)/3, 3),
		addInput(in, "runs", of.Tiles, len(of.Tiles)/3, 3), addInput(in, "ends", of.Ends, len(of.Ends)))
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
