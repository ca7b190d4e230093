package generate_test

import (
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/grammar"
)

// TestGrammarAfter: a grammar constrains the text after a mark only, once or after each mark.
func TestGrammarAfter(t *testing.T) {
	m := open(t, gollama, generate.Options{Device: "cpu", Context: 128})
	prompt := m.Tokenizer().Encode("func main() {\n", tokenizer.Options{Whole: true})
	tokens, free := answer(t, m, prompt, generate.Sampling{MaxTokens: 40})
	mark := m.Tokenizer().Piece(tokens[3]) // the model writes it by itself
	g, err := grammar.ParseGBNF(`root ::= "<" [0-9] [0-9] ">"`)
	if err != nil {
		t.Fatal(err)
	}
	s := generate.Sampling{MaxTokens: 40, Grammar: g, GrammarAfter: []string{mark}}
	_, once := answer(t, m, prompt, s)
	at := strings.Index(once, mark) + len(mark)
	if at < len(mark) || once[:at] != free[:at] || len(once) != at+4 || once[at] != '<' || once[at+3] != '>' {
		t.Errorf("after %q: %q, free: %q", mark, once, free)
	}
	s.GrammarAgain = true
	_, again := answer(t, m, prompt, s)
	if !strings.HasPrefix(again, once) || len(again) <= len(once) {
		t.Errorf("%q does not go on after %q", again, once)
	}
}

// TestReasoning: reasoning that is too long ends by its mark, and then a grammar may apply.
func TestReasoning(t *testing.T) {
	m := open(t, gollama, generate.Options{Device: "cpu", Context: 128})
	prompt := m.Tokenizer().Encode("func main() {\n", tokenizer.Options{Whole: true})
	g, err := grammar.ParseGBNF(`root ::= [0-9]{3}`)
	if err != nil {
		t.Fatal(err)
	}
	s := generate.Sampling{MaxTokens: 40, Grammar: g, GrammarAfter: []string{"</think>"},
		Reasoning: generate.Reasoning{Tokens: 5, Close: "</think>"}}
	_, text := answer(t, m, prompt, s)
	_, free := answer(t, m, prompt, generate.Sampling{MaxTokens: 5})
	thought, said, _ := strings.Cut(text, "</think>")
	if thought != free || len(said) != 3 || strings.Trim(said, "0123456789") != "" {
		t.Errorf("%q, free %q", text, free)
	}
	s = generate.Sampling{MaxTokens: 20, Reasoning: generate.Reasoning{Tokens: 5, Open: "<think>", Close: "</think>"}}
	if _, text := answer(t, m, prompt, s); strings.Contains(text, "</think>") {
		t.Errorf("an answer without reasoning ends it: %q", text)
	}
}
