package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/generate"
)

func TestPerplexity(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("func main() {\n", 4)), 0o666); err != nil {
		t.Fatal(err)
	}
	line := []string{"perplexity", "-m", gollama, text, "--device", "cpu", "--ctx", "8", "--chunks", "1"}
	p := okJSON[generate.Perplexity](t, line...)
	if !(p.Value > 1 && p.Value < 4096 && p.StdErr > 0) || p.Chunks != 1 || p.Tokens != 3 {
		t.Errorf("%+v", p)
	}
	fails(t, exitUsage, []string{"perplexity", text}, "-m MODEL.gguf is missing")
	fails(t, exitUsage, []string{"perplexity", "-m", gollama}, "FILE is missing")
	fails(t, exitUsage, instead(line, "--chunks", "-1"), "--chunks -1")
	fails(t, exitUsage, append(line, "--kv", "f17"), "f17")
	fails(t, exitFailure, instead(line, "--ctx", "100"), "want at least 100")
	fails(t, exitFailure, []string{"perplexity", "-m", gollama, text + "x"}, "text.txtx")
}
