package serve_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/serve"
)

// listOf is a JSON list of n values, each made of its number.
func listOf(n int, format string) string {
	values := make([]string, n)
	for i := range values {
		values[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(values, ", ")
}

// TestLimits: each bound of a request is answered at the bound, and refused one past it.
func TestLimits(t *testing.T) {
	const maxBody = 1 << 16
	s := start(t, newEcho(t), serve.Options{MaxBody: maxBody})
	const chat, text = "/v1/chat/completions", "/v1/completions"
	messages := `{"max_tokens": 1, "messages": [{"role": "user", "content": "x"}], `
	prompt := `{"max_tokens": 1, "prompt": "x", `
	for _, c := range []struct {
		what, path string
		most       int
		body       func(n int) string
		status     int // past the bound
	}{
		{"answers", text, 16, func(n int) string { return fmt.Sprintf(`%s "n": %d}`, prompt, n) }, http.StatusBadRequest},
		{"answers that are compared", text, 16, func(n int) string {
			return fmt.Sprintf(`%s "best_of": %d}`, prompt, n)
		}, http.StatusBadRequest},
		{"answers to all prompts", text, 128, func(n int) string {
			return fmt.Sprintf(`{"max_tokens": 1, "prompt": [%s]}`, listOf(n, `"%d"`))
		}, http.StatusBadRequest},
		{"words to stop at", text, 16, func(n int) string {
			return fmt.Sprintf(`%s "stop": [%s]}`, prompt, listOf(n, `"%d"`))
		}, http.StatusBadRequest},
		{"bytes of such a word", text, 1024, func(n int) string {
			return fmt.Sprintf(`%s "stop": "%s"}`, prompt, strings.Repeat("y", n))
		}, http.StatusBadRequest},
		{"likeliest tokens of a text", text, 20, func(n int) string { return fmt.Sprintf(`%s "logprobs": %d}`, prompt, n) },
			http.StatusBadRequest},
		{"likeliest tokens of a chat", chat, 20, func(n int) string {
			return fmt.Sprintf(`%s "logprobs": true, "top_logprobs": %d}`, messages, n)
		}, http.StatusBadRequest},
		{"biases", text, 1024, func(n int) string {
			return fmt.Sprintf(`%s "logit_bias": {%s}}`, prompt, listOf(n, `"%d": 1`))
		}, http.StatusBadRequest},
		{"tools", chat, 128, func(n int) string {
			tools := listOf(n, `{"type": "function", "function": {"name": "f%d"}}`)
			return fmt.Sprintf(`%s "tools": [%s]}`, messages, tools)
		}, http.StatusBadRequest},
		{"bytes", text, maxBody, func(n int) string {
			body := prompt + `"n": 1}`
			return body + strings.Repeat(" ", n-len(body))
		}, http.StatusRequestEntityTooLarge},
	} {
		if status, body := post(t, s.URL+c.path, c.body(c.most)); status != http.StatusOK {
			t.Errorf("%d %s: %d %s", c.most, c.what, status, body)
		}
		if status, body := post(t, s.URL+c.path, c.body(c.most+1)); status != c.status {
			t.Errorf("%d %s: %d %.300s, want %d", c.most+1, c.what, status, body, c.status)
		}
	}
}

// TestMaxTokens: an answer has the tokens that a request asks for, as far as the server allows and the context holds.
func TestMaxTokens(t *testing.T) {
	m := newEcho(t)
	for _, c := range []struct{ allowed, asked, want int }{
		{0, 0, 63}, {0, 5, 5}, {7, 0, 7}, {7, 5, 5}, {7, 7, 7}, {7, 8, 7}, {100, 0, 63},
	} {
		s, body := start(t, m, serve.Options{MaxTokens: c.allowed}), `{"prompt": [339]}`
		if c.asked > 0 {
			body = fmt.Sprintf(`{"prompt": [339], "max_tokens": %d}`, c.asked)
		}
		status, text := post(t, s.URL+"/v1/completions", body)
		a := parse(t, text)
		if status != http.StatusOK || a.Usage.Completion != c.want || *a.Choices[0].Finish != "length" {
			t.Errorf("of %d allowed and %d asked for: %d %s, want %d tokens", c.allowed, c.asked, status, text, c.want)
		}
	}
}
