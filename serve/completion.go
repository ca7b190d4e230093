package serve

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/serve/reply"
)

// plainRequest is the JSON of POST /completion and /infill, in the form of llama.cpp's server.
type plainRequest struct {
	request
	Fields []string      `json:"response_fields"` // the fields of the answer that the client wants; nil for all
	Prefix string        `json:"input_prefix"`
	Suffix string        `json:"input_suffix"`
	Extra  []infillExtra `json:"input_extra"`
}

// infillExtra is another file for /infill.
type infillExtra struct {
	Name string `json:"filename"`
	Text string `json:"text"`
}

// plainDefaults are the defaults of llama.cpp's server. They hold on its paths only.
var plainDefaults = json.RawMessage(`{"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}`)

// completion answers POST /completion, llama.cpp's way to continue one text or several.
func (s *Server) completion(w http.ResponseWriter, r *http.Request) error {
	q, err := s.readPlain(w, r, "input_prefix", "input_suffix", "input_extra")
	if err != nil {
		return err
	}
	prompts, err := s.plainPrompts(q.Prompt)
	if err != nil {
		return err
	}
	return s.answerPlain(w, r, &q, nil, prompts...)
}

// infill answers POST /infill: the text between a prefix and a suffix.
func (s *Server) infill(w http.ResponseWriter, r *http.Request) error {
	q, err := s.readPlain(w, r)
	if err != nil {
		return err
	}
	marks, ok := s.model.Tokenizer().Infill()
	if !ok {
		return refuse(http.StatusBadRequest, "", "model %q has no tokens for fill-in-the-middle: want a code model "+
			"that was trained with them", s.o.Name)
	}
	var after string
	if len(q.Prompt) > 0 && json.Unmarshal(q.Prompt, &after) != nil {
		return refuse(http.StatusBadRequest, "prompt", "prompt is %.40s: want the text after the prefix",
			q.Prompt)
	}
	prompt := s.infillPrompt(&q, marks, after)
	if err := s.checkLength(prompt, "input_extra"); err != nil {
		return err
	}
	return s.answerPlain(w, r, &q, marks.IsMark, prompt)
}

// infillPrompt returns the prompt of a request to fill in the text between a prefix and a suffix: other files, the
// prefix and the suffix, with the model's marks between them. If the prompt and its answer are too long, the beginning
// of the prefix and the end of the suffix are left out, which are the farthest away.
func (s *Server) infillPrompt(q *plainRequest, marks tokenizer.Infill, after string) (prompt []int32) {
	tok := s.model.Tokenizer()
	text := func(text string) []int32 { return tok.Encode(text, tokenizer.Options{}) }
	if bos, ok := tok.BOS(); ok && slices.Contains(tok.Encode("", tokenizer.Options{Whole: true}), bos) {
		prompt = append(prompt, bos)
	}
	if len(q.Extra) > 0 && marks.Repository >= 0 {
		prompt = append(append(prompt, marks.Repository), text("repository\n")...)
	}
	for _, file := range q.Extra {
		if marks.File >= 0 {
			prompt = append(prompt, marks.File)
		}
		prompt = append(prompt, text(file.Name+"\n"+file.Text+"\n")...)
	}
	if len(q.Extra) > 0 && marks.File >= 0 {
		prompt = append(append(prompt, marks.File), text("file\n")...)
	}
	prefix, suffix := text(q.Prefix+after), text(q.Suffix)
	room := s.model.Context() - len(prompt) - 4 // for the marks, and a token of the answer
	if q.Predict != nil && *q.Predict > 0 {
		room -= *q.Predict
	} else {
		room -= room / 4 // for the answer
	}
	room = max(room, 0)
	if len(prefix)+len(suffix) > room {
		// The suffix keeps a quarter of the room, or what the prefix leaves.
		suffix = suffix[:min(len(suffix), max(room/4, room-len(prefix)))]
		prefix = prefix[max(len(prefix)-(room-len(suffix)), 0):]
	}
	prompt = append(append(prompt, marks.Prefix), prefix...)
	prompt = append(append(prompt, marks.Suffix), suffix...)
	return append(prompt, marks.Middle)
}

