package main

import (
	"fmt"
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

// modelLines are command lines of every verb that takes a model, FILE.
var modelLines = []string{"generate -m FILE -p x", "chat -m FILE", "serve -m FILE --listen 127.0.0.1:0",
	"perplexity -m FILE once_test.go", "imatrix -m FILE once_test.go -o OUT", "embed -m FILE x",
	"tokenize -m FILE x", "bench -m FILE", "graph FILE", "run FILE --device cpu", "compile FILE -o OUT",
	"compile --generate FILE -o OUT", "dump FILE", "quantize FILE --type q8_0 -o OUT",
	"generate -m " + gollama + " -p x --device cpu --draft-tokens 2 --draft FILE"}

// TestPartsAlone: every verb that takes a model refuses a part without the others, and says which it is; inspect shows
// it.
func TestPartsAlone(t *testing.T) {
	noTools(t)
	noVulkan(t)
	out := filepath.Join(t.TempDir(), "out")
	for says, path := range parts(t) {
		lines := []string{"run " + mlpGraph + " --device cpu --input x=random:1 --symbol T=2 --weights FILE",
			"compile " + mlpGraph + " --weights FILE -o OUT", "quantize FILE --type q8_0 -o OUT"}
		if strings.HasSuffix(path, ".gguf") {
			lines = append(lines, modelLines...)
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

// TestParts divides a model in 2, 3 and 7 parts. From any part, every verb has the same results as with the whole
// model: the same tokens and logits, and the same bytes of a quantized file.
func TestParts(t *testing.T) {
	noTools(t)
	noVulkan(t)
	dir := t.TempDir()
	quantized := func(in, dtype string) string {
		out := filepath.Join(dir, "out.gguf")
		ok(t, "quantize", in, "-o", out, "--type", dtype, "--requantize")
		return readFile(t, out)
	}
	scored := func(model string) string {
		text := write(t, "x.txt", []byte(strings.Repeat("package main\n\nfunc main() {}\n", 8)))
		return ok(t, "perplexity", "-m", model, "--device", "cpu", "--ctx", "32", "--chunks", "1", text).stdout
	}
	score := scored(gollama)
	for size, n := range map[string]int{"4500K": 2, "2900K": 3, "1250K": 7} {
		out := filepath.Join(dir, "m"+size+".gguf")
		info := okJSON[quantizedInfo](t, "quantize", gollama, "-o", out, "--type", "q8_0", "--split-size", size)
		if len(info.Parts) != n || info.File != info.Parts[0] {
			t.Fatalf("%s: %d parts, want %d: %+v", size, len(info.Parts), n, info.Parts)
		}
		dtype := "q8_0" // takes little time
		if n == 3 {
			dtype = "q4_0"
		}
		if quantized(info.Parts[n-1], dtype) != quantized(gollama, dtype) {
			t.Errorf("%d parts: the quantized model differs", n)
		}
		if got := scored(info.Parts[n-1]); got != score {
			t.Errorf("%d parts: perplexity\n%swant\n%s", n, got, score)
		}
		in := okJSON[inspected](t, "inspect", info.Parts[1])
		if len(in.Parts) != n || in.Tensors[0].Part != 1 || in.Tensors[len(in.Tensors)-1].Part != n ||
			in.Format != fmt.Sprintf("GGUF 3 in %d parts", n) || len(in.Tensors) != 74 {
			t.Errorf("%+v", in)
		}
		fails(t, exitUsage, []string{"quantize", info.Parts[0], "-o", info.Parts[n-1], "--type", "q4_0"},
			"both the input and the output")
		fails(t, exitUsage, []string{"quantize", info.Parts[0], "-o", out, "--type", "q4_0", "--split-size", "1M"},
			"both the input and the output")
		fails(t, exitFailure, []string{"quantize", gollama, "-o", filepath.Join(dir, "m-00001-of-00002.gguf"), "--type",
			"q4_0", "--requantize"}, "give a whole model another name")
		if n != 3 {
			continue
		}
		for _, line := range []string{"generate -m FILE -p package -n 2 --device cpu", "tokenize -m FILE x",
			"embed -m FILE --device cpu x", "graph FILE", "imatrix -m FILE --device cpu --ctx 16 --chunks 1 once_test.go -o OUT"} {
			both := []result{}
			for _, model := range []string{gollama, info.Parts[1]} {
				args := words(strings.NewReplacer("FILE", model, "OUT", filepath.Join(dir, "out")).Replace(line))
				r := run(t, args...)
				r.stderr = strings.ReplaceAll(r.stderr, model, "FILE")
				both = append(both, r)
			}
			if both[0].code != both[1].code || both[0].stdout != both[1].stdout {
				t.Errorf("%s: %+v\nwant %+v", line, both[1], both[0])
			}
		}
		if err := os.Remove(info.Parts[2]); err != nil {
			t.Fatal(err)
		}
		for _, line := range modelLines {
			args := words(strings.NewReplacer("FILE", info.Parts[0], "OUT", filepath.Join(dir, "none")).Replace(line))
			fails(t, exitFailure, args, "this is part 1 of 3 of a model: part 3 is missing: put "+
				filepath.Base(info.Parts[2]))
		}
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
