package main

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/lora"
	"github.com/vkc-go/vkc/ir"
)

// gollamaAdapter writes an adapter of gollama with random matrices.
func gollamaAdapter(t *testing.T) string {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 1))
	random := func(dims ...int) *ir.Data {
		values := make([]float64, dims[0]*dims[1])
		for i := range values {
			values[i] = 0.3 * r.NormFloat64()
		}
		d, err := ir.FromFloats(ir.F16, values, dims...)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	const name = "blk.7.attn_output.weight"
	path := filepath.Join(t.TempDir(), "adapter.gguf")
	down, up := map[string]*ir.Data{name: random(2, 256)}, map[string]*ir.Data{name: random(256, 2)}
	err := lora.Write(path, "llama", 2, down, up)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLora: verbs use adapters, a scale of 0 changes nothing, and a merged model is the same as the adapter.
func TestLora(t *testing.T) {
	noTools(t)
	noVulkan(t)
	adapter, text := gollamaAdapter(t), write(t, "x.txt", []byte(strings.Repeat("package main\n", 20)))
	measure := func(model string, more ...string) string {
		t.Helper()
		line := []string{"perplexity", "-m", model, text, "--device", "cpu", "--ctx", "32", "--chunks", "1"}
		return ok(t, append(line, more...)...).stdout
	}
	base, full := measure(gollama), measure(gollama, "--lora", adapter)
	if base == full {
		t.Errorf("the adapter changes nothing: %s", base)
	}
	if got := measure(gollama, "--lora", adapter+":0"); got != base {
		t.Errorf("scale 0: %s, want %s", got, base)
	}
	if got := measure(gollama, "--lora", adapter+":0.25", "--lora", adapter+":.75"); got != full {
		t.Errorf("twice: %s, want %s", got, full)
	}
	dir := t.TempDir()
	merged := filepath.Join(dir, "merged.gguf")
	r := ok(t, "merge", gollama, "--lora", adapter, "-o", merged)
	has(t, r.stdout, "merged.gguf: 74 tensors, 1 of them adapted\n")
	has(t, r.stderr, "1 adapted matrices are in block formats")
	if got := measure(merged); got == base || got[:len("perplexity 12")] != full[:len("perplexity 12")] {
		t.Errorf("merged: %s, with the adapter %s", got, full)
	}
	if a, b := readWeight(t, gollama, "blk.0.attn_q.weight"), readWeight(t, merged, "blk.0.attn_q.weight"); a != b {
		t.Error("another weight has changed")
	}
	for _, line := range []string{"generate -m MODEL -p package -n 1 -d cpu",
		"bench -m MODEL -p 4 -n 1 --n-depth 0 -r 1 -d cpu"} {
		ok(t, append(words(strings.ReplaceAll(line, "MODEL", gollama)), "--lora", adapter)...)
	}
	for _, tt := range []struct {
		code int
		line string
		want []string
	}{
		{exitUsage, "merge MODEL -o OUT", []string{"--lora FILE is missing"}},
		{exitUsage, "merge MODEL --lora A", []string{"-o OUT.gguf is missing"}},
		{exitUsage, "merge MODEL --lora :2 -o OUT", []string{`--lora ":2": want FILE, or FILE:SCALE`}},
		{exitUsage, "merge MODEL --lora A -o MODEL", []string{"both an input and the output"}},
		{exitFailure, "merge A --lora A -o OUT", []string{"the file is an adapter: name the model"}},
		{exitFailure, "merge MODEL --lora MODEL -o OUT", []string{`"general.type"`}},
		{exitFailure, "merge MODEL --lora none -o OUT", []string{"none"}},
		{exitUsage, "generate -m MODEL -p x -d cpu --lora A:1e9", []string{"--lora", "1e+09"}},
		{exitFailure, "generate -m MODEL -p x -d cpu --lora none.gguf:2", []string{"none.gguf"}},
		{exitUsage, "bench --lora A", []string{"--lora goes with -m"}},
	} {
		out := filepath.Join(dir, "out.gguf")
		line := strings.NewReplacer("MODEL", gollama, "OUT", out, " A", " "+adapter).Replace(tt.line)
		fails(t, tt.code, words(line), tt.want...)
	}
}

func readWeight(t *testing.T, path, name string) string {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := f.Weight(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(d.Bytes)
}