// readPlain reads a request in the form of llama.cpp's server. foreign lists fields of other paths.
func (s *Server) readPlain(w http.ResponseWriter, r *http.Request, foreign ...string) (q plainRequest, err error) {
	fields, err := readJSON(r, &q)
	if err != nil {
		return q, err
	}
	for _, name := range append(foreign, "messages", "tools", "tool_choice", "n", "best_of", "echo") {
		if _, ok := fields[name]; ok {
			return q, refuse(http.StatusBadRequest, name, "there is no field %q here: leave it out", name)
		}
	}
	if err := readDefaults(&q, fields); err != nil {
		return q, err
	}
	if q.Seed != nil && *q.Seed == -1 { // llama.cpp's word for a random one
		q.Seed = nil
	}
	return q, s.checkFields(w, fields, fieldsOf(q), unsupported, q.Model)
}

// readDefaults sets the fields of plainDefaults that a request does not have.
func readDefaults(q *plainRequest, fields map[string]json.RawMessage) error {
	var defaults map[string]json.RawMessage
	if err := json.Unmarshal(plainDefaults, &defaults); err != nil {
		return err
	}
	maps.DeleteFunc(defaults, func(name string, _ json.RawMessage) bool { return fields[name] != nil })
	return json.Unmarshal(encode(defaults), q)
}

// plainPrompts reads a prompt, or a list of prompts. A prompt is a text, or a list of tokens and texts. Names of
// special tokens in texts are these tokens.
func (s *Server) plainPrompts(data json.RawMessage) ([][]int32, error) {
	var list []json.RawMessage
	isNumber := func(one json.RawMessage) bool { return json.Unmarshal(one, new(int32)) == nil }
	// A list with a number is a single prompt of tokens.
	if json.Unmarshal(data, &list) != nil || slices.ContainsFunc(list, isNumber) {
		list = []json.RawMessage{data}
	}
	if len(list) == 0 || len(list) > maxTexts {
		return nil, refuse(http.StatusBadRequest, "prompt", "prompt has %d texts: want 1 to %d", len(list), maxTexts)
	}
	prompts := make([][]int32, len(list))
	for i, one := range list {
		tokens, err := s.plainPrompt(one)
		if err == nil {
			err = s.checkLength(tokens, "prompt")
		}
		if err != nil {
			return nil, err
		}
		prompts[i] = tokens
	}
	return prompts, nil
}

// plainPrompt returns the tokens of a prompt: a text, or a list of texts and of numbers of tokens.
func (s *Server) plainPrompt(data json.RawMessage) (tokens []int32, err error) {
	tok := s.model.Tokenizer()
	var parts []json.RawMessage
	if json.Unmarshal(data, &parts) != nil {
		parts = []json.RawMessage{data}
	}
	for i, part := range parts {
		var text string
		var id int32
		switch {
		case string(part) != "null" && json.Unmarshal(part, &text) == nil: // null would become "" without an error
			more := tok.Encode(text, tokenizer.Options{Special: true, Whole: i == 0})
			if bos, ok := tok.BOS(); ok && len(more) > 1 && more[0] == bos && more[1] == bos { // the text has one
				more = more[1:]
			}
			tokens = append(tokens, more...)
		case string(part) != "null" && json.Unmarshal(part, &id) == nil:
			tokens = append(tokens, id)
		default:
			return nil, refuse(http.StatusBadRequest, "prompt",
				"prompt is %.40s: want a text, or a list of tokens and texts, or a list of prompts", data)
		}
	}
	return tokens, s.checkTokens(tokens, "prompt")
}

