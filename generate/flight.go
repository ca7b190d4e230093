package generate

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/grammar"
)

// outcome is a step's result for one sequence: the next token, or the logits.
type outcome struct {
	token  int32 // -1 if logits were NaN
	chosen bool
	logits []float32 // nil if not needed
	mu     float32   // of Mirostat, for the next token
}

// pendingStep is a submitted step whose tokens were not read back yet. The next step reads them on the device.
type pendingStep struct {
	rows    []*slot
	answers []*answer // the rows' answers at the time of submission
	counts  []int     // how many tokens of each row's text it computes
	onHost  []bool    // whether the host chooses the row's token
	tokens  []int32   // nil until they are read back
	mus     []float32 // of Mirostat; nil until they are read back, or without it

	// On the device, a row for each of rows; nil where not needed.
	token  *vkc.DeviceTensor // the chosen tokens
	top    *vkc.DeviceTensor // the largest logits, NaN if a logit is NaN
	recent *vkc.DeviceTensor // the texts' last tokens, including the chosen ones
	logits *vkc.DeviceTensor
	mu     *vkc.DeviceTensor // of Mirostat, for the next tokens
}

// close frees the step's results.
func (f *pendingStep) close() {
	for _, t := range []*vkc.DeviceTensor{f.token, f.top, f.recent, f.logits, f.mu} {
		t.Close() // retires it, which cannot fail
	}
}

// newPendingStep returns a step of one token of each of these slots, not submitted yet.
func newPendingStep(rows []*slot) *pendingStep {
	f := &pendingStep{}
	for _, s := range rows {
		f.add(s, 1)
	}
	return f
}

// add adds a row to a step that is not submitted yet, for the next tokens of a slot.
func (f *pendingStep) add(s *slot, count int) {
	f.rows, f.answers, f.counts = append(f.rows, s), append(f.answers, s.answer), append(f.counts, count)
}

// canFollow reports whether a step of rows can follow step f on the device, without the host. The following step
// computes all rows of f, so rows must be these, in order. Only a row with an answer that has ended may be missing, if
// its slot is idle and has a free position: its results are ignored. canFollow returns false if a smaller program fits
// rows.
func (m *Model) canFollow(f *pendingStep, rows []*slot) bool {
	if m.stepOf(len(rows), m.context) != m.stepOf(len(f.rows), m.context) {
		return false
	}
	for i, s := range f.rows {
		switch {
		case len(rows) > 0 && rows[0] == s && s.answer == f.answers[i]:
			rows = rows[1:]
		case s.answer != nil || len(s.cached) >= s.capacity():
			return false // the slot has another answer, which is not in the batch, or no position for the row's token
		}
	}
	return len(rows) == 0
}

// stepKeeps lists the outputs of a step. All of them stay on the device.
var stepKeeps = []string{"logits", "likeliest", "top"}

// submit submits step f for its rows. inFlight is the number of steps in flight for the same rows, and last is the
// latest of these, or nil. more says that the caller submits another step immediately after this one.
func (m *Model) submit(ctx context.Context, f *pendingStep, inFlight int, last *pendingStep, more bool) error {
	in, length, err := m.stepInputs(f, inFlight, last)
	if err != nil {
		return err
	}
	o := vkc.RunOptions{Keep: stepKeeps, More: more || f.choosesAtOnce()}
	if last != nil { // its tokens are still on the device
		o.Inputs = map[string]*vkc.DeviceTensor{"tokens": last.token}
	}
	if m.slotCount == 1 { // the program of one slot has a symbol for the length
		o.Symbols = map[string]int64{"S": int64(length)}
	}
	res, err := m.stepOf(len(f.rows), length).Run(ctx, in, o)
	if err != nil {
		return err
	}
	return m.chooseOnDevice(ctx, f, res, inFlight, last, more)
}

