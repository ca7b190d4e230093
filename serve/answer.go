package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/generate"
)

func (s *Server) chatCompletions(w http.ResponseWriter, r *http.Request) error {
	q, err := s.readRequest(r, "prompt")
	if err != nil {
		return err
	}
	t, err := readTools(q.Tools, q.ToolChoice)
	if err != nil {
		return err
	}
	prompt, err := s.conversation(q.Messages, q.Template, t)
	if err != nil {
		return err
	}
	return s.answer(w, r, &q, t, prompt, chatShape)
}

func (s *Server) completions(w http.ResponseWriter, r *http.Request) error {
	q, err := s.readRequest(r, "messages", "chat_template_kwargs", "tools", "tool_choice", "logprobs", "top_logprobs")
	if err != nil {
		return err
	}
	prompt, err := s.promptOf(q.Prompt)
	if err != nil {
		return err
	}
	return s.answer(w, r, &q, nil, prompt, textShape)
}

// shape is how one of the two kinds of answers is written.
type shape struct {
	id, whole, part string // beginnings of names, and what answers and their parts are called
	// full and piece are the fields of a choice that hold the text. First is the piece before
	// all text, or nil.
	full, piece func(text string, calls []call) map[string]any
	first       map[string]any
}

var chatShape = shape{
	id: "chatcmpl", whole: "chat.completion", part: "chat.completion.chunk",
	full: func(text string, calls []call) map[string]any {
		message := map[string]any{"role": "assistant", "content": text, "refusal": nil}
		if calls != nil {
			message["tool_calls"] = calls
		}
		if calls != nil && text == "" {
			message["content"] = nil
		}
		return map[string]any{"message": message}
	},
	piece: func(text string, calls []call) map[string]any {
		delta := map[string]any{}
		if text != "" {
			delta["content"] = text
		}
		if calls != nil {
			delta["tool_calls"] = numbered(calls)
		}
		return map[string]any{"delta": delta}
	},
	first: map[string]any{"delta": map[string]any{"role": "assistant", "content": ""}},
}

var textShape = shape{
	id: "cmpl", whole: "text_completion", part: "text_completion",
	full:  func(text string, _ []call) map[string]any { return map[string]any{"text": text} },
	piece: func(text string, _ []call) map[string]any { return map[string]any{"text": text} },
}

// numbered are calls as a stream has them.
func numbered(calls []call) (list []map[string]any) {
	for i, c := range calls {
		list = append(list, map[string]any{"index": i, "id": newID("call"), "type": "function",
			"function": map[string]any{"name": c.name, "arguments": c.arguments}})
	}
	return list
}

// logprobs is what the protocol says of tokens.
func (s *Server) logprobs(tokens []generate.Token) any {
	one := func(id int32, logprob float64) map[string]any {
		text := s.model.Tokenizer().Piece(id)
		codes := []int{}
		for i := range len(text) {
			codes = append(codes, int(text[i]))
		}
		return map[string]any{"token": strings.ToValidUTF8(text, "\uFFFD"), "logprob": max(logprob, -9999),
			"bytes": codes}
	}
	content := []any{}
	for _, t := range tokens {
		if t.Odds == nil {
			continue
		}
		fields, top := one(t.ID, t.Odds.Logprob), []any{}
		for _, o := range t.Odds.Likeliest {
			top = append(top, one(o.ID, o.Logprob))
		}
		fields["top_logprobs"] = top
		content = append(content, fields)
	}
	return map[string]any{"content": content, "refusal": nil}
}

// answer runs a request and writes its answer, whole or as it comes.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, q *request, t *tools, prompt []int32,
	shape shape) error {
	j, err := q.job(prompt)
	if err != nil {
		return err
	}
	j.tools = t
	if j.sampling.Grammar, err = s.constrain(q, t); err != nil {
		return err
	}
	a := &answer{w: w, shape: shape, id: newID(shape.id), created: time.Now().Unix(), model: s.o.Name,
		patience: s.o.WriteTimeout}
	if q.Stream {
		return a.stream(r, s, j, q.StreamOptions.IncludeUsage)
	}
	var said strings.Builder
	var tokens []generate.Token
	reader := newCallReader(t)
	end, use, err := s.run(r.Context(), j, func(p piece) error {
		said.WriteString(reader.next(p.text))
		tokens = append(tokens, p.tokens...)
		return nil
	})
	if err != nil {
		return err
	}
	rest, calls := reader.end()
	said.WriteString(rest)
	c := choice(shape.full(said.String(), calls), end.with(calls))
	if j.sampling.Logprobs {
		c["logprobs"] = s.logprobs(tokens)
	}
	a.deadline()
	body := a.body(shape.whole, c)
	body["usage"] = use
	writeJSON(w, http.StatusOK, body)
	return nil
}

// answer is one on its way to a client.
type answer struct {
	w         http.ResponseWriter
	shape     shape
	id, model string
	created   int64
	patience  time.Duration
	begun     bool
}

func choice(fields map[string]any, end finish) map[string]any {
	fields["index"], fields["finish_reason"], fields["logprobs"] = 0, nil, nil
	if end != "" {
		fields["finish_reason"] = end
	}
	return fields
}

