package generate_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/chat"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	vkrun "github.com/vkc-go/vkc/runtime"
)

func TestMain(m *testing.M) { os.Exit(vktest.Main(m)) }

const folder = "../examples/gollama/"

// gollama is the model of the example.
const gollama = folder + "gollama-q8_0.gguf"

func open(t *testing.T, path string, o generate.Options) *generate.Model {
	t.Helper()
	m, err := generate.Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	vktest.CloseAfter(t, m)
	return m
}

// answer collects the tokens of an answer.
func answer(t *testing.T, m *generate.Model, prompt []int32, s generate.Sampling) (ids []int32, text string) {
	t.Helper()
	for token, err := range m.Generate(t.Context(), prompt, s) {
		if err != nil {
			t.Fatal(err)
		}
		ids, text = append(ids, token.ID), text+token.Text
	}
	return ids, text
}

// TestGreedy compares with another implementation of the model, as long as the most likely token is clear. Quantizing
// the weights to Q8_0 changes a logit by up to 0.2 in these prompts.
func TestGreedy(t *testing.T) {
	testGreedy(t, "cpu", folder, filepath.Base(gollama), 2*0.2, 12)
}

// TestGreedyHalf is TestGreedy with the original weights, all tokens and every device.
func TestGreedyHalf(t *testing.T) {
	data := os.Getenv("VKC_TESTDATA")
	if data == "" {
		t.Skip("VKC_TESTDATA names no folder with the model in gollama/")
	}
	for _, device := range []string{"cpu", "reference", "vulkan"} {
		t.Run(device, func(t *testing.T) {
			if device == "vulkan" {
				dev, err := vkc.OpenDevice(device)
				vktest.Need(t, err)
				if err := dev.Close(); err != nil {
					t.Fatal(err)
				}
			}
			testGreedy(t, device, filepath.Join(data, "gollama"), "gollama-f16.gguf", 0.05, 64)
		})
	}
}

// testGreedy compares the first tokens that follow each prompt. Where another arithmetic may rightly choose
// otherwise, it goes on from the token of the reference.
func testGreedy(t *testing.T, device, folder, file string, margin float64, most int) {
	raw, err := os.ReadFile(filepath.Join(folder, "reference.json"))
	if err != nil {
		t.Fatal(err)
	}
	var ref struct {
		Prompts []struct {
			Prompt string
			Greedy []int32
			Margin []float64 `json:"greedy_margin"`
		}
	}
	if err := json.Unmarshal(raw, &ref); err != nil {
		t.Fatal(err)
	}
	m := open(t, filepath.Join(folder, file), generate.Options{Device: device, Context: 96})
	compared, unclear := 0, 0
	for _, p := range ref.Prompts {
		prompt := m.Tokenizer().Encode(p.Prompt, tokenizer.Options{Whole: true})
		for at := 0; at < most; {
			clear := at
			for clear < most && p.Margin[clear] > margin {
				clear++
			}
			if clear == at {
				unclear++
				at++
				continue
			}
			want := p.Greedy[at:clear]
			got, text := answer(t, m, slices.Concat(prompt, p.Greedy[:at]), generate.Sampling{MaxTokens: len(want)})
			if !slices.Equal(got, want) || at == 0 && text != m.Tokenizer().Decode(want) {
				t.Errorf("%q, after %d tokens, goes on with %v, %q; want %v", p.Prompt, at, got, text, want)
			}
			compared += len(want)
			at = clear
		}
	}
	t.Logf("%d tokens compared, %d unclear", compared, unclear)
	if compared < 3*unclear || len(ref.Prompts) == 0 {
		t.Errorf("only %d tokens compared, and %d unclear", compared, unclear)
	}
}

// TestAgain: a prompt that continues an earlier text with cached keys and values, and a prompt read in several steps,
// give the same answers as the first time.
func TestAgain(t *testing.T) {
	m := open(t, gollama, generate.Options{Device: "cpu", Context: 256, Cache: ir.F16})
	long := m.Tokenizer().Encode(strings.Repeat("func main() { return nil }\n", 24), tokenizer.Options{Whole: true})
	if len(long) < 140 || len(long) > 240 {
		t.Fatalf("%d tokens", len(long))
	}
	greedy := generate.Sampling{MaxTokens: 4}
	want, _ := answer(t, m, long, greedy)
	short, _ := answer(t, m, long[:20], greedy)
	if got, _ := answer(t, m, long, greedy); !slices.Equal(got, want) {
		t.Errorf("after a shorter one: %v, want %v", got, want)
	}
	if got, _ := answer(t, m, long, greedy); !slices.Equal(got, want) {
		t.Errorf("again: %v, want %v", got, want)
	}
	if got, _ := answer(t, m, long[:20], greedy); !slices.Equal(got, short) {
		t.Errorf("the shorter one again: %v, want %v", got, short)
	}
	sampled := generate.Sampling{Temperature: 1.5, TopK: 40, TopP: new(0.95), MinP: 0.01, RepeatPenalty: 1.1}
	sampled.Seed, sampled.MaxTokens = 7, 8
	first, _ := answer(t, m, long[:20], sampled)
	if got, _ := answer(t, m, long[:20], sampled); !slices.Equal(got, first) {
		t.Errorf("equal seeds gave %v and %v", first, got)
	}
}

