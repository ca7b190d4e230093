package generate_test

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/generate"
)

// TestPerplexity compares with the definition, applied to the logits of passes over whole chunks.
func TestPerplexity(t *testing.T) {
	const chunk = 12
	text := strings.Repeat("func main() {\n\treturn nil\n}\n", 4)
	f, err := gguf.Open(gollama)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := tokenizer.New(f)
	if err != nil {
		t.Fatal(err)
	}
	ids := tok.Encode(text, tokenizer.Options{Whole: true})[:3*chunk]
	var costs []float64 // of each token that counts
	for i := range 2 {
		ids := ids[i*chunk:][:chunk]
		ids[0], _ = tok.BOS()
		logits := logitsOf(t, gollama, ids)
		for at := chunk / 2; at < chunk-1; at++ {
			sum := 0.0
			row := logits[at]
			for _, v := range row {
				sum += math.Exp(float64(v - row[ids[at+1]]))
			}
			costs = append(costs, math.Log(sum))
		}
	}
	mean, squares := 0.0, 0.0
	for _, c := range costs {
		mean += c / float64(len(costs))
	}
	for _, c := range costs {
		squares += (c - mean) * (c - mean)
	}
	n := float64(len(costs))
	stderr := math.Exp(mean) * math.Sqrt(squares/n/(n-1))
	seen := 0
	p, err := generate.MeasurePerplexity(t.Context(), gollama, text, generate.Options{Device: "cpu", Context: chunk,
		Precision: vkc.Exact}, 2,
		func(p generate.Perplexity, total int) {
			if seen++; p.Chunks != seen || total != 2 {
				t.Errorf("chunk %d of %d, want %d of 2", p.Chunks, total, seen)
			}
		})
	if err != nil || seen != 2 {
		t.Fatal(seen, err)
	}
	near := func(got, want float64) bool { return math.Abs(got-want) <= 1e-3*want }
	if !near(p.Value, math.Exp(mean)) || !near(p.StdErr, stderr) || p.Tokens != len(costs) {
		t.Errorf("%+v, want %v +- %v of %d tokens", p, math.Exp(mean), stderr, len(costs))
	}
}

func TestPerplexityRefuses(t *testing.T) {
	for _, tt := range []struct {
		context int
		want    string
	}{
		{2, "chunks of 2 tokens: want at least 4"},
		{64, "want at least 64, one chunk"},
		{1024, "one chunk"},
		{2000, "2000 positions: want 1 to 1024"},
	} {
		_, err := generate.MeasurePerplexity(t.Context(), gollama, "a text\n", generate.Options{Device: "cpu",
			Context: tt.context}, 0, nil)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("context %d: %v, want %q", tt.context, err, tt.want)
		}
	}
	none := filepath.Join(t.TempDir(), "no.gguf")
	_, err := generate.MeasurePerplexity(t.Context(), none, "", generate.Options{}, 0, nil)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}
