package generate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// tinyRecurrent writes a Mamba-2 model of random weights.
func tinyRecurrent(t testing.TB) string {
	t.Helper()
	const width, inner, heads, keys, window = 16, 32, 4, 8, 4
	const convolved = inner + 2*keys
	dims := map[string][]int{"token_embd": {len(tinyWords), width}, "output_norm": {width}}
	for i := range 2 {
		for name, d := range map[string][]int{
			"attn_norm": {width}, "ssm_in": {inner + convolved + heads, width}, "ssm_conv1d": {convolved, window},
			"ssm_conv1d.bias": {convolved}, "ssm_dt.bias": {heads}, "ssm_a": {heads, 1}, "ssm_d": {heads, 1},
			"ssm_norm": {1, inner}, "ssm_out": {width, inner},
		} {
			dims[fmt.Sprintf("blk.%d.%s", i, name)] = d
		}
	}
	return tinyFile(t, "mamba2", map[string]any{
		"block_count": uint32(2), "embedding_length": uint32(width), "context_length": uint32(256),
		"attention.layer_norm_rms_epsilon": float32(1e-5), "ssm.conv_kernel": uint32(window),
		"ssm.inner_size": uint32(inner), "ssm.state_size": uint32(keys), "ssm.time_step_rank": uint32(heads),
		"ssm.group_count": uint32(1),
	}, dims, func(name string, values []float64) {
		for i := range values {
			if strings.HasSuffix(name, "ssm_a") { // so that the state lasts for tens of tokens
				values[i] = -0.02 * math.Abs(values[i])
			}
		}
	})
}

// TestRecurrentPrefixes: conversations that go on, go back or take turns have the answers of a model that has seen
// nothing before, and continue at a checkpoint.
func TestRecurrentPrefixes(t *testing.T) {
	path := tinyRecurrent(t)
	fresh := func(prompt []int32, n int) []Token {
		return answerOf(t, openModel(t, path, Options{Device: "cpu", Context: 256}), prompt, Sampling{MaxTokens: n})
	}
	for _, o := range []Options{{}, {Parallel: 2}, {Parallel: 2, Positions: 512}, {Ahead: 8}} {
		o.Device, o.Context = "cpu", 256
		m := openModel(t, path, o)
		r := rand.New(rand.NewPCG(3, 3))
		long, short := randomPrompt(m, r, 100), randomPrompt(m, r, 30)
		ask := func(prompt []int32, n, leastKnown int) []int32 {
			t.Helper()
			before := m.Reused()
			got := answerOf(t, m, prompt, Sampling{MaxTokens: n})
			if want := fresh(prompt, n); !slices.EqualFunc(got, want, func(a, b Token) bool { return a.ID == b.ID }) {
				t.Errorf("%+v, a prompt of %d: %v, want %v", o, len(prompt), got, want)
			}
			if known := m.Reused().Known - before.Known; known < leastKnown {
				t.Errorf("%+v, a prompt of %d: %d tokens were known, want %d", o, len(prompt), known, leastKnown)
			}
			for _, token := range got {
				prompt = append(prompt, token.ID)
			}
			return slices.Concat(prompt, randomPrompt(m, r, 2))
		}
		first := ask(long, 40, 0)
		second := ask(first, 5, 128)
		other := ask(short, 5, 0)
		ask(slices.Concat(first[:70], randomPrompt(m, r, 20)), 5, 0) // back to before the last checkpoint
		ask(other, 70, 0)
		ask(second, 5, 0)
	}
}

// TestRecurrentOnDevice: a prompt in parts and single steps of two conversations have the answers of the processor.
func TestRecurrentOnDevice(t *testing.T) {
	needDevice(t)
	path := tinyRecurrent(t)
	want := openModel(t, path, Options{Device: "cpu", Context: 128})
	m := openModel(t, path, Options{Device: "vulkan", Context: 128, Parallel: 2})
	r := rand.New(rand.NewPCG(7, 7))
	for range 2 {
		prompt := randomPrompt(m, r, 70)
		got, want := answerOf(t, m, prompt, Sampling{MaxTokens: 8}), answerOf(t, want, prompt, Sampling{MaxTokens: 8})
		if !slices.EqualFunc(got, want, func(a, b Token) bool { return a.ID == b.ID }) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// TestRecurrentSpeculation: wrong guesses leave no trace in the states.
func TestRecurrentSpeculation(t *testing.T) {
	path := tinyRecurrent(t)
	plain := openModel(t, path, Options{Device: "cpu", Context: 256})
	for _, s := range []Speculation{{Tokens: 4}, {Tokens: 3, Draft: path}, {Tokens: 3, Draft: tinyModel(t)}} {
		m := openModel(t, path, Options{Device: "cpu", Context: 256, Speculation: s})
		prompt := slices.Repeat(randomPrompt(m, rand.New(rand.NewPCG(5, 5)), 9), 6)
		same := func(a, b Token) bool { return a.ID == b.ID }
		how := Sampling{MaxTokens: 90}
		got, want := answerOf(t, m, prompt, how), answerOf(t, plain, prompt, how)
		if !slices.EqualFunc(got, want, same) {
			t.Errorf("%+v: %v, want %v", s, got, want)
		}
		if n := m.Speculated(); n.Guesses == 0 {
			t.Errorf("%+v: %+v", s, n)
		}
	}
}

// TestRecurrentStates: the states after the last run and after the last two checkpoints are there, until other tokens
// replace the ones before them.
func TestRecurrentStates(t *testing.T) {
	var r recurrentStates
	for _, end := range []int{64, 100, 128, 129} {
		r.wrote(end)
	}
	for known, want := range map[int]int{10: 0, 64: 64, 127: 64, 128: 128, 129: 129, 200: 129} {
		if got := r.reach(known); got != want {
			t.Errorf("of %d known tokens %d have a state, want %d", known, got, want)
		}
	}
	r.wrote(192)
	if got := r.reach(127); got != 0 {
		t.Errorf("the checkpoint that another replaced is still at %d", got)
	}
	r.goBack(130)
	if got := r.reach(200); got != 128 {
		t.Errorf("after going back to 130, the state is at %d, want 128", got)
	}
}

// TestRecurrentRefusesShift: a state cannot forget the middle of a text.
func TestRecurrentRefusesShift(t *testing.T) {
	_, err := Open(t.Context(), tinyRecurrent(t), Options{Device: "cpu", Context: 64, ContextShift: true})
	if err == nil || !strings.Contains(err.Error(), "cannot forget tokens") {
		t.Errorf("%v", err)
	}
}
