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
// another. Several steps may be in flight: see flight.
//
// A slow reader never delays a step: decoded tokens are queued without a limit except the context's length.
type engine struct {
	model *Model
	slots []slot // used by the engine's goroutine only
	steps int    // so far

	spare []int32 // free pages, if texts share pages

	flights     []*flight     // steps in flight, oldest first
	collected   int           // steps collected since an answer last joined or left the batch
	collectedAt time.Time     // when the last steps were collected; zero if none were left in flight
	pace        time.Duration // duration of recent steps

	mu      sync.Mutex
	waiting []*answer // in the order of their calls
	running int
	taken   int // KV-cache positions in use by answers in progress
	reused  Reused
	closed  bool
	news    chan struct{} // holds an element if there may be work

	lanes chan struct{}      // see lanes
	stop  context.CancelFunc // cancels the run in progress
	ended chan struct{}      // is closed when no step runs any more
}

// answer is a call of Generate in an engine.
type answer struct {
	ctx context.Context
	// The engine's goroutine owns the fields below.
	text    []int32 // the prompt and the answer so far
	made    int     // number of tokens generated
	chooser *chooser
	decoder *tokenizer.Decoder
	given   bool         // whether there are tokens that the caller does not know of yet
	waits   *outcome     // the last step's outcome, if its mask is not known yet; else nil
	scorer  *loadedExtra // scores the tokens of a text without decoding; or nil

	mu    sync.Mutex
	known int     // prompt tokens that were already in the cache; set when the answer begins
	ready []Token // tokens that the caller has not taken
	over  bool
	err   error         // the reason for an early end; nil after a regular end
	more  chan struct{} // holds an element if there may be a token to take
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

// newEngine starts the goroutine that runs all steps of a model. close ends it.
func newEngine(m *Model) *engine {
	ctx, stop := context.WithCancel(context.Background())
	e := &engine{model: m, slots: make([]slot, m.slotCount), news: make(chan struct{}, 1), stop: stop,
		lanes: lanes(), ended: make(chan struct{}), pace: ahead.First}
	for i := range e.slots {
		e.slots[i] = slot{model: m, at: int32(i)}
	}
	for page := range int32(m.pages) {
		e.spare = append(e.spare, page)
	}
	go e.run(ctx)
	return e
}

// close ends all answers, and returns when nothing runs any more.
func (e *engine) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.stop()
	signal(e.news)
	<-e.ended
}

func (e *engine) load() Load {
	e.mu.Lock()
	defer e.mu.Unlock()
	return Load{e.running, len(e.waiting), float64(e.taken) / float64(e.model.positions())}
}

func (e *engine) reusedSoFar() Reused {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reused
}

// begin submits an answer to the engine. The answer ends early when its context does.
func (e *engine) begin(a *answer) *answer {
	a.text, a.decoder, a.more = slices.Clone(a.text), e.model.tok.Decoder(), make(chan struct{}, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		a.end(errClosed)
		return a
	}
	e.waiting = append(e.waiting, a)
	signal(e.news)
	return a
}

// signal makes sure that news holds an element.
func signal(news chan struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}

// take waits for tokens of an answer, and returns them or the error that ended the answer. At the regular end of the
// answer tokens and err are nil. known is the number of prompt tokens found in the KV cache.
func (a *answer) take() (tokens []Token, known int, err error) {
	for {
		if err := a.ctx.Err(); err != nil {
			return nil, 0, err
		}
		a.mu.Lock()
		ready, known, over, err := a.ready, a.known, a.over, a.err
		a.ready = nil
		a.mu.Unlock()
		switch {
		case len(ready) > 0:
			return ready, known, nil
		case over:
			return nil, known, err
		}
		select {
		case <-a.more:
		case <-a.ctx.Done():
		}
	}
}

// give queues a token for the caller of Generate. engine.tell wakes the caller.
func (a *answer) give(t Token) {
	a.mu.Lock()
	a.ready = append(a.ready, t)
	a.mu.Unlock()
	a.given = true
}

// tell wakes the callers of answers with new tokens.
func (e *engine) tell() {
	for i := range e.slots {
		if a := e.slots[i].of; a != nil && a.given {
			a.given = false
			signal(a.more)
		}
	}
}

func (a *answer) end(err error) {
	a.mu.Lock()
	a.over, a.err = true, err
	a.mu.Unlock()
	signal(a.more)
}

// run executes steps while an answer can continue.
func (e *engine) run(ctx context.Context) {
	defer close(e.ended)
	for {
		e.mu.Lock()
		e.leave()
		e.join()
		e.taken = 0
		for i := range e.slots {
			if s := &e.slots[i]; s.of != nil {
				e.taken += len(s.past)
			}
		}
		closed, idle := e.closed, !e.goesOn()
		e.mu.Unlock()
		switch {
		case closed:
			e.forget()
			return
		case idle:
			e.forget()
			<-e.news
		default:
			e.step(ctx)
			e.tell()
		}
	}
}

// goesOn reports whether at least one answer can continue without waiting for its mask.
func (e *engine) goesOn() bool {
	return slices.ContainsFunc(e.slots, func(s slot) bool {
		return s.of != nil && (s.of.waits == nil || s.of.chooser.known())
	})
}

