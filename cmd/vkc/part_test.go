package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
)

// parts writes files that are parts of models: by their metadata, or by their names.
func parts(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, keys map[string]any) string {
		var w gguf.Writer
		for key, value := range keys {
			if err := w.Set(key, value); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(dir, name)
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := w.WriteTo(file); err != nil {
			t.Fatal(err)
		}
		return path
	}
	llama := map[string]any{"general.architecture": "llama"}
	tensors := filepath.Join(dir, "model-00002-of-00003.safetensors")
	if err := os.WriteFile(tensors, []byte(readFile(t, mlpWeights(t))), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"part 2 of 2": write("renamed.gguf", map[string]any{"general.architecture": "llama", "split.no": uint16(1),
			"split.count": uint16(2)}),
		"part 1 of 2": write("m-00001-of-00002.gguf", llama),
		"part 2 of 3": tensors,
	}
}

// TestParts: every verb that takes a model refuses a part of one, and says which it is; inspect shows it.
func TestParts(t *testing.T) {
	noTools(t)
	noVulkan(t)
	out := filepath.Join(t.TempDir(), "out")
	for says, path := range parts(t) {
		lines := []string{"run " + mlpGraph + " --device cpu --input x=random:1 --symbol T=2 --weights FILE",
			"compile " + mlpGraph + " --weights FILE -o OUT", "quantize FILE --type q8_0 -o OUT"}
		if strings.HasSuffix(path, ".gguf") {
			lines = append(lines, "generate -m FILE -p x", "chat -m FILE", "serve -m FILE --listen 127.0.0.1:0",
				"perplexity -m FILE once_test.go", "imatrix -m FILE once_test.go -o OUT", "embed -m FILE x",
				"tokenize -m FILE x", "bench -m FILE", "graph FILE", "run FILE --device cpu", "compile FILE -o OUT",
				"compile --generate FILE -o OUT", "dump FILE",
				"generate -m "+gollama+" -p x --device cpu --draft-tokens 2 --draft FILE")
		}
		for _, line := range lines {
			args := words(strings.NewReplacer("FILE", path, "OUT", out).Replace(line))
			fails(t, exitFailure, args, filepath.Base(path), "this is "+says)
			if _, err := os.Stat(out); err == nil {
				t.Fatalf("%s wrote a file", line)
			}
		}
		has(t, ok(t, "inspect", path).stdout, says)
	}
}

// TestWholeByMetadata: a file that says of itself that it is whole is, whatever its name.
func TestWholeByMetadata(t *testing.T) {
	var w gguf.Writer
	if err := w.Set("split.count", uint16(0)); err != nil { // as llama-gguf-split --merge writes
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m-00001-of-00002.gguf")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteTo(file); err != nil {
		t.Fatal(err)
	}
	file.Close()
	if r := ok(t, "inspect", path); strings.Contains(r.stdout, "part 1") {
		t.Errorf("%+v", r)
	}
}
