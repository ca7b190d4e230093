package generate

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
)

// setMixed gives the models of a test mixed programs on a CPU too, or on no device: a software device takes long to
// compile them.
func setMixed(t *testing.T, on bool) {
	usual := mixesOn
	mixesOn = func(*vkc.Device) bool { return on }
	t.Cleanup(func() { mixesOn = usual })
}

// TestMixedRun: one run computes the next token of an answer and several prompts, of which one is longer than a run of
// rows. All answers are the same as alone, for each kind of sampling, in slots of their own and in pages.
func TestMixedRun(t *testing.T) {
	setMixed(t, true)
	path := tinyModel(t)
	alone := openModel(t, path, Options{Device: "cpu", Context: 128})
	samplings := []Sampling{{MaxTokens: 30}, {MaxTokens: 9}, {MaxTokens: 9, Temperature: 1, Seed: 3},
		{MaxTokens: 9, MinTokens: 9, Logprobs: true}, {MaxTokens: 9, Grammar: parseGrammar(t, `root ::= [a-m]+`)}}
	var prompts [][]int32
	var want [][]int32
	for i, s := range samplings {
		prompts = append(prompts, randomPrompt(alone, rand.New(rand.NewPCG(uint64(i), 9)), 4+i*llm.QueryTile*2/3))
		want = append(want, slices.Concat(prompts[i], idsOf(answerOf(t, alone, prompts[i], s))))
	}
	for _, positions := range []int{0, 5 * 128} {
		m := openModel(t, path, Options{Device: "cpu", Context: 128, Parallel: len(samplings), Positions: positions})
		e := newEngine(m)
		list := make([]*answer, len(samplings))
		begin := func(i int) {
			c, err := m.chooser(t.Context(), samplings[i])
			if err != nil {
				t.Fatal(err)
			}
			list[i] = e.submit(&answer{ctx: t.Context(), text: prompts[i], chooser: c})
			e.assignSlots()
		}
		begin(0)
		e.step(t.Context()) // its prompt
		for i := range samplings[1:] {
			begin(i + 1)
		}
		for len(e.pending) > 0 {
			e.collectOldest(t.Context())
		}
		before, known := len(list[0].text), m.Speculated().Steps
		e.step(t.Context())
		if got, runs := len(list[0].text)-before, m.Speculated().Steps-known; got != 1 || runs != 1 {
			t.Errorf("the answer has got %d tokens in %d runs, want 1 in 1", got, runs)
		}
		for i := range e.slots {
			if e.slots[i].needsPrefill() {
				t.Errorf("the prompt in slot %d is not finished", i)
			}
		}
		for range 60 {
			for e.running > 0 && !e.canStep() {
				<-e.wake // a mask is known
			}
			if e.running > 0 {
				e.step(t.Context())
			}
		}
		e.dropPending()
		for i, a := range list {
			if !slices.Equal(a.text, want[i][:len(a.text)]) || len(a.text) < len(want[i])-1 {
				t.Errorf("positions %d, answer %d is %v, want %v", positions, i, a.text, want[i])
			}
		}
	}
}

func idsOf(tokens []Token) (ids []int32) {
	for _, token := range tokens {
		ids = append(ids, token.ID)
	}
	return ids
}

