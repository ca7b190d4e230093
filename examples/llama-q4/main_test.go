package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestRun: the quantized model is smaller, and still writes Go.
func TestRun(t *testing.T) {
	t.Setenv("VKC_CACHE_DIR", t.TempDir())
	var out strings.Builder
	model := filepath.Join("..", "gollama", "gollama-q8_0.gguf")
	if err := run(t.Context(), "cpu", model, "if err != nil {\n\treturn", 3, &out); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "MB became 4.") || !strings.Contains(text, "return nil\n}") {
		t.Errorf("it printed\n%s", text)
	}
}