// stepInputs returns the inputs of step f that come from the host, and the length of its longest sequence. The tokens
// are not among them if f follows last, which has them on the device. See submit for the arguments.
func (m *Model) stepInputs(f *pendingStep, inFlight int, last *pendingStep) (in vkc.Tensors, length int, err error) {
	var tokens, texts, positions, pages, offsets []int32 // inputs of the step; texts are the indexes of slots
	var scales []float32
	for i, s := range f.rows {
		a := f.answers[i]
		at := len(s.cached)
		if s.answer == a { // else the answer has ended, and the results of this row are ignored
			at += inFlight
		}
		at = min(at, s.capacity()-1) // an answer that ended earlier would pass the end of its slot
		s.wrote(at + 1)
		length = max(length, at+1)
		texts, positions = append(texts, s.index), append(positions, int32(at))
		if m.pages > 0 {
			pages = append(pages, s.pageTable()...)
		}
		scales = append(scales, a.scales...)
		offsets = append(offsets, ropeOffset(a.images, at))
		if last == nil {
			tokens = append(tokens, a.text[at])
		}
	}
	in, n := vkc.Tensors{}, len(f.rows)
	if last == nil {
		err = addInput(in, "tokens", tokens, n)
	}
	var axis []int // the axis of the rows, which the program of a single slot does not have
	if m.slotCount > 1 {
		axis = []int{n}
		err = errors.Join(err, addInput(in, "texts", texts, n), addInput(in, "positions", positions, n))
	}
	err = errors.Join(err, m.addScales(in, scales, axis...))
	if m.pages > 0 {
		err = errors.Join(err, addInput(in, "pages", pages, n, len(pages)/n))
	}
	if m.hasOffsets() {
		err = errors.Join(err, addInput(in, llm.OffsetInput, offsets, axis...))
	}
	return in, length, err
}

// choosesAtOnce reports whether the host submits a sampler of the step's tokens immediately after the step. It does not
// if an answer has a guide, because it then waits for the answer's mask while the step runs.
func (f *pendingStep) choosesAtOnce() bool {
	samples := slices.ContainsFunc(f.answers, func(a *answer) bool { return a.chooser.sampling.samples() })
	guided := slices.ContainsFunc(f.answers, func(a *answer) bool { return a.chooser.guide != nil })
	return samples && !guided
}

// chooseOnDevice keeps the results of step f, and submits the choice of its tokens. See submit for the arguments.
func (m *Model) chooseOnDevice(ctx context.Context, f *pendingStep, res *vkc.Result, inFlight int, last *pendingStep,
	more bool) error {
	m.count(Speculated{Steps: 1})
	f.token, f.top, f.logits = res.Kept["likeliest"], res.Kept["top"], res.Kept["logits"]
	draws, masks, reads := false, false, false // whether a row needs the sampler, the masker, logits on the host
	for _, a := range f.answers {
		c := a.chooser
		onHost := c.choosesOnHost()
		f.onHost = append(f.onHost, onHost)
		draws = draws || !onHost && c.sampling.samples()
		masks = masks || !onHost && c.next != nil && c.next.mask != nil
		reads = reads || onHost || c.sampling.Logprobs
	}
	logits, err := f.logits, error(nil)
	if masks {
		if logits, err = m.maskOnDevice(ctx, f, more || draws); err == nil {
			defer logits.Close() // retires it, which cannot fail
		}
	}
	if draws && err == nil {
		err = m.sampleOnDevice(ctx, f, logits, inFlight, last, more)
	}
	if err != nil {
		f.close()
		return err
	}
	if !reads {
		f.logits.Close()
		f.logits = nil
	}
	return nil
}

// appendMask appends a mask as words of the device, which reads each uint64 as two uint32, the low one first. Tokens
// after the end of the mask are not allowed.
func appendMask(list []uint32, mask grammar.Mask, words int) []uint32 {
	for w := range words {
		word := uint64(0)
		if w/2 < len(mask) {
			word = mask[w/2]
		}
		list = append(list, uint32(word>>(w%2*llm.MaskWord)))
	}
	return list
}

// maskOnDevice applies the masks of the rows of step f. It returns the masked logits; their likeliest tokens become the
// tokens of f. more says that another submission follows at once.
func (m *Model) maskOnDevice(ctx context.Context, f *pendingStep, more bool) (*vkc.DeviceTensor, error) {
	words := llm.MaskWords(m.config.Vocab)
	masks := make([]uint32, 0, len(f.rows)*words)
	for i, a := range f.answers {
		if f.onHost[i] || a.chooser.next == nil || a.chooser.next.mask == nil {
			masks = append(masks, slices.Repeat([]uint32{math.MaxUint32}, words)...) // all tokens are allowed
		} else {
			masks = appendMask(masks, a.chooser.next.mask, words)
		}
	}
	in := vkc.Tensors{}
	if err := addInput(in, "masks", masks, len(f.rows), words); err != nil {
		return nil, err
	}
	p, err := m.extra(ctx, masker)
	if err != nil {
		return nil, err
	}
	res, err := p.run(ctx, m, in, vkc.RunOptions{Inputs: map[string]*vkc.DeviceTensor{"logits": f.logits},
		Keep: stepKeeps, More: more})
	if err != nil {
		return nil, err
	}
	f.token.Close()
	f.top.Close()
	f.token, f.top = res.Kept["likeliest"], res.Kept["top"]
	return res.Kept["logits"], nil
}

