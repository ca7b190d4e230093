package generate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
)

const gollama = "../examples/gollama/gollama-q8_0.gguf"

// tinyWords is the vocabulary of tinyModel. Its last token ends a text.
var tinyWords = strings.Fields("<unk> <s> a b c d e f g h i j k l m n o p q r s t u v w x y z 0 1 2 </s>")

// tinyModel writes a Llama model of random weights that takes next to no time. Edits change weights.
func tinyModel(t testing.TB, edits ...func(name string, values []float64)) string {
	t.Helper()
	const width, ffn = 16, 32
	dims := map[string][]int{"token_embd": {len(tinyWords), width}, "output_norm": {width}}
	for i := range 2 {
		for name, d := range map[string][]int{
			"attn_norm": {width}, "attn_q": {width, width}, "attn_k": {width / 2, width}, "attn_v": {width / 2, width},
			"attn_output": {width, width}, "ffn_norm": {width}, "ffn_gate": {ffn, width}, "ffn_up": {ffn, width},
			"ffn_down": {width, ffn},
		} {
			dims[fmt.Sprintf("blk.%d.%s", i, name)] = d
		}
	}
	return tinyFile(t, "llama", map[string]any{
		"block_count": uint32(2), "embedding_length": uint32(width), "attention.head_count": uint32(2),
		"attention.head_count_kv": uint32(1), "feed_forward_length": uint32(ffn), "context_length": uint32(256),
		"attention.layer_norm_rms_epsilon": float32(1e-5),
	}, dims, edits...)
}

