package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/vkc-go/vkc/serve/reply"
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
	Parallel     *bool           `json:"parallel_tool_calls"`
	Lora         []loraScale     `json:"lora"`
	Reasoning    struct {
		Effort string `json:"effort"`
	} `json:"reasoning"`
	Text struct {
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
	"top_logprobs":         {"null", "0"},
	"truncation":           {"null", `"disabled"`},
}

// inputItem is an item of the input: a message, a call, or a call's result.
type inputItem struct {
	Type, Role      string
	Content, Output json.RawMessage
	CallID          string `json:"call_id"`
	Name, Arguments string
	Summary         []struct{ Text string }
}

// chat converts the request to the equivalent request for chat/completions.
func (q *responsesRequest) chat() (c request, err error) {
	c = request{Model: q.Model, Stream: q.Stream, MaxAnswer: q.MaxTokens, Temperature: q.Temperature, TopP: q.TopP,
		Parallel: q.Parallel, Effort: q.Reasoning.Effort, Lora: q.Lora}
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
		m, err := item.message(fmt.Sprintf("input[%d]", i))
		if err != nil {
			return c, err
		}
		c.Messages = append(c.Messages, m)
	}
	if c.Tools, err = nestFields(q.Tools, "function"); err != nil {
		return wrong("tools", "tools: %v", err)
	}
	c.ToolChoice = q.ToolChoice
	if len(q.ToolChoice) > 0 && q.ToolChoice[0] == '{' {
		if c.ToolChoice, err = nestField(q.ToolChoice, "function"); err != nil {
			return wrong("tool_choice", "tool_choice: %v", err)
		}
	}
	if format := q.Text.Format; len(format) > 0 && string(format) != "null" {
		if c.ResponseFormat, err = nestField(format, "json_schema"); err != nil {
			return wrong("text", "text.format: %v", err)
		}
	}
	return c, nil
}