// TestMixedPlan: a run has each answer's token, and parts of prompts in turn. They fill the largest program that is
// known, or expected, to run in the time for prompts.
func TestMixedPlan(t *testing.T) {
	m := &Model{slotCount: 4, part: 100, mixed: []sizedProgram{{rows: 64}, {rows: 256}}}
	type part struct{ slot, tokens int }
	const fast, slow = maxMixedTime / 5, maxMixedTime / 2
	for _, tt := range []struct {
		name    string
		times   []time.Duration // of the programs
		next    int             // the first slot to prefill
		prompts []int           // tokens left in slots 1 to 3
		want    []part
		rows    int // of the program
	}{
		{"no time is known", nil, 0, []int{50, 50, 50}, []part{{0, 1}, {1, 50}, {2, 13}}, 64},
		{"fast", []time.Duration{fast}, 0, []int{100, 100, 100}, []part{{0, 1}, {1, 100}, {2, 100}, {3, 55}}, 256},
		{"slow", []time.Duration{slow}, 0, []int{50, 50, 50}, []part{{0, 1}, {1, 50}, {2, 13}}, 64},
		{"slow at first", []time.Duration{slow, slow}, 0, []int{50, 50, 50}, []part{{0, 1}, {1, 50}, {2, 50}, {3, 50}}, 256},
		{"a large one is slow", []time.Duration{slow, 3 * slow}, 0, []int{50, 50, 50}, []part{{0, 1}, {1, 50}, {2, 13}}, 64},
		{"faster again", []time.Duration{fast, 3 * slow}, 0, []int{50, 50, 9}, []part{{0, 1}, {1, 50}, {2, 50}, {3, 9}}, 256},
		{"turns", nil, 2, []int{50, 50, 50}, []part{{0, 1}, {2, 50}, {3, 13}}, 64},
		{"parts of a text", []time.Duration{fast}, 0, []int{180, 50, 2}, []part{{0, 1}, {1, 100}, {2, 50}, {3, 2}}, 256},
		{"a prompt", []time.Duration{fast}, 0, []int{0, 0, 9}, []part{{0, 1}, {3, 9}}, 64},
	} {
		e := newEngine(m)
		e.nextPrompt = tt.next
		copy(e.mixedTimes, tt.times)
		e.slots[0].answer = &answer{text: make([]int32, 1)}
		for i, n := range tt.prompts {
			if n > 0 {
				e.slots[i+1].answer = &answer{text: make([]int32, n)}
			}
		}
		parts, slots, program := e.plan([]*slot{&e.slots[0]})
		var got []part
		for i, p := range parts {
			got = append(got, part{p.Text, len(p.Tokens)})
			if whole := len(p.Tokens) == len(slots[i].answer.text); int(slots[i].index) != p.Text || p.Ends != whole {
				t.Errorf("%s: part %+v of slot %d", tt.name, p, slots[i].index)
			}
		}
		if rows := m.mixed[program].rows; !slices.Equal(got, tt.want) || rows != tt.rows {
			t.Errorf("%s: parts %v of %d rows, want %v of %d", tt.name, got, rows, tt.want, tt.rows)
		}
	}
}

// TestMixedTimes: only runs that nearly fill a program say how long it takes, and one slow run says little.
func TestMixedTimes(t *testing.T) {
	e := newEngine(&Model{slotCount: 1, mixed: []sizedProgram{{rows: 64}, {rows: 256}}})
	for i, run := range []struct {
		tokens     int
		took, want time.Duration
	}{{55, 5, 0}, {64, 40, 40}, {10, 2, 40}, {60, 100, 42}, {56, 41, 41}} {
		e.measureMixed(0, run.tokens, run.took)
		if e.mixedTimes[0] != run.want || e.mixedTimes[1] != 0 {
			t.Errorf("run %d: times %v, want %v for the first", i, e.mixedTimes, run.want)
		}
	}
}

// TestMixedOptions: context shifts and sliding windows next to the prompts of others.
func TestMixedOptions(t *testing.T) {
	setMixed(t, true)
	window := filepath.Join(t.TempDir(), "window.gguf")
	err := gguf.Edit(tinyModel(t), window, gguf.KV{Key: "llama.attention.sliding_window", Value: uint32(16)})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{Context: 40, ContextShift: true}, {Context: 200}} {
		path := tinyModel(t)
		if !o.ContextShift {
			path = window
		}
		o.Device = "cpu"
		alone := openModel(t, path, o)
		o.Parallel = 3
		m := openModel(t, path, o)
		var all sync.WaitGroup
		for i := range 6 {
			prompt := randomPrompt(alone, rand.New(rand.NewPCG(uint64(i), 3)), 3+i*6)
			s := Sampling{MaxTokens: 40, MinTokens: 40}
			want := fmt.Sprint(idsOf(answerOf(t, alone, prompt, s)))
			all.Go(func() {
				if got := fmt.Sprint(idsOf(answerOf(t, m, prompt, s))); got != want {
					t.Errorf("%+v, answer %d: %s, want %s", o, i, got, want)
				}
			})
		}
		all.Wait()
	}
}
