package generate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/generate"
)

// TestSpeculation: with every way to guess and to choose tokens, an answer is the same as without guesses.
func TestSpeculation(t *testing.T) {
	const context = 64
	plain := open(t, gollama, generate.Options{Device: "cpu", Context: context})
	whole := tokenizer.Options{Whole: true}
	prompts := [][]int32{
		plain.Tokenizer().Encode(strings.Repeat("if err != nil {\n\treturn nil, err\n}\n", 3)+"if err", whole),
		plain.Tokenizer().Encode("func main() {\n", whole),
	}
	choices := []generate.Sampling{
		{MaxTokens: 14}, {MaxTokens: 5, Temperature: 0.8, TopK: 20, RepeatPenalty: 1.1, Seed: 3},
	}
	want := map[[2]int][]int32{}
	for i, prompt := range prompts {
		for j, choice := range choices {
			want[[2]int{i, j}], _ = answer(t, plain, prompt, choice)
		}
	}
	for name, s := range map[string]generate.Speculation{
		"lookup": {Tokens: 4}, "itself": {Tokens: 3, Draft: gollama},
		"another": {Tokens: 5, Draft: changed(t, gguf.KV{Key: "llama.attention.sliding_window", Value: uint32(3)})},
	} {
		m := open(t, gollama, generate.Options{Device: "cpu", Context: context, Speculation: s})
		before := generate.Speculated{}
		for i, prompt := range prompts {
			for j, choice := range choices {
				got, _ := answer(t, m, prompt, choice)
				if want := want[[2]int{i, j}]; !slices.Equal(got, want) {
					t.Errorf("%s, prompt %d, choice %d: %v, want %v", name, i, j, got, want)
				}
				now := m.Speculated()
				steps, accepted := now.Steps-before.Steps, now.Accepted-before.Accepted
				if before = now; steps+accepted < len(got)-1 || steps+accepted > len(got) {
					t.Errorf("%s, prompt %d, choice %d: %d tokens by %d steps and %d guesses", name, i, j, len(got),
						steps, accepted)
				}
				if name == "itself" && j == 0 && accepted < 3*steps-3 {
					t.Errorf("%d steps and %d guesses, though all guesses of 3 are right", steps, accepted)
				}
				if name == "lookup" && i == 0 && j == 0 && accepted == 0 {
					t.Errorf("%d accepted in %d steps, though the prompt has it all", accepted, steps)
				}
			}
		}
		if now := m.Speculated(); now.Guesses < now.Accepted || now.Accepted == 0 {
			t.Errorf("%s: %+v", name, now)
		}
	}
	if got := plain.Speculated(); got.Guesses != 0 || got.Steps == 0 {
		t.Errorf("without guesses: %+v", got)
	}
}

func TestSpeculationRefuses(t *testing.T) {
	for want, s := range map[string]generate.Speculation{
		"65 speculated tokens at a time: want 0 to 64": {Tokens: 65},
		"-1 speculated tokens":                         {Tokens: -1},
		"0 speculated tokens at a time":                {Draft: gollama},
		"no.gguf":                                      {Tokens: 2, Draft: t.TempDir() + "/no.gguf"},
		"want the same vocabulary":                     {Tokens: 2, Draft: changed(t, renamed(t))},
	} {
		_, err := generate.Open(t.Context(), gollama, generate.Options{Device: "cpu", Context: 16, Speculation: s})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// renamed is the example's vocabulary with another name for a token.
func renamed(t *testing.T) gguf.KV {
	t.Helper()
	f, err := gguf.Open(gollama)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tokens, err := f.Strings("tokenizer.ggml.tokens")
	if err != nil {
		t.Fatal(err)
	}
	tokens = slices.Clone(tokens)
	tokens[0] += "x"
	return gguf.KV{Key: "tokenizer.ggml.tokens", Value: tokens}
}
