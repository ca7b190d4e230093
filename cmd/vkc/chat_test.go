package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
)

// withTemplate copies the example's model with a chat template.
func withTemplate(t *testing.T, template string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "chat.gguf")
	if err := gguf.Edit(gollama, path, gguf.KV{Key: "tokenizer.chat_template", Value: template}); err != nil {
		t.Fatal(err)
	}
	return path
}

// typed is standard input for a test.
func typed(t *testing.T, text string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stdin")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	saved := os.Stdin
	os.Stdin = f
	t.Cleanup(func() {
		os.Stdin = saved
		f.Close()
	})
}

func TestChat(t *testing.T) {
	model := withTemplate(t, "{% for m in messages %}// {{ m.role }}: {{ m.content }}\n{% endfor %}")
	line := []string{"chat", "-m", model, "--device", "cpu", "-n", "2", "--ctx", "64", "--stats"}
	typed(t, "func main() {\n\n/nothing\n/help\n/retry\nif x \\\n{\n/clear\n/retry\n/system be brief\nfor\n")
	r := ok(t, line...)
	stats := []string{}
	for l := range strings.Lines(r.stdout) {
		if strings.Contains(l, "tokens of the prompt") {
			stats = append(stats, strings.Fields(strings.Trim(l, "["))[0])
		}
	}
	if len(stats) != 4 || stats[0] != stats[1] {
		t.Errorf("prompts of %v tokens, want four, the second like the first\n%s", stats, r.stdout)
	}
	for _, want := range []string{"no command /nothing", "/retry          answer", "no message to answer again"} {
		if strings.Count(r.stdout, want) != 1 {
			t.Errorf("%q is not there once:\n%s", want, r.stdout)
		}
	}
	typed(t, strings.Repeat("a := b\n", 6))
	const full = "the context of 64 tokens is full: the first 2 messages are forgotten"
	if r := ok(t, line...); !strings.Contains(r.stdout, full) {
		t.Errorf("%+v", r)
	}
	typed(t, strings.Repeat("a := b ", 60)+"\nx\n")
	if r := ok(t, line...); !strings.Contains(r.stdout, "the last message alone is a prompt of ") {
		t.Errorf("%+v", r)
	}
	fails(t, exitUsage, []string{"chat"}, "-m MODEL.gguf is missing")
	fails(t, exitFailure, []string{"chat", "-m", gollama, "--device", "cpu"}, "has no chat template")
}

func TestPlainTalker(t *testing.T) {
	typed(t, "one\r\ntwo \\\nthree\\\n\nlast\\")
	p := newStreamUI(t.Context(), io.Discard, func() error { return nil })
	for _, want := range []string{"one", "two \nthree\n", "last"} {
		if have, err := p.readMessage(); err != nil || have != want {
			t.Errorf("%q, %v, want %q", have, err, want)
		}
	}
	if text, err := p.readMessage(); err != io.EOF {
		t.Errorf("%q, %v after the end", text, err)
	}
}
