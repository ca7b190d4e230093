package generate

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// frequencies samples many times.
func frequencies(t *testing.T, s Sampling, logits []float32, recent ...int32) []float64 {
	t.Helper()
	const n = 20000
	counts := make([]float64, len(logits))
	random := rand.New(rand.NewPCG(3, 0))
	for range n {
		id, err := s.choose(slices.Clone(logits), recent, random)
		if err != nil {
			t.Fatal(err)
		}
		counts[id] += 1.0 / n
	}
	return counts
}

// TestChoose compares frequencies with probabilities worked out by hand, for tokens
// of 1/2, 1/4, 1/8 and 1/8.
func TestChoose(t *testing.T) {
	ln := func(p ...float64) (logits []float32) {
		for _, v := range p {
			logits = append(logits, float32(math.Log(v)))
		}
		return logits
	}
	logits := ln(0.125, 0.5, 0.25, 0.125)
	for _, tt := range []struct {
		s      Sampling
		recent []int32
		want   []float64
	}{
		{Sampling{}, nil, []float64{0, 1, 0, 0}},
		{Sampling{Temperature: 1}, nil, []float64{0.125, 0.5, 0.25, 0.125}},
		{Sampling{Temperature: 0.5}, nil, []float64{1 / 22.0, 16 / 22.0, 4 / 22.0, 1 / 22.0}},
		{Sampling{Temperature: 1, TopK: 2}, nil, []float64{0, 2 / 3.0, 1 / 3.0, 0}},
		{Sampling{Temperature: 1, TopP: 0.7}, nil, []float64{0, 2 / 3.0, 1 / 3.0, 0}},
		{Sampling{Temperature: 1, TopP: 0.4}, nil, []float64{0, 1, 0, 0}},
		{Sampling{Temperature: 1, MinP: 0.3}, nil, []float64{0, 2 / 3.0, 1 / 3.0, 0}},
		{Sampling{Temperature: 1, RepeatPenalty: 2}, []int32{1, 1}, []float64{1 / 6.0, 1 / 3.0, 1 / 3.0, 1 / 6.0}},
		{Sampling{RepeatPenalty: 3}, []int32{1}, []float64{0, 0, 1, 0}},
	} {
		got := frequencies(t, tt.s, logits, tt.recent...)
		for i, want := range tt.want {
			if math.Abs(got[i]-want) > 0.02 || want == 0 && got[i] != 0 {
				t.Errorf("%+v: %v, want %v", tt.s, got, tt.want)
				break
			}
		}
	}
	nan := float32(math.NaN())
	_, err := (Sampling{}).choose([]float32{nan, nan}, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "no numbers") {
		t.Errorf("error %v", err)
	}
	if id, err := (Sampling{}).choose([]float32{nan, 1, 2}, nil, nil); id != 2 || err != nil {
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
