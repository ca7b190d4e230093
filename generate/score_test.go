package generate_test

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
)

// TestScore compares with the definition, applied to the logits of one pass over a text that is scored in two parts,
// alone and while answers are made.
func TestScore(t *testing.T) {
	tiny := generate.TinyModel(t) // which a software device compiles in a second
	for _, c := range []struct {
		name, model string
		o           generate.Options
	}{
		{"cpu", gollama, generate.Options{Device: "cpu", Precision: vkc.Exact}},
		{"reference", gollama, generate.Options{Device: "reference"}},
		{"device", tiny, generate.Options{Device: "vulkan", Cache: ir.F32}},
		// The slots are the same on a device.
		{"several", tiny, generate.Options{Device: "cpu", Precision: vkc.Exact, Cache: ir.F32, Parallel: 4}},
		{"pages", tiny, generate.Options{Device: "vulkan", Cache: ir.F32, Parallel: 2, Positions: 384}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.o.Device == "vulkan" {
				dev, err := vkc.OpenDevice("vulkan")
				vktest.Need(t, err)
				dev.Close()
			}
			c.o.Context = 160
			m := open(t, c.model, c.o)
			long := strings.Repeat("func main() {\n\treturn nil // naïve\n}\n", 30)
			text := m.Tokenizer().Encode(long, tokenizer.Options{Whole: true})[:150]
			if c.name == "reference" { // which is slow
				text = text[:7]
			}
			logits := logitsOf(t, c.model, text)
			before, _ := answer(t, m, text[:20], generate.Sampling{MaxTokens: 4})
			// Other texts that occupy their slots. A text that came later could take over the cached tokens.
			var others, begun sync.WaitGroup
			for i := range m.Parallel() - 1 {
				begun.Add(1)
				others.Go(func() {
					first := sync.OnceFunc(begun.Done)
					defer first()
					for _, err := range m.Generate(t.Context(), text[:10+i], generate.Sampling{MaxTokens: 20}) {
						if first(); err != nil {
							t.Error(err)
						}
					}
				})
			}
			begun.Wait()
			for _, likeliest := range []int{0, 3} {
				got, err := m.Score(t.Context(), text, likeliest)
				if err != nil {
					t.Fatal(err)
				}
				checkScores(t, m, text, got, logits, likeliest)
			}
			others.Wait()
			known := m.Reused().Known
			if answer(t, m, text, generate.Sampling{MaxTokens: 1}); m.Reused().Known-known != len(text)-1 {
				t.Errorf("of a text of %d tokens that was scored %d are known", len(text), m.Reused().Known-known)
			}
			if after, _ := answer(t, m, text[:20], generate.Sampling{MaxTokens: 4}); !slices.Equal(after, before) {
				t.Errorf("an answer is %v after it, and %v before", after, before)
			}
		})
	}
}

// logitsOf are the logits of all tokens of a text, by one pass over all of it.
func logitsOf(t *testing.T, model string, text []int32) (rows [][]float32) {
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
	g, err := frontend.Build("whole", func(b *frontend.Builder) {
		b.Output("logits", llm.Forward(b, cfg, b.Input("tokens", ir.I32, len(text)), llm.EveryToken))
	})
	if err != nil {
		t.Fatal(err)
	}
	dev, err := vkc.OpenDevice("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	exe, err := dev.LoadGraph(t.Context(), g, f)
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	in, err := vkc.Of(text, len(text))
	if err != nil {
		t.Fatal(err)
	}
	res, err := exe.Run(t.Context(), vkc.Tensors{"tokens": in})
	if err != nil {
		t.Fatal(err)
	}
	all, err := vkc.Values[float32](res.Outputs["logits"])
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(slices.Chunk(all, cfg.Vocab))
}

// checkScores compares the scores of a text with the logits after each of its tokens.
func checkScores(t *testing.T, m *generate.Model, text []int32, got []generate.Token, logits [][]float32,
	likeliest int) {
	t.Helper()
	whole := ""
	for _, token := range got {
		whole += token.Text
	}
	if len(got) != len(text) || got[0].Odds != nil || whole != m.Tokenizer().Decode(text) {
		t.Fatalf("%d tokens of %d, %+v first, %q", len(got), len(text), got[0], whole)
	}
	for i, token := range got[1:] {
		sum, row := 0.0, logits[i]
		for _, v := range row {
			sum += math.Exp(float64(v))
		}
		logprob := func(id int32) float64 { return float64(row[id]) - math.Log(sum) }
		near := func(got float64, id int32) bool { return math.Abs(got-logprob(id)) <= 0.02 }
		if token.ID != text[i+1] || !near(token.Odds.Logprob, token.ID) || len(token.Odds.Likeliest) != likeliest {
			t.Fatalf("token %d is %+v, %+v; want %d, %v", i+1, token, token.Odds, text[i+1], logprob(text[i+1]))
		}
		order := slices.Clone(row)
		slices.SortFunc(order, func(a, b float32) int { return cmp.Compare(b, a) })
		for j, o := range token.Odds.Likeliest {
			if !near(o.Logprob, o.ID) || math.Abs(float64(order[j]-row[o.ID])) > 0.02 {
				t.Errorf("token %d likeliest after %d is %+v; want %v of logit %v", j, i, o, logprob(o.ID), order[j])
			}
			if o.ID == token.ID && o.Logprob != token.Odds.Logprob {
				t.Errorf("token %d has %v, and %v among the likeliest", i+1, token.Odds.Logprob, o.Logprob)
			}
		}
	}
}

func TestScoreRefuses(t *testing.T) {
	m := open(t, gollama, generate.Options{Device: "cpu", Context: 16})
	for _, c := range []struct {
		text      []int32
		likeliest int
		want      string
	}{
		{nil, 0, "the text has 0 tokens"},
		{make([]int32, 17), 0, "want 1 to 16"},
		{[]int32{1, -1}, 0, "token 1 of the text is -1"},
		{[]int32{1}, 21, "want 0 to 20"},
	} {
		if _, err := m.Score(t.Context(), c.text, c.likeliest); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.text, err, c.want)
		}
	}
	if got, err := m.Score(t.Context(), []int32{339}, 2); err != nil || len(got) != 1 || got[0].Odds != nil ||
		got[0].Text != "func" {
		t.Errorf("one token: %+v, %v", got, err)
	}
	if got, err := m.Score(t.Context(), make([]int32, 16), 0); err != nil || len(got) != 16 {
		t.Errorf("as many tokens as the context has: %d, %v", len(got), err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Score(t.Context(), []int32{1, 2}, 0); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("of a model that is closed: %v", err)
	}
}
