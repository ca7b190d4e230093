package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/serve/reply"
)

// chatCompletions answers POST /v1/chat/completions.
func (s *Server) chatCompletions(w http.ResponseWriter, r *http.Request) error {
	// These fields belong to /v1/completions.
	q, err := s.readRequest(w, r, "prompt", "echo", "best_of")
	if err != nil {
		return err
	}
	j, err := s.chatJob(r.Context(), &q)
	if err == nil {
		err = q.logprobs(&j)
	}
	if err != nil {
		return err
	}
	return s.answer(w, r, &q, j, chatShape)
}

// chatJob returns the job of a request for chat/completions. Requests of other protocols for conversations are
// converted to such a request first.
func (s *Server) chatJob(ctx context.Context, q *request) (j job, err error) {
	t, err := readTools(q.Tools, q.ToolChoice, q.Parallel)
	if err != nil {
		return j, err
	}
	prompt, pictures, err := s.conversation(ctx, q, t)
	if err != nil {
		return j, err
	}
	if j, err = q.job(prompt); err != nil {
		return j, err
	}
	if err := s.setScales(&j, q.Model, q.Lora); err != nil {
		return j, err
	}
	j.tools, j.sampling.Images = t, pictures
	s.listen(&j, prompt)
	return j, nil
}

// listen sets how an answer to a conversation is split into content, reasoning and calls: j.form. It also sets
// j.thinking, whether the prompt ends within reasoning, and the limit of reasoning.
func (s *Server) listen(j *job, prompt []int32) {
	j.form = s.o.Form
	if j.form == nil {
		j.form = reply.FormOf(s.model.ChatTemplate())
	}
	open, end := j.form.ThinkMarks()
	tok, last := s.model.Tokenizer(), ""
	const most = 16 // tokens at the prompt's end: enough for a mark that opens reasoning
	for _, id := range prompt[max(0, len(prompt)-most):] {
		if id < 0 { // of a picture
			continue
		}
		if tok.IsSpecial(id) {
			last += tok.Token(id)
		} else {
			last += tok.Piece(id)
		}
	}
	j.thinking = strings.HasSuffix(strings.TrimRight(last, " \n"), open)
	// The request's limit of reasoning comes before the server's.
	limit := j.sampling.Reasoning.Tokens
	if limit == 0 {
		limit = s.o.ThinkTokens
	}
	if limit > 0 {
		j.sampling.Reasoning = generate.Reasoning{Tokens: limit, Open: open, Close: end}
		if j.thinking {
			j.sampling.Reasoning.Open = ""
		}
	}
}

// completions answers POST /v1/completions: it continues one prompt, or several, as texts.
func (s *Server) completions(w http.ResponseWriter, r *http.Request) error {
	// These fields belong to /v1/chat/completions.
	q, err := s.readRequest(w, r, "messages", "chat_template_kwargs", "tools", "tool_choice", "top_logprobs")
	if err != nil {
		return err
	}
	prompts, texts, err := s.promptsOf(q.Prompt)
	if err != nil {
		return err
	}
	j, err := q.job(prompts...)
	if err == nil {
		err = q.textLogprobs(&j)
	}
	if err == nil {
		err = s.setScales(&j, q.Model, q.Lora)
	}
	if err != nil {
		return err
	}
	if !q.Echo {
		texts = nil
	}
	return s.answer(w, r, &q, j, textShape, texts...)
}

// shape is the JSON format of an answer: for chat/completions or for completions.
type shape struct {
	id, whole, part string // prefix of ids, and the object names of answers and of their parts
	// full returns the fields of a whole choice, and piece the fields of its next part. first is the piece before all
	// parts, or nil.
	full  func(s *said) map[string]any
	piece func(p reply.Part, s *said) map[string]any
	first map[string]any
	// logprobs formats the log-probabilities of tokens. before is the number of characters before them.
	logprobs func(tok *tokenizer.Tokenizer, tokens []generate.Token, before int) any
}