// TestWindow: layers with a window keep no more than that, and a text that goes back
// further is read again.
func TestWindow(t *testing.T) {
	path := changed(t, gguf.KV{Key: "llama.attention.sliding_window", Value: uint32(16)})
	greedy := generate.Sampling{MaxTokens: 2}
	fresh := func(prompt []int32) []int32 {
		got, _ := answer(t, open(t, path, generate.Options{Device: "cpu", Context: 256}), prompt, greedy)
		return got
	}
	m := open(t, path, generate.Options{Device: "cpu", Context: 256})
	long := m.Tokenizer().Encode(strings.Repeat("func main() { return nil }\n", 24), tokenizer.Options{Whole: true})
	other := append(slices.Clone(long[:len(long)-9]), long[1:5]...)
	answer(t, m, long, greedy)
	for i, prompt := range [][]int32{other, long[:20], long, long[:len(long)-100], long[:30]} {
		got, _ := answer(t, m, prompt, greedy)
		if want := fresh(prompt); !slices.Equal(got, want) {
			t.Errorf("prompt %d: %v, want %v", i, got, want)
		}
	}
}

// changed is the model of the example with other metadata.
func changed(t *testing.T, more ...gguf.KV) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "changed.gguf")
	if err := gguf.Edit(gollama, path, more...); err != nil {
		t.Fatal(err)
	}
	return path
}

// written is the file that a writer makes.
func written(t testing.TB, w *gguf.Writer) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := w.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestEnds: an answer ends where the context does, and where the caller leaves.
func TestEnds(t *testing.T) {
	m := open(t, gollama, generate.Options{Device: "cpu", Context: 12})
	prompt := m.Tokenizer().Encode("func main() {\n", tokenizer.Options{Whole: true})
	if got, _ := answer(t, m, prompt, generate.Sampling{}); len(prompt)+len(got) != 12 {
		t.Errorf("%d and %d tokens in a context of 12", len(prompt), len(got))
	}
	n := 0
	for range m.Generate(t.Context(), prompt, generate.Sampling{}) {
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d tokens", n)
	}
}

func TestRefuses(t *testing.T) {
	m := open(t, gollama, generate.Options{Device: "cpu", Context: 8})
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		ctx    context.Context
		prompt []int32
		s      generate.Sampling
		want   string
	}{
		{t.Context(), nil, generate.Sampling{}, "the prompt is empty"},
		{t.Context(), make([]int32, 8), generate.Sampling{}, "the prompt has 8 tokens: want at most 7"},
		{t.Context(), []int32{4096}, generate.Sampling{}, "token 0 of the text is 4096: want 0 to 4095"},
		{t.Context(), []int32{0}, generate.Sampling{Temperature: -1}, "Temperature is -1: want 0 to 100"},
		{t.Context(), []int32{0}, generate.Sampling{TopP: new(2.0)}, "TopP is 2: want 0 to 1"},
		{t.Context(), []int32{0}, generate.Sampling{TopK: -1}, "TopK is -1"},
		{cancelled, []int32{0}, generate.Sampling{}, "canceled"},
	} {
		var err error
		for _, err = range m.Generate(tt.ctx, tt.prompt, tt.s) {
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
	if _, err := m.Prompt(chat.Context{}); err == nil || !strings.Contains(err.Error(), "has no chat template") {
		t.Errorf("error %v", err)
	}
	for _, tt := range []struct {
		o    generate.Options
		want string
	}{
		{generate.Options{Device: "cpu", Context: 2000}, "2000 positions: want 1 to 1024"},
		{generate.Options{Device: "cpu", Precision: "none"}, `no precision "none"`},
	} {
		_, err := generate.Open(t.Context(), gollama, tt.o)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
	if _, err := generate.Open(t.Context(), t.TempDir()+"/no.gguf", generate.Options{}); err == nil {
		t.Error("no file gave no error")
	}
}

// TestDevice: the best device generates the same text as the reference where the next token is clear, also with
// speculation.
func TestDevice(t *testing.T) {
	dev, err := vkc.OpenDevice("vulkan")
	vktest.Need(t, err)
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	devtest.OwnCache(t)
	reference := open(t, gollama, generate.Options{Device: "cpu", Context: 64})
	stages := map[vkrun.Stage]vkc.Progress{}
	device := open(t, gollama, generate.Options{Device: "vulkan", Context: 64,
		Speculation: generate.Speculation{Tokens: 3},
		Progress:    func(p vkc.Progress) { stages[p.Stage] = p }})
	for _, stage := range []vkrun.Stage{vkrun.StageShaders, vkrun.StagePipelines, vkrun.StageWeights} {
		if p, ok := stages[stage]; !ok || p.Done != p.Total {
			t.Errorf("%s: %d of %d at the end", stage, p.Done, p.Total)
		}
	}
	again := strings.Repeat("if err != nil {\n\treturn nil, err\n}\n", 3) + "if err"
	for _, text := range []string{"func main() {\n\treturn", again} {
		prompt := reference.Tokenizer().Encode(text, tokenizer.Options{Whole: true})
		want, _ := answer(t, reference, prompt, generate.Sampling{MaxTokens: 6})
		if got, _ := answer(t, device, prompt, generate.Sampling{MaxTokens: 6}); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", device.Why(), got, want)
		}
	}
	if device.Speculated().Accepted == 0 {
		t.Error("no guess was right")
	}
}

// TestMinTokens: an answer does not end before it has MinTokens tokens, even if nothing is likelier than its end.
func TestMinTokens(t *testing.T) {
	m := open(t, gollama, generate.Options{Device: "cpu"})
	bias := map[int32]float64{}
	for id := range int32(m.Tokenizer().Len()) {
		if m.Tokenizer().IsEnd(id) {
			bias[id] = 100
		}
	}
	prompt := m.Tokenizer().Encode("func main() {", tokenizer.Options{Whole: true})
	for _, least := range []int{0, 5} {
		n := 0
		s := generate.Sampling{MinTokens: least, MaxTokens: 9, Bias: bias}
		for _, err := range m.Generate(t.Context(), prompt, s) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != least {
			t.Errorf("an answer of at least %d tokens has %d", least, n)
		}
	}
}
