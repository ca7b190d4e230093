package generate

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vkc-go/vkc/frontend/llm"
)

// TestPages: answers that share pages are the same as alone, for any assignment of pages and even with few pages. At
// the end each page has exactly one owner.
func TestPages(t *testing.T) {
	t.Run("cpu", func(t *testing.T) {
		m := openModel(t, tinyModel(t), Options{Device: "cpu", Context: 48, Parallel: 3, Positions: 2 * llm.PageSize,
			Deterministic: true})
		testJoinAndLeave(t, m)
		checkPages(t, m)
	})
	path := tinyModel(t)
	fresh := openModel(t, path, Options{Device: "cpu", Context: 256})
	long := func(t *testing.T, o Options) {
		o.Context, o.Parallel, o.Positions = 256, 4, 5*llm.PageSize
		m := openModel(t, path, o)
		r := rand.New(rand.NewPCG(11, 12))
		var all sync.WaitGroup
		for i := range 8 {
			// Half of the answers end in a page that their prompt does not reach.
			prompt, s := randomPrompt(m, r, 20*i+[]int{30, 39}[i%2]), Sampling{MaxTokens: 12}
			if i%3 == 2 {
				s.Temperature, s.Seed = 1, uint64(i)
			}
			want := answerOf(t, fresh, prompt, s)
			all.Go(func() {
				for turn := range 3 {
					if got := answerOf(t, m, prompt, s); !slices.Equal(got, want) {
						t.Errorf("question %d, turn %d: %v, want %v", i, turn, got, want)
					}
				}
			})
		}
		all.Wait()
		for m.Load() != (Load{}) { // or the test hangs
			runtime.Gosched()
		}
		checkPages(t, m)
		before, prompt := m.Reused().Known, randomPrompt(m, r, 100)
		for range 2 { // of the others it depends on their order whether something is known
			answerOf(t, m, prompt, Sampling{MaxTokens: 1})
		}
		if known := m.Reused().Known - before; known < 99 && !o.Deterministic { // which knows whole parts only
			t.Errorf("%d tokens of a prompt that was there already were known, want 99", known)
		}
	}
	t.Run("long, cpu", func(t *testing.T) { long(t, Options{Device: "cpu"}) })
	needDevice(t)
	t.Run("long, device", func(t *testing.T) { long(t, Options{Device: "vulkan", Deterministic: true}) })
}

// TestOldestPages: an answer that needs the pages of other texts takes the pages of the texts that were left first.
func TestOldestPages(t *testing.T) {
	m := openModel(t, tinyModel(t), Options{Device: "cpu", Context: 256, Parallel: 4, Positions: 5 * llm.PageSize})
	r := rand.New(rand.NewPCG(13, 14))
	known := func(prompt []int32) int {
		before := m.Reused().Known
		answerOf(t, m, prompt, Sampling{MaxTokens: 1})
		return m.Reused().Known - before
	}
	texts := make([][]int32, 4)
	for i := range texts { // each has one page, and one is left
		texts[i] = randomPrompt(m, r, llm.PageSize-10)
		known(texts[i])
	}
	known(randomPrompt(m, r, 3*llm.PageSize-10)) // the first text's page, the one that is left and the second text's
	for i := 3; i >= 0; i-- {
		if n := known(texts[i]); (n > llm.PageSize/2) != (i >= 2) {
			t.Errorf("%d tokens of text %d are known: only the first two texts were to give their pages up", n, i)
		}
	}
	checkPages(t, m)
}

// TestPagesAhead: steps that go past the end of an answer, since others of the same steps go on, write to no page of
// another text.
func TestPagesAhead(t *testing.T) {
	path := tinyModel(t)
	fresh := openModel(t, path, Options{Device: "cpu", Context: 256})
	check := func(t *testing.T, o Options) {
		o.Context, o.Parallel, o.Positions, o.Ahead = 256, 2, 256, 16
		m := openModel(t, path, o)
		r := rand.New(rand.NewPCG(11, 12))
		s := Sampling{MaxTokens: llm.PageSize - 20}
		short, long := randomPrompt(m, r, 20), randomPrompt(m, r, 130) // one page, and all others
		want, wantLong := answerOf(t, fresh, short, s), answerOf(t, fresh, long, s)
		var all sync.WaitGroup
		var got []Token
		for token, err := range m.Generate(t.Context(), short, s) {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, token); len(got) == 1 {
				all.Go(func() {
					if got := answerOf(t, m, long, s); !slices.Equal(got, wantLong) {
						t.Errorf("beside the end of another: %v, want %v", got, wantLong)
					}
				})
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("beside a longer one: %v, want %v", got, want)
		}
		all.Wait()
	}
	t.Run("cpu", func(t *testing.T) { check(t, Options{Device: "cpu"}) })
	needDevice(t)
	t.Run("device", func(t *testing.T) { check(t, Options{Device: "vulkan"}) })
}

// checkPages looks at the pages of a model that does nothing.
func checkPages(t *testing.T, m *Model) {
	t.Helper()
	m.engine.mu.Lock()
	defer m.engine.mu.Unlock()
	pages := slices.Clone(m.engine.freePages)
	for _, s := range m.engine.slots {
		pages = append(pages, s.pages...)
		if len(s.cached) > len(s.pages)*llm.PageSize {
			t.Errorf("%d tokens are kept in %d pages", len(s.cached), len(s.pages))
		}
	}
	slices.Sort(pages)
	for i, page := range pages {
		if int(page) != i {
			t.Fatalf("pages %v", pages)
		}
	}
	if len(pages) != m.pages {
		t.Errorf("%d of %d pages", len(pages), m.pages)
	}
}

func TestPositionsRefused(t *testing.T) {
	path := tinyModel(t)
	for want, o := range map[string]Options{
		"want at least 2 answers": {Positions: 64},
		"a context of 100":        {Positions: 64, Parallel: 2},
		"leave out Pages":         {Positions: 128, Parallel: 2, ContextShift: true},
	} {
		o.Device, o.Context = "cpu", 100
		if _, err := Open(t.Context(), path, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for positions, want := range map[int]string{0: "[1 512 8]", 128: "[1 128 8]"} {
		m := openModel(t, path, Options{Device: "cpu", Context: 128, Parallel: 4, Positions: positions})
		d, err := m.step.ReadState("cache_k.0")
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(d.Dims); got != want {
			t.Errorf("room for %d positions: keys are %s, want %s", positions, got, want)
		}
	}
}