var chatShape = shape{
	id: "chatcmpl", whole: "chat.completion", part: "chat.completion.chunk",
	full: func(s *said) map[string]any {
		message := map[string]any{"role": "assistant", "content": s.content.String(), "refusal": nil}
		if s.calls != nil {
			message["tool_calls"] = s.calls
		}
		if s.calls != nil && s.content.Len() == 0 {
			message["content"] = nil
		}
		if s.reasoning.Len() > 0 {
			message["reasoning_content"] = s.reasoning.String()
		}
		return map[string]any{"message": message}
	},
	piece: func(p reply.Part, s *said) map[string]any {
		delta, last := map[string]any{}, len(s.calls)-1
		switch {
		case p.Text == "":
		case p.Kind == reply.Content:
			delta["content"] = p.Text
		case p.Kind == reply.Reasoning:
			delta["reasoning_content"] = p.Text
		case p.Kind == reply.CallStart:
			delta["tool_calls"] = []any{map[string]any{"index": last, "id": s.calls[last].id, "type": "function",
				"function": map[string]any{"name": p.Text, "arguments": ""}}}
		case p.Kind == reply.Arguments:
			delta["tool_calls"] = []any{map[string]any{"index": last, "function": map[string]any{"arguments": p.Text}}}
		}
		return map[string]any{"delta": delta}
	},
	first:    map[string]any{"delta": map[string]any{"role": "assistant", "content": ""}},
	logprobs: chatLogprobs,
}

var textShape = shape{
	id: "cmpl", whole: "text_completion", part: "text_completion",
	full:  func(s *said) map[string]any { return map[string]any{"text": s.content.String()} },
	piece: func(p reply.Part, _ *said) map[string]any { return map[string]any{"text": p.Text} },

	logprobs: textLogprobs,
}

// chatLogprobs formats log-probabilities for chat/completions.
func chatLogprobs(tok *tokenizer.Tokenizer, tokens []generate.Token, _ int) any {
	return map[string]any{"content": oddsOf(tok, tokens, false), "refusal": nil}
}

// oddsOf describes the tokens that have Odds, in the form of the protocol: the token's text and bytes, its
// log-probability, and the likeliest tokens in its place. With withIDs it adds the numbers of the tokens.
func oddsOf(tok *tokenizer.Tokenizer, tokens []generate.Token, withIDs bool) []any {
	describe := func(id int32, logprob float64) map[string]any {
		text := tok.Piece(id)
		fields := map[string]any{"token": strings.ToValidUTF8(text, "\uFFFD"), "bytes": byteCodes(text),
			"logprob": max(logprob, leastLogprob)}
		if withIDs {
			fields["id"] = id
		}
		return fields
	}
	list := []any{}
	for _, t := range tokens {
		if t.Odds == nil {
			continue
		}
		fields, top := describe(t.ID, t.Odds.Logprob), []any{}
		for _, o := range t.Odds.Likeliest {
			top = append(top, describe(o.ID, o.Logprob))
		}
		fields["top_logprobs"] = top
		list = append(list, fields)
	}
	return list
}

// byteCodes returns the bytes of a text as JSON has them: a list of numbers.
func byteCodes(text string) []int {
	codes := make([]int, len(text))
	for i := range codes {
		codes[i] = int(text[i])
	}
	return codes
}

// leastLogprob replaces minus infinity, which JSON does not have.
const leastLogprob = -9999

