package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/vkc-go/vkc/frontend/tokenizer"
)

func (s *Server) chatCompletions(w http.ResponseWriter, r *http.Request) error {
	q, err := s.readRequest(r)
	if err != nil {
		return err
	}
	prompt, err := s.conversation(q.Messages, q.Template)
	if err != nil {
		return err
	}
	return s.answer(w, r, &q, prompt, chatShape)
}

func (s *Server) completions(w http.ResponseWriter, r *http.Request) error {
	q, err := s.readRequest(r)
	if err != nil {
		return err
	}
	prompt, err := s.promptOf(q.Prompt)
	if err != nil {
		return err
	}
	return s.answer(w, r, &q, prompt, textShape)
}

// shape is how one of the two kinds of answers is written.
type shape struct {
	id, whole, part string // beginnings of names, and what answers and their parts are called
	// full and piece are the fields of a choice that hold the text. First is the piece before
	// all text, or nil.
	full, piece func(text string) map[string]any
	first       map[string]any
}

var chatShape = shape{
	id: "chatcmpl", whole: "chat.completion", part: "chat.completion.chunk",
	full: func(text string) map[string]any {
		return map[string]any{"message": map[string]any{"role": "assistant", "content": text, "refusal": nil}}
	},
	piece: func(text string) map[string]any {
		delta := map[string]any{}
		if text != "" {
			delta["content"] = text
		}
		return map[string]any{"delta": delta}
	},
	first: map[string]any{"delta": map[string]any{"role": "assistant", "content": ""}},
}

var textShape = shape{
	id: "cmpl", whole: "text_completion", part: "text_completion",
	full:  func(text string) map[string]any { return map[string]any{"text": text} },
	piece: func(text string) map[string]any { return map[string]any{"text": text} },
}

// answer runs a request and writes its answer, whole or as it comes.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, q *request, prompt []int32, shape shape) error {
	j, err := q.job(prompt)
	if err != nil {
		return err
	}
	a := &answer{w: w, shape: shape, id: newID(shape.id), created: time.Now().Unix(), model: s.o.Name,
		patience: s.o.WriteTimeout}
	if q.Stream {
		return a.stream(r, s, j, q.StreamOptions.IncludeUsage)
	}
	var text strings.Builder
	end, use, err := s.run(r.Context(), j, func(piece string) error {
		text.WriteString(piece)
		return nil
	})
	if err != nil {
		return err
	}
	a.deadline()
	body := a.body(shape.whole, choice(shape.full(text.String()), end))
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
	piece := func(fields map[string]any, end finish) error {
		body := a.body(a.shape.part, choice(fields, end))
		if withUsage {
			body["usage"] = nil
		}
		return a.event(body)
	}
	end, use, err := s.run(r.Context(), j, func(text string) error {
		if err := a.begin(piece); err != nil {
			return err
		}
		return piece(a.shape.piece(text), "")
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
	if err := a.begin(piece); err != nil { // an empty answer
		return nil
	}
	if piece(a.shape.piece(""), end) != nil {
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
func (a *answer) event(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	a.deadline()
	if _, err := fmt.Fprintf(a.w, "data: %s\n\n", data); err != nil {
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
