package generate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestContextShift: answers continue when the context is full, alone or concurrently, and are the same on every device
// and for any number of steps in flight.
func TestContextShift(t *testing.T) {
	path := tinyModel(t)
	never := map[int32]float64{int32(len(tinyWords) - 1): -100} // never ends a text
	samplings := []Sampling{{MaxTokens: 90}, {MaxTokens: 75, Bias: never, Temperature: 1, Seed: 5}}
	var want [][]Token
	run := func(o Options) {
		o.Context, o.ContextShift = 32, true
		m := openModel(t, path, o)
		got := make([][]Token, len(samplings))
		var all sync.WaitGroup
		for i, s := range samplings {
			s.Logprobs = o.Ahead != 4 // Logprobs allow only one step in flight
			ask := func() {
				got[i] = append(got[i], answerOf(t, m, randomPrompt(m, rand.New(rand.NewPCG(uint64(i), 5)), 9+i), s)...)
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
			if len(got[i]) != samplings[i].MaxTokens {
				t.Fatalf("%+v: %d tokens, want %d", o, len(got[i]), samplings[i].MaxTokens)
			}
			for n, token := range got[i] {
				if token.ID != want[i][n].ID || token.Odds != nil &&
					math.Abs(token.Odds.Logprob-want[i][n].Odds.Logprob) > 1e-3 {
					t.Fatalf("%+v: token %d is %+v %+v, want %+v %+v", o, n, token, token.Odds, want[i][n],
						want[i][n].Odds)
				}
			}
		}
	}
	for _, o := range []Options{
		{Device: "reference"}, {Device: "cpu"}, {Device: "cpu", Ahead: 4}, {Device: "cpu", Parallel: 3},
		{Device: "cpu", Speculation: Speculation{Tokens: 3}}, {Device: "cpu,cpu"}, {Device: "cpu,cpu", Parallel: 3},
		{Device: "cpu,cpu", Speculation: Speculation{Tokens: 3}},
	} {
		run(o)
	}
	needDevice(t)
	run(Options{Device: "vulkan", Ahead: 4, Parallel: 3, Deterministic: true})
}

// TestForgotten: a text with dropped tokens has the same logits as a text with the same cached keys and values. A
// prompt with the same beginning reuses only the tokens that are never dropped.
func TestForgotten(t *testing.T) {
	m := openModel(t, tinyModel(t), Options{Device: "cpu", Context: 32, ContextShift: true, Keep: new(3)})
	prompt := randomPrompt(m, rand.New(rand.NewPCG(1, 1)), 31)
	answerOf(t, m, prompt, Sampling{MaxTokens: 4})
	s := &m.engine.slots[0]
	if want := slices.Concat(prompt[:3], prompt[17:]); !s.moved || !slices.Equal(s.cached[:len(want)], want) {
		t.Errorf("the device has %v, moved %v; want %v", s.cached, s.moved, want)
	}
	if known := s.reusable(slices.Clone(s.cached), nil); known != 3 {
		t.Errorf("%d tokens are known, want those that stay", known)
	}
	again, fresh := answerOf(t, m, prompt[:20], Sampling{MaxTokens: 5}), openModel(t, tinyModel(t), Options{
		Device: "cpu", Context: 32})
	if want := answerOf(t, fresh, prompt[:20], Sampling{MaxTokens: 5}); !slices.Equal(again, want) {
		t.Errorf("afterwards %v, want %v", again, want)
	}
	for _, keep := range []int{-1, 30} {
		_, err := Open(t.Context(), tinyModel(t), Options{Device: "cpu", Context: 32, ContextShift: true, Keep: &keep})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("the first %d tokens", keep)) {
			t.Errorf("Keep %d: %v", keep, err)
		}
	}
}
