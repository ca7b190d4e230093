package generate

import (
	"context"
	"time"
)

// maxPromptTime is the initial engine.promptTime. Longer parts of prompts are faster, and shorter ones make texts flow
// more evenly.
const maxPromptTime = 50 * time.Millisecond

// needsPrefill reports whether the slot's answer has more than its last token to compute.
func (s *slot) needsPrefill() bool { // after accepted guesses, no token may be left
	return s.answer != nil && len(s.answer.text)-len(s.cached) > 1
}

// prefillPrompts prefills parts of prompts. The slots take turns: e.nextPrompt is the first slot of the next call.
//
//   - If no answer is running, it prefills one part of one prompt.
//   - If answers are running, they wait meanwhile. So it prefills parts of several prompts for at most about
//     e.promptTime. The time that is left bounds the size of a part.
//
// mixed says that mixed runs prefill the prompts of answers. Then only scored texts are left for prefillPrompts.
func (e *engine) prefillPrompts(ctx context.Context, running, mixed bool) {
	start, next := time.Now(), e.nextPrompt
	queued := time.Duration(len(e.pending)) * e.pace // the time of the steps in flight, before the first part
	for i := range e.slots {
		at := (next + i) % len(e.slots)
		s := &e.slots[at]
		if !s.needsPrefill() || mixed && s.mixes() {
			continue
		}
		e.nextPrompt = at + 1
		began, most := time.Now(), e.model.partFor(len(s.answer.text)-len(s.cached))
		if running { // only as many tokens as fit in the rest of e.promptTime
			most = min(most, e.promptTokens(e.promptTime-began.Sub(start)))
		}
		tokens, finished := e.prefillPart(ctx, s, most)
		e.collectedAt = time.Time{} // no step has taken the time since then
		if !finished {
			return // it runs asynchronously, or has failed
		}
		e.measurePrompt(tokens, time.Since(began)-queued)
		queued = 0
		if !running || time.Since(start) > e.promptTime/2 {
			return
		}
	}
}

// promptTokens returns the number of tokens that the device prefills in the given time. It rounds up to whole runs of
// the smallest program, because the rest of a prompt that nearly fits would otherwise need another run.
func (e *engine) promptTokens(t time.Duration) int {
	smallest := e.model.prompts[0].rows
	return max(int(e.promptRate*t.Seconds())+smallest-1, smallest) / smallest * smallest
}

// measurePrompt updates e.promptRate by the time of a part. A part that is smaller than its program, or is delayed,
// shows less than the device's rate. So a lower rate than before only lowers e.promptRate by a twentieth.
func (e *engine) measurePrompt(tokens int, took time.Duration) {
	const remembered = 0.95
	if took > 0 {
		e.promptRate = max(float64(tokens)/took.Seconds(), remembered*e.promptRate)
	}
}

// prefillPart prefills the next part of a slot's prompt, of at most limit tokens, and returns their number. If they are
// the last ones, it waits for them, gives the outcome to the answer, and reports that the prompt is finished.
func (e *engine) prefillPart(ctx context.Context, s *slot, limit int) (tokens int, finished bool) {
	text, before, next, err := s.answer.text, len(s.cached), outcome{}, error(nil)
	if s.answer.scorer != nil {
		text = text[:len(text)-1] // nothing follows the last token
		err = s.score(ctx, limit)
	} else {
		next.logits, err = s.prefillPart(ctx, text, limit)
	}
	tokens = len(s.cached) - before
	finished = err == nil && len(s.cached) == len(text)
	if finished || err != nil {
		e.deliver(ctx, []*slot{s}, []outcome{next}, err)
	}
	return tokens, finished
}
