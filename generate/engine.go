package generate

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/internal/ahead"
)

// engine decodes many answers at once, in steps (continuous batching, Yu et al., "Orca", 2022). A step decodes one
// token of every running answer, and then prefills a part of one prompt (chunked prefill, Agrawal et al., "Sarathi",
// 2023), so that a long prompt does not delay answers. Answers join and leave between steps, so that none waits for
// another. Several steps may be in flight: see pendingStep.
//
// A slow reader never delays a step: decoded tokens are queued without a limit except the context's length.
type engine struct {
	model *Model
	slots []slot // used by the engine's goroutine only
	steps int    // so far

	freePages []int32 // pages of the KV cache that no slot has; nil without paging

	pending     []*pendingStep // steps in flight, oldest first
	collected   int            // steps collected since an answer last joined or left the batch
	collectedAt time.Time      // when the last steps were collected; zero if none were left in flight
	pace        time.Duration  // duration of recent steps
	promptTime  time.Duration  // how long running answers wait for the prefill of other prompts between two steps
	nextPrompt  int            // index of the slot that is the first to prefill its prompt
	promptRate  float64        // tokens of prompts that the device prefills in a second; 0 if not known

	mixedTimes []time.Duration // duration of a run of each of model.mixed; 0 if not known

	mu            sync.Mutex
	waiting       []*answer // in the order of their calls
	tasks         []slotTask
	described     []SlotInfo // of the slots, as of the last step
	running       int
	usedPositions int // KV-cache positions in use by answers in progress
	reused        Reused
	closed        bool
	wake          chan struct{} // holds an element if the engine may have work

	maskSlots chan struct{}      // see newMaskSlots
	stop      context.CancelFunc // cancels the run in progress
	ended     chan struct{}      // is closed when no step runs any more
}

// answer is a call of Generate or Score in an engine.
type answer struct {
	ctx context.Context
	// The engine's goroutine owns the fields below.
	text         []int32 // the prompt and the answer so far; tokens below 0 are of pictures
	images       []placedImage
	scales       []float32 // of the model's adapters
	generated    int       // number of tokens generated
	chooser      *chooser
	decoder      *tokenizer.Decoder
	hasNews      bool         // whether tokens were queued since wakeReaders ran
	awaitingMask *outcome     // the last step's outcome while the answer waits for its mask; else nil
	scorer       *loadedExtra // the program of Model.Score, which scores the text; nil for an answer of Generate

	mu           sync.Mutex
	cachedPrompt int     // prompt tokens that were already in the cache; set when the answer begins
	ready        []Token // tokens that the caller has not taken
	ended        bool
	err          error         // the reason for an early end; nil after a regular end
	wake         chan struct{} // holds an element if a token may be ready
}

// Load is the current load of a model.
type Load struct {
	Running int // answers in progress on the device
	Waiting int // answers that wait for a slot
	// Cache is the used fraction of the KV cache: 0 to 1.
	Cache float64
}

// Reused counts tokens of the prompts of started answers.
type Reused struct {
	Tokens int // of all these prompts
	Known  int // tokens found in the KV cache
}

var errClosed = errors.New("generate: the model is closed")

// startEngine starts the goroutine that runs all steps of a model. close ends it.
func startEngine(m *Model) *engine {
	ctx, stop := context.WithCancel(context.Background())
	e := newEngine(m)
	e.stop = stop
	go e.run(ctx)
	return e
}

// newEngine returns an engine that is not running.
func newEngine(m *Model) *engine {
	e := &engine{model: m, slots: make([]slot, m.slotCount), wake: make(chan struct{}, 1), maskSlots: newMaskSlots(),
		ended: make(chan struct{}), pace: ahead.First, promptTime: maxPromptTime,
		mixedTimes: make([]time.Duration, len(m.mixed)), described: make([]SlotInfo, m.slotCount)}
	for i := range e.slots {
		e.slots[i] = slot{model: m, index: int32(i)}
	}
	for page := range int32(m.pages) {
		e.freePages = append(e.freePages, page)
	}
	return e
}