// leave frees the slots of answers with a canceled context, or all slots when the engine closes.
func (e *engine) leave() {
	for i := range e.slots {
		switch s := &e.slots[i]; {
		case s.of == nil:
		case e.closed:
			e.free(s, errClosed)
		case s.of.ctx.Err() != nil:
			e.free(s, s.of.ctx.Err())
		}
	}
	waiting := e.waiting
	e.waiting = nil
	for _, a := range waiting {
		switch {
		case e.closed:
			a.end(errClosed)
		case a.ctx.Err() == nil:
			e.waiting = append(e.waiting, a)
		}
	}
}

// free ends the answer of a slot.
func (e *engine) free(s *slot, err error) {
	s.of.end(err)
	if scorer := s.of.scorer; scorer != nil && scorer.alone {
		s.keep(0) // its tokens are in the scorer's cache
	}
	s.of, s.since = nil, e.steps
	e.running--
}

// join assigns free slots to waiting answers. An answer gets the slot that has cached the longest prefix of its prompt,
// and among equals the one that was released first. With paged KV the first waiting answer gets a slot only when there
// are enough pages for it. The answers after it wait too.
func (e *engine) join() {
	for len(e.waiting) > 0 && e.running < len(e.slots) {
		a := e.waiting[0]
		var best *slot
		most := 0
		for i := range e.slots {
			s := &e.slots[i]
			if s.of != nil {
				continue
			}
			known := 0
			if a.scorer == nil {
				known = s.known(a.text)
			}
			if best == nil || known > most || known == most && s.since < best.since {
				best, most = s, known
			}
		}
		if e.model.pages > 0 && !e.provide(best, a.pages(e.model.context)) {
			return
		}
		e.waiting = e.waiting[1:]
		best.keep(most)
		if a.scorer == nil {
			e.reused.Tokens += len(a.text)
			e.reused.Known += most
			a.mu.Lock()
			a.known = most
			a.mu.Unlock()
		}
		best.of, best.since = a, e.steps
		e.running++
		if a.chooser != nil && a.chooser.text != nil {
			a.chooser.begin(a.ctx, -1, e.lanes, e.news)
		}
	}
}

// step submits the next decoding step of the answers with a prefilled prompt. Then it prefills a part of one other
// prompt; the prompts take turns.
func (e *engine) step(ctx context.Context) {
	e.steps++
	e.resume(ctx)
	var rows []*slot
	var prompt *slot
	reads := func(s *slot) bool { // after accepted guesses, no token may be left
		return s.of != nil && len(s.of.text)-len(s.past) > 1
	}
	for i := range e.slots {
		if s := &e.slots[i]; s.of != nil && s.of.waits == nil && !reads(s) {
			rows = append(rows, s)
		}
		if s := &e.slots[(i+e.steps)%len(e.slots)]; reads(s) {
			prompt = s
		}
	}
	for _, s := range rows {
		if len(e.flights) > 0 || !s.full() {
			continue
		}
		if err := s.forget(ctx); err != nil {
			e.fail(ctx, err)
			return
		}
	}
	switch {
	case len(rows) == 0:
		e.forget()
	case e.model.drafts != nil:
		one, err := rows[0].next(ctx, rows[0].of.text)
		e.after(ctx, rows, []outcome{one}, err)
	default:
		e.advance(ctx, rows)
	}
	if prompt == nil || prompt.of == nil { // the prompt's answer has failed with the step
		return
	}
	most := e.model.partFor(len(prompt.of.text) - len(prompt.past))
	if len(rows) > 0 { // every row waits for the prompt's part
		most = e.model.prompts[0].rows
	}
	text, next, err := prompt.of.text, outcome{}, error(nil)
	if prompt.of.scorer != nil {
		text = text[:len(text)-1] // nothing follows the last token
		err = prompt.score(ctx, most)
	} else {
		next.logits, err = prompt.readPart(ctx, text, most)
	}
	if err != nil || len(prompt.past) == len(text) {
		e.after(ctx, []*slot{prompt}, []outcome{next}, err)
	}
}

// advance submits another step for rows, unless enough steps are in flight, and then processes the oldest step's
// outcome. If the batch changed, it first collects the steps in flight.
func (e *engine) advance(ctx context.Context, rows []*slot) {
	var last *flight
	flying := len(e.flights)
	if flying > 0 {
		last = e.flights[flying-1]
	}
	depth := e.depth(rows)
	if flying > 0 && e.stops(rows, flying) {
		depth = 0 // the step would be one too many
	}
	if flying < depth && (last == nil || e.model.goesOn(last, rows)) {
		f := newFlight(rows)
		if last != nil {
			f = &flight{rows: last.rows, answers: last.answers}
		} else {
			e.collected = 0
		}
		more := ahead.SubmitsTogether(flying, depth) && !e.stops(rows, flying+1)
		if err := e.model.submit(ctx, f, flying, last, more); err != nil {
			e.fail(ctx, err)
			return
		}
		if e.flights = append(e.flights, f); len(e.flights) < depth {
			return
		}
	}
	e.collectOldest(ctx)
}

