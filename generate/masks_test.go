package generate

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/vkc-go/vkc/grammar"
)

// slowGrammar has slow masks: a text is at hundreds of nodes at once, and each letter advances all of them.
func slowGrammar() string {
	var b strings.Builder
	b.WriteString(`root ::= [a-z]{10,20}`)
	for i := range 400 {
		fmt.Fprintf(&b, ` | [a-z]{%d} "0" | "1" %q [a-z]{10}`, i+10, string(rune('a'+i%26)))
	}
	return b.String()
}

func parseGrammar(t testing.TB, source string) *grammar.Grammar {
	t.Helper()
	g, err := grammar.ParseGBNF(source)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// holdMasks has no mask that takes long go on until the function is called that it returns.
func holdMasks(m *Model) (release func()) {
	for range cap(m.engine.maskSlots) {
		m.engine.maskSlots <- struct{}{}
	}
	return func() {
		for range cap(m.engine.maskSlots) {
			<-m.engine.maskSlots
		}
	}
}

// TestMasksBesideAnswers: answers that wait for masks, of one grammar or of different ones, do not block other answers.
// Masks computed in the background equal the masks of a single search.
func TestMasksBesideAnswers(t *testing.T) {
	m := openModel(t, tinyModel(t), Options{Device: "cpu", Context: 64, Parallel: 5})
	prompt := []int32{1, 5, 6}
	shared := parseGrammar(t, slowGrammar())
	slow := func(g *grammar.Grammar) Sampling { return Sampling{Grammar: g, MaxTokens: 6, Temperature: 1, Seed: 3} }
	want := answerOf(t, m, prompt, slow(parseGrammar(t, slowGrammar())))
	if len(want) != 6 {
		t.Fatalf("%d tokens", len(want))
	}
	release := holdMasks(m)
	var clients sync.WaitGroup
	results := make([]string, 4)
	begun := make(chan struct{}, len(results))
	for i := range results {
		clients.Go(func() {
			g := shared
			if i > 1 {
				g = parseGrammar(t, slowGrammar())
			}
			begun <- struct{}{}
			for token, err := range m.Generate(t.Context(), prompt, slow(g)) {
				if err != nil {
					t.Error(err)
				}
				results[i] += token.Text
			}
		})
	}
	for range results {
		<-begun
	}
	quick := parseGrammar(t, `root ::= [a-z]+ "0"`)
	for m.Load().Running < len(results) { // or the test hangs
		runtime.Gosched()
	}
	for range 3 {
		if got := answerOf(t, m, prompt, Sampling{MaxTokens: 8}); len(got) == 0 {
			t.Error("an answer beside them is empty")
		}
		if got := answerOf(t, m, prompt, Sampling{MaxTokens: 8, Grammar: quick}); len(got) == 0 {
			t.Error("an answer by another grammar is empty")
		}
	}
	if running := m.Load().Running; running != len(results) {
		t.Errorf("%d answers are under way, want %d: their masks take no time", running, len(results))
	}
	release()
	clients.Wait()
	var text strings.Builder
	for _, token := range want {
		text.WriteString(token.Text)
	}
	for i, got := range results {
		if got != text.String() {
			t.Errorf("answer %d is %q, want %q", i, got, text.String())
		}
	}
}

// TestMasksOnDevice: the host reads no logits of answers with grammars, whatever else their sampling has. It does only
// if a mask takes long. All tokens are of the grammar.
func TestMasksOnDevice(t *testing.T) {
	m := openModel(t, tinyModel(t), Options{Device: "cpu", Context: 64, Parallel: 4})
	var rows []*slot
	e := newEngine(m)
	begin := func(g *grammar.Grammar, s Sampling) {
		s.Grammar, s.MinTokens = g, 2
		c, err := m.chooser(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		e.submit(&answer{ctx: t.Context(), text: []int32{1}, chooser: c})
		e.assignSlots()
		rows = append(rows, &e.slots[len(rows)])
	}
	digits := parseGrammar(t, `root ::= [0-2]+`)
	begin(digits, Sampling{})
	begin(digits, Sampling{Temperature: 1, TopK: 9})
	begin(nil, Sampling{Temperature: 1})
	for slow := range 2 {
		if slow == 1 {
			defer holdMasks(m)()
			e.maskSlots = m.engine.maskSlots
			begin(parseGrammar(t, slowGrammar()), Sampling{})
		}
		f := newPendingStep(rows)
		if err := m.submit(t.Context(), f, 0, nil, false); err != nil {
			t.Fatal(err)
		}
		if read := f.logits != nil; read != (slow == 1) {
			t.Errorf("with %d slow masks the host reads logits: %v", slow, read)
		}
		if err := f.wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, id := range f.tokens[:2] {
			if piece := m.tok.Piece(id); len(piece) != 1 || piece < "0" || piece > "2" {
				t.Errorf("token %q is not of the grammar", piece)
			}
		}
		f.close()
	}
	for _, s := range rows {
		s.answer.end(nil)
	}
}

// TestMasksEnd: who goes away while a mask is searched frees the place, and the search ends.
func TestMasksEnd(t *testing.T) {
	m := openModel(t, tinyModel(t), Options{Device: "cpu", Context: 64})
	prompt := []int32{1, 5, 6}
	release := holdMasks(m)
	defer release()
	before := runtime.NumGoroutine()
	for range 3 {
		g := parseGrammar(t, slowGrammar())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for _, err := range m.Generate(ctx, prompt, Sampling{Grammar: g}) {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("error %v", err)
				}
			}
		}()
		for m.Load().Running == 0 { // or the test hangs, here and below
			runtime.Gosched()
		}
		cancel()
		<-ended
		if got := answerOf(t, m, prompt, Sampling{MaxTokens: 4}); len(got) == 0 {
			t.Error("the next answer is empty")
		}
	}
	for runtime.NumGoroutine() > before {
		runtime.Gosched()
	}
}

// TestMaskWork: a text with masks that need too much work ends with an error of the grammar. Other texts go on.
func TestMaskWork(t *testing.T) {
	m := openModel(t, tinyModel(t), Options{Device: "cpu", Context: 256, Parallel: 3})
	var clients sync.WaitGroup
	for range 2 {
		clients.Go(func() {
			g := parseGrammar(t, `root ::= x{0,6} x ::= (y{0,6} [a-z]?){0,9} y ::= ([a-c]? | "a"* "b"?){0,9}`)
			var last error
			for _, err := range m.Generate(t.Context(), []int32{1, 5}, Sampling{Grammar: g, Temperature: 1}) {
				last = err
			}
			if wrong := (*grammar.TextError)(nil); !errors.As(last, &wrong) {
				t.Errorf("error %v, want one of the grammar", last)
			}
		})
	}
	clients.Wait()
	if got := answerOf(t, m, []int32{1, 5}, Sampling{MaxTokens: 8}); len(got) == 0 {
		t.Error("an answer after them is empty")
	}
}
