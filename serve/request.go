package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend/chat"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/internal/strictjson"
)

// request is the JSON of a request for text. Fields with the value null count as absent. For other fields see
// ignoredFields, unsupported and needed.
type request struct {
	Model         string          `json:"model"`
	Messages      []message       `json:"messages"`
	Prompt        json.RawMessage `json:"prompt"`
	Stream        bool            `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Stop              json.RawMessage `json:"stop"`
	MaxTokens         *int            `json:"max_tokens"`
	MaxAnswer         *int            `json:"max_completion_tokens"`
	Seed              *int64          `json:"seed"`
	Temperature       *float64        `json:"temperature"`
	TopP              *float64        `json:"top_p"`
	TopK              int             `json:"top_k"` // 0 and less mean all
	MinP              float64         `json:"min_p"`
	RepetitionPenalty *float64        `json:"repetition_penalty"`
	PresencePenalty   float64         `json:"presence_penalty"`
	FrequencyPenalty  float64         `json:"frequency_penalty"`
	RepeatPenalty     *float64        `json:"repeat_penalty"`       // llama.cpp's name of repetition_penalty
	Template          json.RawMessage `json:"chat_template_kwargs"` // variables of the template
	Effort            string          `json:"reasoning_effort"`     // a variable of the template, too
	ThinkTokens       *int            `json:"thinking_budget_tokens"`
	Generation        *bool           `json:"add_generation_prompt"`
	Continue          bool            `json:"continue_final_message"`
	IgnoreEnd         bool            `json:"ignore_eos"`
	MinTokens         int             `json:"min_tokens"`
	Typical           float64         `json:"typical_p"`
	Sigmas            float64         `json:"top_n_sigma"` // 0 and less mean all
	XTCProbability    float64         `json:"xtc_probability"`
	XTCThreshold      *float64        `json:"xtc_threshold"`
	Mirostat          int             `json:"mirostat"` // 1 or 2, the version; 0 is off
	MirostatTau       *float64        `json:"mirostat_tau"`
	MirostatEta       *float64        `json:"mirostat_eta"`
	DryMultiplier     float64         `json:"dry_multiplier"`
	DryBase           *float64        `json:"dry_base"`
	DryAllowed        *int            `json:"dry_allowed_length"`
	DryLast           *int            `json:"dry_penalty_last_n"`
	DryBreakers       []string        `json:"dry_sequence_breakers"`
	StopTokens        []int32         `json:"stop_token_ids"`
	Parallel          *bool           `json:"parallel_tool_calls"`
	Schema            json.RawMessage `json:"json_schema"` // llama.cpp's and vLLM's ways to ask for a schema
	GuidedSchema      json.RawMessage `json:"guided_json"`
	Structured        json.RawMessage `json:"structured_outputs"`
	Predict           *int            `json:"n_predict"` // llama.cpp's name of max_tokens
	ResponseFormat    json.RawMessage `json:"response_format"`
	Grammar           string          `json:"grammar"` // as llama.cpp's server has it
	Tools             json.RawMessage `json:"tools"`
	ToolChoice        json.RawMessage `json:"tool_choice"`
	Logprobs          json.RawMessage `json:"logprobs"` // whether, or of completions how many of the likeliest tokens
	TopLogprobs       int             `json:"top_logprobs"`
	Answers           *int            `json:"n"`
	BestOf            *int            `json:"best_of"`
	Echo              bool            `json:"echo"` // whether to repeat the prompt before the answer
	Lora              []loraScale     `json:"lora"` // scales of adapters, as llama.cpp's server has it
	// LogitBias is added to the logits of tokens.
	LogitBias    map[int32]float64 `json:"logit_bias"`
	Probs        int               `json:"n_probs"`       // llama.cpp's name of top_logprobs
	ReturnTokens bool              `json:"return_tokens"` // of /completion
}

// loraScale is the scale of an adapter in a request.
type loraScale struct {
	ID    int      `json:"id"`
	Scale *float64 `json:"scale"`
}

// message is one message of a conversation.
type message struct {
	Role    string
	Content json.RawMessage
	More    map[string]json.RawMessage // its other fields with a value
}

// UnmarshalJSON implements json.Unmarshaler. More keeps the other fields for the template, without empty ones, and
// without fields that clients send but templates do not read.
func (m *message) UnmarshalJSON(data []byte) error {
	fields := struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}{}
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	m.Role, m.Content = fields.Role, fields.Content
	if err := json.Unmarshal(data, &m.More); err != nil {
		return err
	}
	maps.DeleteFunc(m.More, func(name string, value json.RawMessage) bool {
		return slices.Contains([]string{"role", "content", "name", "refusal", "annotations"}, name) ||
			slices.Contains([]string{"null", `""`, "[]", "{}"}, string(value))
	})
	return nil
}

// ignoredFields lists fields for the client's own use, and fields that concern how an answer is computed only. They do
// not affect the text.
var ignoredFields = []string{"user", "metadata", "store", "service_tier", "prompt_cache_key", "prompt_cache_retention",
	"safety_identifier", "cache_prompt", "id_slot", "prediction", "priority", "request_id", "timings_per_token",
	"n_keep", "n_discard", "t_max_predict_ms", "t_max_prompt_ms", "skip_special_tokens",
	"spaces_between_special_tokens",
	"include_stop_str_in_output", "echo_usage", "extra_body", "return_progress", "return_token_ids"}

// fieldsOf are the names of a struct's fields in JSON.
func fieldsOf(v any) (names []string) {
	t := reflect.TypeOf(v)
	for _, f := range reflect.VisibleFields(t) {
		if !f.Anonymous {
			names = append(names, f.Tag.Get("json"))
		}
	}
	return names
}

// unsupported lists unsupported fields, with the values that request nothing. Another value is passed over with a
// warning, or refused if the answer would not be the one that the client needs: see needed.
var unsupported = map[string][]string{
	"dynatemp_range":     {"0", "0.0"},
	"dynatemp_exponent":  {},
	"repeat_last_n":      {"64"},
	"min_keep":           {"0"},
	"samplers":           {},
	"verbosity":          {`"medium"`},
	"web_search_options": {},
	"audio":              {"null"},
	"function_call":      {"null", `"none"`},
	"functions":          {"null", "[]"},
	"modalities":         {"null", `["text"]`},
	"suffix":             {"null", `""`},
}

// needed lists the fields of unsupported without which an answer is of no use to the client.
var needed = []string{"audio", "function_call", "functions", "modalities", "suffix",
	"background", "conversation", "previous_response_id", "prompt"}

// Bounds of a request.
const (
	maxStops    = 16
	maxStopSize = 1 << 10
	maxLogprobs = 20
	maxAnswers  = 16   // to one prompt
	maxTexts    = 128  // answers to all prompts
	maxBiases   = 1024 // of tokens
)

// readJSON reads the body of a request into v, and returns its fields.
func readJSON(r *http.Request, v any) (fields map[string]json.RawMessage, err error) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &fields); err != nil {
		if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
			err = errors.New("it is " + describeGot(wrong.Value))
		}
		return nil, refuse(http.StatusBadRequest, "", "the request is not a JSON object: %v", err)
	}
	if wrong := (*strictjson.Error)(nil); errors.As(strictjson.Check(data), &wrong) {
		return nil, refuse(http.StatusBadRequest, wrong.Place, "the request: %v", wrong)
	}
	// A field that is null counts as absent.
	maps.DeleteFunc(fields, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	err = json.Unmarshal(data, v)
	wrong := (*json.UnmarshalTypeError)(nil)
	switch {
	case err == nil:
		return fields, nil
	case !errors.As(err, &wrong):
		return nil, refuse(http.StatusBadRequest, "", "the request: %v", err)
	}
	what, raw := wrong.Field, fields[wrong.Field]
	contains := len(raw) > 0 && (raw[0] == '[' || raw[0] == '{')
	if contains && raw[0] != brackets[wrong.Value] { // the wrong value is not the field itself
		what = "a value in " + what
	}
	return nil, refuse(http.StatusBadRequest, wrong.Field, "%s is %s, want %s", what, describeGot(wrong.Value),
		describeWanted(wrong.Type))
}

// brackets has the byte with which JSON values of a type begin, for the types that contain other values.
var brackets = map[string]byte{"array": '[', "object": '{'}

// describeGot describes the JSON value that a client sent, given the kind that encoding/json reports.
func describeGot(kind string) string {
	words := map[string]string{"array": "a list", "object": "an object", "string": "a string", "number": "a number",
		"bool": "true or false"}
	if text, ok := words[kind]; ok {
		return text
	}
	return strings.TrimPrefix(kind, "number ")
}

// describeWanted describes the JSON value that a type needs.
func describeWanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return "an integer"
}

// readRequest reads a request for text. foreign lists fields that belong to other paths, and are an error here.
func (s *Server) readRequest(w http.ResponseWriter, r *http.Request, foreign ...string) (q request, err error) {
	fields, err := readJSON(r, &q)
	if err != nil {
		return q, err
	}
	for _, name := range foreign {
		if _, ok := fields[name]; ok {
			return q, refuse(http.StatusBadRequest, name, "there is no field %q here: leave it out", name)
		}
	}
	return q, s.checkFields(w, fields, fieldsOf(q), unsupported, q.Model)
}

// checkFields checks the names of a request's fields. known lists the valid names. unsupported has the fields that vkc
// does not support, each with the values that have no effect. A field without which the answer would be wrong is an
// error. Other unknown fields are ignored, and the header Warnings lists them; with Options.StrictFields they are
// errors. With Options.StrictModel another model's name is an error.
func (s *Server) checkFields(w http.ResponseWriter, fields map[string]json.RawMessage, known []string,
	unsupported map[string][]string, model string) error {
	var passed []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		nothing, isUnsupported := unsupported[name]
		compact := strings.Join(strings.Fields(string(fields[name])), "")
		switch {
		case slices.Contains(known, name), slices.Contains(ignoredFields, name),
			isUnsupported && slices.Contains(nothing, compact):
			continue
		case isUnsupported && (slices.Contains(needed, name) || s.o.StrictFields):
			return refuse(http.StatusBadRequest, name, "%s is not supported here: %s", name,
				strings.Join(append(slices.Clone(nothing), "leave it out"), " or "))
		case s.o.StrictFields:
			return refuse(http.StatusBadRequest, name, "there is no field %q here: leave it out", name)
		}
		passed = append(passed, name)
	}
	if len(passed) > 0 {
		w.Header().Set("Warnings", fmt.Sprintf("fields passed over: %.900s", strings.Join(passed, ", ")))
	}
	if s.o.StrictModel && model != "" && model != s.o.Name && !slices.Contains(s.adapterNames(), model) {
		return s.noModel(model)
	}
	return nil
}

// job checks the numbers of a request and returns the job for the model. A field that is absent has its default.
func (q *request) job(prompts ...[]int32) (j job, err error) {
	j.prompts = prompts
	j.sampling = generate.Sampling{Temperature: 1, TopP: q.TopP, TopK: max(q.TopK, 0), MinP: q.MinP,
		PresencePenalty: q.PresencePenalty, FrequencyPenalty: q.FrequencyPenalty, Seed: rand.Uint64(),
		MinTokens: q.MinTokens, Sigmas: max(q.Sigmas, 0), Typical: q.Typical, XTCProbability: q.XTCProbability,
		XTCThreshold: 0.1} // llama.cpp's default
	if q.XTCThreshold != nil {
		j.sampling.XTCThreshold = *q.XTCThreshold
	}
	if q.Temperature != nil {
		j.sampling.Temperature = *q.Temperature
	}
	if q.Seed != nil {
		j.sampling.Seed = uint64(*q.Seed)
	}
	if err := q.repeatPenalty(&j.sampling); err != nil {
		return j, err
	}
	if err := q.maxTokens(&j); err != nil {
		return j, err
	}
	if err := q.answers(&j); err != nil {
		return j, err
	}
	if len(q.LogitBias) > maxBiases {
		return j, refuse(http.StatusBadRequest, "logit_bias", "logit_bias has %d tokens: want at most %d",
			len(q.LogitBias), maxBiases)
	}
	j.sampling.Bias = q.LogitBias
	j.stopTokens = q.StopTokens
	if q.IgnoreEnd {
		j.sampling.MinTokens = math.MaxInt // tokens that end an answer are never allowed
	}
	if err := q.dry(&j.sampling); err != nil {
		return j, err
	}
	q.mirostat(&j.sampling)
	if q.ThinkTokens != nil && *q.ThinkTokens > 0 {
		j.sampling.Reasoning.Tokens = *q.ThinkTokens
	}
	if err := j.sampling.Check(); err != nil {
		param := ""
		if wrong := (*generate.SamplingError)(nil); errors.As(err, &wrong) { // name the field as the request does
			param = samplingFields[wrong.Field]
			err = errors.New(wrong.Of(param))
		}
		return j, refuse(http.StatusBadRequest, param, "%v", err)
	}
	j.stop, err = stopsOf(q.Stop)
	return j, err
}

// repeatPenalty reads repeat_penalty and repetition_penalty, which mean the same. The latter wins.
func (q *request) repeatPenalty(s *generate.Sampling) error {
	for _, field := range []struct {
		name  string
		value *float64
	}{{"repeat_penalty", q.RepeatPenalty}, {"repetition_penalty", q.RepetitionPenalty}} {
		if field.value == nil {
			continue
		}
		if *field.value == 0 {
			return refuse(http.StatusBadRequest, field.name, "%s is 0: want a number above 0, because logits are "+
				"divided by it", field.name)
		}
		s.RepeatPenalty = *field.value
	}
	return nil
}

// maxTokens reads the three names of an answer's largest number of tokens. The last one that is given wins.
func (q *request) maxTokens(j *job) error {
	for _, field := range []struct {
		name   string
		tokens *int
	}{{"n_predict", q.Predict}, {"max_tokens", q.MaxTokens}, {"max_completion_tokens", q.MaxAnswer}} {
		if field.tokens == nil || *field.tokens == -1 { // -1 means no limit, as in llama.cpp
			continue
		}
		n := *field.tokens
		if n < 0 || n == 0 && !q.Echo {
			return refuse(http.StatusBadRequest, field.name, "%s is %d: want at least 1, or 0 with echo", field.name,
				n)
		}
		j.sampling.MaxTokens, j.silent = n, n == 0
	}
	return nil
}

// mirostat sets the sampling options of Mirostat, with llama.cpp's defaults, if the request asks for it.
func (q *request) mirostat(s *generate.Sampling) {
	if q.Mirostat == 0 {
		return
	}
	s.Mirostat = &generate.Mirostat{Version: q.Mirostat, Tau: 5, Eta: 0.1}
	if q.MirostatTau != nil {
		s.Mirostat.Tau = *q.MirostatTau
	}
	if q.MirostatEta != nil {
		s.Mirostat.Eta = *q.MirostatEta
	}
}

// dry sets the penalty against repetition (DRY), with llama.cpp's defaults, if the request asks for it. It returns an
// error for wrong values even if the penalty is off.
func (q *request) dry(s *generate.Sampling) error {
	d := generate.Dry{Multiplier: q.DryMultiplier, Base: 1.75, Allowed: 2, Last: -1, Breakers: generate.DefaultBreakers}
	if q.DryBase != nil {
		d.Base = *q.DryBase
		if d.Base == 0 {
			return refuse(http.StatusBadRequest, "dry_base", "dry_base is 0: want 1 to 10")
		}
	}
	if q.DryAllowed != nil {
		d.Allowed = *q.DryAllowed
	}
	if q.DryLast != nil {
		d.Last = *q.DryLast
	}
	if q.DryBreakers != nil {
		d.Breakers = q.DryBreakers
	}
	tooLong := func(b string) bool { return len(b) > maxStopSize }
	if len(d.Breakers) > maxStops || slices.ContainsFunc(d.Breakers, tooLong) {
		return refuse(http.StatusBadRequest, "dry_sequence_breakers",
			"want at most %d sequence breakers, each of at most %d bytes", maxStops, maxStopSize)
	}
	d.Breakers = slices.DeleteFunc(slices.Clone(d.Breakers), func(b string) bool { return b == "" })
	if q.DryMultiplier != 0 { // 0 is off
		s.Dry = &d
	}
	return nil
}

// samplingFields maps the fields of generate.Sampling to the names in requests.
var samplingFields = map[string]string{"Temperature": "temperature", "TopP": "top_p", "TopK": "top_k",
	"MinP": "min_p", "MinTokens": "min_tokens", "Typical": "typical_p", "Sigmas": "top_n_sigma",
	"XTCProbability": "xtc_probability", "XTCThreshold": "xtc_threshold", "RepeatPenalty": "repetition_penalty",
	"PresencePenalty": "presence_penalty", "FrequencyPenalty": "frequency_penalty", "Bias": "logit_bias",
	"MaxTokens": "max_tokens",
	"Likeliest": "top_logprobs", "Dry.Multiplier": "dry_multiplier", "Dry.Base": "dry_base",
	"Dry.Allowed": "dry_allowed_length", "Mirostat.Version": "mirostat", "Mirostat.Tau": "mirostat_tau",
	"Mirostat.Eta": "mirostat_eta"}

// answers sets j.wanted, the number of answers to return, and j.answers, the number to generate and choose from.
func (q *request) answers(j *job) error {
	j.wanted = 1
	if q.Answers != nil {
		j.wanted = *q.Answers
	}
	if j.wanted < 1 || j.wanted > maxAnswers {
		return refuse(http.StatusBadRequest, "n", "n is %d: want 1 to %d answers", j.wanted, maxAnswers)
	}
	j.answers = j.wanted
	if q.BestOf != nil {
		j.answers = *q.BestOf
	}
	// Too many answers of one prompt are an error of best_of, below.
	switch {
	case j.answers*len(j.prompts) > maxTexts && j.answers <= maxAnswers:
		return refuse(http.StatusBadRequest, "prompt", "%d prompts of %d answers each: want at most %d answers in all",
			len(j.prompts), j.answers, maxTexts)
	case j.answers < j.wanted || j.answers > maxAnswers:
		return refuse(http.StatusBadRequest, "best_of", "best_of is %d: want %d, which is n, to %d", j.answers,
			j.wanted, maxAnswers)
	case j.answers > j.wanted && q.Stream:
		return refuse(http.StatusBadRequest, "best_of", "best_of is %d and n is %d: the best answers are known only "+
			"when all have ended: want equal numbers, or no stream", j.answers, j.wanted)
	}
	return nil
}

// logprobs reads logprobs and top_logprobs of a chat request into the job: whether tokens come with log-probabilities,
// and how many likeliest tokens are listed for each.
func (q *request) logprobs(j *job) error {
	isNull := len(q.Logprobs) == 0 || string(q.Logprobs) == "null"
	if !isNull && json.Unmarshal(q.Logprobs, &j.sampling.Logprobs) != nil {
		return refuse(http.StatusBadRequest, "logprobs", "logprobs is %.40s: want true or false", q.Logprobs)
	}
	if q.TopLogprobs < 0 || q.TopLogprobs > maxLogprobs || q.TopLogprobs > 0 && !j.sampling.Logprobs {
		return refuse(http.StatusBadRequest, "top_logprobs", "top_logprobs is %d: want 0 to %d, with logprobs true",
			q.TopLogprobs, maxLogprobs)
	}
	j.sampling.Likeliest = q.TopLogprobs
	return q.probabilities(j)
}

// probabilities reads llama.cpp's n_probs, which asks for that many of the likeliest tokens.
func (q *request) probabilities(j *job) error {
	if q.Probs < 0 || q.Probs > maxLogprobs {
		return refuse(http.StatusBadRequest, "n_probs", "n_probs is %d: want 0 to %d", q.Probs, maxLogprobs)
	}
	if q.Probs > 0 {
		j.sampling.Logprobs, j.sampling.Likeliest = true, max(q.Probs, j.sampling.Likeliest)
	}
	return nil
}

// textLogprobs reads a completion request's logprobs, the number of likeliest tokens. With echo, the tokens of the
// prompt get log-probabilities too.
func (q *request) textLogprobs(j *job) error {
	if len(q.Logprobs) == 0 || string(q.Logprobs) == "null" {
		return q.probabilities(j)
	}
	n := &j.sampling.Likeliest
	if json.Unmarshal(q.Logprobs, n) != nil || *n < 0 || *n > maxLogprobs {
		return refuse(http.StatusBadRequest, "logprobs", "logprobs is %.40s: want a number, 0 to %d", q.Logprobs,
			maxLogprobs)
	}
	j.sampling.Logprobs, j.scored = true, q.Echo
	return nil
}

// stopsOf reads a stop word or a list of them, without empty ones. It returns an error for too many or too long ones.
func stopsOf(data json.RawMessage) (list []string, err error) {
	var one string
	switch {
	case len(data) == 0 || string(data) == "null":
		return nil, nil
	case json.Unmarshal(data, &one) == nil:
		list = []string{one}
	case json.Unmarshal(data, &list) != nil:
		return nil, refuse(http.StatusBadRequest, "stop", "stop is %.40s: want a string or a list of strings", data)
	}
	list = slices.DeleteFunc(list, func(w string) bool { return w == "" })
	if len(list) > maxStops || slices.ContainsFunc(list, func(w string) bool { return len(w) > maxStopSize }) {
		return nil, refuse(http.StatusBadRequest, "stop", "want at most %d stop strings, each of at most %d bytes",
			maxStops, maxStopSize)
	}
	return list, nil
}

// conversation makes the prompt from a request's messages, tools and template variables, and reads the pictures of the
// messages. It returns an error if the prompt is too long.
func (s *Server) conversation(ctx context.Context, q *request, t *tools) (prompt []int32, read []*generate.Image,
	err error) {
	c, pictures, err := s.talk(q, t)
	if err != nil {
		return nil, nil, err
	}
	if len(pictures) == 0 {
		prompt, err = s.model.Prompt(c)
	} else if read, err = s.readPictures(ctx, pictures); err != nil {
		return nil, nil, err
	} else {
		prompt, err = images(s.model).PromptWith(c, read)
	}
	if err != nil {
		return nil, nil, refuse(http.StatusBadRequest, "messages", "%v", err)
	}
	return prompt, read, s.checkLength(prompt, "messages")
}

// talk returns the context of the chat template for a request: its messages, tools and variables. It also returns the
// pictures of the messages, which it does not read.
func (s *Server) talk(q *request, t *tools) (c chat.Context, pictures []picture, err error) {
	if len(q.Messages) == 0 {
		return c, nil, refuse(http.StatusBadRequest, "messages", "messages is missing or empty: want at least one")
	}
	c.AddGenerationPrompt = (q.Generation == nil || *q.Generation) && !q.Continue
	c.Continue = q.Continue
	if c.Continue {
		switch {
		case q.Messages[len(q.Messages)-1].Role != "assistant":
			return c, nil, refuse(http.StatusBadRequest, "continue_final_message",
				"continue_final_message is true: want an assistant message as the last one")
		case q.Generation != nil && *q.Generation:
			return c, nil, refuse(http.StatusBadRequest, "continue_final_message",
				"continue_final_message and add_generation_prompt exclude each other: give one of them")
		}
	}
	if c.More, err = q.variables(); err != nil {
		return c, nil, err
	}
	if t != nil {
		if !strings.Contains(s.model.ChatTemplate(), "tools") {
			return c, nil, refuse(http.StatusBadRequest, "tools",
				"the model's chat template supports no tools: leave out tools, or use another model")
		}
		c.Tools = t.forTemplate
	}
	for i := range q.Messages {
		turn, own, err := s.turn(&q.Messages[i], fmt.Sprintf("messages[%d]", i))
		if err != nil {
			return c, nil, err
		}
		c.Messages, pictures = append(c.Messages, turn), append(pictures, own...)
	}
	return c, pictures, nil
}

// variables returns the variables of the chat template that a request sets: the fields of chat_template_kwargs. The
// request's other fields about reasoning set variables too, unless chat_template_kwargs has them.
func (q *request) variables() (more chat.Object, err error) {
	if len(q.Template) > 0 && string(q.Template) != "null" {
		v, err := chat.ParseJSON(q.Template)
		object, ok := v.(chat.Object)
		if err != nil || !ok {
			return nil, refuse(http.StatusBadRequest, "chat_template_kwargs",
				"chat_template_kwargs is %.40s: want an object", q.Template)
		}
		more = object
	}
	if _, ok := more.Get("reasoning_effort"); q.Effort != "" && !ok {
		more = append(more, chat.Field{Key: "reasoning_effort", Value: q.Effort})
		if _, ok := more.Get("enable_thinking"); !ok {
			more = append(more, chat.Field{Key: "enable_thinking", Value: q.Effort != "none"})
		}
	}
	// A limit of 0 tokens turns reasoning off.
	if _, ok := more.Get("enable_thinking"); q.ThinkTokens != nil && *q.ThinkTokens == 0 && !ok {
		more = append(more, chat.Field{Key: "enable_thinking", Value: false})
	}
	return more, nil
}

// turn converts a message of a request for the chat template, and returns its pictures. where names the message in
// errors.
func (s *Server) turn(m *message, where string) (turn chat.Message, pictures []picture, err error) {
	turn.Role = m.Role
	if turn.Role == "developer" { // the newer name
		turn.Role = "system"
	}
	if !slices.Contains([]string{"system", "user", "assistant", "tool"}, turn.Role) {
		return turn, nil, refuse(http.StatusBadRequest, where+".role",
			"%s.role is %q: want system, developer, user, assistant or tool", where, m.Role)
	}
	if turn.More, err = m.calls(where); err != nil {
		return turn, nil, err
	}
	_, hasCalls := turn.More.Get("tool_calls")
	if hasCalls && string(m.Content) == "" { // a message may consist of calls alone
		return turn, nil, nil
	}
	if hasCalls && string(m.Content) == "null" {
		turn.Content = chat.None
		return turn, nil, nil
	}
	turn.Content, pictures, err = s.contentOf(where+".content", m.Content)
	return turn, pictures, err
}

// calls returns the fields of a message in addition to its text: the tool calls of an assistant, or the id of the call
// that a tool answers. Arguments of calls, which are JSON strings, become objects, as chat templates expect.
func (m *message) calls(where string) (more chat.Object, err error) {
	for _, name := range slices.Sorted(maps.Keys(m.More)) {
		at := where + "." + name
		v, err := chat.ParseJSON(m.More[name])
		if err != nil {
			return nil, refuse(http.StatusBadRequest, at, "%s: %v", at, err)
		}
		switch {
		case name == "tool_call_id" && m.Role == "tool":
			if _, ok := v.(string); !ok {
				return nil, refuse(http.StatusBadRequest, at, "%s: want a string", at)
			}
		case slices.Contains([]string{"reasoning_content", "reasoning"}, name) && m.Role == "assistant":
			text, ok := v.(string)
			if !ok {
				return nil, refuse(http.StatusBadRequest, at, "%s: want a string", at)
			}
			for _, key := range []string{"reasoning_content", "thinking"} { // templates know one of these names
				more = append(more, chat.Field{Key: key, Value: text})
			}
			continue
		case name == "tool_calls" && m.Role == "assistant":
			list, _ := v.([]any)
			for i, one := range list {
				if !parseArguments(one) {
					return nil, refuse(http.StatusBadRequest, at, "%s[%d]: want {\"id\": ID, \"type\": \"function\", "+
						"\"function\": {\"name\": NAME, \"arguments\": JSON of an object}}", at, i)
				}
			}
			if list == nil {
				return nil, refuse(http.StatusBadRequest, at, "%s: want a list", at)
			}
		case name == "tool_calls" || name == "tool_call_id" || name == "audio" || name == "function_call":
			return nil, refuse(http.StatusBadRequest, at, "%s is not supported here: leave it out", at)
		default: // a client's own
			continue
		}
		more = append(more, chat.Field{Key: name, Value: v})
	}
	return more, nil
}

// parseArguments replaces the arguments of a call, which the protocol has as a JSON string, by the object in the
// string. It returns false if the call has no such arguments.
func parseArguments(call any) bool {
	fields, _ := call.(chat.Object)
	f, _ := fields.Get("function")
	inner, _ := f.(chat.Object)
	for i := range inner {
		text, isText := inner[i].Value.(string)
		if inner[i].Key != "arguments" || !isText {
			continue
		}
		v, err := chat.ParseJSON([]byte(text))
		object, ok := v.(chat.Object)
		if err != nil || !ok {
			return false
		}
		inner[i].Value = object
		return true
	}
	return false
}

// contentOf reads the content of a message: a string, or a list of parts. It returns a string, or for content with
// pictures a list of parts for the template. where names the message in errors.
func (s *Server) contentOf(where string, data json.RawMessage) (content any, pictures []picture, err error) {
	var text string
	if len(data) > 0 && json.Unmarshal(data, &text) == nil {
		return text, nil, nil
	}
	var parts []contentPart
	if len(data) == 0 || json.Unmarshal(data, &parts) != nil {
		return nil, nil, refuse(http.StatusBadRequest, where, "%s is missing, or neither a string nor a list of parts",
			where)
	}
	var all []any
	for i, p := range parts {
		if one, ok := p.picture(where); ok && images(s.model) != nil {
			pictures, all = append(pictures, one), append(all, generate.ImagePart())
			continue
		}
		if !slices.Contains([]string{"text", "input_text", "output_text"}, p.Type) {
			what := "text only"
			if images(s.model) != nil {
				what = "text and image_url only"
			}
			return nil, nil, refuse(http.StatusBadRequest, where, "%s[%d] is of type %q: this model reads %s", where, i,
				p.Type, what)
		}
		text += p.Text
		all = append(all, generate.TextPart(p.Text))
	}
	if len(pictures) == 0 {
		return text, nil, nil
	}
	return all, pictures, nil
}

// promptsOf reads one prompt of a completion or a list of them. It also returns their texts.
func (s *Server) promptsOf(data json.RawMessage) (prompts [][]int32, texts []string, err error) {
	list := []json.RawMessage{data}
	var several []json.RawMessage
	// A list that begins with a number is a single prompt of tokens.
	if json.Unmarshal(data, &several) == nil && len(several) > 0 && json.Unmarshal(several[0], new(int32)) != nil {
		list = several
	}
	for _, one := range list {
		prompt, text, err := s.promptOf(one)
		if err != nil {
			return nil, nil, err
		}
		prompts, texts = append(prompts, prompt), append(texts, text)
	}
	return prompts, texts, nil
}

// promptOf reads a prompt: a text, or the tokens of one.
func (s *Server) promptOf(data json.RawMessage) (prompt []int32, text string, err error) {
	switch {
	case len(data) == 0 || string(data) == "null":
		return nil, "", refuse(http.StatusBadRequest, "prompt", "prompt is missing")
	case json.Unmarshal(data, &text) == nil:
		prompt = s.model.Tokenizer().Encode(text, tokenizer.Options{Whole: true})
	case json.Unmarshal(data, &prompt) != nil:
		return nil, "", refuse(http.StatusBadRequest, "prompt",
			"prompt is %.40s: want a text, the tokens of one, or a list of either", data)
	default:
		if err := s.checkTokens(prompt, "prompt"); err != nil {
			return nil, "", err
		}
		text = s.model.Tokenizer().Decode(prompt)
	}
	return prompt, text, s.checkLength(prompt, "prompt")
}

// checkTokens returns an error if a prompt has a token outside the vocabulary. param names the field for the error.
func (s *Server) checkTokens(tokens []int32, param string) error {
	n := int32(s.model.Tokenizer().Len())
	for i, id := range tokens {
		if id < 0 || id >= n {
			return refuse(http.StatusBadRequest, param, "token %d of %s is %d: want 0 to %d", i, param, id, n-1)
		}
	}
	return nil
}

// checkLength returns an error if a prompt is empty or leaves no context for an answer.
func (s *Server) checkLength(prompt []int32, param string) error {
	switch {
	case len(prompt) == 0:
		return refuse(http.StatusBadRequest, param, "%s has no tokens: want at least one", param)
	case len(prompt) >= s.model.Context():
		return &refusal{http.StatusBadRequest, param, fmt.Sprintf("%s has %d tokens, and the context %d: shorten it, "+
			"or serve the model with a larger "+
			"context", param, len(prompt), s.model.Context()), "context_length_exceeded"}
	}
	return nil
}