// depth returns the number of steps of these rows that may be in flight.
func (e *engine) depth(rows []*slot) int {
	for _, s := range rows {
		if s.of.chooser.needsLogits() {
			return 1
		}
	}
	if e.model.ahead > 0 {
		return e.model.ahead
	}
	depth := ahead.Depth(e.pace, e.collected)
	if len(rows) < e.model.slotCount {
		depth = min(depth, ahead.JoinDepth(e.collected))
	}
	return depth
}

// stops reports whether no step may follow the steps in flight: all answers end with them, or one answer needs a
// context shift first. flying is their number. An answer that ends earlier than others stays in their steps; its
// results are ignored.
func (e *engine) stops(rows []*slot, flying int) bool {
	all := true
	for _, s := range rows {
		if e.model.shift != nil && len(s.of.text)+flying >= e.model.context {
			return true
		}
		all = all && s.of.ends(flying, e.model.context)
	}
	return all
}

// collectOldest collects the oldest steps in flight, waiting only for the last of them, and continues their answers.
func (e *engine) collectOldest(ctx context.Context) {
	some := e.flights[:ahead.CollectAtOnce(len(e.flights))]
	e.collected += len(some)
	err := some[len(some)-1].wait(ctx)
	now := time.Now()
	if !e.collectedAt.IsZero() {
		e.pace = now.Sub(e.collectedAt) / time.Duration(len(some))
	}
	if e.collectedAt = now; len(some) == len(e.flights) {
		e.collectedAt = time.Time{}
	}
	for _, f := range some {
		e.flights = e.flights[1:]
		var all []outcome
		if err == nil {
			all, err = e.model.collect(ctx, f)
		}
		if err != nil {
			f.close()
			break
		}
		var there []*slot
		var next []outcome
		for i, s := range f.rows {
			if s.of == f.answers[i] {
				there, next = append(there, s), append(next, all[i])
			}
		}
		e.after(ctx, there, next, nil)
	}
	if err != nil {
		e.fail(ctx, err)
	}
}

// ends reports whether an answer certainly ends, or needs a context shift, within the given number of further tokens.
func (a *answer) ends(more, context int) bool {
	most := a.chooser.sampling.MaxTokens
	return most > 0 && a.made+more >= most || len(a.text)+more >= context
}

// forget drops the steps in flight without collecting their results.
func (e *engine) forget() {
	for _, f := range e.flights {
		f.close()
	}
	e.flights, e.collectedAt = nil, time.Time{}
}

// after continues the answers of slots with the outcomes of a step, next[i] for slots[i]. An error of the step ends all
// answers. It may come from an earlier, asynchronous run, so the contents of all slots are unknown then.
func (e *engine) after(ctx context.Context, slots []*slot, next []outcome, err error) {
	if err != nil {
		e.fail(ctx, err)
		return
	}
	over, errs := make([]bool, len(slots)), make([]error, len(slots))
	var all sync.WaitGroup
	for i, s := range slots {
		if s.of.scorer == nil && !s.of.chooser.known() {
			s.of.waits = &next[i]
			continue
		}
		choose := func() { over[i], errs[i] = e.choose(ctx, s.of, next[i]) }
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
			e.free(s, errs[i])
		}
	}
}

// resume continues the answers that waited for a mask that is now known.
func (e *engine) resume(ctx context.Context) {
	var slots []*slot
	var next []outcome
	for i := range e.slots {
		s := &e.slots[i]
		if a := s.of; a != nil && a.waits != nil && a.chooser.known() {
			slots, next = append(slots, s), append(next, *a.waits)
			a.waits = nil
		}
	}
	if len(slots) > 0 {
		e.after(ctx, slots, next, nil)
	}
}

// fail ends all answers with an error, and drops the contents of all slots.
func (e *engine) fail(ctx context.Context, err error) {
	if ctx.Err() != nil {
		err = errClosed
	}
	e.forget()
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.slots {
		s := &e.slots[i]
		if s.keep(0); s.of != nil {
			e.free(s, err)
		}
	}
}

// choose adds a token to an answer, and reports whether it is complete.
func (e *engine) choose(ctx context.Context, a *answer, next outcome) (over bool, err error) {
	m, c := e.model, a.chooser
	if a.scorer != nil || c.next != nil && c.next.full { // the mask became known too late for the last token
		return true, nil
	}
	token, err := c.choose(ctx, next, a.text)
	if err != nil {
		return true, err
	}
	if m.tok.IsEnd(token.ID) {
		if token.Text = a.decoder.Flush(); token.Text != "" || token.Odds != nil {
			a.give(token)
		}
		return true, nil
	}
	a.made++
	token.Text = a.decoder.Next(token.ID)
	last := a.made == c.sampling.MaxTokens || len(a.text)+1 >= m.context && m.shift == nil
	if !last && c.text != nil {
		c.begin(a.ctx, token.ID, e.lanes, e.news)
		last = c.known() && c.next.full
	}
	if last {
		token.Text += a.decoder.Flush()
	}
	a.text = append(a.text, token.ID)
	a.give(token)
	return last, nil
}