// textLogprobs returns the field logprobs of completions. before is the number of characters before the first token.
// The first token of a text has no log-probability. Incomplete characters are written in the protocol's form,
// bytes:\xe2.
func textLogprobs(tok *tokenizer.Tokenizer, tokens []generate.Token, before int) any {
	name := func(id int32) string {
		text := tok.Piece(id)
		if tok.IsSpecial(id) {
			text = tok.Token(id)
		}
		if utf8.ValidString(text) {
			return text
		}
		quoted := strings.Builder{}
		for i := range len(text) {
			fmt.Fprintf(&quoted, `\x%02x`, text[i])
		}
		return "bytes:" + quoted.String()
	}
	names, odds, tops, offsets := []string{}, []any{}, []any{}, []int{}
	for _, t := range tokens {
		names, offsets = append(names, name(t.ID)), append(offsets, before)
		before += utf8.RuneCountInString(t.Text)
		if t.Odds == nil { // the first token of the text
			odds, tops = append(odds, nil), append(tops, nil)
			continue
		}
		top := map[string]float64{}
		for _, o := range t.Odds.Likeliest {
			top[name(o.ID)] = max(o.Logprob, leastLogprob)
		}
		odds, tops = append(odds, max(t.Odds.Logprob, leastLogprob)), append(tops, top)
	}
	return map[string]any{"tokens": names, "token_logprobs": odds, "top_logprobs": tops, "text_offset": offsets}
}

// answer runs a request's job and writes its answers, complete or streamed. With echo, echoes[i] is the text of
// prompt i, which comes before each of its answers.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, q *request, j job, shape shape,
	echoes ...string) (err error) {
	if err = s.constrain(w, q, &j); err != nil {
		return err
	}
	if err := s.checkBias(&j); err != nil {
		return err
	}
	a := &answer{w: w, shape: shape, id: newID(shape.id), created: time.Now().Unix(), model: s.o.Name,
		writeTimeout: s.o.WriteTimeout, tok: s.model.Tokenizer(), choices: newChoices(j, shape, echoes)}
	if j.scored { // the tokens of the prompt come first, with their log-probabilities
		prompts, err := s.score(r.Context(), j)
		if err != nil {
			return err
		}
		for i := range a.choices {
			prompt := prompts[i/j.answers]
			a.choices[i].tokens, a.choices[i].promptTokens = slices.Clone(prompt), len(prompt)
		}
	}
	if q.Stream {
		return a.stream(r, s, j, q.StreamOptions.IncludeUsage)
	}
	odds := j.sampling.Logprobs                        // whether the client wants log-probabilities
	j.sampling.Logprobs = odds || j.wanted < j.answers // likeliest compares answers by them
	ends, use, err := s.runAll(r.Context(), j, func(i int, p piece) error {
		c := &a.choices[i]
		for _, part := range p.parts {
			c.said.add(part)
		}
		c.tokens = append(c.tokens, p.tokens...)
		return nil
	})
	if err != nil {
		return err
	}
	list := []map[string]any{}
	for place, i := range a.likeliest(j.answers, j.wanted) {
		c := &a.choices[i]
		c.index = place
		list = append(list, a.addCommon(c, shape.full(&c.said), ends[i].finish.with(c.said.calls), odds))
	}
	a.extendDeadline()
	body := a.body(shape.whole, list...)
	body["usage"] = use
	writeJSON(w, http.StatusOK, body)
	return nil
}

// newChoices returns the choices of a job before anything is generated: j.answers of them for each prompt, in the order
// of the prompts. echoes are the texts of the prompts if they come before the answers, and else nil.
func newChoices(j job, shape shape, echoes []string) []choice {
	list := make([]choice, len(j.prompts)*j.answers)
	for i := range list {
		c := &list[i]
		c.index, c.first = i, shape.first
		if echoes != nil {
			echo := reply.Part{Kind: reply.Content, Text: echoes[i/j.answers]}
			c.said.add(echo)
			c.first = shape.piece(echo, &c.said)
		}
	}
	return list
}

// checkBias refuses a bias of a token outside the vocabulary.
func (s *Server) checkBias(j *job) error {
	for id := range j.sampling.Bias {
		if n := s.model.Tokenizer().Len(); id < 0 || int(id) >= n {
			return refuse(http.StatusBadRequest, "logit_bias", "logit_bias has token %d: want 0 to %d", id, n-1)
		}
	}
	return nil
}

// answer is the response to one request while it is sent. It has a choice for each answer that is generated.
type answer struct {
	w            http.ResponseWriter
	shape        shape
	id, model    string
	created      int64
	writeTimeout time.Duration
	tok          *tokenizer.Tokenizer
	choices      []choice
	begun        bool
}

