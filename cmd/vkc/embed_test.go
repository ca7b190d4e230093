package main

import (
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
)

// embedder is the model of the example as one for embeddings, by the last token.
func embedder(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "embedder.gguf")
	if err := gguf.Edit(gollama, path, gguf.KV{Key: "llama.pooling_type", Value: uint32(3)}); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEmbed(t *testing.T) {
	line := []string{"embed", "-m", embedder(t), "func main() {", "return nil", "--device", "cpu", "--ctx", "16"}
	norms := func(args ...string) (list []float64) {
		d := json.NewDecoder(strings.NewReader(ok(t, args...).stdout))
		for d.More() {
			var v struct {
				Text      string
				Tokens    int
				Embedding []float64
			}
			if err := d.Decode(&v); err != nil || len(v.Embedding) != 256 || v.Tokens < 2 || v.Text == "" {
				t.Fatalf("%+v, %v", v, err)
			}
			sum := 0.0
			for _, x := range v.Embedding {
				sum += x * x
			}
			list = append(list, math.Sqrt(sum))
		}
		return list
	}
	for _, n := range norms(line...) {
		if math.Abs(n-1) > 1e-4 {
			t.Errorf("a vector of length %v", n)
		}
	}
	if long := norms(append(line, "--normalize=false")...); len(long) != 2 || long[0] < 1.5 || long[0] == long[1] {
		t.Errorf("lengths as the model has them: %v", long)
	}
	has(t, ok(t, "graph", line[2], "--ctx", "16").stdout, `"embedding"`)
	fails(t, exitUsage, []string{"embed", "x"}, "-m MODEL.gguf is missing")
	fails(t, exitUsage, []string{"embed", "-m", gollama}, "TEXT is missing")
	fails(t, exitFailure, []string{"embed", "-m", gollama, "x", "--device", "cpu"},
		gollama+`: the model makes no embeddings, pooling "": want mean, cls or last`)
	fails(t, exitFailure, append(line, strings.Repeat("x y ", 20)), "text 2: ", "want 1 to 16")
}
