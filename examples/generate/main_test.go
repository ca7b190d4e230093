package main

import (
	"strings"
	"testing"
)

func TestGoOn(t *testing.T) {
	var out strings.Builder
	if err := continueText(t.Context(), "cpu", "../gollama/gollama-q8_0.gguf", "func main() {\n", &out); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "\t") {
		t.Errorf("a function goes on with %q", out.String())
	}
	if err := continueText(t.Context(), "cpu", "none.gguf", "x", &out); err == nil {
		t.Error("there is no such model, and no error")
	}
}
