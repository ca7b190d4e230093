package generate

import (
	"slices"
	"testing"
	"time"
)

// TestPromptsShareAStep: while an answer is running, several prompts are prefilled between two of its steps, if there
// is time, or else a part of one. If none is running, the first prompt begins to answer before the others are read.
func TestPromptsShareAStep(t *testing.T) {
	m := openModel(t, tinyModel(t), Options{Device: "cpu", Context: 64, Parallel: 4})
	for _, tt := range []struct {
		name string
		time time.Duration
		read []int // prompts that are prefilled after each step
	}{{"time for all", time.Hour, []int{1, 4}}, {"no time", 0, []int{1, 2, 3, 4}}} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEngine(m)
			e.promptTime = tt.time
			for i := range e.slots {
				c, err := m.chooser(t.Context(), Sampling{MaxTokens: 20})
				if err != nil {
					t.Fatal(err)
				}
				e.submit(&answer{ctx: t.Context(), text: []int32{1, 5, 6, int32(7 + i)}, chooser: c})
			}
			e.assignSlots()
			for n, want := range tt.read {
				e.step(t.Context())
				got := 0
				for i := range e.slots {
					if !e.slots[i].needsPrefill() {
						got++
					}
				}
				if got != want {
					t.Errorf("after step %d: %d prompts are read, want %d", n+1, got, want)
				}
			}
			e.dropPending()
		})
	}
}

// TestPromptsTakeTurns: a short prompt does not wait for the end of a long one, wherever their slots are.
func TestPromptsTakeTurns(t *testing.T) {
	m := openModel(t, tinyModel(t), Options{Device: "cpu", Context: 64, Parallel: 8})
	whole := m.prompts
	m.prompts = []sizedProgram{{rows: 2, length: 64, kind: promptProgram, exe: whole[0].exe}} // parts of two tokens
	defer func() { m.prompts = whole }()
	e := newEngine(m)
	e.promptTime = 0
	for i, tokens := range []int{2, 40, 40, 6} {
		c, err := m.chooser(t.Context(), Sampling{MaxTokens: 30})
		if err != nil {
			t.Fatal(err)
		}
		text := slices.Repeat([]int32{5}, tokens)
		text[0] = int32(6 + i)
		e.submit(&answer{ctx: t.Context(), text: text, chooser: c})
	}
	e.assignSlots()
	for range 10 { // the first prompt, and three parts of each other
		e.step(t.Context())
	}
	for i, want := range []bool{false, true, true, false} {
		if got := e.slots[i].needsPrefill(); got != want {
			t.Errorf("prompt %d needs more after ten parts: %v, want %v", i, got, want)
		}
	}
	e.dropPending()
}

// TestPromptTokens: the size of parts follows from the fastest parts of late, and is that of whole programs.
func TestPromptTokens(t *testing.T) {
	e := &engine{model: &Model{prompts: []sizedProgram{{rows: 128}, {rows: 512}}}}
	for _, tt := range []struct {
		tokens int
		took   time.Duration
		want   int // tokens in 50 ms
	}{
		{0, 0, 128},
		{100, time.Second, 128},
		{128, 16 * time.Millisecond, 512},
		{500, 40 * time.Millisecond, 640},
		{10, 10 * time.Millisecond, 640}, // a small part says little
		{500, -time.Millisecond, 640},    // its steps in flight took no time after all
	} {
		if tt.tokens > 0 {
			e.measurePrompt(tt.tokens, tt.took)
		}
		if got := e.promptTokens(50 * time.Millisecond); got != tt.want {
			t.Errorf("after %d tokens in %v: parts of %d tokens, want %d", tt.tokens, tt.took, got, tt.want)
		}
	}
	for range 100 {
		e.measurePrompt(10, 10*time.Millisecond)
	}
	if got := e.promptTokens(50 * time.Millisecond); got != 128 {
		t.Errorf("after many slow parts: parts of %d tokens, want 128", got)
	}
}
