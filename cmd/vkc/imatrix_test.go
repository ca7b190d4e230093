package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/quant"
	"github.com/vkc-go/vkc/quant/imatrix"
)

// TestImatrix measures an importance matrix with the example, quantizes with and without it, and compares the errors
// where activations are large.
func TestImatrix(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	source, err := os.ReadFile("imatrix_test.go") // a Go program, like the model's training data
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("text.go"), source, 0o666); err != nil {
		t.Fatal(err)
	}
	line := []string{"imatrix", "-m", gollama, at("text.go"), "-o", at("imatrix.gguf"), "--device", "cpu", "--ctx",
		"64"}
	has(t, ok(t, append(line, "--chunks", "3")...).stdout, "3 chunks of 64 tokens")
	m, err := imatrix.FromTensors(openGGUF(t, at("imatrix.gguf")))
	if err != nil || m.Chunks != 3 || len(m.Datasets) != 1 || m.Datasets[0] != "text.go" || len(m.Names()) != 8*7 {
		t.Fatalf("%+v, %v", m, err)
	}
	counts := floats32(t, openGGUF(t, at("imatrix.gguf")), "blk.0.attn_q.weight.counts")
	if len(counts) != 1 || counts[0] != 3*64 {
		t.Errorf("counts %v", counts)
	}
	base := []string{"quantize", gollama, "--type", "q4_0", "--requantize", "--keep", "blk.[1-7].*=q8_0", "--keep",
		"token_embd.*=q8_0", "-o"}
	ok(t, append(base, at("plain.gguf"))...)
	ok(t, append(base, at("weighted.gguf"), "--imatrix", at("imatrix.gguf"))...)
	want := openGGUF(t, gollama)
	loss := func(file string) (sum float64) {
		f := openGGUF(t, at(file))
		for _, name := range m.Names() {
			if !strings.HasPrefix(name, "blk.0.") {
				continue
			}
			have, exact := floats32(t, f, name), floats32(t, want, name)
			row, _, err := m.Row(name, rowOf(t, want, name), 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			for i := range have {
				d := float64(have[i] - exact[i])
				sum += d * d * float64(row[i%len(row)])
			}
		}
		return sum
	}
	if plain, weighted := loss("plain.gguf"), loss("weighted.gguf"); !(weighted < 0.95*plain) {
		t.Errorf("the weighted error is %v, and %v without an importance matrix", weighted, plain)
	}
	fails(t, exitUsage, []string{"imatrix", "x", "-o", "y"}, "-m MODEL.gguf is missing")
	fails(t, exitUsage, []string{"imatrix", "-m", gollama, "x"}, "-o OUT.gguf is missing")
	fails(t, exitUsage, append(line, "--chunks", "-1"), "--chunks -1")
	fails(t, exitUsage, instead(line, "--ctx", "2000"), "2000")
	fails(t, exitUsage, instead(line, "--ctx", "-3"), "--ctx: -3 positions: want at least 1")
}

func openGGUF(t *testing.T, path string) *gguf.File {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// rowOf is the length of a weight's rows.
func rowOf(t *testing.T, f *gguf.File, name string) int {
	t.Helper()
	d, err := f.Weight(name)
	if err != nil {
		t.Fatal(err)
	}
	return d.Dims[len(d.Dims)-1]
}

// floats32 decodes a tensor.
func floats32(t *testing.T, f *gguf.File, name string) []float32 {
	t.Helper()
	d, err := f.Weight(name)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]float32, d.Elems())
	if d.DType.IsBlock() {
		if err := quant.Dequantize(values, d.DType, d.Bytes); err != nil {
			t.Fatal(err)
		}
		return values
	}
	wide, err := d.Floats()
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range wide {
		values[i] = float32(v)
	}
	return values
}
