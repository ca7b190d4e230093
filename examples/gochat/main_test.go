package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/serve"
)

const file = "gochat-q8_0.gguf"

func open(t *testing.T, path string) *generate.Model {
	t.Helper()
	m, err := generate.Open(t.Context(), path, generate.Options{Device: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// TestAnswers: the model in this folder answers 50 questions that were not in its training.
func TestAnswers(t *testing.T) {
	m := open(t, file)
	for _, q := range exam(50) {
		got, err := answer(t.Context(), m, q.text)
		if err != nil {
			t.Fatal(err)
		}
		if got != q.answer {
			t.Errorf("%s: %q is answered %q, want %q", q.kind, q.text, got, q.answer)
		}
	}
}

// TestTools: vkc serve calls each tool with the right argument, and the model uses the result. With other names of tool
// and argument the call has these, and an argument of the right type.
func TestTools(t *testing.T) {
	web := httptest.NewServer(serve.New(open(t, file), serve.Options{Name: "gochat"}))
	defer web.Close()
	type call struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	}
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
		Calls   []call `json:"tool_calls,omitempty"`
		ID      string `json:"tool_call_id,omitempty"`
	}
	ask := func(tools []any, list ...message) message {
		t.Helper()
		body, err := json.Marshal(map[string]any{"messages": list, "tools": tools, "temperature": 0, "max_tokens": 60})
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.Post(web.URL+"/v1/chat/completions", "application/json", strings.NewReader(string(body)))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		var answer struct{ Choices []struct{ Message message } }
		text, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(text, &answer) != nil || len(answer.Choices) != 1 {
			t.Fatalf("status %d: %s (%v)", r.StatusCode, text, err)
		}
		return answer.Choices[0].Message
	}
	describe := func(name, param, dtype string) any {
		return map[string]any{"type": "function", "function": map[string]any{"name": name, "parameters": map[string]any{
			"type": "object", "properties": map[string]any{param: map[string]any{"type": dtype}},
			"required": []string{param}}}}
	}
	r := rand.New(rand.NewPCG(10, 0))
	usual := func(kind int) offer {
		return offer{kind, pick(r, toolKinds[kind].names), pick(r, toolKinds[kind].params)}
	}
	for i := range 12 {
		kind, other := i%len(toolKinds), (i+1+i/len(toolKinds))%len(toolKinds)
		o, with := usual(kind), usual(other)
		if i >= len(toolKinds) { // names that the training does not have
			o.name, o.param = o.name+"_v2", "the_"+o.param
		}
		tools := []any{describe(with.name, with.param, toolKinds[other].dtype),
			describe(o.name, o.param, toolKinds[kind].dtype)}
		q := toolKinds[kind].ask(r, true)
		user := message{Role: "user", Content: q.text}
		got := ask(tools, user)
		var arguments map[string]any
		if len(got.Calls) != 1 || got.Calls[0].Function.Name != o.name ||
			json.Unmarshal([]byte(got.Calls[0].Function.Arguments), &arguments) != nil || len(arguments) != 1 {
			t.Errorf("%q: %+v, want a call of %s with %s", q.text, got, o.name, o.param)
			continue
		}
		_, text := arguments[o.param].(string)
		_, number := arguments[o.param].(float64)
		if right := fmt.Sprint(arguments[o.param]) == fmt.Sprint(q.argument); i < len(toolKinds) && !right ||
			text != (toolKinds[kind].dtype == "string") || number != (toolKinds[kind].dtype == "integer") {
			t.Errorf("%q: arguments %v, want %v", q.text, arguments, q.argument)
			continue
		}
		if i >= len(toolKinds) {
			continue
		}
		got.Role = "assistant"
		got = ask(tools, user, got, message{Role: "tool", ID: got.Calls[0].ID, Content: q.results[0]})
		if got.Content != q.answer {
			t.Errorf("%q: the result %s gives %q, want %q", q.text, q.results[0], got.Content, q.answer)
		}
	}
}

// TestHeldOut: no training has the questions of the exam.
func TestHeldOut(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	trained := map[string]bool{}
	for range 500 {
		for _, m := range conversation(r, turns).Messages {
			if text := fmt.Sprint(m.Content); m.Role == "user" {
				if trained[text] = true; heldOut(text) {
					t.Errorf("a training has %q", text)
				}
			}
		}
	}
	for _, q := range exam(50) {
		if trained[q.text] {
			t.Errorf("the exam has %q", q.text)
		}
	}
	if len(trained) < 1000 {
		t.Errorf("%d questions", len(trained))
	}
}

// TestTrain: a training of two steps writes a model that answers something, and one that was interrupted goes on.
func TestTrain(t *testing.T) {
	dir := t.TempDir()
	o := options{device: "cpu", steps: 1, batch: 1, rate: 1e-3, seed: 1, out: filepath.Join(dir, "x.gguf"),
		checkpoint: filepath.Join(dir, "x.safetensors")}
	for range 2 {
		var out strings.Builder
		if err := run(t.Context(), o, &out); err != nil || !strings.Contains(out.String(), "loss") {
			t.Fatalf("%v: %s", err, out.String())
		}
		o.steps++
	}
	if _, err := answer(t.Context(), open(t, o.out), "Hello"); err != nil {
		t.Error(err)
	}
	o.steps = 0
	if err := run(t.Context(), o, io.Discard); err == nil || !strings.Contains(err.Error(), "-steps 0") {
		t.Errorf("no steps: %v", err)
	}
}
