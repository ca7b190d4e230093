package generate

import (
	"errors"
	"math"
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