// answerPlain answers a request in the form of llama.cpp's server, whole or as a stream. isEnd, if not nil, reports
// tokens that end an answer in addition to the model's own. They do not belong to the answer.
func (s *Server) answerPlain(w http.ResponseWriter, r *http.Request, q *plainRequest, isEnd func(int32) bool,
	prompts ...[]int32) error {
	onlyPrompt := q.Predict != nil && *q.Predict == 0 // the client wants the prompt in the cache, and no text
	if onlyPrompt {
		q.Predict = new(1) // a job generates at least one token
	}
	j, err := q.job(prompts...)
	if err == nil {
		err = q.probabilities(&j)
	}
	if err == nil {
		err = s.setScales(&j, q.Model, q.Lora)
	}
	if err == nil {
		err = s.constrain(w, &q.request, &j)
	}
	if err == nil {
		err = s.checkBias(&j)
	}
	if err != nil {
		return err
	}
	j.isEnd, j.tokens = isEnd, true
	x := &plainAnswer{answer: &answer{w: w, model: s.o.Name, writeTimeout: s.o.WriteTimeout,
		tok: s.model.Tokenizer()}, q: q, j: &j, texts: make([]plainText, len(prompts))}
	began := time.Now()
	for i := range x.texts {
		x.texts[i].began = began
	}
	take := x.take
	if onlyPrompt {
		take = func(int, piece) error { return nil }
	}
	ends, _, err := s.runAll(r.Context(), j, take)
	switch {
	case err != nil && !x.begun:
		return err
	case err != nil:
		if !errors.Is(err, errGone) {
			x.event(errorBody(err))
		}
		return nil // the status is sent already
	}
	return x.write(ends, s.model.Context())
}

// plainAnswer is an answer in the form of llama.cpp's server while it is sent.
type plainAnswer struct {
	*answer
	q     *plainRequest
	j     *job
	texts []plainText
}

// plainText is the continuation of one prompt.
type plainText struct {
	content      strings.Builder
	tokens       []int32
	odds         []any
	began, first time.Time
}

// take adds piece p to the text of answer i, and sends it if the answer is a stream.
func (x *plainAnswer) take(i int, p piece) error {
	t, part := &x.texts[i], ""
	if t.first.IsZero() {
		t.first = time.Now()
	}
	for _, one := range p.parts {
		if one.Kind == reply.Content {
			part += one.Text
		}
	}
	t.content.WriteString(part)
	var ids []int32
	for _, token := range p.tokens {
		if !x.tok.IsEnd(token.ID) { // the protocol does not list it
			ids = append(ids, token.ID)
		}
	}
	var odds []any
	if x.j.sampling.Logprobs {
		odds = oddsOf(x.tok, p.tokens, true)
	}
	t.tokens, t.odds = append(t.tokens, ids...), append(t.odds, odds...)
	if !x.q.Stream {
		return nil
	}
	fields := map[string]any{"index": i, "content": part, "tokens": append([]int32{}, ids...), "stop": false,
		"id_slot": -1, "tokens_predicted": len(t.tokens), "tokens_evaluated": len(x.j.prompts[i])}
	if x.j.sampling.Logprobs {
		fields["completion_probabilities"] = append([]any{}, odds...)
	}
	x.startStream()
	return x.event(fields)
}

