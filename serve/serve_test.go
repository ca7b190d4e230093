package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vkc-go/vkc/frontend/chat"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/serve"
)

const gollama = "../examples/gollama/gollama-q8_0.gguf"

// echo is a model that answers with its prompt, again and again, token by token.
type echo struct {
	tok     *tokenizer.Tokenizer
	hold    chan struct{} // where not nil, each token waits for one
	failing bool          // in place of the third token
	places  chan struct{} // holds one for each answer that is under way
	asked   atomic.Int64  // answers that are under way or wait
}

func newEcho(t testing.TB) *echo {
	t.Helper()
	f, err := gguf.Open(gollama)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := tokenizer.New(f)
	if err != nil {
		t.Fatal(err)
	}
	return &echo{tok: tok, places: make(chan struct{}, 1)}
}

func (e *echo) Tokenizer() *tokenizer.Tokenizer { return e.tok }
func (e *echo) Context() int                    { return 64 }
func (e *echo) Parallel() int                   { return cap(e.places) }

func (e *echo) Load() generate.Load {
	running := len(e.places)
	return generate.Load{Running: running, Waiting: max(int(e.asked.Load())-running, 0), Cache: float64(running) / 2}
}

func (e *echo) Reused() generate.Reused { return generate.Reused{Tokens: 7, Known: 3} }

func (e *echo) DeviceBytes() uint64 { return 11 }

func (e *echo) ChatTemplate() string { return "{{ tools }} <tool_call>" }

func (e *echo) Prompt(c chat.Context) ([]int32, error) {
	last := c.Messages[len(c.Messages)-1]
	return e.tok.Encode(last.Content.(string), tokenizer.Options{}), nil
}

func (e *echo) Render(c chat.Context) (string, error) {
	return "<s>" + c.Messages[len(c.Messages)-1].Content.(string), nil
}

// Score says of each token that it is as probable as its number says.
func (e *echo) Score(_ context.Context, text []int32, _ int) (list []generate.Token, err error) {
	decoder := e.tok.Decoder()
	for i, id := range text {
		t := generate.Token{ID: id, Text: decoder.Next(id)}
		if i > 0 {
			t.Odds = &generate.Odds{Logprob: -float64(id)}
		}
		list = append(list, t)
	}
	return list, nil
}

func (e *echo) Generate(ctx context.Context, prompt []int32, s generate.Sampling) iter.Seq2[generate.Token, error] {
	return func(yield func(generate.Token, error) bool) {
		e.asked.Add(1)
		defer e.asked.Add(-1)
		select {
		case e.places <- struct{}{}:
			defer func() { <-e.places }()
		case <-ctx.Done():
			yield(generate.Token{}, ctx.Err())
			return
		}
		prompt := slices.DeleteFunc(slices.Clone(prompt), e.tok.IsEnd) // the same that begins a text
		decoder := e.tok.Decoder()
		for i := range s.MaxTokens {
			if e.hold != nil {
				select {
				case <-e.hold:
				case <-ctx.Done():
				}
			}
			switch {
			case ctx.Err() != nil:
				yield(generate.Token{}, ctx.Err())
				return
			case e.failing && i == 2:
				yield(generate.Token{}, errors.New("the device is lost"))
				return
			}
			id := prompt[i%len(prompt)]
			if !yield(generate.Token{ID: id, Text: decoder.Next(id)}, nil) {
				return
			}
		}
	}
}

func start(t testing.TB, m serve.Model, o serve.Options) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(serve.New(m, o))
	t.Cleanup(s.Close)
	return s
}

// post sends JSON and returns the status and the body.
func post(t testing.TB, url, body string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return answered(t, r)
}

func answered(t testing.TB, r *http.Request) (int, string) {
	t.Helper()
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(data)
}

func get(t testing.TB, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return answered(t, r)
}

// answer has the fields of a response that tests read.
type answer struct {
	ID, Object, Model string
	Choices           []struct {
		Message, Delta struct{ Role, Content string }
		Text           string
		Finish         *string `json:"finish_reason"`
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
	}
	Error *struct{ Message, Type, Param string }
}

func parse(t testing.TB, text string) (a answer) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return a
}