// sampleOnDevice samples the tokens of step f on the device, from its logits. They replace the likeliest tokens, which
// are an output of the step itself. So it is not needed if all rows take their likeliest tokens.
func (m *Model) sampleOnDevice(ctx context.Context, f *pendingStep, logits *vkc.DeviceTensor, inFlight int,
	last *pendingStep, more bool) error {
	var list []sampleRequest
	for i, s := range f.rows {
		a := f.answers[i]
		c := a.chooser
		position := len(s.cached) + inFlight + f.counts[i] + c.forgotten // of the sampled token
		q := sampleRequest{Sampling: c.sampling, text: a.text, position: position, mu: c.mu}
		if !f.onHost[i] { // the host adds biases itself
			q.biases = c.biases(inFlight)
		}
		list = append(list, q)
	}
	res, err := m.sampleAll(ctx, list, nil, logits, last, more)
	if err != nil {
		return err
	}
	f.token.Close()
	f.top.Close()
	f.token, f.top, f.recent, f.mu = res.Kept["token"], res.Kept["top"], res.Kept["last"], res.Kept["next_mu"]
	return nil
}

// wait waits for a step and reads its tokens.
func (f *pendingStep) wait(ctx context.Context) (err error) {
	if f.tokens != nil {
		return nil
	}
	if f.mu != nil {
		if f.mus, err = readValues[float32](ctx, f.mu); err != nil {
			return err
		}
	}
	f.tokens, err = tokensOf(ctx, f.token, f.top)
	return err
}

// outcome returns a row's outcome without logits, after wait.
func (f *pendingStep) outcome(row int) outcome {
	one := outcome{token: f.tokens[row], chosen: true}
	if f.mus != nil {
		one.mu = f.mus[row]
	}
	return one
}

// collect waits for a step and returns the outcome of each row. If the answer of a row has ended since the step was
// submitted, the caller ignores the outcome, and the next sequence in the slot overwrites its keys and values.
func (m *Model) collect(ctx context.Context, f *pendingStep) ([]outcome, error) {
	defer f.close()
	if err := f.wait(ctx); err != nil {
		return nil, err
	}
	all, needs := make([]outcome, len(f.rows)), make([]bool, len(f.rows))
	for i, s := range f.rows {
		all[i] = f.outcome(i)
		all[i].chosen = !f.onHost[i]
		if s.answer == f.answers[i] { // the answer has not ended: the step has cached further tokens of it
			s.cached = append(s.cached, s.answer.text[len(s.cached):][:f.counts[i]]...)
			needs[i] = f.onHost[i] || s.answer.chooser.sampling.Logprobs
		}
	}
	return all, m.addLogits(ctx, f, all, needs)
}

// addLogits reads the logits of the rows of step f that need them, and adds them to the outcomes. It reads successive
// rows at once, because a wait for the device costs more time than the copy of a row.
func (m *Model) addLogits(ctx context.Context, f *pendingStep, all []outcome, needs []bool) error {
	vocabulary := m.config.Vocab
	for first := 0; first < len(all); first++ {
		end := first
		for end < len(all) && needs[end] {
			end++
		}
		if end == first {
			continue
		}
		logits, err := m.readLogits(ctx, f.logits, first, end)
		if err != nil {
			return err
		}
		for i := range end - first {
			all[first+i].logits = logits[i*vocabulary : (i+1)*vocabulary]
		}
		first = end // row end needs no logits, so the loop goes on after it
	}
	return nil
}

// readLogits reads the rows from first up to end of a step's logits.
func (m *Model) readLogits(ctx context.Context, logits *vkc.DeviceTensor, first, end int) ([]float32, error) {
	row := 1
	if m.slotCount == 1 {
		row = m.config.Vocab // the only axis
	}
	rows, err := logits.ReadRows(ctx, first*row, (end-first)*row)
	if err != nil {
		return nil, err
	}
	return vkc.Values[float32](rows)
}

// stepAll decodes one token of the text in each slot and waits for the outcomes.
func (m *Model) stepAll(ctx context.Context, rows []*slot) ([]outcome, error) {
	f := newPendingStep(rows)
	if err := m.submit(ctx, f, 0, nil, false); err != nil {
		return nil, err
	}
	return m.collect(ctx, f)
}
