package serve_test

import (
	"context"
	"fmt"
	"iter"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/lora"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/serve"
)

// adaptedEcho is an echo with two adapters. It notes the scales of the last answer.
type adaptedEcho struct {
	*echo
	scales []float64
}

func (e *adaptedEcho) AdapterFiles() []lora.File {
	return []lora.File{{Path: "a.gguf", Scale: 1}, {Path: "b", Scale: 0.5}}
}

func (e *adaptedEcho) Generate(ctx context.Context, prompt []int32, s generate.Sampling) iter.Seq2[generate.Token,
	error] {
	e.scales = s.AdapterScales
	return e.echo.Generate(ctx, prompt, s)
}

// TestLora: a request sets the scales of adapters, on every path, and the server lists them.
func TestLora(t *testing.T) {
	m := &adaptedEcho{echo: newEcho(t)}
	s := httptest.NewServer(serve.New(m, serve.Options{}))
	defer s.Close()
	if status, body := get(t, s.URL+"/lora-adapters"); status != 200 ||
		strings.TrimSpace(body) != `[{"id":0,"path":"a.gguf","scale":1},{"id":1,"path":"b","scale":0.5}]` {
		t.Errorf("%d, %s", status, body)
	}
	for _, path := range []string{"/v1/chat/completions", "/v1/completions", "/v1/responses"} {
		for _, tt := range []struct {
			lora, want string // a status and a part of the answer, or the scales
		}{
			{``, "[]"},
			{`[]`, "[0 0]"},
			{`[{"id": 1, "scale": -2}]`, "[0 -2]"},
			{`[{"id": 1, "scale": 0}, {"id": 0, "scale": 0.25}]`, "[0.25 0]"},
			{`[{"id": 2, "scale": 1}]`, "id 2: want 0 to 1; see /lora-adapters"},
			{`[{"id": -1, "scale": 1}]`, "id -1"},
			{`[{"id": 1, "scale": 1}, {"id": 1, "scale": 1}]`, "id 1 twice"},
			{`[{"id": 1}]`, "no scale for id 1"},
			{`[{"id": 1, "scale": 1e9}]`, "scale 1e+09: want"},
			{`[{"id": 1, "scale": "x"}]`, "lora"},
			{`{"id": 1}`, "lora"},
		} {
			m.scales = nil
			body := `"messages": [{"role": "user", "content": "x"}], "max_tokens": 1`
			switch path {
			case "/v1/completions":
				body = `"prompt": "x", "max_tokens": 1`
			case "/v1/responses":
				body = `"input": "x", "max_output_tokens": 1`
			}
			if tt.lora != "" {
				body += `, "lora": ` + tt.lora
			}
			status, text := post(t, s.URL+path, "{"+body+"}")
			if strings.HasPrefix(tt.want, "[") {
				if got := fmt.Sprint(m.scales); status != 200 || got != tt.want {
					t.Errorf("%s, lora %s: %d, scales %s, want %s", path, tt.lora, status, got, tt.want)
				}
			} else if status != 400 || !strings.Contains(text, tt.want) {
				t.Errorf("%s, lora %s: %d, %s; want %s", path, tt.lora, status, text, tt.want)
			}
		}
	}
	for _, tt := range []struct{ model, want string }{{"model", "[]"}, {"a", "[1 0]"}, {"b", "[0 0.5]"},
		{"other", "[]"}} {
		for path, fields := range map[string]string{"/v1/completions": `"prompt": "x", "max_tokens": 1`,
			"/v1/messages": `"messages": [{"role": "user", "content": "x"}], "max_tokens": 1`,
			"/completion":  `"prompt": "x", "n_predict": 1`} {
			status, text := post(t, s.URL+path, `{"model": "`+tt.model+`", `+fields+"}")
			if got := fmt.Sprint(m.scales); status != 200 || got != tt.want {
				t.Errorf("%s, model %s: %d %s, scales %s, want %s", path, tt.model, status, text, got, tt.want)
			}
		}
	}
	strict := httptest.NewServer(serve.New(m, serve.Options{StrictModel: true}))
	defer strict.Close()
	for model, want := range map[string]int{"model": 200, "a": 200, "other": 404} {
		body := `{"model": "` + model + `", "prompt": "x", "max_tokens": 1}`
		if status, text := post(t, strict.URL+"/v1/completions", body); status != want {
			t.Errorf("strict, model %s: %d %s", model, status, text)
		}
	}
	_, listed := get(t, s.URL+"/v1/models")
	if get1(t, listed, "data/1/id") != "a" || get1(t, listed, "data/2/parent") != "model" {
		t.Errorf("models: %s", listed)
	}
	status, text := post(t, s.URL+"/v1/completions",
		`{"prompt": "x", "max_tokens": 1, "echo": true, "logprobs": 1, "lora": [{"id": 0, "scale": 1}]}`)
	if status != 400 || !strings.Contains(text, "leave out logprobs") {
		t.Errorf("%d, %s", status, text)
	}
	plain := httptest.NewServer(serve.New(m.echo, serve.Options{}))
	defer plain.Close()
	if status, body := get(t, plain.URL+"/lora-adapters"); status != 200 || strings.TrimSpace(body) != "[]" {
		t.Errorf("without adapters: %d, %s", status, body)
	}
	for lora, want := range map[string]int{`[]`: 200, `null`: 200, `[{"id": 0, "scale": 1}]`: 400} {
		body := `{"prompt": "x", "max_tokens": 1, "lora": ` + lora + `}`
		if status, body := post(t, plain.URL+"/v1/completions", body); status != want {
			t.Errorf("without adapters, lora %s: %d, %s", lora, status, body)
		}
	}
}