// tinyFile writes a model of random weights with the vocabulary tinyWords. A weight's name in the file has the suffix
// .weight, unless it has one or is a name of ssm_a or ssm_d.
func tinyFile(t testing.TB, architecture string, meta map[string]any, dims map[string][]int,
	edits ...func(name string, values []float64)) string {
	t.Helper()
	kinds := slices.Repeat([]int32{1}, len(tinyWords))
	kinds[0], kinds[1], kinds[len(kinds)-1] = 2, 3, 3
	var w gguf.Writer
	all := map[string]any{
		"general.architecture": architecture, "tokenizer.ggml.model": "llama",
		"tokenizer.ggml.tokens": tinyWords, "tokenizer.ggml.scores": make([]float32, len(tinyWords)),
		"tokenizer.ggml.token_type": kinds, "tokenizer.ggml.bos_token_id": uint32(1),
		"tokenizer.ggml.eos_token_id": uint32(len(tinyWords) - 1), "tokenizer.ggml.unknown_token_id": uint32(0),
	}
	for key, v := range meta {
		if !strings.HasPrefix(key, "tokenizer.") {
			key = architecture + "." + key
		}
		all[key] = v
	}
	for key, v := range all {
		if err := w.Set(key, v); err != nil {
			t.Fatal(err)
		}
	}
	names := make([]string, 0, len(dims))
	for name := range dims {
		names = append(names, name)
	}
	slices.Sort(names)
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range names {
		d, err := ir.NewData(ir.F32, dims[name]...)
		if err != nil {
			t.Fatal(err)
		}
		values := make([]float64, d.Elems())
		for i := range values {
			values[i] = r.NormFloat64()
		}
		for _, edit := range edits {
			edit(name, values)
		}
		ir.EncodeFloats(d.Bytes, ir.F32, values)
		if !strings.HasSuffix(name, ".bias") && !strings.HasSuffix(name, "ssm_a") && !strings.HasSuffix(name, "ssm_d") {
			name += ".weight"
		}
		if err := w.Add(name, d); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := w.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func openModel(t testing.TB, path string, o Options) *Model {
	t.Helper()
	m, err := Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	vktest.CloseAfter(t, m)
	return m
}

// needDevice skips a test where there is no device.
func needDevice(t testing.TB) {
	t.Helper()
	dev, err := vkc.OpenDevice("vulkan")
	vktest.Need(t, err)
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
}

// randomPrompt is a prompt of so many tokens that a model has.
func randomPrompt(m *Model, r *rand.Rand, tokens int) []int32 {
	prompt := make([]int32, tokens)
	for i := range prompt {
		prompt[i] = 2 + r.Int32N(int32(m.config.Vocab-3))
	}
	return prompt
}

// TestSameBits: the logits of a text are the same, bit for bit, whatever else is in the batch and wherever it is.
func TestSameBits(t *testing.T) {
	for device, batches := range map[string]int{"cpu": 40, "reference": 10} {
		t.Run(device, func(t *testing.T) {
			testSameBits(t, openModel(t, tinyModel(t), Options{Device: device, Context: 32, Parallel: 5}), batches)
		})
	}
	needDevice(t)
	t.Run("device", func(t *testing.T) {
		testSameBits(t, openModel(t, tinyModel(t), Options{Device: "vulkan", Context: 160, Parallel: 5,
			Deterministic: true}), 30)
	})
	t.Run("gollama", func(t *testing.T) {
		data := os.Getenv("VKC_TESTDATA")
		if data == "" {
			t.Skip("VKC_TESTDATA names no folder with the model in gollama/")
		}
		path := filepath.Join(data, "gollama", "gollama-f16.gguf")
		testSameBits(t, openModel(t, path, Options{Device: "vulkan", Context: 400, Parallel: 8, Cache: ir.F16,
			Deterministic: true}), 15)
	})
}

func testSameBits(t *testing.T, m *Model, batches int) {
	r := rand.New(rand.NewPCG(5, 6))
	const steps = 6
	type text struct {
		tokens []int32
		read   int         // tokens of it that are the prompt
		logits [][]float32 // after each of the others, alone
	}
	var texts []*text
	for i := range 4 {
		tokens := randomPrompt(m, r, 2+steps+i*(m.context-2-steps)/4)
		texts = append(texts, &text{tokens: tokens, read: len(tokens) - steps})
	}
	// at puts as much of a text as is given at a place.
	at := func(place int, x *text, tokens int) *slot {
		s := &slot{model: m, index: int32(place)}
		if _, err := s.prefill(t.Context(), x.tokens[:x.read]); err != nil {
			t.Fatal(err)
		}
		s.answer = &answer{text: x.tokens[:x.read], chooser: &chooser{sampling: Sampling{Logprobs: true}}}
		for range tokens {
			next(t, m, x.tokens, s)
		}
		return s
	}
	for i, x := range texts {
		s := at(i, x, 0)
		for range steps {
			x.logits = append(x.logits, slices.Clone(next(t, m, x.tokens, s).logits))
		}
	}
	for range batches {
		places, which := r.Perm(m.slotCount), r.Perm(len(texts))[:1+r.IntN(len(texts))]
		var rows []*slot
		for i, n := range which {
			rows = append(rows, at(places[i], texts[n], r.IntN(steps)))
		}
		for i, s := range rows {
			s.answer.text = texts[which[i]].tokens[:len(s.cached)+1]
		}
		all, err := m.stepAll(t.Context(), rows)
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range all {
			x := texts[which[i]]
			if want := x.logits[len(rows[i].cached)-x.read-1]; !slices.Equal(got.logits, want) {
				t.Fatalf("text %d at place %d, row %d of %d, of %d tokens: its logits are not those alone", which[i],
					places[i], i, len(rows), len(rows[i].cached))
			}
		}
	}
}

// next takes one more token of a text, alone.
func next(t *testing.T, m *Model, tokens []int32, s *slot) outcome {
	t.Helper()
	s.answer.text = tokens[:len(s.cached)+1]
	all, err := m.stepAll(t.Context(), []*slot{s})
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// TestJoinAndLeave: answers that begin and end at any time, including cancelled ones, are the same as when they run
// alone. They leave nothing behind, even if the device has steps in flight after their end.
func TestJoinAndLeave(t *testing.T) {
	t.Run("cpu", func(t *testing.T) {
		testJoinAndLeave(t, openModel(t, tinyModel(t), Options{Device: "cpu", Context: 48, Parallel: 3,
			Deterministic: true}))
	})
	needDevice(t)
	for _, places := range []int{1, 3} {
		t.Run(fmt.Sprintf("device, %d at once", places), func(t *testing.T) {
			testJoinAndLeave(t, openModel(t, tinyModel(t), Options{Device: "vulkan", Context: 48, Parallel: places,
				Deterministic: true}))
		})
	}
}

func testJoinAndLeave(t *testing.T, m *Model) {
	r := rand.New(rand.NewPCG(7, 8))
	type question struct {
		prompt   []int32
		sampling Sampling
		want     []Token
	}
	var questions []*question
	for i := range 6 {
		q := &question{prompt: randomPrompt(m, r, 1+r.IntN(40)), sampling: Sampling{MaxTokens: 1 + r.IntN(20)}}
		if i%2 == 1 {
			q.sampling.Temperature, q.sampling.Seed = 1, uint64(i)
		}
		q.want = answerOf(t, m, q.prompt, q.sampling)
		if len(q.want) == 0 {
			t.Fatalf("question %d has no answer", i)
		}
		questions = append(questions, q)
	}
	var clients sync.WaitGroup
	for client := range 8 {
		clients.Go(func() {
			r := rand.New(rand.NewPCG(9, uint64(client)))
			for range 12 {
				q := questions[r.IntN(len(questions))]
				ctx, cancel := context.WithCancel(t.Context())
				stay, gone, n := 1+r.IntN(2*len(q.want)), r.IntN(2) == 0, 0
				for token, err := range m.Generate(ctx, q.prompt, q.sampling) {
					if err != nil {
						if !errors.Is(err, context.Canceled) || n < stay {
							t.Errorf("%v after %d tokens", err, n)
						}
						break
					}
					if token != q.want[n] {
						t.Errorf("token %d is %v, want %v", n, token, q.want[n])
					}
					if n++; n == stay && !gone {
						break
					}
					if n == stay {
						cancel()
					}
				}
				if n < min(stay, len(q.want)) {
					t.Errorf("%d tokens, want %d", n, min(stay, len(q.want)))
				}
				cancel()
			}
		})
	}
	clients.Wait()
	for m.Load() != (Load{}) { // or the test hangs
		runtime.Gosched()
	}
}

// answerOf collects an answer.
func answerOf(t *testing.T, m *Model, prompt []int32, s Sampling) (tokens []Token) {
	t.Helper()
	for token, err := range m.Generate(t.Context(), prompt, s) {
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	return tokens
}

// TestSlowReader: an answer that nobody reads holds up no other, not even where there is one place.
func TestSlowReader(t *testing.T) {
	m := openModel(t, tinyModel(t), Options{Device: "cpu", Context: 32})
	prompt := []int32{1, 5, 6}
	for range m.Generate(t.Context(), prompt, Sampling{Temperature: 1}) {
		if got := answerOf(t, m, prompt, Sampling{MaxTokens: 4}); len(got) == 0 {
			t.Error("an answer beside it is empty")
		}
	}
}

// TestCloseEndsAnswers: answers that are under way or wait end with an error when the model is closed.
func TestCloseEndsAnswers(t *testing.T) {
	m, err := Open(t.Context(), tinyModel(t), Options{Device: "cpu", Context: 256, Parallel: 2})
	if err != nil {
		t.Fatal(err)
	}
	var clients sync.WaitGroup
	for i := range 6 {
		clients.Go(func() {
			for _, err := range m.Generate(t.Context(), []int32{1, int32(2 + i)}, Sampling{Temperature: 50}) {
				if err != nil && !errors.Is(err, errClosed) {
					t.Error(err)
				}
			}
		})
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	clients.Wait()
	for _, err := range m.Generate(t.Context(), []int32{1}, Sampling{}) {
		if !errors.Is(err, errClosed) {
			t.Errorf("a closed model: %v", err)
		}
	}
}

// TestLostDevice: if the device fails, running, waiting and later answers end with an error, and none hangs. Closed
// programs simulate a lost device, since both make runs return errors.
func TestLostDevice(t *testing.T) {
	t.Run("cpu", func(t *testing.T) {
		testLostDevice(t, openModel(t, tinyModel(t), Options{Device: "cpu", Context: 256, Parallel: 2}))
	})
	needDevice(t)
	t.Run("device", func(t *testing.T) { // the device has several steps in flight
		testLostDevice(t, openModel(t, tinyModel(t), Options{Device: "vulkan", Context: 48, Parallel: 3,
			Deterministic: true}))
	})
}

func testLostDevice(t *testing.T, m *Model) {
	var clients, started sync.WaitGroup
	started.Add(2)
	for i := range 6 {
		clients.Go(func() {
			var last error
			tokens := 0
			// A model of random weights may end an answer on its own, so that a client asks until there is an error.
			for last == nil {
				for _, err := range m.Generate(t.Context(), []int32{1, int32(2 + i)}, Sampling{Temperature: 50}) {
					if last = err; err == nil {
						if tokens++; tokens == 1 && i < 2 {
							started.Done()
						}
					}
				}
			}
			if errors.Is(last, errClosed) {
				t.Errorf("the model is not closed: %v", last)
			}
		})
	}
	started.Wait()
	if err := errors.Join(m.prompts[0].exe.Close(), m.step.Close()); err != nil {
		t.Fatal(err)
	}
	clients.Wait()
	if load := m.Load(); load.Running != 0 || load.Waiting != 0 {
		t.Errorf("after all have ended: %+v", load)
	}
}

func TestParallelRefuses(t *testing.T) {
	path := tinyModel(t)
	for want, o := range map[string]Options{
		"-1 answers at once":                   {Parallel: -1},
		"1025 answers at once: want 1 to":      {Parallel: 1025},
		"q8_0: want one of [f32 f16":           {Parallel: 2, Cache: ir.Q8_0}, // heads of 8
		"2 speculated tokens at a time, and 3": {Parallel: 3, Speculation: Speculation{Tokens: 2}},
	} {
		o.Device, o.Context = "cpu", 16
		if _, err := Open(t.Context(), path, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestLikeliest: the most likely token found on the device is the one found on the host, both for a single answer and
// together with an answer that needs all logits.
func TestLikeliest(t *testing.T) {
	path := tinyModel(t)
	for _, places := range []int{1, 2} {
		m := openModel(t, path, Options{Device: "cpu", Context: 64, Parallel: places})
		for seed := range uint64(4) {
			prompt := randomPrompt(m, rand.New(rand.NewPCG(seed, 1)), 3)
			here := Sampling{MaxTokens: 24, RepeatPenalty: 1 + 1e-12} // divides by 1 in f32
			want := answerOf(t, m, prompt, here)
			if got := answerOf(t, m, prompt, Sampling{MaxTokens: 24, RepeatPenalty: 1}); !slices.Equal(got, want) {
				t.Errorf("%d places: %v, want %v", places, got, want)
			}
			var other sync.WaitGroup
			other.Go(func() {
				for _, err := range m.Generate(t.Context(), prompt[:2], Sampling{MaxTokens: 24, Temperature: 1}) {
					if err != nil {
						t.Error(err)
					}
				}
			})
			if got := answerOf(t, m, prompt, Sampling{MaxTokens: 24}); !slices.Equal(got, want) {
				t.Errorf("%d places, beside another: %v, want %v", places, got, want)
			}
			other.Wait()
		}
	}
	broken := openModel(t, tinyModel(t, func(name string, values []float64) {
		if name == "output_norm" {
			for i := range values {
				values[i] = math.NaN()
			}
		}
	}), Options{Device: "cpu", Context: 8, Parallel: 2})
	for _, err := range broken.Generate(t.Context(), []int32{1}, Sampling{}) {
		if err == nil || !strings.Contains(err.Error(), "no finite logits") {
			t.Errorf("logits that are no numbers give %v", err)
		}
	}
	for _, s := range []Sampling{{Temperature: 1}, {RepeatPenalty: 1.1}} {
		if s.likeliest() {
			t.Errorf("%+v takes the likeliest", s)
		}
	}
}

// TestKnownBits: with Deterministic, a prompt that goes on an earlier conversation has the same logits, bit for bit,
// as one that is read from its beginning, though a part of it is not.
func TestKnownBits(t *testing.T) {
	m := openModel(t, tinyModel(t), Options{Device: "cpu", Context: 256, Parallel: 2, Deterministic: true})
	r := rand.New(rand.NewPCG(3, 3))
	text := randomPrompt(m, r, 240)
	kept, fresh := &slot{model: m}, &slot{model: m, index: 1}
	for turn, end := range []int{100, 150, 180, 220} {
		known := kept.reusable(text[:end], nil)
		if want := []int{0, 0, 128, 128}[turn]; known != want {
			t.Errorf("turn %d: %d tokens are known, want %d", turn, known, want)
		}
		got, err := kept.prefill(t.Context(), text[:end])
		if err != nil {
			t.Fatal(err)
		}
		fresh.truncate(0)
		want, err := fresh.prefill(t.Context(), text[:end])
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("turn %d: the logits differ", turn)
		}
		kept.answer = &answer{chooser: &chooser{sampling: Sampling{Logprobs: true}}}
		for range 10 { // an answer
			next(t, m, text, kept)
		}
	}
}

// TestKnown: of a prompt that goes on an earlier conversation nothing is computed again, also where there are several
// places, and its answer is the one of a model that has seen nothing before.
func TestKnown(t *testing.T) {
	path := tinyModel(t)
	m := openModel(t, path, Options{Device: "cpu", Context: 256, Parallel: 2})
	r := rand.New(rand.NewPCG(3, 3))
	prompts := [][]int32{randomPrompt(m, r, 100), randomPrompt(m, r, 30)}
	before := m.Reused()
	for turn := range 4 {
		for i, prompt := range prompts {
			answer := answerOf(t, m, prompt, Sampling{MaxTokens: 5})
			fresh := openModel(t, path, Options{Device: "cpu", Context: 256})
			if want := answerOf(t, fresh, prompt, Sampling{MaxTokens: 5}); !slices.Equal(answer, want) {
				t.Errorf("turn %d: %v, want %v", turn, answer, want)
			}
			now := m.Reused()
			known := len(prompt) - 3 // all but the new message and the last token of the previous answer
			if turn == 0 {
				known = 0
			}
			if n := now.Known - before.Known; now.Tokens-before.Tokens != len(prompt) || n < known {
				t.Errorf("turn %d: %d of %d tokens were known, want %d of %d", turn, n, now.Tokens-before.Tokens, known,
					len(prompt))
			}
			before = now
			for _, token := range answer {
				prompt = append(prompt, token.ID)
			}
			prompts[i] = append(prompt, randomPrompt(m, r, 2)...)
		}
	}
	if load := m.Load(); load.Cache != 0 {
		t.Errorf("%+v while nothing is under way", load)
	}
	for range m.Generate(t.Context(), prompts[0], Sampling{Temperature: 50}) {
		if load := m.Load(); load.Running == 1 && (load.Cache <= 0 || load.Cache > 1) {
			t.Errorf("%+v while an answer is under way", load)
		}
	}
}

// TestDepth: the device has steps for a bounded time, and never too few to go on alone.
func TestDepth(t *testing.T) {
	e := &engine{model: &Model{}}
	for _, tt := range []struct {
		pace time.Duration
		want int
	}{{0, 16}, {150 * time.Microsecond, 16}, {2 * time.Millisecond, 5}, {4 * time.Millisecond, 2}, {time.Second, 2}} {
		if e.pace = tt.pace; e.depth(nil) != tt.want {
			t.Errorf("steps of %v: %d at a time, want %d", tt.pace, e.depth(nil), tt.want)
		}
	}
	e.model.slotCount, e.pace = 2, 0
	for settled, want := range map[int]int{0: 2, 1: 2, 2: 4, 3: 6, 8: 16, 9: 16} {
		if e.collected = settled; e.depth(nil) != want {
			t.Errorf("%d steps after a text came, with room for another: %d at a time, want %d", settled, e.depth(nil),
				want)
		}
	}
	if e.model.ahead = 3; e.depth(nil) != 3 {
		t.Errorf("%d at a time, want the 3 that are asked for", e.depth(nil))
	}
}

// TestAhead: an answer depends neither on the number of steps in flight nor on the device. The test covers sampled
// answers, answers with logits on the host, and concurrent answers.
func TestAhead(t *testing.T) {
	needDevice(t)
	path := tinyModel(t)
	samplings := []Sampling{
		{MaxTokens: 30}, {Temperature: 1, Seed: 3}, {Temperature: 2, TopK: 20, TopP: new(0.9), Seed: 4, MaxTokens: 20},
		{Temperature: 1, RepeatPenalty: 1.3, FrequencyPenalty: 0.2, PresencePenalty: 0.1, Seed: 1 << 63},
		{RepeatPenalty: 1.5, MaxTokens: 25},
		{MinTokens: 18, MaxTokens: 22, Bias: map[int32]float64{5: 3, 7: -2, int32(len(tinyWords) - 1): 50}},
	}
	var want [][]int32
	for _, o := range []Options{
		{Device: "cpu"}, {Device: "cpu", Ahead: 3}, {Device: "vulkan", Ahead: 1}, {Device: "vulkan"},
		{Device: "vulkan", Ahead: 20, Parallel: 3}, {Device: "vulkan", Parallel: 3, Deterministic: true},
		{Device: "vulkan,vulkan"}, {Device: "vulkan,vulkan", Ahead: 7, Parallel: 3, Deterministic: true},
		{Device: "vulkan,vulkan,vulkan,vulkan", Parallel: 3, Deterministic: true},
	} {
		o.Context = 48
		m := openModel(t, path, o)
		got := make([][]int32, 2*len(samplings))
		var all sync.WaitGroup
		for i := range got {
			s := samplings[i/2]
			s.Logprobs = i%2 == 1 // the text must not depend on it
			ask := func() {
				prompt := randomPrompt(m, rand.New(rand.NewPCG(uint64(i/2), 5)), 3+i/2)
				for _, token := range answerOf(t, m, prompt, s) {
					if !m.tok.IsEnd(token.ID) { // with Logprobs, the answer includes the end token
						got[i] = append(got[i], token.ID)
					}
				}
			}
			if o.Parallel > 1 {
				all.Go(ask)
			} else {
				ask()
			}
		}
		all.Wait()
		if want == nil {
			want = got
		}
		for i := range got {
			if !slices.Equal(got[i], want[i-i%2]) {
				t.Errorf("%+v, sampling %+v: %v, want %v", o, samplings[i/2], got[i], want[i])
			}
			if least := samplings[i/2].MinTokens; len(got[i]) < least {
				t.Errorf("%+v, sampling %+v: %d tokens, want at least %d", o, samplings[i/2], len(got[i]), least)
			}
		}
		for m.Load() != (Load{}) { // or the test hangs
			runtime.Gosched()
		}
	}
}

// TestFailsTogether: if a part of one prompt fails, all answers end, because the device may have missed any earlier
// work.
func TestFailsTogether(t *testing.T) {
	needDevice(t)
	m := openModel(t, tinyModel(t), Options{Device: "vulkan", Context: 256, Parallel: 2, Ahead: 1})
	for _, c := range slices.Concat(m.prompts, m.mixed) {
		if err := c.exe.Close(); err != nil {
			t.Fatal(err)
		}
	}
	tokens := 0
	var failed error
	for _, err := range m.Generate(t.Context(), []int32{1}, Sampling{MaxTokens: 250}) { // by steps alone
		if failed = err; err != nil {
			break
		}
		if tokens++; tokens > 1 {
			continue
		}
		if _, err := collect(m.Generate(t.Context(), []int32{2, 6, 10, 3}, Sampling{MaxTokens: 4})); err == nil {
			t.Error("a prompt was read by programs that are closed")
		}
	}
	if !errors.Is(failed, vkc.ErrClosed) {
		t.Errorf("the other answer has %d tokens and ends with: %v", tokens, failed)
	}
}

// TestOneOfMany: one answer at a time has a step for each of its tokens, and no more, whatever room others have,
// and when some have been given, steps are not recorded any more.
func TestOneOfMany(t *testing.T) {
	needDevice(t)
	setMixed(t, false)
	path := tinyModel(t)
	for _, places := range []int{1, 16} {
		// Each number of steps in flight has recordings of its own, and without Ahead the number depends on their time.
		m := openModel(t, path, Options{Device: "vulkan", Context: 48, Parallel: places, Ahead: 8})
		recordings := 0
		for i := range 12 {
			before, tokens := m.Speculated().Steps, len(answerOf(t, m, []int32{1, 5, 9}, Sampling{MaxTokens: 32}))
			steps := m.Speculated().Steps - before
			if i == 0 {
				steps++ // the prompt gave the first token
			}
			if tokens != 32 || steps != 32 {
				t.Errorf("%d places, answer %d: %d tokens and %d steps, want 32", places, i, tokens, steps)
			}
			now := m.stepOf(1, 48).Vulkan().Stats().Recordings
			for _, c := range m.smallSteps {
				now += c.exe.Vulkan().Stats().Recordings
			}
			if i == 6 {
				recordings = now
			}
			if i > 6 && now != recordings {
				t.Errorf("%d places: %d recordings after 6 answers, %d after %d", places, recordings, now, i)
			}
		}
	}
}

// TestClasses: the smallest program that holds the answers runs a step, or always the same one.
func TestClasses(t *testing.T) {
	path := tinyModel(t)
	m := openModel(t, path, Options{Device: "cpu", Context: 32, Parallel: 6})
	for rows, want := range map[int]int{1: 1, 2: 4, 4: 4, 5: 6, 6: 6} {
		for _, port := range m.stepOf(rows, 1).Inputs() {
			if n := int(port.Type.Shape[0].Max()); n != want {
				t.Errorf("%d answers: %v, want at most %d", rows, port, want)
			}
		}
	}
	m = openModel(t, path, Options{Device: "cpu", Context: 32, Parallel: 6, Deterministic: true})
	if m.stepOf(1, 1) != m.step {
		t.Error("one answer has a program of its own")
	}
	if _, err := llm.Batch(m.config, 3, 32, llm.AtMost(4)); err == nil {
		t.Error("4 of 3 texts are a batch")
	}
}

// TestCacheTypes: keys and values are kept in f16 unless told, and several answers at once may keep them in blocks.
func TestCacheTypes(t *testing.T) {
	var want []Token
	for _, o := range []Options{{}, {Parallel: 3}, {Parallel: 3, Cache: ir.Q8_0}, {Cache: ir.F32}} {
		o.Device, o.Context, o.Precision = "cpu", 64, vkc.Exact
		m := openModel(t, gollama, o)
		kept := o.Cache
		if kept == ir.Invalid {
			kept = ir.F16
		}
		for _, exe := range []*vkc.Executable{m.step, m.prompts[0].exe} {
			d, err := exe.ReadState("cache_k.0")
			if err != nil {
				t.Fatal(err)
			}
			if d.DType != kept {
				t.Errorf("%+v: keys are kept in %v, want %v", o, d.DType, kept)
			}
		}
		got := answerOf(t, m, m.tok.Encode("func main() {\n", tokenizer.Options{Whole: true}), Sampling{MaxTokens: 8})
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: %v, want %v", o, got, want)
		}
	}
}

func collect(tokens iter.Seq2[Token, error]) (list []Token, err error) {
	for token, err := range tokens {
		if err != nil {
			return nil, err
		}
		list = append(list, token)
	}
	return list, nil
}