// streamed puts the events of a stream together.
func streamed(t testing.TB, body string) (text, end string, last answer, done bool) {
	t.Helper()
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		switch {
		case !ok:
		case data == "[DONE]":
			done = true
		default:
			last = parse(t, data)
			for _, c := range last.Choices {
				text += c.Delta.Content + c.Text
				if c.Finish != nil {
					end = *c.Finish
				}
			}
		}
	}
	return text, end, last, done
}

func TestAnswers(t *testing.T) {
	s := start(t, newEcho(t), serve.Options{Name: "echo"})
	const talk = `"messages": [{"role": "system", "content": "x"}, {"role": "user", "content": [{"type": "text", "text": "func main"}]}]`
	for _, c := range []struct{ name, path, body, text, end string }{
		{"conversation", "/v1/chat/completions", `{` + talk + `, "max_tokens": 4}`, "func mainfunc main", "length"},
		{"newer name", "/v1/chat/completions", `{` + talk + `, "max_completion_tokens": 2, "n": 1, "tools": [], "user": "u",
			"max_tokens": 7}`, "func main", "length"},
		{"notes", "/v1/chat/completions", `{"messages": [{"role": "user", "content": "func main", "name": "x", "refusal": null,
			"tool_calls": []}], "max_tokens": 2, "metadata": {"a": "b"}}`, "func main", "length"},
		{"stop", "/v1/chat/completions", `{` + talk + `, "stop": "inf"}`, "func ma", "stop"},
		{"stops", "/v1/completions", `{"prompt": "func main", "stop": ["zzz", "nfun"], "model": "echo"}`, "func mai", "stop"},
		{"text", "/v1/completions", `{"prompt": ["func main"], "max_tokens": 2}`, "func main", "length"},
		{"echo", "/v1/completions", `{"prompt": "func main", "max_tokens": 2, "echo": true, "best_of": 1}`,
			"func mainfunc main", "length"},
		{"echo of tokens", "/v1/completions", `{"prompt": [339], "max_tokens": 1, "echo": true}`, "funcfunc", "length"},
		{"as long as fits", "/v1/completions", `{"prompt": "func"}`, strings.Repeat("func", 62), "length"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body := post(t, s.URL+c.path, c.body)
			a := parse(t, body)
			if status != 200 || len(a.Choices) != 1 || a.Usage == nil || a.Model != "echo" {
				t.Fatalf("%d: %s", status, body)
			}
			first := a.Choices[0]
			if text := first.Message.Content + first.Text; text != c.text || *first.Finish != c.end {
				t.Errorf("%q ends by %s, want %q by %s", text, *first.Finish, c.text, c.end)
			}
			if u := a.Usage; u.Total != u.Prompt+u.Completion || u.Prompt == 0 || u.Completion == 0 {
				t.Errorf("usage %+v", u)
			}
			_, body = post(t, s.URL+c.path, strings.Replace(c.body, "{", `{"stream": true, "stream_options": {"include_usage": true}, `, 1))
			text, end, last, done := streamed(t, body)
			if text != c.text || end != c.end || !done || last.Usage == nil || *last.Usage != *a.Usage {
				t.Errorf("streamed %q by %s, done %v, usage %+v, want %q by %s, usage %+v", text, end, done, last.Usage,
					c.text, c.end, a.Usage)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	s := start(t, newEcho(t), serve.Options{Name: "echo", MaxBody: 1000, StrictFields: true, StrictModel: true,
		StrictSchema: true})
	const chat, text = "/v1/chat/completions", "/v1/completions"
	for _, c := range []struct {
		path, body string
		status     int
		param, say string
	}{
		{chat, `{`, 400, "", "not a JSON object"},
		{chat, `[]`, 400, "", "the request is not a JSON object: it is a list"},
		{chat, `{"messages": 7}`, 400, "messages", "messages is a number, want a list"},
		{chat, `{"messages": ["x"]}`, 400, "messages", "a value in messages is a string, want an object"},
		{chat, `{"messages": [{"role": 5}]}`, 400, "messages.role", "messages.role is a number, want a string"},
		{text, `{"prompt": "x", "max_tokens": 1, "max_tokens": 2}`, 400, "", `it has the key "max_tokens" twice`},
		{text, `{"prompt": "x", "max_\u0074okens": 1, "max_tokens": 2}`, 400, "", `it has the key "max_tokens" twice`},
		{text, "{\"prompt\": \"\xff\"}", 400, "prompt", "prompt has bytes that are not UTF-8"},
		{text, `{"prompt": ["x", "\ud83d"]}`, 400, "prompt[1]", "half of a character"},
		{text, `{"prompt": "x", "logit_bias": {"5": 1, "5": 2}}`, 400, "logit_bias", `the key "5" twice`},
		{chat, `{"messages": [{"role": "user", "role": "system", "content": "x"}]}`, 400, "messages[0]", `the key "role" twice`},
		{chat, `{"messages": [{"role": "user", "content": "\ude00"}]}`, 400, "messages[0].content", `\ude00, half`},
		{chat, `{"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "function": {"name": "f",
			"parameters": {"properties": {"a": {}, "a": {}}}}}]}`, 400, "tools[0].function.parameters.properties", `"a" twice`},
		{chat, `{"messages": [{"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f",
			"arguments": "{\"a\": 1, \"a\": 2}"}}]}]}`, 400, "messages[0].tool_calls", "arguments"},
		{"/v1/responses", `{"input": "x", "text": {"format": {"type": "text", "type": "x"}}}`, 400, "text.format", `"type" twice`},
		{"/v1/embeddings", `{"input": "x", "input": "y"}`, 400, "", `"input" twice`},
		{"/tokenize", "{\"prompt\": \"\xc3\"}", 400, "prompt", "UTF-8"},
		{"/detokenize", `{"tokens": [], "tokens": [1]}`, 400, "", `"tokens" twice`},
		{text, `{"prompt": "x", "max_tokens": "4"}`, 400, "max_tokens", "max_tokens is a string, want an integer"},
		{text, `{"prompt": "x", "max_tokens": 4.5}`, 400, "max_tokens", "max_tokens is 4.5, want an integer"},
		{text, `{"prompt": "x", "stream_options": {"include_usage": 1}}`, 400, "stream_options.include_usage",
			"stream_options.include_usage is a number, want true or false"},
		{text, `{"prompt": "x", "temperature": "hot"}`, 400, "temperature", "temperature is a string, want a number"},
		{text, `{"prompt": "x", "logit_bias": []}`, 400, "logit_bias", "logit_bias is a list, want an object"},
		{text, `{"prompt": [339, 99999]}`, 400, "prompt", "token 1 of prompt is 99999: want 0 to "},
		{text, `{"prompt": [[339], [-1]]}`, 400, "prompt", "token 0 of prompt is -1: want 0 to "},
		{"/detokenize", `{"tokens": [339, -2007]}`, 400, "tokens", "token 1 of tokens is -2007: want 0 to "},
		{"/nothing", `{}`, 404, "", "there is no /nothing here"},
		{"/v1/nothing", `{}`, 404, "", "there is no /v1/nothing here"},
		{chat, `{}`, 400, "messages", "want at least one"},
		{chat, `{"messages": [{"role": "robot", "content": "x"}]}`, 400, "messages[0].role", "robot"},
		{chat, `{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}`, 400, "messages[0].content", "text only"},
		{chat, `{"messages": [{"role": "user"}]}`, 400, "messages[0].content", "missing"},
		{chat, `{"messages": [{"role": "user", "content": "x"}], "tools": [{}]}`, 400, "tools", "want function"},
		{chat, `{"messages": [{"role": "user", "content": "x"}], "tool_choice": "required"}`, 400, "tool_choice", "one of tools"},
		{chat, `{"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "xml"}}`, 400, "response_format", "xml"},
		{chat, `{"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json_schema", "json_schema":
			{"name": "x", "schema": {"not": {}}}}}`, 400, "response_format", `keyword "not"`},
		{chat, `{"messages": [{"role": "user", "content": "x"}], "top_logprobs": 2}`, 400, "top_logprobs", "logprobs true"},
		{chat, `{"messages": [{"role": "user", "content": "x"}], "prompt": "x"}`, 400, "prompt", "no field"},
		{text, `{"prompt": "x", "logprobs": 21}`, 400, "logprobs", "0 to 20"},
		{text, `{"prompt": "x", "logprobs": true}`, 400, "logprobs", "want a number"},
		{text, `{"prompt": "x", "max_tokens": -2, "echo": true}`, 400, "max_tokens", "or 0 with echo"},
		{text, `{"prompt": "x", "best_of": 3, "stream": true}`, 400, "best_of", "no stream"},
		{text, `{"prompt": "x", "best_of": 1, "n": 2}`, 400, "best_of", "want 2"},
		{text, `{"prompt": "x", "best_of": 17}`, 400, "best_of", "to 16"},
		{text, `{"prompt": "x", "logit_bias": {"5": 101}}`, 400, "logit_bias", "logit_bias of token 5 is 101: want -100 to 100"},
		{text, `{"prompt": "x", "logit_bias": {"x": 1}}`, 400, "logit_bias", "a value in logit_bias is x, want an integer"},
		{chat, `{"messages": [{"role": "user", "content": "x"}], "logprobs": 2}`, 400, "logprobs", "true or false"},
		{chat, `{"messages": [{"role": "user", "content": "x"}], "echo": true}`, 400, "echo", "no field"},
		{text, `{"prompt": "x", "grammar": "root ::= x"}`, 400, "grammar", "no rule"},
		{chat, `{"messages": [{"role": "user", "content": "x"}], "model": "gpt"}`, 404, "model", `want "echo"`},
		{chat, `{"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": 1}`, 400, "chat_template_kwargs", "object"},
		{text, `{"prompt": "x", "n": 17}`, 400, "n", "want 1 to 16"},
		{text, `{"prompt": "x", "temprature": 0}`, 400, "temprature", "no field"},
		{chat, `{"messages": [{"role": "user", "content": "x", "audio": {"id": "y"}}]}`, 400, "messages[0].audio", "not supported"},
		{text, `{"prompt": "x", "temperature": -1}`, 400, "temperature", "temperature is -1: want 0 to 100"},
		{text, `{"prompt": "x", "max_tokens": 0}`, 400, "max_tokens", "at least 1"},
		{text, `{"prompt": "x", "stop": 5}`, 400, "stop", "a string or a list"},
		{text, `{"prompt": ["x", {}]}`, 400, "prompt", "a list of either"},
		{text, `{"prompt": ["x", []]}`, 400, "prompt", "no tokens"},
		{text, `{"prompt": ["x"` + strings.Repeat(`, "x"`, 8) + `], "n": 16}`, 400, "prompt", "9 prompts"},
		{text, `{"prompt": []}`, 400, "prompt", "no tokens"},
		{text, `{}`, 400, "prompt", "missing"},
		{text, `{"prompt": "` + strings.Repeat("x = ", 100) + `"}`, 400, "prompt", "the context 64"},
		{text, `{"prompt": "` + strings.Repeat("x", 1000) + `"}`, 413, "", "longer than 1000 bytes"},
		{"/tokenize", `{}`, 400, "prompt", "missing"},
		{"/detokenize", `{"tokens": "x"}`, 400, "tokens", "tokens is a string, want a list"},
	} {
		status, body := post(t, s.URL+c.path, c.body)
		e := parse(t, body).Error
		if status != c.status || e == nil || e.Param != c.param || !strings.Contains(e.Message, c.say) {
			t.Errorf("%s %.60s: %d %s, want %d, field %q, %q", c.path, c.body, status, body, c.status, c.param, c.say)
		}
	}
	if status, body := get(t, s.URL+chat); status != 405 || !strings.Contains(body, "POST") {
		t.Errorf("GET: %d %s", status, body)
	}
	if status, body := post(t, s.URL+text, `{"prompt": "x"}`, "Content-Type", "text/plain", "Origin",
		"https://elsewhere.example"); status != 415 {
		t.Errorf("plain text: %d %s", status, body)
	}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v1/models", nil)
	r.Host = "elsewhere.example"
	if status, body := answered(t, r); status != 403 {
		t.Errorf("another host: %d %s", status, body)
	}
}

// TestTolerance: null is no value, unknown fields are passed over with a warning, and every model name is taken.
func TestTolerance(t *testing.T) {
	s := start(t, newEcho(t), serve.Options{Name: "echo"})
	for _, c := range []struct{ body, warns string }{
		{`{"prompt": "func main", "max_tokens": 2, "model": "gpt-4o", "stop": null, "suffix": null, "tools": null}`, ""},
		{`{"prompt": "func main", "max_tokens": 2, "temprature": 0, "dynatemp_range": 2, "xtc_probability": 0}`,
			"fields passed over: dynatemp_range, temprature"},
		{`{"prompt": "func main", "n_predict": 2, "cache_prompt": true, "id_slot": 3, "repeat_penalty": 1.1}`, ""},
		{`{"prompt": "func main", "max_tokens": -1, "n_predict": 2, "typical_p": 1.0, "user": "x"}`, ""},
		{`{"prompt": "func main", "max_tokens": 2, "min_tokens": 1, "top_n_sigma": -1, "xtc_threshold": 0.3}`, ""},
		{`{"prompt": "func main", "max_tokens": 2, "mirostat": 2, "mirostat_tau": 3.5}`, ""},
	} {
		r, err := http.NewRequest("POST", s.URL+"/completions", strings.NewReader(c.body)) // also without /v1
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded") // as curl -d sends it
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != 200 || !strings.Contains(string(body), `"text":"func main"`) ||
			resp.Header.Get("Warnings") != c.warns {
			t.Errorf("%s: %d %s, warns %q, %v", c.body, resp.StatusCode, body, resp.Header.Get("Warnings"), err)
		}
	}
	// Another site's page may send such requests, but the browser says so.
	status, body := post(t, s.URL+"/v1/completions", `{"prompt": "x"}`, "Content-Type", "text/plain", "Origin", "https://a.example")
	if status != 415 {
		t.Errorf("%d %s", status, body)
	}
	status, body = post(t, s.URL+"/v1/completions", `{"prompt": "`+strings.Repeat("x = ", 100)+`"}`)
	if status != 400 || !strings.Contains(body, `"code":"context_length_exceeded"`) {
		t.Errorf("%d %s", status, body)
	}
}

// TestReasoning: reasoning and calls come apart from the content, whole and in a stream.
func TestReasoning(t *testing.T) {
	s := start(t, newEcho(t), serve.Options{Name: "echo"})
	const tools = `, "tools": [{"type": "function", "function": {"name": "f"}}]`
	for _, c := range []struct{ say, more, want, whole string }{
		{"<think>hm</think>\nyes", "", "[hm]yes stop", `"content":"yes","reasoning_content":"hm"`},
		{`ok <tool_call>{"name": "f"}</tool_call>`, tools, "ok {f}({}) stop", `"name":"f"`},
		{`<tool_call>{"name": "g"}</tool_call>`, tools, `<tool_call>{"name": "g"}</tool_call> stop`, `"content":"<tool_call>`},
		{`<think>hm</think>yes`, `, "stop": "h"`, "[hm]yes stop", `"content":"yes"`},
	} {
		say, err := json.Marshal(c.say)
		if err != nil {
			t.Fatal(err)
		}
		ask := fmt.Sprintf(`{"messages": [{"role": "user", "content": %s}], "stop_token_ids": [9], "max_tokens": `, say)
		_, counted := post(t, s.URL+"/tokenize", fmt.Sprintf(`{"prompt": %s, "add_special_tokens": false}`, say))
		var n struct{ Count int }
		if err := json.Unmarshal([]byte(counted), &n); err != nil {
			t.Fatal(err)
		}
		ask += fmt.Sprint(n.Count) + c.more
		status, body := post(t, s.URL+"/v1/chat/completions", ask+"}")
		if status != 200 || !strings.Contains(body, c.whole) {
			t.Errorf("%s: %d %s", c.say, status, body)
		}
		_, body = post(t, s.URL+"/v1/chat/completions", ask+`, "stream": true}`)
		got, thinks := "", false
		for line := range strings.Lines(body) {
			var part struct {
				Choices []struct {
					Delta struct {
						Content   string
						Reasoning string `json:"reasoning_content"`
						Calls     []struct {
							ID       string
							Function struct{ Name, Arguments string }
						} `json:"tool_calls"`
					}
					Finish string `json:"finish_reason"`
				}
			}
			data, ok := strings.CutPrefix(line, "data: {")
			if !ok || json.Unmarshal([]byte("{"+data), &part) != nil {
				continue
			}
			for _, one := range part.Choices {
				d := one.Delta
				if thinks != (d.Reasoning != "") {
					got += map[bool]string{true: "]", false: "["}[thinks]
					thinks = !thinks
				}
				got += d.Reasoning + d.Content
				for _, call := range d.Calls {
					if call.Function.Name != "" {
						got += "{" + call.Function.Name + "}"
						if len(call.ID) != 9 {
							t.Errorf("id %q", call.ID)
						}
					} else {
						got += "(" + call.Function.Arguments + ")"
					}
				}
				if one.Finish != "" {
					got += " " + strings.Replace(one.Finish, "length", "stop", 1)
				}
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q\n%s", c.say, got, c.want, body)
		}
	}
}

func TestOthers(t *testing.T) {
	server := serve.New(newEcho(t), serve.Options{Key: "secret"})
	s := httptest.NewServer(server)
	t.Cleanup(s.Close)
	for _, key := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "secret", "Basic secret",
		"Bearersecret", "Bearer Secret", "Bearer secret x"} {
		if status, body := post(t, s.URL+"/tokenize", `{"prompt": "x"}`, "Authorization", key); status != 401 {
			t.Errorf("key %q: %d %s", key, status, body)
		}
	}
	var taken struct {
		Tokens []int32
		Count  int
	}
	status, body := post(t, s.URL+"/tokenize", `{"prompt": "func main"}`, "Authorization", "Bearer secret")
	err := json.Unmarshal([]byte(body), &taken)
	if err != nil || status != 200 || taken.Count != 3 || len(taken.Tokens) != 3 {
		t.Errorf("tokenize: %d %s", status, body)
	}
	for _, scheme := range []string{"bearer", "BEARER", "Bearer "} { // RFC 9110, 11.1: in letters of any case
		if status, body := post(t, s.URL+"/tokenize", `{"prompt": "x"}`, "Authorization", scheme+" secret"); status != 200 {
			t.Errorf("scheme %q: %d %s", scheme, status, body)
		}
	}
	tokens, _ := json.Marshal(taken)
	begin := newEcho(t).tok.Decode(taken.Tokens[:1])
	_, body = post(t, s.URL+"/detokenize", strings.ToLower(string(tokens)), "Authorization", "Bearer secret")
	if body != `{"content":"`+begin+`func main","prompt":"`+begin+`func main"}`+"\n" {
		t.Errorf("detokenize: %s", body)
	}
	for path, want := range map[string]string{"/": "<!doctype html>", "/chat.css": "{", "/chat.js": "use strict", "/health": `"ok"`, "/ready": `"ok"`} {
		if status, body := get(t, s.URL+path); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %.80s", path, status, body)
		}
	}
	server.Drain()
	for _, path := range []string{"/health", "/ready"} {
		if status, _ := get(t, s.URL+path); status != 503 {
			t.Errorf("%s is %d while the server drains", path, status)
		}
	}
	if status, _ := post(t, s.URL+"/tokenize", `{"prompt": "x"}`, "Authorization", "Bearer secret"); status != 503 {
		t.Errorf("a request is answered with %d while the server drains", status)
	}
}

// TestQueue: a full queue refuses, and one that goes away frees its place.
func TestQueue(t *testing.T) {
	e := newEcho(t)
	e.hold = make(chan struct{})
	server := serve.New(e, serve.Options{Queue: 1})
	s := httptest.NewServer(server)
	t.Cleanup(s.Close)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/completions", strings.NewReader(`{"prompt": "x"}`))
			r.Header.Set("Content-Type", "application/json")
			if res, err := http.DefaultClient.Do(r); err == nil {
				res.Body.Close()
				t.Error("a request that was left is answered")
			}
		})
	}
	told := func(what ...string) {
		t.Helper()
		_, text := get(t, s.URL+"/metrics")
		for _, want := range what {
			if !strings.Contains(text, want) {
				t.Errorf("no %s in\n%s", want, text)
			}
		}
	}
	for e.Load() != (generate.Load{Running: 1, Waiting: 1, Cache: 0.5}) {
		time.Sleep(time.Millisecond) // clock: looks again, as long as it takes
	}
	told(`running{model_name="model"} 1`, `waiting{model_name="model"} 1`, `kv_cache_usage_perc{model_name="model"} 0.5`,
		`prefix_cache_queries_total{model_name="model"} 7`, `prefix_cache_hits_total{model_name="model"} 3`,
		`vkc_device_memory_bytes{model_name="model"} 11`)
	for _, name := range []string{"time_to_first_token", "time_per_output_token", "inter_token_latency",
		"request_time_per_output_token", "e2e_request_latency"} {
		told("# TYPE vllm:"+name+"_seconds histogram", "vllm:"+name+`_seconds_bucket{le="+Inf",model_name="model"} `,
			"vllm:"+name+`_seconds_sum{model_name="model"} `, "vllm:"+name+`_seconds_count{model_name="model"} `)
	}
	if status, body := post(t, s.URL+"/v1/completions", `{"prompt": "x"}`); status != 429 {
		t.Errorf("%d %s", status, body)
	}
	cancel()
	wg.Wait()
	server.Wait() // until the places of both are free
	told(`running{model_name="model"} 0`, `waiting{model_name="model"} 0`,
		`{finished_reason="abort",model_name="model"} 2`)
	close(e.hold)
	if status, body := post(t, s.URL+"/v1/completions", `{"prompt": "x", "max_tokens": 1}`); status != 200 {
		t.Errorf("%d %s", status, body)
	}
}