// message converts an item of the input to a message of chat/completions. Calls and reasoning become messages of the
// assistant, and the output of a call a message of a tool. where names the item in errors.
func (item inputItem) message(where string) (message, error) {
	wrong := func(format string, args ...any) (message, error) {
		return message{}, refuse(http.StatusBadRequest, "input", where+format, args...)
	}
	switch item.Type {
	case "", "message":
		return message{Role: item.Role, Content: item.Content}, nil
	case "function_call":
		call := map[string]any{"id": item.CallID, "type": "function",
			"function": map[string]any{"name": item.Name, "arguments": item.Arguments}}
		return message{Role: "assistant", More: map[string]json.RawMessage{"tool_calls": encode([]any{call})}}, nil
	case "reasoning":
		var parts []struct{ Text string }
		if len(item.Content) > 0 && string(item.Content) != "null" && json.Unmarshal(item.Content, &parts) != nil {
			return wrong(".content: want a list of parts")
		}
		text := ""
		for _, p := range append(parts, item.Summary...) {
			text += p.Text
		}
		return message{Role: "assistant", Content: encode(""),
			More: map[string]json.RawMessage{"reasoning_content": encode(text)}}, nil
	case "function_call_output":
		return message{Role: "tool", Content: item.Output,
			More: map[string]json.RawMessage{"tool_call_id": encode(item.CallID)}}, nil
	}
	return wrong(" is of type %q: want message, reasoning, function_call or function_call_output", item.Type)
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

// nestField is nestFields for one object.
func nestField(object json.RawMessage, kind string) (json.RawMessage, error) {
	list, err := nestFields(slices.Concat(json.RawMessage("["), object, json.RawMessage("]")), kind)
	if err != nil {
		return nil, err
	}
	return list[1 : len(list)-1], nil // without the brackets of the list
}

// response is an answer to POST /v1/responses while it is sent.
type response struct {
	*answer
	q        *responsesRequest
	said     said
	items    [2]string // the ids of the message (0) and of the reasoning (1)
	index    int       // of the next item of the output
	kind     reply.Kind
	open     bool // an item of that kind is not complete
	sequence int
}

// responses answers POST /v1/responses, whole or as events. Nothing is stored.
func (s *Server) responses(w http.ResponseWriter, r *http.Request) error {
	var q responsesRequest
	fields, err := readJSON(r, &q)
	if err != nil {
		return err
	}
	if err := s.checkFields(w, fields, fieldsOf(q), unsupportedOfResponses, q.Model); err != nil {
		return err
	}
	c, err := q.chat()
	if err != nil {
		return err
	}
	j, err := s.chatJob(r.Context(), &c)
	if err != nil {
		return err
	}
	if err := s.constrain(w, &c, &j); err != nil {
		return err
	}
	x := &response{q: &q, items: [2]string{newID("msg"), newID("rs")}, answer: &answer{w: w, id: newID("resp"),
		created: time.Now().Unix(), model: s.o.Name, writeTimeout: s.o.WriteTimeout}}
	if q.Stream {
		return x.stream(r, s, j)
	}
	end, use, err := s.collect(r.Context(), j, &x.said)
	if err != nil {
		return err
	}
	x.extendDeadline()
	writeJSON(w, http.StatusOK, x.body(end, x.output(end), &use))
	return nil
}

// body returns a response with the given output items. end is the reason for the answer's end, or "" while it is in
// progress. use is the number of tokens, or nil if it is not known yet.
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
		"model": x.model, "output": output, "error": nil, "incomplete_details": why, "instructions": nil,
		"metadata":            map[string]any{},
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

// item returns an output item: a message with the text, or reasoning. status is in_progress, completed or incomplete.
// An item in progress has no content yet.
func (x *response) item(kind reply.Kind, text, status string) map[string]any {
	content := []any{}
	if status != "in_progress" {
		content = []any{textPart(kind, text)}
	}
	if kind == reply.Reasoning {
		return map[string]any{"type": "reasoning", "id": x.items[1], "status": status, "summary": []any{},
			"content": content}
	}
	return map[string]any{"type": "message", "id": x.items[0], "role": "assistant", "status": status,
		"content": content}
}

// textPart returns a part of an output item in the format of the Responses API: reasoning or text of the answer.
func textPart(kind reply.Kind, text string) map[string]any {
	if kind == reply.Reasoning {
		return map[string]any{"type": "reasoning_text", "text": text}
	}
	return map[string]any{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
}

// output lists the output items: the reasoning, the text and the calls. There is a text, perhaps an empty one, unless
// there are calls.
func (x *response) output(end finish) (items []any) {
	status := "completed"
	if end == finishLength {
		status = "incomplete"
	}
	if text := x.said.reasoning.String(); text != "" {
		items = append(items, x.item(reply.Reasoning, text, "completed"))
	}
	if text := x.said.content.String(); text != "" || x.said.calls == nil {
		items = append(items, x.item(reply.Content, text, status))
	}
	for _, c := range x.said.calls {
		items = append(items, callItem(c, "completed"))
	}
	return items
}

func callItem(c call, status string) map[string]any {
	return map[string]any{"type": "function_call", "id": "fc-" + c.id, "call_id": c.id, "name": c.name,
		"arguments": c.arguments, "status": status}
}

// sendEvent sends an event with the next sequence number.
func (x *response) sendEvent(kind string, fields map[string]any) error {
	fields["type"], fields["sequence_number"] = kind, x.sequence
	x.sequence++
	return x.namedEvent(kind, fields)
}

// stream answers by events. An error before the first event is an ordinary response.
func (x *response) stream(r *http.Request, s *Server, j job) error {
	end, use, err := s.run(r.Context(), j, j.prompts[0], func(p piece) error {
		if err := x.begin(); err != nil {
			return err
		}
		for _, part := range p.parts {
			if err := x.part(part); err != nil {
				return err
			}
		}
		return nil
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
	err = x.begin()
	if x.said.content.Len() == 0 && x.said.calls == nil { // an empty message
		err = errors.Join(err, x.part(reply.Part{Kind: reply.Content}))
	}
	kind, status := "response.completed", "completed"
	if end == finishLength {
		kind, status = "response.incomplete", "incomplete"
	}
	if errors.Join(err, x.finish(status)) == nil {
		x.sendEvent(kind, map[string]any{"response": x.body(end, x.output(end), &use)})
	}
	return nil
}

// begin sends the events before all items.
func (x *response) begin() error {
	if x.begun {
		return nil
	}
	x.startStream()
	return errors.Join(x.sendEvent("response.created", map[string]any{"response": x.body("", []any{}, nil)}),
		x.sendEvent("response.in_progress", map[string]any{"response": x.body("", []any{}, nil)}))
}

// part sends the events of a part of the answer. A new item begins with each call, and with a part of another kind than
// the current item.
func (x *response) part(p reply.Part) error {
	kind := p.Kind
	if kind == reply.Arguments {
		kind = reply.CallStart
	}
	var err error
	if p.Kind == reply.CallStart || !x.open || kind != x.kind {
		// The current item ends before p is added, because its last events have its whole text.
		err = x.finish("completed")
		x.said.add(p)
		err = errors.Join(err, x.beginItem(kind))
	} else {
		x.said.add(p)
	}
	switch {
	case p.Text == "" || p.Kind == reply.CallStart || err != nil:
		return err
	case p.Kind == reply.Content:
		return x.sendEvent("response.output_text.delta", x.at(map[string]any{"delta": p.Text, "logprobs": []any{}}))
	case p.Kind == reply.Reasoning:
		return x.sendEvent("response.reasoning_text.delta", x.at(map[string]any{"delta": p.Text}))
	}
	return x.sendEvent("response.function_call_arguments.delta", map[string]any{"output_index": x.index,
		"item_id": "fc-" + x.said.calls[len(x.said.calls)-1].id, "delta": p.Text})
}

// beginItem sends the events at the beginning of an item. A call is already in x.said.
func (x *response) beginItem(kind reply.Kind) error {
	x.kind, x.open = kind, true
	if kind == reply.CallStart {
		call := callItem(x.said.calls[len(x.said.calls)-1], "in_progress")
		return x.sendEvent("response.output_item.added", map[string]any{"output_index": x.index, "item": call})
	}
	item := x.item(kind, "", "in_progress")
	return errors.Join(
		x.sendEvent("response.output_item.added", map[string]any{"output_index": x.index, "item": item}),
		x.sendEvent("response.content_part.added", x.at(map[string]any{"part": textPart(kind, "")})))
}

// at adds to an event's fields to which output item the current text belongs.
func (x *response) at(fields map[string]any) map[string]any {
	id := x.items[0]
	if x.kind == reply.Reasoning {
		id = x.items[1]
	}
	fields["item_id"], fields["output_index"], fields["content_index"] = id, x.index, 0
	return fields
}

// finish sends the events at the end of the current item.
func (x *response) finish(status string) (err error) {
	if !x.open {
		return nil
	}
	var item map[string]any
	switch x.kind {
	case reply.CallStart:
		c := x.said.calls[len(x.said.calls)-1]
		item = callItem(c, "completed")
		err = x.sendEvent("response.function_call_arguments.done", map[string]any{"output_index": x.index,
			"item_id": item["id"], "name": c.name, "arguments": c.arguments})
	case reply.Reasoning:
		text := x.said.reasoning.String()
		item = x.item(x.kind, text, "completed")
		err = errors.Join(x.sendEvent("response.reasoning_text.done", x.at(map[string]any{"text": text})),
			x.sendEvent("response.content_part.done", x.at(map[string]any{"part": textPart(x.kind, text)})))
	default:
		text := x.said.content.String()
		item = x.item(x.kind, text, status)
		done := x.at(map[string]any{"text": text, "logprobs": []any{}})
		err = errors.Join(x.sendEvent("response.output_text.done", done),
			x.sendEvent("response.content_part.done", x.at(map[string]any{"part": textPart(x.kind, text)})))
	}
	done := map[string]any{"output_index": x.index, "item": item}
	err = errors.Join(err, x.sendEvent("response.output_item.done", done))
	x.open = false
	x.index++
	return err
}
