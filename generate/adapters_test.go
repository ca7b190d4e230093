package generate_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/lora"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/ir"
)

// adapterOf writes an adapter with random matrices for queries and the feed-forward layer of a model.
func adapterOf(t *testing.T, model string, seed uint64) string {
	t.Helper()
	f, err := gguf.Open(model)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cfg, err := llm.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	const rank = 4
	r := rand.New(rand.NewPCG(seed, 1))
	random := func(dims ...int) *ir.Data {
		values := make([]float64, dims[0]*dims[1])
		for i := range values {
			values[i] = 0.2 * r.NormFloat64()
		}
		d, err := ir.FromFloats(ir.F32, values, dims...)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	a, b := map[string]*ir.Data{}, map[string]*ir.Data{}
	for _, name := range []string{"blk.0.attn_q.weight", "blk.0.ffn_down.weight"} {
		dims, err := cfg.Types[name].Shape.Eval(nil)
		if err != nil {
			t.Fatal(err)
		}
		a[name], b[name] = random(rank, dims[1]), random(dims[0], rank)
	}
	path := filepath.Join(t.TempDir(), fmt.Sprint(seed, ".gguf"))
	if err := lora.Write(path, "llama", 4, a, b); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestAdapters compares answers with adapters, with scales of the model and of each answer, and answers of merged
// models.
func TestAdapters(t *testing.T) {
	tiny := generate.TinyModel(t)
	one, two := adapterOf(t, tiny, 1), adapterOf(t, tiny, 2)
	base := generate.Options{Device: "cpu", Context: 64, Cache: ir.F32}
	s := generate.Sampling{MaxTokens: 6, Logprobs: true}
	odds := func(m *generate.Model, prompt []int32, s generate.Sampling) (list []float64) {
		for token, err := range m.Generate(t.Context(), prompt, s) {
			if err != nil {
				t.Error(err)
				return nil
			}
			list = append(list, float64(token.ID), token.Odds.Logprob)
		}
		return list
	}
	same := func(what string, got, want []float64) {
		t.Helper()
		if !slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) <= 1e-4*(1+math.Abs(b)) }) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	f, err := gguf.Open(tiny)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cfg, err := llm.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	merged := func(scales ...float64) *generate.Model {
		set, err := lora.OpenSet([]lora.File{{Path: one, Scale: scales[0]}, {Path: two, Scale: scales[1]}}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		var w gguf.Writer
		if _, err := lora.Merge(t.Context(), &w, f, set); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "merged.gguf")
		if err := w.WriteFile(path); err != nil {
			t.Fatal(err)
		}
		return open(t, path, base)
	}
	all := [][]float64{{0, 0}, {1, 0}, {-0.5, 2}}
	plain := open(t, tiny, base)
	prompt := plain.Tokenizer().Encode("func main() {", tokenizer.Options{Whole: true})
	var want [][]float64
	for _, scales := range all {
		want = append(want, odds(merged(scales...), prompt, s))
		o := base
		o.Adapters = []lora.File{{Path: one, Scale: scales[0]}, {Path: two, Scale: scales[1]}}
		m := open(t, tiny, o)
		same(fmt.Sprint("scales of the model ", scales), odds(m, prompt, s), want[len(want)-1])
	}
	if slices.Equal(want[0], want[1]) || slices.Equal(want[1], want[2]) {
		t.Errorf("the adapters change nothing: %v", want)
	}
	for i, parallel := range []int{1, 3, 3} {
		if i == 2 {
			generate.SetMixed(t, true)
		}
		o := base
		o.Adapters, o.AdapterScales, o.Parallel = []lora.File{{Path: one, Scale: 1}, {Path: two}}, true, parallel
		m := open(t, tiny, o)
		if list := m.AdapterFiles(); !slices.Equal(list, o.Adapters) {
			t.Errorf("adapters %v", list)
		}
		for range 2 { // the second time, the prompt is in the cache with the scales of others
			var at sync.WaitGroup
			for i, scales := range all {
				at.Go(func() {
					s := s
					s.AdapterScales = scales
					same(fmt.Sprintf("%d at once, scales of an answer %v", parallel, scales), odds(m, prompt, s),
						want[i])
				})
			}
			at.Wait()
		}
		same("the scales of the options", odds(m, prompt, s), want[1])
		scored, err := m.Score(t.Context(), prompt, 0)
		if err != nil || len(scored) != len(prompt) {
			t.Errorf("scores %v, %v", scored, err)
		}
		for _, scales := range [][]float64{{1}, {1, math.NaN()}} {
			s.AdapterScales = scales
			for _, err := range m.Generate(t.Context(), prompt, s) {
				if err == nil || !strings.Contains(strings.ToLower(err.Error()), "adapter") {
					t.Errorf("scales %v: %v", scales, err)
				}
			}
		}
		s.AdapterScales = nil
	}
	s.AdapterScales = []float64{1, 1}
	for _, err := range plain.Generate(t.Context(), prompt, s) {
		if err == nil || !strings.Contains(err.Error(), "AdapterScales has 2 numbers: want none") {
			t.Errorf("a model without adapters: %v", err)
		}
	}
	for _, file := range []lora.File{{Path: "", Scale: 1}, {Path: one, Scale: math.Inf(1)}, {Path: one, Scale: 1e9}} {
		err := generate.Options{Adapters: []lora.File{file}}.Check()
		if wrong := (*generate.OptionError)(nil); err == nil || !strings.Contains(err.Error(), "Adapters") {
			t.Errorf("%+v: %v, %v", file, err, wrong)
		}
	}
	o := base
	o.Adapters = []lora.File{{Path: filepath.Join(t.TempDir(), "none.gguf"), Scale: 1}}
	if _, err := generate.Open(t.Context(), tiny, o); err == nil || !strings.Contains(err.Error(), "none.gguf") {
		t.Errorf("no adapter: %v", err)
	}
}
