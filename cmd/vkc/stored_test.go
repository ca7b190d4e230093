package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/vkc-go/vkc/bench"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/safetensors"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/npy"
	"github.com/vkc-go/vkc/quant"
)

// TestEveryStoredFile runs one graph.json with real files: safetensors of f32, f16 and bf16, and GGUF files from vkc
// quantize in every format. The result must match the weights in each file.
func TestEveryStoredFile(t *testing.T) {
	dir := t.TempDir()
	g, err := ir.Parse(`graph "stored" {
		%ids = input {name="ids", dtype=i32, shape=[2]}
		%table = weight {name="embed.weight", dtype=f32, shape=[6,256]}
		%w = weight {name="fc.weight", dtype=f32, shape=[8,256]}
		%bias = weight {name="fc.bias", dtype=f32, shape=[8]}
		%x = embedding %table, %ids
		%p = matmul %x, %w {transpose_b=true}
		%y = add %p, %bias
		output "y" %y
	}`)
	if err != nil {
		t.Fatal(err)
	}
	text, err := g.MarshalJSONText()
	if err != nil {
		t.Fatal(err)
	}
	graph := filepath.Join(dir, "graph.json")
	if err := os.WriteFile(graph, text, 0o644); err != nil {
		t.Fatal(err)
	}
	stored := func(dt ir.DType) string {
		var list []safetensors.Named
		for name, dims := range map[string][]int{"embed.weight": {6, 256}, "fc.weight": {8, 256}, "fc.bias": {8}} {
			d, err := bench.Random(name, dt, bench.Fill{}, dims...)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, safetensors.Named{Name: name, Data: d})
		}
		path := filepath.Join(dir, dt.String()+".safetensors")
		if err := safetensors.WriteFile(path, nil, list); err != nil {
			t.Fatal(err)
		}
		return path
	}
	files := []string{stored(ir.F32), stored(ir.F16), stored(ir.BF16)}
	for i, name := range quantizeTypes() {
		out := filepath.Join(dir, name+".gguf")
		ok(t, "quantize", files[i%3], "-o", out, "--type", name)
		files = append(files, out)
	}
	formats := map[ir.DType]bool{}
	for _, path := range files {
		weights := decodedFile(t, path, formats)
		want := expected(weights, 2, 5)
		out := filepath.Join(dir, "y.npy")
		ok(t, "run", graph, "--weights", path, "--device", "cpu", "--input", "ids=[2,5]", "--output", "y="+out)
		d, err := npy.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		have, err := d.Floats()
		if err != nil {
			t.Fatal(err)
		}
		largest := 0.0
		for _, w := range want {
			largest = max(largest, math.Abs(w))
		}
		for i, w := range want {
			if len(have) != len(want) || !(math.Abs(have[i]-w) <= 1e-5*largest) {
				t.Errorf("%s: %v, want %v", filepath.Base(path), have, want)
				break
			}
		}
	}
	for _, name := range quantizeTypes() { // a fallback to another type would not have been read
		if dt, err := ir.ParseDType(name); err != nil || !formats[dt] {
			t.Errorf("no file has matrices in %s (%v)", name, err)
		}
	}
}

// decodedFile returns the floats that a file's tensors stand for, and notes the dtypes of its matrices.
func decodedFile(t *testing.T, path string, formats map[ir.DType]bool) map[string][]float64 {
	t.Helper()
	var source ir.WeightSource
	if filepath.Ext(path) == ".gguf" {
		f, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		source = f
	} else {
		f, err := safetensors.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		source = f
	}
	all := map[string][]float64{}
	for _, name := range []string{"embed.weight", "fc.weight", "fc.bias"} {
		d, err := source.Weight(name)
		if err != nil {
			t.Fatal(fmt.Errorf("%s: %w", path, err))
		}
		if len(d.Dims) > 1 {
			formats[d.DType] = true
		}
		if !d.DType.IsBlock() {
			if all[name], err = d.Floats(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		values := make([]float32, d.Elems())
		if err := quant.Dequantize(values, d.DType, d.Bytes); err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			all[name] = append(all[name], float64(v))
		}
	}
	return all
}

// expected is the graph's result for some rows of the table.
func expected(w map[string][]float64, rows ...int) (y []float64) {
	for _, row := range rows {
		for n, sum := range w["fc.bias"] {
			for k := range 256 {
				sum += w["embed.weight"][row*256+k] * w["fc.weight"][n*256+k]
			}
			y = append(y, sum)
		}
	}
	return y
}
