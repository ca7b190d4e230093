package main

import (
	"strings"
	"testing"
)

func TestGoOn(t *testing.T) {
	t.Setenv("VKC_CACHE_DIR", t.TempDir())
	var out strings.Builder
	if err := goOn(t.Context(), "../gollama/gollama-q8_0.gguf", "func main() {", &out); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "\n\t") {
		t.Errorf("a function goes on with %q", out.String())
	}
	if err := goOn(t.Context(), "none.gguf", "x", &out); err == nil {
		t.Error("there is no such model, and no error")
	}
}