// choice is one of the answers to a request, complete or in progress.
type choice struct {
	index         int
	said          said
	tokens        []generate.Token // tokens not yet reported
	promptTokens  int              // number of tokens that belong to the prompt
	reportedChars int              // characters of the reported tokens
	first         map[string]any   // the first piece; nil for none
	begun         bool
}

// likeliest returns the indices of the choices to send. Each prompt has `each` choices. For each prompt it returns the
// `wanted` choices with the largest mean log-probability, largest first. If wanted equals each, it returns all choices
// in their order.
func (a *answer) likeliest(each, wanted int) (list []int) {
	order, means := make([]int, len(a.choices)), make([]float64, len(a.choices))
	for i, c := range a.choices {
		order[i], means[i] = i, c.meanLogprob()
	}
	for one := range slices.Chunk(order, each) {
		if wanted < each {
			slices.SortStableFunc(one, func(x, y int) int { return cmp.Compare(means[y], means[x]) })
		}
		list = append(list, one[:wanted]...)
	}
	return list
}

// meanLogprob returns the mean log-probability of a choice's tokens, or minus infinity without tokens.
func (c *choice) meanLogprob() float64 {
	sum, n := 0.0, 0
	for _, t := range c.tokens[c.promptTokens:] {
		if t.Odds != nil {
			sum, n = sum+t.Odds.Logprob, n+1
		}
	}
	if n == 0 {
		return math.Inf(-1)
	}
	return sum / float64(n)
}

// addCommon adds the entries that every choice of a response has: its index, the reason for its end (end, which is
// empty while it continues) and, with odds, the log-probabilities of its tokens. It drops the tokens, because each is
// reported once.
func (a *answer) addCommon(c *choice, fields map[string]any, end finish, odds bool) map[string]any {
	fields["index"], fields["finish_reason"], fields["logprobs"] = c.index, nil, nil
	if end != "" {
		fields["finish_reason"] = end
	}
	if odds {
		fields["logprobs"] = a.shape.logprobs(a.tok, c.tokens, c.reportedChars)
	}
	for _, t := range c.tokens {
		c.reportedChars += utf8.RuneCountInString(t.Text) // where the next token's text begins
	}
	c.tokens = nil
	return fields
}

// with returns the finish reason that the protocol wants: "tool_calls" instead of "stop" if the answer has calls.
func (f finish) with(calls []call) finish {
	if f == finishStop && calls != nil {
		return "tool_calls"
	}
	return f
}

// body has the fields that answers and their parts share.
func (a *answer) body(object string, choices ...map[string]any) map[string]any {
	if choices == nil {
		choices = []map[string]any{}
	}
	return map[string]any{"id": a.id, "object": object, "created": a.created, "model": a.model, "choices": choices}
}

// extendDeadline gives the client more time to read the next write.
func (a *answer) extendDeadline() {
	// A connection without deadlines, as in tests, is never slow.
	http.NewResponseController(a.w).SetWriteDeadline(time.Now().Add(a.writeTimeout))
}