// TestCut: answers under way when the server ends are cut, and their clients know.
func TestCut(t *testing.T) {
	e := newEcho(t)
	e.hold, e.places = make(chan struct{}), make(chan struct{}, 2)
	server := serve.New(e, serve.Options{})
	s := httptest.NewServer(server)
	t.Cleanup(s.Close)
	var wg sync.WaitGroup
	wg.Go(func() {
		status, body := post(t, s.URL+"/v1/completions", `{"prompt": "x", "stream": true}`)
		_, _, last, done := streamed(t, body)
		if status != 200 || done || last.Error == nil || !strings.Contains(last.Error.Message, "stopped before") {
			t.Errorf("a stream: %d %s", status, body)
		}
	})
	for range 2 { // where the second is taken the first is sent
		e.hold <- struct{}{}
	}
	wg.Go(func() {
		status, body := post(t, s.URL+"/v1/completions", `{"prompt": "x"}`)
		if e := parse(t, body).Error; status != 503 || e == nil || !strings.Contains(e.Message, "stopped before") {
			t.Errorf("an answer as a whole: %d %s", status, body)
		}
	})
	for len(e.places) < 2 {
		time.Sleep(time.Millisecond) // clock: looks again, as long as it takes
	}
	server.Drain()
	if n := server.Cut(); n != 2 {
		t.Errorf("%d answers are cut, want 2", n)
	}
	server.Wait()
	wg.Wait()
}