// with is how an answer ended that has calls.
func (f finish) with(calls []call) finish {
	if f == finishStop && calls != nil {
		return "tool_calls"
	}
	return f
}

// body is what answers and their parts have in common.
func (a *answer) body(object string, choices ...map[string]any) map[string]any {
	if choices == nil {
		choices = []map[string]any{}
	}
	return map[string]any{"id": a.id, "object": object, "created": a.created, "model": a.model, "choices": choices}
}

// deadline gives the client so much time to take what is written next.
func (a *answer) deadline() {
	// Where the connection has no deadlines, as in tests, nothing can be slow either.
	http.NewResponseController(a.w).SetWriteDeadline(time.Now().Add(a.patience))
}

// stream answers by server-sent events (HTML, section 9.2), one for each piece of text.
// What fails before the first is an ordinary answer.
func (a *answer) stream(r *http.Request, s *Server, j job, withUsage bool) error {
	var tokens []generate.Token // that no piece has told of
	tell := func(fields map[string]any, end finish) error {
		c := choice(fields, end)
		if len(tokens) > 0 {
			c["logprobs"], tokens = s.logprobs(tokens), nil
		}
		body := a.body(a.shape.part, c)
		if withUsage {
			body["usage"] = nil
		}
		return a.event(body)
	}
	reader := newCallReader(j.tools)
	end, use, err := s.run(r.Context(), j, func(p piece) error {
		if err := a.begin(tell); err != nil {
			return err
		}
		tokens = append(tokens, p.tokens...)
		said := reader.next(p.text)
		if said == "" && len(tokens) == 0 {
			return nil
		}
		return tell(a.shape.piece(said, nil), "")
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
	if err := a.begin(tell); err != nil { // an empty answer
		return nil
	}
	rest, calls := reader.end()
	if (rest != "" || calls != nil) && tell(a.shape.piece(rest, calls), "") != nil {
		return nil
	}
	if tell(a.shape.piece("", nil), end.with(calls)) != nil {
		return nil
	}
	if withUsage {
		body := a.body(a.shape.part)
		body["usage"] = use
		if a.event(body) != nil {
			return nil
		}
	}
	a.deadline()
	fmt.Fprint(a.w, "data: [DONE]\n\n")
	return nil
}

// begin sends what comes before all text.
func (a *answer) begin(piece func(map[string]any, finish) error) error {
	if a.begun {
		return nil
	}
	a.begun = true
	h := a.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	if a.shape.first == nil {
		return nil
	}
	first := map[string]any{}
	for k, v := range a.shape.first {
		first[k] = v
	}
	return piece(first, "")
}

// event sends one. Its error is errGone.
func (a *answer) event(v any) error { return a.named("", v) }

// named sends an event of a name. Its error is errGone.
func (a *answer) named(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	a.deadline()
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

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if s.draining.Load() {
		writeJSON(w, http.StatusServiceUnavailable, map[string]string{"status": "draining"})
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// card describes the model.
func (s *Server) card() map[string]any {
	return map[string]any{"id": s.o.Name, "object": "model", "created": s.started.Unix(), "owned_by": "vkc",
		"max_model_len": s.model.Context()}
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{s.card()}})
	return nil
}

func (s *Server) oneModel(w http.ResponseWriter, r *http.Request) error {
	if name := r.PathValue("name"); name != s.o.Name {
		return refuse(http.StatusNotFound, "model", "there is no model %q here: want %q", name, s.o.Name)
	}
	writeJSON(w, http.StatusOK, s.card())
	return nil
}

// tokenize takes {"prompt": TEXT}, or {"content": TEXT} as llama.cpp's server does; add_special false leaves
// out the tokens that begin and end a text.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) error {
	q := struct {
		Prompt, Content *string
		AddSpecial      *bool `json:"add_special_tokens"`
	}{}
	if _, err := readJSON(r, &q); err != nil {
		return err
	}
	text := q.Prompt
	if text == nil {
		text = q.Content
	}
	if text == nil {
		return refuse(http.StatusBadRequest, "prompt", "prompt is missing: want the text to take apart")
	}
	ids := s.model.Tokenizer().Encode(*text, tokenizer.Options{Whole: q.AddSpecial == nil || *q.AddSpecial})
	if ids == nil {
		ids = []int32{}
	}
	writeJSON(w, http.StatusOK, map[string]any{"tokens": ids, "count": len(ids), "max_model_len": s.model.Context()})
	return nil
}

// detokenize takes {"tokens": [IDS]}.
func (s *Server) detokenize(w http.ResponseWriter, r *http.Request) error {
	var q struct{ Tokens []int32 }
	if _, err := readJSON(r, &q); err != nil {
		return err
	}
	if q.Tokens == nil {
		return refuse(http.StatusBadRequest, "tokens", "tokens is missing: want a list of numbers")
	}
	writeJSON(w, http.StatusOK, map[string]any{"prompt": s.model.Tokenizer().Decode(q.Tokens)})
	return nil
}
