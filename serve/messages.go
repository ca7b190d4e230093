package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/vkc-go/vkc/serve/reply"
)

// messagesRequest is the JSON of POST /v1/messages, Anthropic's protocol.
type messagesRequest struct {
	Model       string          `json:"model"`
	Messages    []blocksMessage `json:"messages"`
	System      blocks          `json:"system"`
	MaxTokens   *int            `json:"max_tokens"`
	Stop        json.RawMessage `json:"stop_sequences"`
	Stream      bool            `json:"stream"`
	Temperature *float64        `json:"temperature"`
	TopP        *float64        `json:"top_p"`
	TopK        int             `json:"top_k"`
	Tools       []blocksTool    `json:"tools"`
	Choice      struct {
		Type, Name string
		Single     bool `json:"disable_parallel_tool_use"`
	} `json:"tool_choice"`
	Thinking struct {
		Type   string
		Budget int `json:"budget_tokens"`
	} `json:"thinking"`
}

// unsupportedOfMessages lists unsupported fields of /v1/messages, with the values that are accepted.
var unsupportedOfMessages = map[string][]string{
	"container":   {"null"},
	"mcp_servers": {"null", "[]"},
}

// blocksTool is a function that the model may call.
type blocksTool struct {
	Type, Name, Description string
	Schema                  json.RawMessage `json:"input_schema"`
}

// blocksMessage is a message of a conversation.
type blocksMessage struct {
	Role    string
	Content blocks
}

// blocks is the content of a message: a string, or a list of blocks.
type blocks []block

// block is a part of a message: text, a picture, reasoning, a call, or a call's result.
type block struct {
	Type, Text, Thinking string
	ID, Name             string
	Input                json.RawMessage
	Use                  string `json:"tool_use_id"`
	Content              blocks
	Source               struct {
		Type, Data, URL string
		MediaType       string `json:"media_type"`
	}
}

// url returns the URL of a picture: a data URL if the picture is in the block.
func (b *block) url() string {
	if b.Source.Type == "base64" {
		return "data:" + b.Source.MediaType + ";base64," + b.Source.Data
	}
	return b.Source.URL
}

// UnmarshalJSON implements json.Unmarshaler.
func (b *blocks) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*b = blocks{{Type: "text", Text: text}}
		return nil
	}
	return json.Unmarshal(data, (*[]block)(b))
}

// text returns the text of blocks that must all be text.
func (b blocks) text(where string) (text string, err error) {
	for i, one := range b {
		if one.Type != "text" {
			return "", refuse(http.StatusBadRequest, where, "%s[%d] is of type %q: want text", where, i, one.Type)
		}
		text += one.Text
	}
	return text, nil
}

// chat converts the request to the equivalent request for chat/completions.
func (q *messagesRequest) chat() (c request, err error) {
	c = request{Model: q.Model, Stream: q.Stream, MaxTokens: q.MaxTokens, Temperature: q.Temperature, TopP: q.TopP,
		TopK: q.TopK, Stop: q.Stop}
	switch q.Thinking.Type {
	case "enabled", "adaptive":
		c.Template = encode(map[string]any{"enable_thinking": true})
		if q.Thinking.Budget > 0 {
			c.ThinkTokens = &q.Thinking.Budget
		}
	case "disabled":
		c.ThinkTokens = new(int) // 0 tokens of reasoning
	}
	if len(q.System) > 0 {
		text, err := q.System.text("system")
		if err != nil {
			return c, err
		}
		c.Messages = append(c.Messages, message{Role: "system", Content: encode(text)})
	}
	for i, m := range q.Messages {
		turns, err := m.turns(fmt.Sprintf("messages[%d]", i))
		if err != nil {
			return c, err
		}
		c.Messages = append(c.Messages, turns...)
	}
	if q.Choice.Single {
		c.Parallel = new(bool) // false: at most one call
	}
	c.Tools, c.ToolChoice, err = q.tools()
	return c, err
}