// TestLostDevice: a failure during an answer is reported, and the next request is answered.
func TestLostDevice(t *testing.T) {
	e := newEcho(t)
	e.failing = true
	s := start(t, e, serve.Options{})
	if status, body := post(t, s.URL+"/v1/completions", `{"prompt": "x"}`); status != 500 ||
		parse(t, body).Error.Message != "the device is lost" {
		t.Errorf("%d %s", status, body)
	}
	status, body := post(t, s.URL+"/v1/completions", `{"prompt": "x", "stream": true}`)
	if text, _, last, done := streamed(t, body); status != 200 || text != "xx" || done || last.Error == nil {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := post(t, s.URL+"/v1/completions", `{"prompt": "x", "max_tokens": 2}`); status != 200 {
		t.Errorf("the next request: %d", status)
	}
}

func TestTimeout(t *testing.T) {
	e := newEcho(t)
	e.hold = make(chan struct{})
	s := start(t, e, serve.Options{Timeout: time.Millisecond})
	if status, body := post(t, s.URL+"/v1/completions", `{"prompt": "x"}`); status != 504 {
		t.Errorf("%d %s", status, body)
	}
}

// TestManyClients sends 2000 requests from 32 clients. Some disconnect, and some requests are too long or invalid. Each
// gets the answer to its own question, and nothing is left behind.
func TestManyClients(t *testing.T) {
	e := newEcho(t)
	e.places = make(chan struct{}, 3)
	s := start(t, e, serve.Options{MaxBody: 4000, Queue: 64})
	before := runtime.NumGoroutine()
	words := strings.Fields("func main return string error range package import for if else switch case")
	var wg sync.WaitGroup
	for client := range 32 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(7, uint64(client)))
			for n := range 2000 / 32 {
				word := words[r.IntN(len(words))]
				switch r.IntN(8) {
				case 0:
					if status, _ := post(t, s.URL+"/v1/completions", `{"prompt": "`+strings.Repeat(word, 2000)+`"}`); status != 413 {
						t.Errorf("a long request: %d", status)
					}
				case 1:
					if status, _ := post(t, s.URL+"/v1/chat/completions", `{"prompt": `+word); status != 400 {
						t.Errorf("no JSON: %d", status)
					}
				case 2:
					leave(t, s.URL, word, n)
				default:
					stream := r.IntN(2) == 0
					status, body := post(t, s.URL+"/v1/completions", fmt.Sprintf(`{"prompt": %q, "stream": %v}`, word, stream))
					text, _, _, done := streamed(t, body)
					if !stream {
						text, done = parse(t, body).Choices[0].Text, true
					}
					if status != 200 || !done || text == "" || !strings.HasPrefix(strings.Repeat(word, 64), text) {
						t.Errorf("%q: %d %.200s", word, status, body)
					}
				}
			}
		})
	}
	wg.Wait()
	http.DefaultClient.CloseIdleConnections()
	for runtime.NumGoroutine() > before+2 { // or the test hangs
		time.Sleep(time.Millisecond)
	}
	_, text := get(t, s.URL+"/metrics")
	for _, want := range []string{"running", "waiting"} {
		if !strings.Contains(text, `vllm:num_requests_`+want+`{model_name="model"} 0`) {
			t.Errorf("some are %s still:\n%s", want, text)
		}
	}
}

