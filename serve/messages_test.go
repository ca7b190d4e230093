package serve_test

import (
	"strings"
	"testing"

	"github.com/vkc-go/vkc/serve"
)

// eventLines returns the data of a stream's events.
func eventLines(body string) (list []string) {
	for line := range strings.Lines(body) {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
			list = append(list, data)
		}
	}
	return list
}

// TestMessages: Anthropic's protocol, whole and in streams. The model echoes the last message.
func TestMessages(t *testing.T) {
	s := start(t, newEcho(t), serve.Options{Name: "echo"})
	const tools = `, "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
		"tools": [{"name": "f", "description": "a function", "input_schema": {"type": "object"}}]`
	for _, c := range []struct{ say, more, want, stream string }{
		{"yes", "", `"content":[{"text":"yesyes`, `"text_delta"`},
		{"<think>hm</think>\\nyes", "", `"thinking":"hm"`, `"thinking_delta"`},
		{`<tool_call>{\"name\": \"f\"}</tool_call>`, tools, `"input":{},"name":"f","type":"tool_use"`, `"input_json_delta"`},
		{`<tool_call>{\"name\": \"f\"}</tool_call>`, tools, `"stop_reason":"tool_use"`, `"stop_reason":"tool_use"`},
		{"one two", `, "stop_sequences": ["two"]`, `"stop_reason":"stop_sequence","stop_sequence":"two"`,
			`"stop_sequence":"two"`},
		{"yes", `, "system": [{"type": "text", "text": "be brief"}], "thinking": {"type": "disabled"}, "metadata": {}`,
			`"stop_reason":"max_tokens"`, `"stop_reason":"max_tokens"`},
	} {
		ask := `{"model": "echo", "max_tokens": 40, "messages": [{"role": "user", "content": [{"type": "text", "text": "` +
			c.say + `"}]}]` + c.more
		status, body := post(t, s.URL+"/v1/messages", ask+"}")
		if status != 200 || !strings.Contains(body, c.want) || !strings.Contains(body, `"type":"message"`) {
			t.Errorf("%s: %d %s, want %s", c.say, status, body, c.want)
		}
		status, body = post(t, s.URL+"/v1/messages", ask+`, "stream": true}`)
		list := eventLines(body)
		if status != 200 || !strings.Contains(body, c.stream) || !strings.Contains(list[0], `"type":"message_start"`) ||
			!strings.Contains(list[len(list)-1], `"type":"message_stop"`) ||
			strings.Count(body, "event: content_block_start") != strings.Count(body, "event: content_block_stop") {
			t.Errorf("%s: %d %s, want %s", c.say, status, body, c.stream)
		}
	}
	status, body := post(t, s.URL+"/v1/messages/count_tokens", `{"messages": [{"role": "user", "content": "func main"}]}`)
	if status != 200 || body != "{\"input_tokens\":2}\n" {
		t.Errorf("%d %s", status, body)
	}
}

// TestMessagesTalk: calls and their results become messages of the template, and what is wrong is named.
func TestMessagesTalk(t *testing.T) {
	s := start(t, newEcho(t), serve.Options{Name: "echo", Key: "k"})
	key := []string{"X-Api-Key", "k"}
	talk := `{"max_tokens": 9, "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content":
		[{"type": "thinking", "thinking": "hm"}, {"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
		{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "done"}]}]}`
	if status, body := post(t, s.URL+"/v1/messages", talk, key...); status != 200 || !strings.Contains(body, "done") {
		t.Errorf("%d %s", status, body)
	}
	if status, body := post(t, s.URL+"/v1/messages", talk); status != 401 || !strings.Contains(body, "X-Api-Key") {
		t.Errorf("without a key: %d %s", status, body)
	}
	for ask, want := range map[string]string{
		`{"messages": [{"role": "tool", "content": "x"}]}`:                 "messages[0].role",
		`{"messages": [{"role": "user", "content": [{"type": "image"}]}]}`: "messages[0].content[0]",
		`{"messages": []}`: "messages is missing",
		`{"messages": [{"role": "user", "content": "x"}], "tool_choice": {"type": "x"}}`:         "tool_choice.type",
		`{"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "bash_20250124"}]}`: "tools[0]",
		`{"messages": [{"role": "user", "content": "x"}], "system": [{"type": "image"}]}`:        "system[0]",
		`{"messages": [{"role": "user", "content": "x"}], "tool_choice": {"type": "any"}}`:       "tool_choice",
	} {
		if status, body := post(t, s.URL+"/v1/messages", ask, key...); status != 400 || !strings.Contains(body, want) ||
			!strings.Contains(body, `"type":"error"`) {
			t.Errorf("%s: %d %s, want %s", ask, status, body, want)
		}
	}
}
