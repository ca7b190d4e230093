package transcribe

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vkc-go/vkc/internal/speechtest"
)

// TestWarp compares with a program that shares no code with this one.
func TestWarp(t *testing.T) {
	a := speechtest.Read(t, "..").Alignment
	rows := a.Attention[3 : len(a.Attention)-1]
	got := jumps(warp(slices.Concat(rows...), len(rows), a.Frames), len(rows))
	if !slices.Equal(got, a.Starts) {
		t.Errorf("the tokens begin at %v, want %v", got, a.Starts)
	}
}

// TestWords: words have the text of their segments, and are said within the sound, one after the other.
func TestWords(t *testing.T) {
	m := speechtest.Read(t, "..")
	model := open(t, m)
	for i := range m.Sounds {
		got, err := model.Transcribe(t.Context(), Samples(m.Sound(i)), Request{Words: true})
		if err != nil {
			t.Fatal(err)
		}
		all := 0
		for _, s := range got.Segments {
			text, last := "", s.Window
			for _, w := range s.Words {
				text += w.Text
				if w.Start < last || w.End < w.Start || w.End > got.Duration+time.Second/50 ||
					!(w.Probability > 0 && w.Probability <= 1) {
					t.Errorf("sound %d: %+v after %v, of %v", i, w, last, got.Duration)
				}
				last = w.Start
				all++
			}
			if len(s.Words) > 0 && strings.ToValidUTF8(text, "\uFFFD") != s.Text {
				t.Errorf("sound %d: words %q of %q", i, text, s.Text)
			}
		}
		if all == 0 {
			t.Errorf("sound %d has no words", i)
		}
	}
}

// TestJoinPunctuation: signs go with the word before or after, and a long word at the end of a sentence is cut.
func TestJoinPunctuation(t *testing.T) {
	at := func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }
	words := []Word{{0, at(100), " Oh", 0.5, 1}, {at(100), at(200), " (", 0.5, 1}, {at(200), at(300), "no", 0.5, 2},
		{at(300), at(400), ")", 0.5, 1}, {at(400), at(5000), ".", 0.5, 1}, {at(5000), at(5100), " Well", 0.5, 1}}
	shorten(words)
	if words[4].End != at(600) {
		t.Errorf("the sentence ends at %v, want 600 ms", words[4].End)
	}
	var text []string
	tokens := 0
	for _, w := range joinPunctuation(words) {
		text, tokens = append(text, w.Text), tokens+w.tokens
	}
	if strings.Join(text, "|") != " Oh| (no).| Well" || tokens != 7 {
		t.Errorf("words %q of %d tokens", text, tokens)
	}
}