// leave asks and goes away after the first event.
func leave(t *testing.T, url, word string, n int) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/completions",
		bytes.NewReader(fmt.Appendf(nil, `{"prompt": %q, "stream": true}`, word)))
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return
	}
	defer res.Body.Close()
	if n%2 == 0 {
		bufio.NewReader(res.Body).ReadString('\n')
	}
}

// TestModel serves a model itself.
func TestModel(t *testing.T) {
	m, err := generate.Open(t.Context(), gollama, generate.Options{Device: "cpu", Context: 32, Parallel: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := start(t, m, serve.Options{})
	status, body := post(t, s.URL+"/v1/completions", `{"prompt": "func main() {\n", "max_tokens": 3, "temperature": 0}`)
	if a := parse(t, body); status != 200 || !strings.HasPrefix(a.Choices[0].Text, "\t") || a.Usage.Prompt != 6 {
		t.Errorf("%d %s", status, body)
	}
	status, body = post(t, s.URL+"/v1/chat/completions", `{"messages": [{"role": "user", "content": "x"}]}`)
	if status != 400 || !strings.Contains(body, "no chat template") {
		t.Errorf("%d %s", status, body)
	}
	// A grammar whose texts reach more and more nodes ends only its own answer.
	const ask = `{"prompt": "func main() {\n", "seed": 1, "grammar": "root ::= (((a b)* c)* | d?){0,9}\na ::= c{3,50}\n` +
		`b ::= [a-z]{1,100}\nc ::= \"\" | \"y\"\nd ::= d2 d2 d2\nd2 ::= \"z\"*", "stream": `
	if status, body = post(t, s.URL+"/v1/completions", ask+"false}"); status != 400 ||
		!strings.Contains(parse(t, body).Error.Message, "grammar: too ambiguous") {
		t.Errorf("%d %s", status, body)
	}
	_, body = post(t, s.URL+"/v1/completions", ask+"true}")
	if _, _, last, done := streamed(t, body); done || last.Error == nil || last.Error.Type != "invalid_request_error" {
		t.Errorf("%s", body)
	}
}
