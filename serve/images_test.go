package serve_test

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/internal/visiontest"
	"github.com/vkc-go/vkc/serve"
)

// TestImages: pictures in requests of OpenAI's and Anthropic's protocols, and errors by name.
func TestImages(t *testing.T) {
	const source = "../examples/gollama/gollama-q8_0.gguf"
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := gguf.Edit(source, path, gguf.KV{Key: "tokenizer.chat_template",
		Value: "{% for m in messages %}// {{ m.content }}\n{% endfor %}"}); err != nil {
		t.Fatal(err)
	}
	visiontest.WriteTower(t, filepath.Join(filepath.Dir(path), "mmproj-tiny.gguf"), 256)
	m, err := generate.Open(t.Context(), path, generate.Options{Device: "cpu", Context: 128, Parallel: 2,
		Projector: generate.AutoProjector})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := start(t, m, serve.Options{})
	photo := base64.StdEncoding.EncodeToString(visiontest.PNG(t, 1, 20, 12))
	const (
		chat, messages, responses = "/v1/chat/completions", "/v1/messages", "/v1/responses"
		tokens                    = `"(?:prompt|input)_tokens": ?(\d+)`
	)
	part := fmt.Sprintf(`{"type": "image_url", "image_url": {"url": "data:image/png;base64,%s"}}`, photo)
	text := `{"type": "text", "text": "func"}`
	ask := func(route, content string) (int, string) {
		t.Helper()
		field, limit := "messages", "max_tokens"
		if route == responses {
			field, limit = "input", "max_output_tokens"
		}
		body := `{"%s": [{"role": "user", "content": [%s]}], "%s": 2, "temperature": 0}`
		return post(t, s.URL+route, fmt.Sprintf(body, field, content, limit))
	}
	count := func(route, content string) string {
		t.Helper()
		status, body := ask(route, content)
		found := regexp.MustCompile(tokens).FindStringSubmatch(body)
		if status != 200 || found == nil {
			t.Fatalf("%s: %d %s", route, status, body)
		}
		return found[1]
	}
	block := fmt.Sprintf(`{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "%s"}}`, photo)
	input := strings.Replace(strings.Replace(part, "image_url", "input_image", 1), `{"url": `, "", 1)
	input = strings.TrimSuffix(input, "}")
	without, with := count(chat, text), count(chat, part+","+text)
	blocks, inputs := count(messages+"/count_tokens", block+","+text), count(responses, input+","+text)
	if without == with || blocks != with || inputs != with {
		t.Errorf("%s tokens without a picture, %s with one, elsewhere %s and %s", without, with, blocks, inputs)
	}
	for content, want := range map[string]string{
		`{"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}`: "the server fetches no pictures",
		`{"type": "image_url"}`: "want a data URL",
		`{"type": "image_url", "image_url": {"url": "data:image/png;base64,!"}}`:    "the picture is not base64",
		`{"type": "image_url", "image_url": {"url": "data:image/bmp;base64,Qk0="}}`: "unknown format",
		`{"type": "input_audio"}`:           "text and image_url only",
		strings.Repeat(part+",", 16) + part: "17 pictures: want at most 16",
		strings.Repeat(part+",", 9) + text:  "tokens, and the context 128",
	} {
		if status, body := ask(chat, content); status != 400 || !strings.Contains(body, want) {
			t.Errorf("%.80s: %d %s, want %s", content, status, body, want)
		}
	}
	status, body := ask(messages, `{"type": "image", "source": {"type": "url", "url": "https://x.example"}}`)
	if status != 400 || !strings.Contains(body, "the server fetches no pictures") {
		t.Errorf("%d %s", status, body)
	}
	if status, body := get(t, s.URL+"/props"); status != 200 || !strings.Contains(body, `"vision":true`) {
		t.Errorf("%d %s", status, body)
	}
}
