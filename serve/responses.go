package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// responsesRequest is the JSON of POST /v1/responses.
type responsesRequest struct {
	Model        string          `json:"model"`
	Input        json.RawMessage `json:"input"`
	Instructions string          `json:"instructions"`
	Stream       bool            `json:"stream"`
	MaxTokens    *int            `json:"max_output_tokens"`
	Temperature  *float64        `json:"temperature"`
	TopP         *float64        `json:"top_p"`
	Tools        json.RawMessage `json:"tools"`
	ToolChoice   json.RawMessage `json:"tool_choice"`
	Text         struct {
		Format json.RawMessage `json:"format"`
	} `json:"text"`
}

// unsupportedOfResponses lists unsupported fields of /v1/responses, with the values that are accepted.
var unsupportedOfResponses = map[string][]string{
	"background":           {"null", "false"},
	"conversation":         {"null"},
	"include":              {"null", "[]"},
	"max_tool_calls":       {"null"},
	"previous_response_id": {"null"},
	"prompt":               {"null"},
	"reasoning":            {"null", "{}"},
	"top_logprobs":         {"null", "0"},
	"truncation":           {"null", `"disabled"`},
}

// inputItem is an item of the input: a message, a call, or a call's result.
type inputItem struct {
	Type, Role      string
	Content, Output json.RawMessage
	CallID          string `json:"call_id"`
	Name, Arguments string
}

// chat converts the request to the equivalent request for chat/completions.
func (q *responsesRequest) chat() (c request, err error) {
	c = request{Model: q.Model, Stream: q.Stream, MaxAnswer: q.MaxTokens, Temperature: q.Temperature, TopP: q.TopP}
	wrong := func(param, format string, args ...any) (request, error) {
		return c, refuse(http.StatusBadRequest, param, format, args...)
	}
	if q.Instructions != "" {
		c.Messages = append(c.Messages, message{Role: "system", Content: encode(q.Instructions)})
	}
	var text string
	var items []inputItem
	switch {
	case len(q.Input) > 0 && json.Unmarshal(q.Input, &text) == nil:
		items = []inputItem{{Role: "user", Content: q.Input}}
	case len(q.Input) == 0 || json.Unmarshal(q.Input, &items) != nil:
		return wrong("input", "input is missing, or neither a string nor a list of messages and calls")
	}
	for i, item := range items {
		turn := message{Role: item.Role, Content: item.Content}
		switch item.Type {
		case "", "message":
		case "function_call":
			call := map[string]any{"id": item.CallID, "type": "function",
				"function": map[string]any{"name": item.Name, "arguments": item.Arguments}}
			turn = message{Role: "assistant", More: map[string]json.RawMessage{"tool_calls": encode([]any{call})}}
		case "function_call_output":
			turn = message{Role: "tool", Content: item.Output,
				More: map[string]json.RawMessage{"tool_call_id": encode(item.CallID)}}
		default:
			return wrong("input", "input[%d] is of type %q: want message, function_call or function_call_output", i,
				item.Type)
		}
		c.Messages = append(c.Messages, turn)
	}
	if c.Tools, err = nestFields(q.Tools, "function"); err != nil {
		return wrong("tools", "tools: %v", err)
	}
	if c.ToolChoice = q.ToolChoice; len(q.ToolChoice) > 0 && q.ToolChoice[0] == '{' {
		one, err := nestFields(json.RawMessage("["+string(q.ToolChoice)+"]"), "function")
		if err != nil {
			return wrong("tool_choice", "tool_choice: %v", err)
		}
		c.ToolChoice = one[1 : len(one)-1]
	}
	format := q.Text.Format
	if len(format) == 0 || string(format) == "null" {
		return c, nil
	}
	one, err := nestFields(json.RawMessage("["+string(format)+"]"), "json_schema")
	if err != nil {
		return wrong("text", "text.format: %v", err)
	}
	c.ResponseFormat = one[1 : len(one)-1]
	return c, nil
}

// encode returns the JSON of a value that cannot fail to encode.
func encode(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return data
}

