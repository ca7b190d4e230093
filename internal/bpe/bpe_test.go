package bpe_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/internal/bpe"
)

const folder = "../../examples/gollama/"

func gollama(t *testing.T) (tokens, merges []string) {
	t.Helper()
	f, err := gguf.Open(folder + "gollama-q8_0.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if tokens, err = f.Strings("tokenizer.ggml.tokens"); err != nil {
		t.Fatal(err)
	}
	if merges, err = f.Strings("tokenizer.ggml.merges"); err != nil {
		t.Fatal(err)
	}
	return tokens, merges
}

// TestReference encodes the prompts of reference.json, whose tokens come from
// another implementation.
func TestReference(t *testing.T) {
	tok, err := bpe.New(gollama(t))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(folder + "reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var ref struct {
		Prompts []struct {
			Prompt string
			Tokens []int64
		}
	}
	if err := json.Unmarshal(text, &ref); err != nil {
		t.Fatal(err)
	}
	if len(ref.Prompts) != 5 {
		t.Fatalf("%d prompts", len(ref.Prompts))
	}
	for _, p := range ref.Prompts {
		got, err := tok.Encode(p.Prompt)
		if want := p.Tokens[1:]; err != nil || !slices.Equal(got, want) { // without the one that begins a text
			t.Errorf("%q is %v, %v; want %v", p.Prompt, got, err, want)
		}
	}
}

// TestWords checks where words end, by a vocabulary that merges any letters a, any
// digits 1, any signs +, and spaces.
func TestWords(t *testing.T) {
	tokens, _ := gollama(t)
	tokens = append(slices.Clone(tokens[:257]), "aa", "Ġa", "Ġaa", "11", "ĠĠ", "++", "'s", "Ġ1", "ĠĠĠ", "Ċĉ", "Ġ++")
	merges := []string{"a a", "Ġ a", "Ġ aa", "1 1", "Ġ Ġ", "+ +", "' s", "Ġ 1", "ĠĠ Ġ", "Ċ ĉ", "Ġ ++"}
	tok, err := bpe.New(tokens, merges)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"aa11++":   "aa 11 ++",
		"a aa":     "a Ġaa",
		"a  aa":    "a Ġ Ġaa",
		"   aa":    "ĠĠ Ġaa", // the last space goes with the word
		"aa   ":    "aa ĠĠĠ", // at the end they stay together
		"aa'saa":   "aa 's aa",
		"\n\taa":   "Ċ ĉ aa", // the tab stands alone, as only a space joins a word
		"\n\t\naa": "Ċĉ Ċ aa",
		" ++1":     "Ġ++ 1",
		"":         "",
	} {
		ids, err := tok.Encode(text)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, id := range ids {
			got = append(got, tokens[id])
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q is %q, want %q", text, s, want)
		}
	}
}

func TestRefuses(t *testing.T) {
	tokens, merges := gollama(t)
	if _, err := bpe.New(tokens[:200], merges); err == nil || !strings.Contains(err.Error(), "no token for the byte") {
		t.Errorf("error %v", err)
	}
	if _, err := bpe.New(tokens, []string{"ab"}); err == nil || !strings.Contains(err.Error(), `merge 0 is "ab"`) {
		t.Errorf("error %v", err)
	}
	tok, err := bpe.New(tokens, []string{"q z"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tok.Encode("qz"); err == nil || !strings.Contains(err.Error(), `merges lead to "qz", which is no token`) {
		t.Errorf("error %v", err)
	}
	if _, err := tok.Encode("a\xff"); err == nil || !strings.Contains(err.Error(), "not UTF-8") {
		t.Errorf("error %v", err)
	}
}
