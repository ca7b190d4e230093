package generate

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestNoNumbers: there is no most likely token if a logit is NaN.
func TestNoNumbers(t *testing.T) {
	nan := float32(math.NaN())
	for _, logits := range [][]float32{{nan, nan}, {1, nan, 2}, nil} {
		if id, err := likeliestOf(logits); !errors.Is(err, errNoNumbers) {
			t.Errorf("of %v it is %d, %v", logits, id, err)
		}
	}
	if id, err := likeliestOf([]float32{-2, 1, 3, 3}); id != 2 || err != nil {
		t.Errorf("%d, %v", id, err)
	}
}

func TestLookup(t *testing.T) {
	for _, tt := range []struct {
		text string
		most int
		want string
	}{
		{"abcXYabc", 3, "XYa"},
		{"abcXYabc", 9, "XYabc"},       // to the end of the text
		{"abcX..bcY..abc", 1, "X"},     // the longer of two
		{"abcX..abcY..abc", 1, "Y"},    // the later of two
		{"aaaa", 3, "a"},               // where it overlaps itself
		{"abcde", 3, ""}, {"a", 3, ""}, // nothing is the same
		{"xcYzc", 3, ""}, // one token alone is
		{"abcdefghijXYabcdefghijZWbcdefghij", 2, "ZW"}, // more than is compared
	} {
		var text []int32
		for _, c := range tt.text {
			text = append(text, c)
		}
		got, err := lookup{}.draft(t.Context(), text, tt.most)
		if have := string([]rune(got)); have != tt.want || err != nil {
			t.Errorf("after %q, %d at most: %q, %v; want %q", tt.text, tt.most, have, err, tt.want)
		}
	}
}

// TestMirostat: the surprise of tokens follows the target. The tokens are the same with other answers and several steps
// in flight as alone with one step at a time.
func TestMirostat(t *testing.T) {
	path := tinyModel(t, func(name string, values []float64) {
		for i := range values {
			values[i] *= 0.7 // an even distribution
		}
	})
	prompt, never := []int32{1, 5, 6}, map[int32]float64{int32(len(tinyWords) - 1): -100}
	one := openModel(t, path, Options{Device: "cpu", Context: 256, Ahead: 1})
	several := openModel(t, path, Options{Device: "cpu", Context: 256, Parallel: 4, Ahead: 4})
	for version := 1; version <= 2; version++ {
		var all sync.WaitGroup
		var means []float64
		for _, tau := range []float64{1, 3} {
			s := Sampling{MaxTokens: 200, Temperature: 1, Seed: 5, Bias: never, Logprobs: true,
				Mirostat: &Mirostat{Version: version, Tau: tau, Eta: 0.2}}
			want, sum := answerOf(t, one, prompt, s), 0.0
			for _, token := range want[50:] {
				sum -= token.Odds.Logprob / math.Ln2 / float64(len(want)-50)
			}
			means = append(means, sum)
			s.Logprobs = false
			for range 2 {
				all.Go(func() {
					if got := answerOf(t, several, prompt, s); !slices.Equal(idsOf(got), idsOf(want)) {
						t.Errorf("version %d of several: %v, want %v", version, idsOf(got), idsOf(want))
					}
				})
			}
		}
		all.Wait()
		if means[0] > means[1]-0.5 {
			t.Errorf("version %d: mean surprises of %v bits for the targets 1 and 3", version, means)
		}
	}
	for _, wrong := range []Mirostat{{Version: 3}, {Version: 1, Tau: -1}, {Version: 2, Eta: math.NaN()}} {
		if err := (Sampling{Mirostat: &wrong}).Check(); err == nil || !strings.Contains(err.Error(), "Mirostat.") {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

// TestDry: an answer that repeats itself goes on in another way, unless a breaker is in the repetition.
func TestDry(t *testing.T) {
	m := openModel(t, tinyModel(t), Options{Device: "cpu", Context: 64, Parallel: 2})
	prompt := []int32{1, 5, 6}
	plain := answerOf(t, m, prompt, Sampling{MaxTokens: 40})
	repeats := func(list []Token) (n int) { // how often three tokens occurred before
		for i := 3; i < len(list); i++ {
			for k := 2; k < i; k++ {
				if list[k].ID == list[i].ID && list[k-1].ID == list[i-1].ID && list[k-2].ID == list[i-2].ID {
					n++
					break
				}
			}
		}
		return n
	}
	if repeats(plain) == 0 {
		t.Fatal("the model does not repeat itself: the test would prove nothing")
	}
	dry := Dry{Multiplier: 100, Base: 2, Allowed: 1, Last: -1}
	if got := answerOf(t, m, prompt, Sampling{MaxTokens: 40, Dry: &dry}); repeats(got) != 0 {
		t.Errorf("%d repetitions: %v", repeats(got), got)
	}
	for name, same := range map[string]Dry{"none counts": {Multiplier: 100, Base: 2, Allowed: 1, Last: 0},
		"long ones only": {Multiplier: 100, Base: 2, Allowed: 60, Last: -1}} {
		if got := answerOf(t, m, prompt, Sampling{MaxTokens: 40, Dry: &same}); !reflect.DeepEqual(got, plain) {
			t.Errorf("%s: %v, want %v", name, got, plain)
		}
	}
	if got := (&Dry{Last: 3, Breakers: []string{m.tok.Piece(6)}}).history(m, []int32{5, 5, 6, 7}); !reflect.DeepEqual(
		got[len(got)-4:], []int32{-1, 5, -1, 7}) {
		t.Errorf("history %v", got[len(got)-4:])
	}
}