// nestFields converts a list of objects to the form of chat/completions. In objects of type kind it moves all fields
// except "type" into one field named kind: {"type": "function", "name": "f"} becomes {"type": "function", "function":
// {"name": "f"}}.
func nestFields(list json.RawMessage, kind string) (json.RawMessage, error) {
	if len(list) == 0 || string(list) == "null" {
		return nil, nil
	}
	var objects []map[string]json.RawMessage
	if err := json.Unmarshal(list, &objects); err != nil {
		return nil, fmt.Errorf("want objects: %w", err)
	}
	var out []any
	for _, o := range objects {
		fields := map[string]any{"type": o["type"]}
		if string(o["type"]) == `"`+kind+`"` {
			delete(o, "type")
			fields[kind] = o
		}
		out = append(out, fields)
	}
	return encode(out), nil
}

// response is an answer to POST /v1/responses while it is sent.
type response struct {
	*answer
	q        *responsesRequest
	item     string // the name of its message
	sequence int
}

// responses answers POST /v1/responses, whole or as events. Nothing is stored.
func (s *Server) responses(w http.ResponseWriter, r *http.Request) error {
	var q responsesRequest
	fields, err := readJSON(r, &q)
	if err != nil {
		return err
	}
	if err := s.checkFields(fields, fieldsOf(q), unsupportedOfResponses, q.Model); err != nil {
		return err
	}
	c, err := q.chat()
	if err != nil {
		return err
	}
	t, err := readTools(c.Tools, c.ToolChoice)
	if err != nil {
		return err
	}
	prompt, err := s.conversation(c.Messages, nil, t)
	if err != nil {
		return err
	}
	j, err := c.job(prompt)
	if err != nil {
		return err
	}
	if j.tools = t; t != nil || c.ResponseFormat != nil {
		if j.sampling.Grammar, err = s.constrain(&c, t); err != nil {
			return err
		}
	}
	x := &response{q: &q, item: newID("msg"), answer: &answer{w: w, id: newID("resp"), created: time.Now().Unix(),
		model: s.o.Name, writeTimeout: s.o.WriteTimeout}}
	if q.Stream {
		return x.stream(r, s, j)
	}
	var text strings.Builder
	reader := newCallReader(t)
	end, use, err := s.run(r.Context(), j, j.prompts[0], func(p piece) error {
		text.WriteString(reader.next(p.text))
		return nil
	})
	if err != nil {
		return err
	}
	rest, calls := reader.end()
	text.WriteString(rest)
	x.extendDeadline()
	writeJSON(w, http.StatusOK, x.body(end, x.output(text.String(), calls, end), &use))
	return nil
}

// body returns a response. end is "" while the answer is in progress.
func (x *response) body(end finish, output []any, use *usage) map[string]any {
	status, why := "in_progress", any(nil)
	switch end {
	case "":
	case finishLength:
		status, why = "incomplete", map[string]any{"reason": "max_output_tokens"}
	default:
		status = "completed"
	}
	body := map[string]any{"id": x.id, "object": "response", "created_at": x.created, "status": status,
		"model": x.model, "output": output, "error": nil, "incomplete_details": why, "instructions": nil, "metadata": map[string]any{},
		"parallel_tool_calls": true, "temperature": x.q.Temperature, "top_p": x.q.TopP, "tool_choice": "auto",
		"tools": []any{}, "usage": nil, "store": false}
	if x.q.Instructions != "" {
		body["instructions"] = x.q.Instructions
	}
	if len(x.q.Tools) > 0 {
		body["tools"] = x.q.Tools
	}
	if len(x.q.ToolChoice) > 0 {
		body["tool_choice"] = x.q.ToolChoice
	}
	if use != nil {
		body["usage"] = map[string]any{"input_tokens": use.Prompt, "output_tokens": use.Completion,
			"total_tokens": use.Total, "input_tokens_details": use.Details,
			"output_tokens_details": map[string]any{"reasoning_tokens": 0}}
	}
	return body
}

