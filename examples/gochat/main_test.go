package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
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

// TestAnswers: the model in this folder answers questions of each kind that were not in its training, and calls
// tools.
func TestAnswers(t *testing.T) {
	o := options{steps: 1, batch: 1, rate: 1, device: "cpu", ask: file, exam: 4}
	var out strings.Builder
	if err := run(t.Context(), o, &out); err != nil {
		t.Fatal(err)
	}
	if n := len(exam(o.exam)); !strings.HasSuffix(out.String(), fmt.Sprintf("%d of %d\n", n, n)) {
		t.Error(out.String())
	}
}

// TestTools: vkc serve calls each tool with the right arguments, and the model uses the result. Every other tool has
// names that no training has.
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
		body, err := json.Marshal(map[string]any{"messages": list, "tools": tools, "temperature": 0,
			"max_tokens": 100})
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
	describe := func(o offer) any {
		properties, required := map[string]any{}, []string{}
		for _, p := range o.params {
			properties[p.names[0]] = map[string]any{"type": p.dtype}
			required = append(required, p.names[0])
		}
		return map[string]any{"type": "function", "function": map[string]any{"name": o.name,
			"parameters": map[string]any{
				"type": "object", "properties": properties, "required": required}}}
	}
	r := rand.New(rand.NewPCG(10, 0))
	usual := func(kind int) offer {
		o := offer{kind: kind, name: pick(r, toolKinds[kind].names)}
		for _, p := range toolKinds[kind].params {
			o.params = append(o.params, param{[]string{pick(r, p.names)}, p.dtype})
		}
		return o
	}
	for kind := range toolKinds {
		o, with := usual(kind), usual((kind+3)%len(toolKinds))
		if kind%2 == 1 {
			o.name += "_service"
			for _, p := range o.params {
				p.names[0] = "given_" + p.names[0]
			}
		}
		tools := []any{describe(with), describe(o)}
		q := toolKinds[kind].ask(r, true)
		user := message{Role: "user", Content: q.text}
		got := ask(tools, user)
		want := map[string]any{}
		for i, p := range o.params {
			want[p.names[0]] = q.arguments[i]
		}
		var arguments map[string]any
		if len(got.Calls) != 1 || got.Calls[0].Function.Name != o.name ||
			json.Unmarshal([]byte(got.Calls[0].Function.Arguments), &arguments) != nil ||
			fmt.Sprint(arguments) != fmt.Sprint(want) {
			t.Errorf("%q: %+v, want a call of %s with %v", q.text, got, o.name, want)
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
			text := fmt.Sprint(m.Content)
			if m.Role != "user" || slices.ContainsFunc(greetings, func(g smallTalk) bool { return g.has(text) }) {
				continue
			}
			if trained[text] = true; heldOut(text) {
				t.Errorf("a training has %q", text)
			}
		}
	}
	for _, p := range exam(10) {
		if text := fmt.Sprint(p.talk.Messages[0].Content); trained[text] {
			t.Errorf("the exam has %q", text)
		}
	}
	if len(trained) < 1000 {
		t.Errorf("%d questions", len(trained))
	}
}

// TestOneAnswer: a question has only one answer.
func TestOneAnswer(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	answers := map[string]string{}
	for range 20000 {
		q := drawQuestion(r)
		if before, ok := answers[q.text]; ok && before != q.answer {
			t.Errorf("%s: %q has the answers %q and %q", q.kind, q.text, before, q.answer)
		}
		answers[q.text] = q.answer
	}
}

// TestWays: the results that follow from the digits are those of Go.
func TestWays(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{addition(7, 8), ""},
		{addition(457, 86), "Ones: 7 + 6 = 13. Tens: 5 + 8 + 1 = 14. Hundreds: 4 + 0 + 1 = 5. "},
		{subtraction(503, 86), "Ones: 13 - 6 = 7. Tens: 10 - 8 - 1 = 1. Hundreds: 5 - 0 - 1 = 4. "},
		{multiplication(7, 8), "7 * 8 = 56"},
		{multiplication(6, 47), "40 * 6 = 240. 7 * 6 = 42. 240 + 42 = 282. 6 * 47 = 282"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// stopAt is a writer that calls a function when it is given a text.
type stopAt struct {
	strings.Builder
	text string
	stop func()
}

func (s *stopAt) Write(b []byte) (int, error) {
	if strings.Contains(string(b), s.text) {
		s.stop()
	}
	return s.Builder.Write(b)
}

// TestTrain: a training of two steps that was interrupted goes on, and writes a model that answers something.
func TestTrain(t *testing.T) {
	dir := t.TempDir()
	o := options{sizes: sizes{context: 256, layers: 1, width: 32, heads: 2, kvHeads: 1, feedForward: 32},
		device: "cpu",
		steps:  3, batch: 1, rate: 1e-3, seed: 1, out: filepath.Join(dir, "x.gguf"),
		checkpoint: filepath.Join(dir, "x.safetensors")}
	ctx, stop := context.WithCancel(t.Context())
	first := &stopAt{text: "ready", stop: stop}
	if err := run(ctx, o, first); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v: %s", err, first.String())
	}
	var out strings.Builder
	if err := run(t.Context(), o, &out); err != nil || !strings.Contains(out.String(), "step 3 of 3, loss") {
		t.Fatalf("%v: %s", err, out.String())
	}
	if _, err := answer(t.Context(), open(t, o.out), talk(nil, "Hello")); err != nil {
		t.Error(err)
	}
	o.minutes = 1e-3
	if err := run(t.Context(), o, io.Discard); err == nil || !strings.Contains(err.Error(), "go on with the -steps") {
		t.Errorf("minutes with a checkpoint: %v", err)
	}
	o.checkpoint = ""
	out.Reset()
	if err := run(t.Context(), o, &out); err != nil || !strings.Contains(out.String(), "-minutes 0.001 are -steps") {
		t.Errorf("%v: %s", err, out.String())
	}
	o.steps = 0
	if err := run(t.Context(), o, io.Discard); err == nil || !strings.Contains(err.Error(), "-steps 0") {
		t.Errorf("no steps: %v", err)
	}
}