// close ends all answers, and returns when nothing runs any more.
func (e *engine) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.stop()
	notify(e.wake)
	<-e.ended
}

// load returns the current load, as the engine's goroutine last counted it.
func (e *engine) load() Load {
	e.mu.Lock()
	defer e.mu.Unlock()
	return Load{e.running, len(e.waiting), float64(e.usedPositions) / float64(e.model.positions())}
}

// reusedSoFar returns the counts of reused prompt tokens.
func (e *engine) reusedSoFar() Reused {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reused
}

// submit adds an answer to the waiting ones. The answer ends early when its context does.
func (e *engine) submit(a *answer) *answer {
	// The answer appends to its text.
	a.text, a.decoder, a.wake = slices.Clone(a.text), e.model.tok.Decoder(), make(chan struct{}, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		a.end(errClosed)
		return a
	}
	e.waiting = append(e.waiting, a)
	notify(e.wake)
	return a
}

// notify makes sure that the channel wake holds an element, without waiting.
func notify(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// take waits for tokens of an answer, and returns them, or the error that ended the answer. At the answer's regular
// end, tokens and err are nil. known is the number of the prompt's tokens that were found in the KV cache.
func (a *answer) take() (tokens []Token, known int, err error) {
	for {
		if err := a.ctx.Err(); err != nil {
			return nil, 0, err
		}
		a.mu.Lock()
		ready, known, over, err := a.ready, a.cachedPrompt, a.ended, a.err
		a.ready = nil
		a.mu.Unlock()
		switch {
		case len(ready) > 0:
			return ready, known, nil
		case over:
			return nil, known, err
		}
		select {
		case <-a.wake:
		case <-a.ctx.Done():
		}
	}
}

// queue adds a token to the ones that wait for the caller of Generate. engine.wakeReaders wakes the caller.
func (a *answer) queue(t Token) {
	a.mu.Lock()
	a.ready = append(a.ready, t)
	a.mu.Unlock()
	a.hasNews = true
}

// wakeReaders wakes the callers whose answers have new tokens.
func (e *engine) wakeReaders() {
	for i := range e.slots {
		if a := e.slots[i].answer; a != nil && a.hasNews {
			a.hasNews = false
			notify(a.wake)
		}
	}
}

// end marks an answer as ended, with the reason if it ended early, and wakes its caller.
func (a *answer) end(err error) {
	a.mu.Lock()
	a.ended, a.err = true, err
	a.mu.Unlock()
	notify(a.wake)
}

// run executes steps as long as an answer can continue, and otherwise waits for e.wake. Before it waits or ends, it
// drops steps in flight that no answer can use. It returns after the engine is closed.
func (e *engine) run(ctx context.Context) {
	defer close(e.ended)
	for {
		e.mu.Lock()
		e.dropCanceled()
		e.mu.Unlock()
		// Tasks run without e.mu, because they read and write the slots' states on the device.
		e.runTasks()
		e.mu.Lock()
		e.assignSlots()
		e.describeSlots()
		closed, idle := e.closed, !e.canStep()
		e.mu.Unlock()
		switch {
		case closed:
			e.dropPending()
			return
		case idle:
			e.dropPending()
			<-e.wake
		default:
			e.step(ctx)
			e.wakeReaders()
		}
	}
}

// describeSlots updates e.described and e.usedPositions, which other goroutines read. The caller holds e.mu.
func (e *engine) describeSlots() {
	e.usedPositions = 0
	for i := range e.slots {
		s := &e.slots[i]
		busy := s.answer != nil
		e.described[i] = SlotInfo{Tokens: len(s.cached), Busy: busy}
		if busy {
			e.usedPositions += len(s.cached)
		}
	}
}

// canStep reports whether at least one answer can continue without waiting for its mask.
func (e *engine) canStep() bool {
	return slices.ContainsFunc(e.slots, func(s slot) bool {
		return s.answer != nil && (s.answer.awaitingMask == nil || s.answer.chooser.known())
	})
}

// dropCanceled ends running and waiting answers with a canceled context, or all answers when the engine closes. The
// caller holds e.mu.
func (e *engine) dropCanceled() {
	for i := range e.slots {
		switch s := &e.slots[i]; {
		case s.answer == nil: // idle
		case e.closed:
			e.release(s, errClosed)
		case s.answer.ctx.Err() != nil:
			e.release(s, s.answer.ctx.Err())
		}
	}
	waiting := e.waiting
	e.waiting = nil
	for _, a := range waiting {
		switch {
		case e.closed:
			a.end(errClosed)
		case a.ctx.Err() == nil: // else its caller sees that in answer.take
			e.waiting = append(e.waiting, a)
		}
	}
}

// release ends the answer of a slot with err, and makes the slot idle. Its cached tokens stay, for reuse by a later
// prompt.
func (e *engine) release(s *slot, err error) {
	s.answer.end(err)
	if scorer := s.answer.scorer; scorer != nil && scorer.alone {
		s.truncate(0) // its tokens are in the scorer's cache
	}
	s.answer, s.lastUse = nil, e.steps
	e.running--
}

// assignSlots assigns idle slots to waiting answers, in the order of their calls. With paged KV the first waiting
// answer gets a slot only when there are enough pages for it. The answers after it wait too. The caller holds e.mu.
func (e *engine) assignSlots() {
	for len(e.waiting) > 0 && e.running < len(e.slots) {
		a := e.waiting[0]
		s, known := e.idleSlotFor(a)
		if s == nil {
			return // tasks wait for the idle slots
		}
		if e.model.pages > 0 && !e.reservePages(s, a.pages(e.model.context)) {
			return
		}
		e.waiting = e.waiting[1:]
		s.truncate(known)    // keep only what the new prompt has in common
		if a.scorer == nil { // statistics of answers only
			e.reused.Tokens += len(a.text)
			e.reused.Known += known
			a.mu.Lock()
			a.cachedPrompt = known
			a.mu.Unlock()
		}
		s.answer, s.lastUse, s.scales = a, e.steps, a.scales
		e.running++
		if a.chooser.guide != nil {
			a.chooser.beginMask(a.ctx, firstMask, e.maskSlots, e.wake)
		}
	}
}

// idleSlotFor returns the idle slot that has cached the longest prefix of an answer's prompt, and the length of this
// prefix in tokens. Among equals it returns the slot that was released first. It returns nil if tasks, such as
// SaveSlot, wait for all idle slots.
func (e *engine) idleSlotFor(a *answer) (best *slot, known int) {
	for i := range e.slots {
		s := &e.slots[i]
		if s.answer != nil || e.hasTask(i) {
			continue
		}
		prefix := 0 // a scored text needs the logits of all its tokens, so it reuses none
		if a.scorer == nil && slices.Equal(s.scales, a.scales) {
			prefix = s.reusable(a.text, a.images)
		}
		if best == nil || prefix > known || prefix == known && s.lastUse < best.lastUse {
			best, known = s, prefix
		}
	}
	return best, known
}

// step submits the next decoding step of the answers with a prefilled prompt. Then it prefills parts of prompts. If the
// model can do both in one run, it does.
func (e *engine) step(ctx context.Context) {
	e.steps++
	e.resume(ctx)
	rows := e.decodingSlots()
	if err := e.shiftContexts(ctx, rows); err != nil {
		e.fail(ctx, err)
		return
	}
	mixes := e.mixes(rows)
	switch {
	case len(rows) == 0:
		e.dropPending() // the answers of these steps have ended
	case mixes:
		e.mix(ctx, rows)
	case e.model.drafts != nil: // speculation, which has one slot
		one, err := rows[0].next(ctx, rows[0].answer.text)
		e.deliver(ctx, rows, []outcome{one}, err)
	default:
		e.advance(ctx, rows)
	}
	e.wakeReaders() // before the prompts' parts take their time
	e.prefillPrompts(ctx, len(rows) > 0, mixes)
}

// decodingSlots lists the slots with a prefilled prompt, except those that wait for a mask.
func (e *engine) decodingSlots() (list []*slot) {
	for i := range e.slots {
		if s := &e.slots[i]; s.answer != nil && s.answer.awaitingMask == nil && !s.needsPrefill() {
			list = append(list, s)
		}
	}
	return list
}

// shiftContexts shifts the contexts of rows that are full. It does nothing while steps are in flight, because these use
// the positions that a shift moves.
func (e *engine) shiftContexts(ctx context.Context, rows []*slot) error {
	if len(e.pending) > 0 {
		return nil
	}
	for _, s := range rows {
		if !s.needsShift() {
			continue
		}
		if err := s.shiftContext(ctx); err != nil {
			return err
		}
	}
	return nil
}

// advance submits the next step of rows, and then collects the oldest steps if enough are in flight. If no step may
// follow the steps in flight, because answers end or the batch has changed, it only collects.
func (e *engine) advance(ctx context.Context, rows []*slot) {
	inFlight, depth := len(e.pending), e.depth(rows)
	f := newPendingStep(rows)
	var last *pendingStep // the step before f
	if inFlight > 0 {
		last = e.pending[inFlight-1]
		if inFlight >= depth || e.stops(rows, inFlight) || !e.model.canFollow(last, rows) {
			e.collectOldest(ctx)
			return
		}
		// f reads the tokens of last on the device, so it needs the same rows.
		f = &pendingStep{rows: last.rows, answers: last.answers, counts: last.counts}
	} else {
		e.collected = 0
	}
	more := ahead.SubmitsTogether(inFlight, depth) && !e.stops(rows, inFlight+1)
	if err := e.model.submit(ctx, f, inFlight, last, more); err != nil {
		e.fail(ctx, err)
		return
	}
	e.pending = append(e.pending, f)
	if len(e.pending) >= depth {
		e.collectOldest(ctx)
	}
}

// depth returns the number of steps of these rows that may be in flight. It is 1 if the host must see the logits of a
// step before the next.
func (e *engine) depth(rows []*slot) int {
	for _, s := range rows {
		if s.answer.chooser.waits() {
			return 1
		}
	}
	// A number that the user gave replaces the measured one.
	if e.model.ahead > 0 {
		return e.model.ahead
	}
	depth := ahead.Depth(e.pace, e.collected)
	// A free slot may get an answer, which must wait for the steps in flight.
	if len(rows) < e.model.slotCount {
		depth = min(depth, ahead.JoinDepth(e.collected))
	}
	return depth
}

// stops reports whether no step may follow the inFlight steps in flight: all answers end with them, or one answer
// needs a context shift first. An answer that ends earlier than others stays in their steps; its results are ignored.
func (e *engine) stops(rows []*slot, inFlight int) bool {
	all := true
	for _, s := range rows {
		if e.model.shift != nil && len(s.answer.text)+inFlight >= e.model.context {
			return true
		}
		all = all && s.answer.ends(inFlight, e.model.context)
	}
	return all
}

// collectOldest collects the oldest steps in flight, waiting only for the last of them, and continues their answers.
func (e *engine) collectOldest(ctx context.Context) {
	oldest := e.pending[:ahead.CollectAtOnce(len(e.pending))]
	e.collected += len(oldest)
	err := oldest[len(oldest)-1].wait(ctx)
	e.measurePace(len(oldest))
	for _, f := range oldest {
		e.pending = e.pending[1:]
		var all []outcome
		if err == nil {
			all, err = e.model.collect(ctx, f)
		}
		if err != nil {
			f.close()
			break
		}
		var slots []*slot
		var next []outcome
		for i, s := range f.rows {
			if s.answer == f.answers[i] { // else the answer has ended meanwhile
				slots, next = append(slots, s), append(next, all[i])
			}
		}
		e.deliver(ctx, slots, next, nil)
	}
	if err != nil {
		e.fail(ctx, err)
	}
}

// measurePace updates e.pace after the oldest steps in flight have ended on the device. The time since the last
// collection is their duration only if they were in flight then.
func (e *engine) measurePace(ended int) {
	now := time.Now()
	if !e.collectedAt.IsZero() {
		e.pace = now.Sub(e.collectedAt) / time.Duration(ended)
	}
	e.collectedAt = now
	if ended == len(e.pending) {
		e.collectedAt = time.Time{}
	}
}

// ends reports whether an answer certainly ends, or needs a context shift, within the given number of further tokens.
func (a *answer) ends(more, context int) bool {
	most := a.chooser.sampling.MaxTokens
	return most > 0 && a.generated+more >= most || len(a.text)+more >= context
}

// dropPending drops the steps in flight without collecting their results.
func (e *engine) dropPending() {
	for _, f := range e.pending {
		f.close()
	}
	e.pending, e.collectedAt = nil, time.Time{}
}

// deliver gives the outcomes of a step to answers: next[i] to the answer of slots[i]. An answer waits in awaitingMask
// if its mask is not known. Tokens of several answers are chosen concurrently, because a choice on the host reads the
// whole vocabulary. An error of the step ends all answers and empties all slots: it may come from an earlier,
// asynchronous run, so the contents of the slots are unknown.
func (e *engine) deliver(ctx context.Context, slots []*slot, next []outcome, err error) {
	if err != nil {
		e.fail(ctx, err)
		return
	}
	over, errs := make([]bool, len(slots)), make([]error, len(slots))
	var all sync.WaitGroup
	for i, s := range slots {
		if s.answer.scorer == nil && !s.answer.chooser.known() {
			s.answer.awaitingMask = &next[i]
			continue
		}
		choose := func() { over[i], errs[i] = e.addToken(ctx, s.answer, next[i]) }
		if len(slots) == 1 {
			choose()
			continue
		}
		all.Go(choose)
	}
	all.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, s := range slots {
		if over[i] {
			e.release(s, errs[i])
		}
	}
}

// resume continues the answers that waited for a mask that is now known.
func (e *engine) resume(ctx context.Context) {
	var slots []*slot
	var next []outcome
	for i := range e.slots {
		s := &e.slots[i]
		if a := s.answer; a != nil && a.awaitingMask != nil && a.chooser.known() {
			slots, next = append(slots, s), append(next, *a.awaitingMask)
			a.awaitingMask = nil
		}
	}
	if len(slots) > 0 {
		e.deliver(ctx, slots, next, nil)
	}
}

// fail ends all answers with an error, and drops the contents of all slots.
func (e *engine) fail(ctx context.Context, err error) {
	if ctx.Err() != nil {
		err = errClosed // ctx ends when the engine closes
	}
	e.dropPending()
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.slots {
		s := &e.slots[i]
		s.truncate(0)
		if s.answer != nil {
			e.release(s, err)
		}
	}
}

// addToken chooses a token from the outcome of a step, appends it to the answer, and reports whether the answer is
// complete.
func (e *engine) addToken(ctx context.Context, a *answer, next outcome) (over bool, err error) {
	m, c := e.model, a.chooser
	if a.scorer != nil {
		return true, nil // a scored text gets no more tokens
	}
	if c.next != nil && c.next.grammarEnds { // this was not known yet when the last token was queued
		return true, nil
	}
	token, err := c.choose(ctx, next, a.text)
	if err != nil {
		return true, err
	}
	if m.tok.IsEnd(token.ID) {
		token.Text = a.decoder.Flush()
		if token.Text != "" || token.Odds != nil {
			a.queue(token)
		}
		return true, nil
	}
	a.generated++
	token.Text = a.decoder.Next(token.ID)
	contextEnds := len(a.text)+1 >= m.context && m.shift == nil
	last := a.generated == c.sampling.MaxTokens || contextEnds
	if !last && c.guide != nil {
		c.beginMask(a.ctx, token.ID, e.maskSlots, e.wake)
		last = c.known() && c.next.grammarEnds
	}
	if last {
		token.Text += a.decoder.Flush()
	}
	a.text = append(a.text, token.ID)
	a.queue(token)
	return last, nil
}