// message is the output item with the text.
func (x *response) message(text string, end finish) map[string]any {
	m := map[string]any{"type": "message", "id": x.item, "role": "assistant", "status": "in_progress",
		"content": []any{}}
	if end != "" {
		m["content"], m["status"] = []any{textPart(text)}, "completed"
	}
	if end == finishLength {
		m["status"] = "incomplete"
	}
	return m
}

func textPart(text string) map[string]any {
	return map[string]any{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
}

// output lists the output items: the text, if any, and the calls.
func (x *response) output(text string, calls []call, end finish) (items []any) {
	if text != "" || calls == nil {
		items = append(items, x.message(text, end))
	}
	for _, c := range calls {
		items = append(items, map[string]any{"type": "function_call", "id": newID("fc"), "call_id": newID("call"),
			"name": c.name, "arguments": c.arguments, "status": "completed"})
	}
	return items
}

// sendEvent sends an event of this kind. It adds the type and the sequence number to fields.
func (x *response) sendEvent(kind string, fields map[string]any) error {
	fields["type"], fields["sequence_number"] = kind, x.sequence
	x.sequence++
	return x.namedEvent(kind, fields)
}

// stream answers by events. An error before the first event becomes an ordinary response.
func (x *response) stream(r *http.Request, s *Server, j job) error {
	var sent strings.Builder
	reader := newCallReader(j.tools)
	at := func(fields map[string]any) map[string]any { // of the message
		fields["item_id"], fields["output_index"], fields["content_index"] = x.item, 0, 0
		return fields
	}
	begin := func() error {
		if x.begun {
			return nil
		}
		x.startStream()
		return errors.Join(x.sendEvent("response.created", map[string]any{"response": x.body("", []any{}, nil)}),
			x.sendEvent("response.in_progress", map[string]any{"response": x.body("", []any{}, nil)}))
	}
	sendText := func(text string) error {
		if text == "" {
			return nil
		}
		if sent.Len() == 0 {
			err := errors.Join(x.sendEvent("response.output_item.added", map[string]any{"output_index": 0,
				"item": x.message("", "")}),
				x.sendEvent("response.content_part.added", at(map[string]any{"part": textPart("")})))
			if err != nil {
				return err
			}
		}
		sent.WriteString(text)
		return x.sendEvent("response.output_text.delta", at(map[string]any{"delta": text, "logprobs": []any{}}))
	}
	end, use, err := s.run(r.Context(), j, j.prompts[0], func(p piece) error {
		return errors.Join(begin(), sendText(reader.next(p.text)))
	})
	if err != nil {
		if !x.begun {
			return err
		}
		if !errors.Is(err, errGone) {
			failed := refusalOf(err)
			body := x.body("", []any{}, nil)
			body["status"], body["error"] = "failed", map[string]any{"code": "server_error", "message": failed.message}
			x.sendEvent("response.failed", map[string]any{"response": body})
		}
		return nil // the status is sent already
	}
	rest, calls := reader.end()
	if errors.Join(begin(), sendText(rest)) != nil {
		return nil
	}
	text := sent.String()
	items := x.output(text, calls, end)
	for i, item := range items {
		fields, _ := item.(map[string]any)
		if fields["type"] == "message" {
			if text != "" {
				x.sendEvent("response.output_text.done", at(map[string]any{"text": text, "logprobs": []any{}}))
				x.sendEvent("response.content_part.done", at(map[string]any{"part": textPart(text)}))
			} else {
				x.sendEvent("response.output_item.added", map[string]any{"output_index": i, "item": x.message("", "")})
			}
		} else {
			x.sendEvent("response.output_item.added", map[string]any{"output_index": i, "item": item})
			x.sendEvent("response.function_call_arguments.done", map[string]any{"output_index": i, "item_id": fields["id"],
				"name": fields["name"], "arguments": fields["arguments"]})
		}
		if x.sendEvent("response.output_item.done", map[string]any{"output_index": i, "item": item}) != nil {
			return nil
		}
	}
	kind := "response.completed"
	if end == finishLength {
		kind = "response.incomplete"
	}
	x.sendEvent(kind, map[string]any{"response": x.body(end, items, &use)})
	return nil
}