// write sends the answers in llama.cpp's form: whole or, in a stream, the last event of each.
func (x *plainAnswer) write(ends []ending, context int) error {
	list := make([]any, len(ends))
	for i, end := range ends {
		t := &x.texts[i]
		u := end.usage
		how := "eos"
		switch {
		case u.word != "":
			how = "word"
		case end.finish == finishLength:
			how = "limit"
		}
		fields := map[string]any{"index": i, "content": t.content.String(), "tokens": []int32{}, "stop": true,
			"id_slot": -1, "model": x.model, "tokens_predicted": len(t.tokens), "tokens_evaluated": u.Prompt,
			"tokens_cached": u.Prompt + len(t.tokens), "stop_type": how, "stopping_word": u.word,
			"truncated": u.Prompt+u.Completion >= context, "has_new_line": strings.Contains(t.content.String(), "\n"),
			"prompt": x.tok.Decode(x.j.prompts[i]), "generation_settings": settings(x.j, x.q.Stream),
			"timings": t.timings(u)}
		if x.q.ReturnTokens {
			fields["tokens"] = append([]int32{}, t.tokens...)
		}
		if x.j.sampling.Logprobs {
			fields["completion_probabilities"] = append([]any{}, t.odds...)
		}
		if x.q.Stream { // the text is sent already
			fields["content"], fields["tokens"] = "", []int32{}
			delete(fields, "completion_probabilities")
			x.startStream()
			if x.event(chosen(fields, x.q.Fields)) != nil {
				return nil
			}
		}
		list[i] = chosen(fields, x.q.Fields)
	}
	switch {
	case x.q.Stream:
	case len(list) == 1:
		x.extendDeadline()
		writeJSON(x.w, http.StatusOK, list[0])
	default:
		x.extendDeadline()
		writeJSON(x.w, http.StatusOK, list)
	}
	return nil
}

// timings returns the times of an answer: from its beginning to its first token (prompt), and from there to its end
// (predicted). Other answers run at the same time, so their work is included.
func (t *plainText) timings(u usage) map[string]any {
	first, now := t.first, time.Now()
	if first.IsZero() {
		first = now // there was no token
	}
	all := map[string]any{"cache_n": u.Details.Cached}
	add := func(name string, tokens int, took time.Duration) {
		seconds := took.Seconds()
		all[name+"_n"] = tokens
		all[name+"_ms"] = 1000 * seconds
		all[name+"_per_token_ms"] = 1000 * seconds / float64(max(tokens, 1))
		all[name+"_per_second"] = float64(tokens) / max(seconds, 1e-9) // avoids a division by 0
	}
	add("prompt", u.Prompt-u.Details.Cached, first.Sub(t.began))
	add("predicted", u.Completion, now.Sub(first))
	return all
}

// chosen returns the fields of an answer that paths lists. An element of paths is a name, or a path such as
// generation_settings/seed, which becomes a field with the path's last name. Paths without a field are ignored. nil
// keeps all fields.
func chosen(fields map[string]any, paths []string) map[string]any {
	if paths == nil {
		return fields
	}
	kept := map[string]any{}
	for _, path := range paths {
		names := strings.Split(path, "/")
		if value, ok := fieldAt(fields, names); ok {
			kept[names[len(names)-1]] = value
		}
	}
	return kept
}

// fieldAt returns the field to which names lead, each a field of the object before.
func fieldAt(fields map[string]any, names []string) (value any, ok bool) {
	value = fields
	for _, name := range names {
		object, _ := value.(map[string]any) // nil, without fields, if the value is no object
		if value, ok = object[name]; !ok {
			return nil, false
		}
	}
	return value, true
}

// settings lists the sampling options of an answer, and whether it is a stream, by the names of requests.
func settings(j *job, stream bool) map[string]any {
	s := j.sampling
	topP := 1.0
	if s.TopP != nil {
		topP = *s.TopP
	}
	predict := s.MaxTokens
	if predict == 0 {
		predict = -1 // llama.cpp's value for no limit
	}
	return map[string]any{"n_predict": predict, "max_tokens": predict, "seed": s.Seed, "temperature": s.Temperature,
		"top_k": s.TopK, "top_p": topP, "min_p": s.MinP, "typical_p": s.Typical, "top_n_sigma": s.Sigmas,
		"xtc_probability": s.XTCProbability, "xtc_threshold": s.XTCThreshold, "repeat_penalty": s.RepeatPenalty,
		"presence_penalty": s.PresencePenalty, "frequency_penalty": s.FrequencyPenalty,
		"stop": append([]string{}, j.stop...), "n_probs": s.Likeliest, "stream": stream}
}