// turns returns the messages of chat/completions that a message of Anthropic's protocol stands for. The results of
// calls come first, a message each. where is the message's place in the request, for errors.
func (m blocksMessage) turns(where string) (list []message, err error) {
	if m.Role != "user" && m.Role != "assistant" {
		return nil, refuse(http.StatusBadRequest, where+".role", "%s.role is %q: want user or assistant", where, m.Role)
	}
	text, thoughts := "", ""
	said, shown := false, false // whether there is text or a picture, and whether there is a picture
	var calls, parts []any
	for i, b := range m.Content {
		at := fmt.Sprintf("%s.content[%d]", where, i)
		switch {
		case b.Type == "text":
			text, said = text+b.Text, true
			parts = append(parts, map[string]any{"type": "text", "text": b.Text})
		case b.Type == "image" && m.Role == "user":
			parts = append(parts, map[string]any{"type": "image_url", "image_url": map[string]any{"url": b.url()}})
			said, shown = true, true
		case b.Type == "thinking" && m.Role == "assistant":
			thoughts += b.Thinking
		case b.Type == "redacted_thinking" && m.Role == "assistant":
		case b.Type == "tool_use" && m.Role == "assistant":
			calls = append(calls, map[string]any{"id": b.ID, "type": "function",
				"function": map[string]any{"name": b.Name, "arguments": string(b.Input)}})
		case b.Type == "tool_result" && m.Role == "user":
			result, err := b.Content.text(at + ".content")
			if err != nil {
				return nil, err
			}
			list = append(list, message{Role: "tool", Content: encode(result),
				More: map[string]json.RawMessage{"tool_call_id": encode(b.Use)}})
		default:
			return nil, refuse(http.StatusBadRequest, at, "%s is of type %q: want text, image or tool_result in user "+
				"messages, and text, thinking or tool_use in assistant messages; this message is of role "+
				"%s", at, b.Type, m.Role)
		}
	}
	if onlyResults := !said && calls == nil && list != nil; onlyResults {
		return list, nil
	}
	turn := message{Role: m.Role, Content: encode(text), More: map[string]json.RawMessage{}}
	if shown {
		turn.Content = encode(parts)
	}
	if thoughts != "" {
		turn.More["reasoning_content"] = encode(thoughts)
	}
	if calls != nil {
		turn.More["tool_calls"] = encode(calls)
	}
	return append(list, turn), nil
}

// tools returns the request's tools and its choice of tools, as JSON in the form of chat/completions. Absent ones are
// nil.
func (q *messagesRequest) tools() (tools, choice json.RawMessage, err error) {
	var list []any
	for i, t := range q.Tools {
		if t.Type != "" && t.Type != "custom" {
			return nil, nil, refuse(http.StatusBadRequest, "tools", "tools[%d] is of type %q: want custom", i, t.Type)
		}
		list = append(list, map[string]any{"type": "function",
			"function": map[string]any{"name": t.Name, "description": t.Description, "parameters": t.Schema}})
	}
	if list != nil {
		tools = encode(list)
	}
	switch q.Choice.Type {
	case "":
	case "auto", "none":
		choice = encode(q.Choice.Type)
	case "any":
		choice = encode("required")
	case "tool":
		choice = encode(map[string]any{"type": "function", "function": map[string]any{"name": q.Choice.Name}})
	default:
		err = refuse(http.StatusBadRequest, "tool_choice", "tool_choice.type is %q: want auto, any, tool or none",
			q.Choice.Type)
	}
	return tools, choice, err
}

// readMessages reads a request in Anthropic's protocol, and returns its job.
func (s *Server) readMessages(w http.ResponseWriter, r *http.Request) (q messagesRequest, j job, err error) {
	fields, err := readJSON(r, &q)
	if err != nil {
		return q, j, err
	}
	if err := s.checkFields(w, fields, fieldsOf(q), unsupportedOfMessages, q.Model); err != nil {
		return q, j, err
	}
	c, err := q.chat()
	if err != nil {
		return q, j, err
	}
	if j, err = s.chatJob(r.Context(), &c); err != nil {
		return q, j, err
	}
	return q, j, s.constrain(w, &c, &j)
}

// countTokens answers POST /v1/messages/count_tokens.
func (s *Server) countTokens(w http.ResponseWriter, r *http.Request) error {
	_, j, err := s.readMessages(w, r)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, map[string]any{"input_tokens": len(j.prompts[0])})
	return nil
}

// messages answers POST /v1/messages, whole or as events.
func (s *Server) messages(w http.ResponseWriter, r *http.Request) error {
	q, j, err := s.readMessages(w, r)
	if err != nil {
		return err
	}
	x := &blocksAnswer{input: len(j.prompts[0]), answer: &answer{w: w, id: newID("msg"), created: time.Now().Unix(),
		model: s.o.Name, writeTimeout: s.o.WriteTimeout}}
	if q.Stream {
		return x.stream(r, s, j)
	}
	end, use, err := s.collect(r.Context(), j, &x.said)
	if err != nil {
		return err
	}
	x.extendDeadline()
	body := x.body(x.content())
	body["stop_reason"], body["stop_sequence"] = x.reason(end, use)
	body["usage"] = usageOfBlocks(use)
	writeJSON(w, http.StatusOK, body)
	return nil
}

// blocksAnswer is an answer to POST /v1/messages while it is sent.
type blocksAnswer struct {
	*answer
	input int // tokens of the prompt
	said  said
	index int // of the next block
	kind  reply.Kind
	open  bool // a block of that kind is not complete
}

