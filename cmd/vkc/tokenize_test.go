package main

import (
	"path/filepath"
	"testing"
)

func TestTokenize(t *testing.T) {
	if r := ok(t, "tokenize", "-m", gollama,
		"func main() {\n"); r.stdout != "0\t\"<|endoftext|>\"\n339\t\"func\"\n2007\t\" main\"\n308\t\"()\"\n268\t\" "+
		"{\"\n199\t\"\\n\"\n" {
		t.Errorf("%+v", r)
	}
	if r := ok(t, "tokenize", "--model", gollama, "--ids", "func"); r.stdout != "0 339\n" {
		t.Errorf("%+v", r)
	}
	if r := ok(t, "tokenize", "-m", gollama, "--ids", "--special", "func<|endoftext|>"); r.stdout != "0 339 0\n" {
		t.Errorf("%+v", r)
	}
	fails(t, exitUsage, []string{"tokenize", "text"}, "-m MODEL.gguf is missing")
	fails(t, exitUsage, []string{"tokenize", "-m", gollama, "two", "words"},
		`unexpected argument "words": put quotes around`)
	fails(t, exitFailure, []string{"tokenize", "-m", filepath.Join(t.TempDir(), "no.gguf"), "x"}, "no.gguf")
}