// stream answers by server-sent events (HTML, section 9.2): one for each piece of text, and with withUsage one with the
// usage at the end. An error before the first event becomes an ordinary response.
func (a *answer) stream(r *http.Request, s *Server, j job, withUsage bool) error {
	sendFields := func(c *choice, fields map[string]any, end finish) error {
		if err := a.sendFirst(c, withUsage); err != nil {
			return err
		}
		return a.sendPart(a.addCommon(c, fields, end, len(c.tokens) > 0), withUsage)
	}
	ends, use, err := s.runAll(r.Context(), j, func(i int, p piece) error {
		c := &a.choices[i]
		if err := a.sendFirst(c, withUsage); err != nil {
			return err
		}
		c.tokens = append(c.tokens, p.tokens...)
		if len(p.parts) == 0 && len(c.tokens) > 0 {
			return sendFields(c, a.shape.piece(reply.Part{}, &c.said), "")
		}
		for _, part := range p.parts {
			c.said.add(part)
			if err := sendFields(c, a.shape.piece(part, &c.said), ""); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case err != nil && !a.begun:
		return err
	case err != nil:
		if !errors.Is(err, errGone) {
			a.event(errorBody(err))
		}
		return nil // the status is sent already
	}
	for i := range a.choices {
		c := &a.choices[i]
		if sendFields(c, a.shape.piece(reply.Part{}, &c.said), ends[i].finish.with(c.said.calls)) != nil {
			return nil
		}
	}
	if withUsage {
		body := a.body(a.shape.part)
		body["usage"] = use
		if a.event(body) != nil {
			return nil
		}
	}
	a.extendDeadline()
	fmt.Fprint(a.w, "data: [DONE]\n\n")
	return nil
}

// sendPart sends a part of a choice. If withUsage is set, each part has the field usage, which is null before the last.
func (a *answer) sendPart(fields map[string]any, withUsage bool) error {
	body := a.body(a.shape.part, fields)
	if withUsage {
		body["usage"] = nil
	}
	return a.event(body)
}

// startStream sets the headers of a stream of events, in the first call only.
func (a *answer) startStream() {
	if a.begun {
		return
	}
	a.begun = true
	h := a.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
}

// sendFirst sends the part of a choice that comes before all text, in the first call for that choice. For withUsage see
// sendPart.
func (a *answer) sendFirst(c *choice, withUsage bool) error {
	a.startStream()
	if c.begun || c.first == nil {
		return nil
	}
	c.begun = true
	return a.sendPart(a.addCommon(c, maps.Clone(c.first), "", len(c.tokens) > 0), withUsage)
}

// event sends an event of a stream. Its error is errGone.
func (a *answer) event(v any) error { return a.namedEvent("", v) }

// namedEvent sends a server-sent event with a name, if it is not empty, and v as JSON. An error of the connection is
// errGone.
func (a *answer) namedEvent(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	a.extendDeadline()
	if name != "" {
		name = "event: " + name + "\n"
	}
	if _, err := fmt.Fprintf(a.w, "%sdata: %s\n\n", name, data); err != nil {
		return errors.Join(errGone, err)
	}
	if err := http.NewResponseController(a.w).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return errors.Join(errGone, err)
	}
	return nil
}

// health answers /health and /ready: 200, or 503 while the server drains.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if s.draining.Load() {
		writeJSON(w, http.StatusServiceUnavailable, map[string]string{"status": "draining"})
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// card describes the model by a name. An adapter has a parent.
func (s *Server) card(name, parent string) map[string]any {
	card := map[string]any{"id": name, "object": "model", "created": s.started.Unix(), "owned_by": "vkc",
		"max_model_len": s.model.Context()}
	if parent != "" {
		card["parent"] = parent
	}
	return card
}

// cards describes the models that requests can name: the model, and the model with each adapter alone.
func (s *Server) cards() []map[string]any {
	if s.several != nil {
		return s.several.cards()
	}
	list := []map[string]any{s.card(s.o.Name, "")}
	for _, name := range s.adapterNames() {
		list = append(list, s.card(name, s.o.Name))
	}
	return list
}

// models answers GET /v1/models.
func (s *Server) models(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": s.cards()})
	return nil
}

// oneModel answers GET /v1/models/{name}.
func (s *Server) oneModel(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	for _, card := range s.cards() {
		if card["id"] == name {
			writeJSON(w, http.StatusOK, card)
			return nil
		}
	}
	return s.noModel(name)
}

// noModel refuses a request for a model that is not there.
func (s *Server) noModel(name string) error {
	names := []string{}
	for _, card := range s.cards() {
		names = append(names, fmt.Sprintf("%q", card["id"]))
	}
	return refuse(http.StatusNotFound, "model", "there is no model %.100q here: want %.900s", name,
		strings.Join(names, ", "))
}