// body returns a message with content, without a reason to stop.
func (x *blocksAnswer) body(content []any) map[string]any {
	return map[string]any{"id": x.id, "type": "message", "role": "assistant", "model": x.model, "content": content,
		"stop_reason": nil, "stop_sequence": nil,
		"usage": usageOfBlocks(usage{Prompt: x.input})}
}

func usageOfBlocks(u usage) map[string]any {
	return map[string]any{"input_tokens": u.Prompt - u.Details.Cached, "cache_read_input_tokens": u.Details.Cached,
		"cache_creation_input_tokens": 0, "output_tokens": u.Completion}
}

// content lists the blocks of a whole answer.
func (x *blocksAnswer) content() []any {
	list := []any{}
	if text := x.said.reasoning.String(); text != "" {
		list = append(list, map[string]any{"type": "thinking", "thinking": text, "signature": ""})
	}
	if text := x.said.content.String(); text != "" {
		list = append(list, map[string]any{"type": "text", "text": text})
	}
	for _, c := range x.said.calls {
		input := json.RawMessage(c.arguments)
		if !json.Valid(input) {
			input = json.RawMessage("{}") // the answer was cut
		}
		list = append(list, map[string]any{"type": "tool_use", "id": c.id, "name": c.name, "input": input})
	}
	return list
}

// reason returns why the answer ended, and the stop word if that is why.
func (x *blocksAnswer) reason(end finish, use usage) (reason string, word any) {
	switch {
	case end == finishLength:
		return "max_tokens", nil
	case x.said.calls != nil:
		return "tool_use", nil
	case use.word != "":
		return "stop_sequence", use.word
	}
	return "end_turn", nil
}

// sendEvent sends an event.
func (x *blocksAnswer) sendEvent(kind string, fields map[string]any) error {
	fields["type"] = kind
	return x.namedEvent(kind, fields)
}

// stream answers by the events of Anthropic's protocol. An error before the first event is an ordinary response.
func (x *blocksAnswer) stream(r *http.Request, s *Server, j job) error {
	end, use, err := s.run(r.Context(), j, j.prompts[0], func(p piece) error {
		err := x.begin()
		for _, part := range p.parts {
			err = errors.Join(err, x.part(part))
		}
		return err
	})
	if err != nil {
		if !x.begun {
			return err
		}
		if !errors.Is(err, errGone) {
			x.namedEvent("error", errorBody(err))
		}
		return nil // the status is sent already
	}
	reason, word := x.reason(end, use)
	if errors.Join(x.begin(), x.finish()) == nil && x.sendEvent("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": reason, "stop_sequence": word}, "usage": usageOfBlocks(use)}) == nil {
		x.sendEvent("message_stop", map[string]any{})
	}
	return nil
}

// begin sends the event before all blocks.
func (x *blocksAnswer) begin() error {
	if x.begun {
		return nil
	}
	x.startStream()
	return x.sendEvent("message_start", map[string]any{"message": x.body([]any{})})
}

// part sends the events of a part of the answer. A new block begins with each call, and with a part of another kind
// than the current block.
func (x *blocksAnswer) part(p reply.Part) error {
	kind := p.Kind
	if kind == reply.Arguments {
		kind = reply.CallStart // the arguments belong to the call's block
	}
	x.said.add(p)
	var err error
	if p.Kind == reply.CallStart || !x.open || kind != x.kind {
		err = x.finish()
		x.kind, x.open = kind, true
		first := map[string]any{"type": "text", "text": ""}
		switch kind {
		case reply.Reasoning:
			first = map[string]any{"type": "thinking", "thinking": "", "signature": ""}
		case reply.CallStart:
			c := x.said.calls[len(x.said.calls)-1]
			first = map[string]any{"type": "tool_use", "id": c.id, "name": c.name, "input": map[string]any{}}
		}
		err = errors.Join(err, x.sendEvent("content_block_start",
			map[string]any{"index": x.index, "content_block": first}))
	}
	// The first event of a call has its name.
	if p.Text == "" || p.Kind == reply.CallStart || err != nil {
		return err
	}
	delta := map[string]any{"type": "text_delta", "text": p.Text}
	switch p.Kind {
	case reply.Reasoning:
		delta = map[string]any{"type": "thinking_delta", "thinking": p.Text}
	case reply.Arguments:
		delta = map[string]any{"type": "input_json_delta", "partial_json": p.Text}
	}
	return x.sendEvent("content_block_delta", map[string]any{"index": x.index, "delta": delta})
}

// finish ends the current block.
func (x *blocksAnswer) finish() error {
	if !x.open {
		return nil
	}
	x.open = false
	x.index++
	return x.sendEvent("content_block_stop", map[string]any{"index": x.index - 1})
}
