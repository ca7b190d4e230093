package generate_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/grammar"
)

// TestGrammar: whatever the model would rather say, the answer is of the grammar, and ends when it is whole.
func TestGrammar(t *testing.T) {
	m := open(t, gollama, generate.Options{Device: "cpu", Context: 160})
	prompt := m.Tokenizer().Encode("func main() {\n", tokenizer.Options{Whole: true})
	schema, err := grammar.ParseSchema([]byte(`{"type": "object", "properties": {"kind": {"enum": ["func", "méthode"]},
		"line": {"type": "integer", "minimum": 10, "maximum": 99}},
		"required": ["kind", "line"], "additionalProperties": false}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []generate.Sampling{{}, {Temperature: 1.5, Seed: 1}, {Temperature: 1, TopK: 9, MinP: 0.1}} {
		s.Grammar = schema
		_, text := answer(t, m, prompt, s)
		var v struct {
			Kind string
			Line int
		}
		err := json.Unmarshal([]byte(text), &v)
		if err != nil || v.Kind != "func" && v.Kind != "méthode" || v.Line < 10 || v.Line > 99 {
			t.Errorf("%+v: %q, %v", s, text, err)
		}
	}
	counted, err := grammar.ParseGBNF(`root ::= "€"{3} [a-z]*`)
	if err != nil {
		t.Fatal(err)
	}
	_, text := answer(t, m, prompt, generate.Sampling{Grammar: counted, MaxTokens: 20})
	if !strings.HasPrefix(text, "€€€") {
		t.Errorf("%q", text)
	}
}

// TestLogprobs: the likeliest token is the one that is chosen, and the odds of all make 1.
func TestLogprobs(t *testing.T) {
	m := open(t, gollama, generate.Options{Device: "cpu", Context: 32})
	prompt := m.Tokenizer().Encode("func main() {\n", tokenizer.Options{Whole: true})
	s := generate.Sampling{MaxTokens: 2, Logprobs: true, Likeliest: m.Tokenizer().Len()}
	for token, err := range m.Generate(t.Context(), prompt, s) {
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for i, o := range token.Odds.Likeliest {
			if sum += math.Exp(o.Logprob); i > 0 && o.Logprob > token.Odds.Likeliest[i-1].Logprob {
				t.Errorf("token %d is likelier than the one before", i)
			}
		}
		first := token.Odds.Likeliest[0]
		if math.Abs(sum-1) > 1e-3 || first.ID != token.ID || first.Logprob != token.Odds.Logprob {
			t.Errorf("the odds make %v; %+v is chosen, and the likeliest is %+v", sum, token.Odds.Logprob, first)
		}
	}
}
